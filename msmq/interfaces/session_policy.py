"""ISessionPolicy: which peers may open sessions, and which messages they may send."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs
from zope.interface import Interface

from msmq.errors import LocalProtocolError
from msmq.quoting import quoted
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView

_NEGATIVE_ARRIVAL: Final = 0b10
"""The two highest bits of the class of a negative acknowledgement of arrival."""


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


@attrs.frozen
class MessageRefusal:
    """The refusal of a message, with the class of its negative acknowledgement.

    @ivar reason: why, for the event log.
    @raise LocalProtocolError: C{message_class} is not the class of a negative acknowledgement of arrival
        ([MS-MQMQ] 2.2.18.1.6), or C{reason} is not a text that says something.
    """

    reason: str
    message_class: MessageClass = MessageClass.NACK_ACCESS_DENIED

    def __attrs_post_init__(self) -> None:
        reason: object = self.reason
        if not isinstance(reason, str) or not reason:
            raise LocalProtocolError("MessageRefusal: reason has to be a str that is not empty")
        given: object = self.message_class
        if not isinstance(given, MessageClass) or given >> 14 != _NEGATIVE_ARRIVAL:
            raise LocalProtocolError(
                f"MessageRefusal: message_class is {quoted(given)}; it has to be a negative MessageClass of"
                " arrival, such as MessageClass.NACK_ACCESS_DENIED"
            )


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

    def message_refusal(peer: SessionPeer, message: UserMessageView) -> str | MessageRefusal:
        """Why the peer may not send this message; empty if it may.

        A L{MessageRefusal} has another class of the negative acknowledgement than NACK_ACCESS_DENIED.

        Called before access control, for messages in transit to other queue managers and for acknowledgements
        too. A queue manager refuses this message alone, as access control does: the event log has the reason,
        and its sender gets the negative acknowledgement if it has requested negative acknowledgements (a
        sender that is not authenticated only with C{permit_insecure_nacks}).

        The session closes ([MS-MQQB] 3.1.5.3), nothing of the batch is acknowledged, and the peer keeps its
        messages, if this raises an error or returns anything but a text, and if the broker of the sessions is
        not an L{IRefusingBroker<msmq.interfaces.broker.IRefusingBroker>}.
        """
