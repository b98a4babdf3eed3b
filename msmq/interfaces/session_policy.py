"""ISessionPolicy: which peers may open sessions, and which messages they may send."""

from __future__ import annotations

from uuid import UUID

import attrs
from zope.interface import Interface

from msmq.structures.packet.user_message_view import UserMessageView


@attrs.frozen
class SessionPeer:
    """The peer of a session.

    @ivar address: its textual IP address, or the name of its socket; a peer cannot choose it.
    @ivar identifier: its queue manager identifier as the peer states it, which nothing authenticates; C{None}
        before the handshake.
    @ivar is_initiator: whether this side opened the connection.
    @ivar is_encrypted: whether the connection uses TLS.
    """

    address: str
    identifier: UUID | None
    is_initiator: bool
    is_encrypted: bool


class ISessionPolicy(Interface):
    """Decides which peers may open sessions, and which messages they may send.

    The methods are plain calls and must not block: they are called for each session and each message.
    An exception, and a result of another type, refuse; the log has the traceback.
    """

    def session_refusal(peer: SessionPeer) -> str:
        """Why a peer, which has stated its identifier, may not open a session; empty if it may.

        [MS-MQQB] 2.2.1: the peer is refused in the handshake.

        Sessions that this side opens are checked too, once the peer has stated its identifier.
        """

    def message_refusal(peer: SessionPeer, message: UserMessageView) -> str:
        """Why the peer may not send this message; empty if it may.

        Called before access control, for messages in transit to other queue managers and for acknowledgements
        too. A queue manager refuses this message alone, as access control does: the event log has the reason,
        and its sender gets MQMSG_CLASS_NACK_ACCESS_DENIED if it has requested negative acknowledgements (a
        sender that is not authenticated only with C{permit_insecure_nacks}).

        The session closes ([MS-MQQB] 3.1.5.3), nothing of the batch is acknowledged, and the peer keeps its
        messages, if this raises an error or returns anything but a text, and if the broker of the sessions is
        not an L{IRefusingBroker<msmq.interfaces.broker.IRefusingBroker>}.
        """
