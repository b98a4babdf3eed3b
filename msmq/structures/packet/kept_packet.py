"""Message Packet Structure: local headers that are stored with a packet and never sent. [MS-MQRR] 2.2.5.

A UserMessage packet has no field for ApplicationDeadletterQueue, since only the queue manager that sent a
message uses it.
It is stored after the packet, in the headers in which queue managers return messages to remote readers:
an ExtensionHeader that announces a DeadLetterHeader, and the DeadLetterHeader.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.base_header import BaseHeader
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

DEAD_LETTERS: Final = ".\\system$;deadletter"
"""The path that is kept with a message in transit which becomes a dead letter of this queue manager if it
fails here."""

UNTIL_ARRIVAL: Final = ".\\system$;awaiting_acknowledgement"
"""The path that is kept with such a message if it also stays here until its arrival is acknowledged."""

_PACKET_SIZE: Final = Struct("<8xI").unpack_from


@attrs.frozen
class ExtensionHeader(Structure):
    """ExtensionHeader. [MS-MQRR] 2.2.5.2.

    @ivar remaining_headers_size: bytes of all headers after this one.
    @ivar has_dead_letter_header: DL.
    """

    NAME: ClassVar[str] = "ExtensionHeader"
    SECTION: ClassVar[str] = "[MS-MQRR] 2.2.5.2"
    SIZE: ClassVar[int] = 12
    DL: ClassVar[int] = 0x01

    remaining_headers_size: int
    has_dead_letter_header: bool = False

    @classmethod
    def read(cls, reader: Reader) -> ExtensionHeader:
        """Read the header.

        @raise RemoteProtocolError: it is truncated, or HeaderSize is not 12.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            size = reader.u32("HeaderSize")
            if size != cls.SIZE:
                raise reader.malformed("HeaderSize", f"{size} is not {cls.SIZE}", offset=start)
            remaining = reader.u32("RemainingHeadersSize")
            flags = reader.u8("Flags")
            reader.skip(3, "Reserved")
            return cls(remaining, bool(flags & cls.DL))

    def write(self, writer: Writer) -> None:
        """Write the header."""
        writer.u32(self.SIZE, "HeaderSize")
        writer.u32(self.remaining_headers_size, "RemainingHeadersSize")
        writer.u8(self.DL * self.has_dead_letter_header, "Flags")
        writer.bytes(bytes(3))


@attrs.frozen
class DeadLetterHeader(Structure):
    """DeadLetterHeader. [MS-MQRR] 2.2.5.4.

    @ivar path_name: DeadLetterPathName.
    """

    NAME: ClassVar[str] = "DeadLetterHeader"
    SECTION: ClassVar[str] = "[MS-MQRR] 2.2.5.4"
    FIXED_SIZE: ClassVar[int] = 4

    path_name: str

    @property
    def size(self) -> int:
        """HeaderSize, in bytes."""
        return self.FIXED_SIZE + (len(self.path_name.encode("utf-16-le", "surrogatepass")) + 5 & ~3)

    @classmethod
    def read(cls, reader: Reader) -> DeadLetterHeader:
        """Read the header.

        @raise RemoteProtocolError: it is truncated, or the name has no NUL.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            size = reader.u32("HeaderSize")
            if size < cls.FIXED_SIZE or size % 4:
                raise reader.malformed(
                    "HeaderSize", f"{size} is not the size of a DeadLetterHeader", offset=start
                )
            text = reader.bytes(size - cls.FIXED_SIZE, "DeadLetterPathName")
            name, end, _ = text.decode("utf-16-le", "surrogatepass").partition("\0")
            if not end:
                raise reader.malformed("DeadLetterPathName", "it has no NUL", offset=start + cls.FIXED_SIZE)
            return cls(name)

    def write(self, writer: Writer) -> None:
        """Write the header."""
        writer.u32(self.size, "HeaderSize")
        writer.utf16(self.path_name, "DeadLetterPathName")
        writer.align(4)


def kept_headers(dead_letter_queue: str) -> bytes:
    """The headers stored after the packet of a message with this ApplicationDeadletterQueue."""
    dead_letter_header = DeadLetterHeader(dead_letter_queue)
    return (
        ExtensionHeader(dead_letter_header.size, has_dead_letter_header=True).to_bytes()
        + dead_letter_header.to_bytes()
    )


def marked_for_dead_letters(packet: bytes) -> bytes:
    """Mark the packet of a message in transit that becomes a dead letter here if it fails here.

    @param packet: with Flags.JN, and without local headers.
    """
    return packet + _DEAD_LETTER_MARK


def is_marked_for_dead_letters(record: bytes) -> bool:
    """Whether a message in transit becomes a dead letter here if it fails here.

    @param record: its packet, with its local headers.
    """
    return record.endswith(_MARKS) and dead_letter_queue_of(record) == DEAD_LETTERS


def marked_until_arrival(packet: bytes) -> bytes:
    """Mark the packet of a message that is kept after the hand-over until its arrival is acknowledged.

    It is a message as of L{marked_for_dead_letters}, too.

    @param packet: with Flags.JN, and without local headers.
    """
    return packet + _ARRIVAL_MARK


def is_kept_until_arrival(record: bytes) -> bool:
    """Whether a message is kept after the hand-over until its arrival is acknowledged.

    @param record: its packet, with its local headers.
    """
    if not record.endswith(_ARRIVAL_MARK):
        return False
    (size,) = _PACKET_SIZE(record)
    return bool(size == len(record) - len(_ARRIVAL_MARK))


def without_kept_headers(record: bytes) -> bytes | None:
    """The packet without its local headers; C{None} if it has none that are well formed."""
    if len(record) < BaseHeader.SIZE:
        return None
    (size,) = _PACKET_SIZE(record)
    if size >= len(record):
        return None
    try:
        _read(record, size)
    except RemoteProtocolError:
        return None
    return record[:size]


def packet_of(record: bytes) -> bytes:
    """The packet as it is sent to other queue managers, without local headers.

    Only a packet with Flags.JN can have local headers.
    """
    (size,) = _PACKET_SIZE(record)
    return record[:size]


def dead_letter_queue_of(record: bytes) -> str:
    """ApplicationDeadletterQueue of a message that was sent here; empty without one. [MS-MQDMPR] 3.1.1.12.

    @param record: its packet, with its local headers.
    """
    (size,) = _PACKET_SIZE(record)
    if size == len(record):
        return ""
    path_name = _read(record, size).path_name
    return DEAD_LETTERS if path_name == UNTIL_ARRIVAL else path_name


def _read(record: bytes, position: int) -> DeadLetterHeader:
    reader = Reader(memoryview(record)[position:], base=position)
    extension = ExtensionHeader.read(reader)
    if not extension.has_dead_letter_header:
        raise reader.malformed("Flags", "DL is clear", offset=position + 8)
    if extension.remaining_headers_size != reader.remaining:
        raise reader.malformed("RemainingHeadersSize", "a different structure follows", offset=position + 4)
    dead_letter_header = DeadLetterHeader.read(reader)
    if reader.remaining:
        raise reader.malformed("HeaderSize", f"{reader.remaining} bytes follow the header")
    return dead_letter_header


_DEAD_LETTER_MARK: Final = kept_headers(DEAD_LETTERS)
_ARRIVAL_MARK: Final = kept_headers(UNTIL_ARRIVAL)
_MARKS: Final = (_DEAD_LETTER_MARK, _ARRIVAL_MARK)
