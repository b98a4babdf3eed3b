"""IGate: the addresses whose messages are accepted without a verified sender."""

from __future__ import annotations

from zope.interface import Interface


class IGate(Interface):
    """Decides which addresses are trusted, in place of C{unauthenticated}, C{peers} and C{acknowledgers} of
    C{[security]}.

    A session does not authenticate its peer ([MS-MQQB] 2.2.3), and messages to a direct name are not signed
    (5.1), so that only the address of the connection identifies the sender.
    The methods are plain calls and must not block: they are called several times for each batch of messages,
    and an address keeps its answer for the batch.
    An exception, and any result but C{True}, refuse; the log has the traceback of an exception.
    """

    def admits(address: str) -> bool:
        """Whether a message without a verified sender may come over a connection from this address.

        A refused message is removed with MQMSG_CLASS_NACK_ACCESS_DENIED ([MS-MQQB] 3.1.5.8.3), and the event
        log names the address.

        @param address: the textual IP address of the peer, or the name of its socket.
        """

    def may_acknowledge(address: str) -> bool:
        """Whether a peer at this address may acknowledge messages to PRIVATE= and PUBLIC= names, whose
        receiver has no address of its own in the name.
        """
