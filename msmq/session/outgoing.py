"""A packet as a message that a session can send."""

from __future__ import annotations

import attrs

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.quoting import kind_of
from msmq.structures.packet.user_message_view import UserMessageView

_DELIVERY_OFFSET = 16 + 44
_RECOVERABLE = 0x20


@attrs.frozen
class OutgoingPacket:
    """A UserMessage packet to send, without queue or store. [MS-MQQB] 3.1.1.3.1.2.

    A test double that sends malformed packets on purpose passes its own class of L{OutgoingMessage
    <msmq.structures.packet.outgoing_message.OutgoingMessage>} to the session.

    @ivar packet: without a SessionHeader, which the session adds.
    @raise LocalProtocolError: C{packet} is not a complete UserMessage packet.
    """

    packet: bytes = attrs.field(repr=False)

    @packet.validator
    def _check_packet(self, _: object, packet: object) -> None:
        if not isinstance(packet, bytes):
            raise LocalProtocolError(f"packet is {kind_of(packet)}, it has to be bytes")
        try:
            UserMessageView(packet)
        except RemoteProtocolError as error:
            raise LocalProtocolError(f"packet is not a UserMessage packet: {error}") from error

    @property
    def is_recoverable(self) -> bool:
        """Flags.DM. [MS-MQMQ] 2.2.19.2."""
        return bool(self.packet[_DELIVERY_OFFSET] & _RECOVERABLE)
