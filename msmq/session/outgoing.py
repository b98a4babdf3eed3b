"""A packet as a message that a session can send."""

from __future__ import annotations

import attrs

_DELIVERY_OFFSET = 16 + 44
_RECOVERABLE = 0x20


@attrs.frozen
class OutgoingPacket:
    """[MS-MQQB] 3.1.1.3.1.2: a UserMessage packet to send, without queue or store."""

    packet: bytes = attrs.field(repr=False)

    @property
    def is_recoverable(self) -> bool:
        """[MS-MQMQ] 2.2.19.2 Flags.DM."""
        return bool(self.packet[_DELIVERY_OFFSET] & _RECOVERABLE)
