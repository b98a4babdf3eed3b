"""What UserMessage packets of one sender to one queue have in common, read once for all of them."""

from __future__ import annotations

from struct import Struct
from typing import Final

_NUMBER: Final = Struct("<I").unpack_from
_MESSAGE_ID: Final = slice(56, 60)
_FIXED: Final = 56
"""Bytes of a MessagePropertiesHeader before the label."""


class PacketShape:
    """The header fields of a packet, and the bytes by which another packet is known to have the same ones.

    Packets that differ only in MessageID, in the place in a transaction, in the extension and the body share
    one shape, so they are validated by a comparison of bytes.
    The attributes that L{UserMessageView<msmq.structures.packet.user_message_view.UserMessageView>} has too
    are described there.

    @ivar names_end: where the UserHeader ends.
    @ivar properties: where the MessagePropertiesHeader begins.
    @ivar label_length: characters of the label, its NUL included.
    @ivar body_start: where the body begins.
    @ivar before: the bytes before MessageID; C{None} if no other packet can have the same shape.
    @ivar names: those from there to the end of the UserHeader, and C{rest} those of the
        MessagePropertiesHeader with its label. Without a TransactionHeader C{names} has both.
    """

    __slots__ = (
        "acknowledge",
        "base_flags",
        "before",
        "body_size",
        "body_start",
        "extension_size",
        "flags",
        "is_recoverable",
        "is_transactional",
        "label_length",
        "message_class",
        "names",
        "names_end",
        "properties",
        "queue_manager_address",
        "reach_limit",
        "rest",
        "sent_time",
        "size",
        "source_queue_manager",
    )

    acknowledge: int
    base_flags: int
    before: bytes | None
    body_size: int
    body_start: int
    extension_size: int
    flags: int
    is_recoverable: bool
    is_transactional: bool
    label_length: int
    message_class: int
    names: bytes
    names_end: int
    properties: int
    queue_manager_address: bytes
    reach_limit: float
    rest: bytes
    sent_time: int
    size: int
    source_queue_manager: bytes

    def share(self, packet: bytes) -> None:
        """Allow other packets to have this shape, which is that of C{packet}.

        Not for a packet with a SecurityHeader, or with headers behind its body, which differ freely.
        """
        end = self.properties + _FIXED + 2 * self.label_length
        self.before = packet[: _MESSAGE_ID.start]
        if self.is_transactional:
            self.names = packet[_MESSAGE_ID.stop : self.names_end]
            self.rest = packet[self.properties : end]
        else:
            self.names = packet[_MESSAGE_ID.stop : end]
            self.rest = b""

    def keep_apart(self) -> None:
        """Let no more packets have this shape, which frees the bytes that they were compared with."""
        self.before = None
        self.names = self.rest = b""

    def fits(self, packet: bytes) -> bool:
        """Whether another packet has this shape, and is therefore valid too."""
        if (
            packet[: _MESSAGE_ID.start] != self.before
            or len(packet) != self.size
            or not packet.startswith(self.names, _MESSAGE_ID.stop)
        ):
            return False
        if not self.is_transactional:
            return True
        start = self.names_end
        # TransactionHeader: Flags.CG decides about its size, and TxSequenceNumber is not 0.
        return (
            packet[start] & 1 == (self.properties - start == 36)
            and _NUMBER(packet, start + 12)[0] != 0
            and packet.startswith(self.rest, self.properties)
        )
