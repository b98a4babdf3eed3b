"""MultiQueueFormatHeader: all destination queues of a message sent to several. [MS-MQMQ] 2.2.20.1.

A peer decides how many names a list has, so a list is validated in one pass over its bytes, and its names
are created only on request.
A name can be as short as four bytes, so a packet could hold a million, whose validation would block the
reactor for a second; more than L{MAXIMUM_ELEMENTS} in one list are refused.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from struct import Struct
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.names.format_name import (
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
)
from msmq.structures.names.queue_names import PrivateQueueFormatName, PublicQueueFormatName
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

_FORMAT_TYPE: Final = Struct("<H")
_NUL: Final = b"\0\0"
_FIRST_LOOK: Final = 256
"""Bytes of a text that are searched for its end first; the number doubles until the end is found."""

MAXIMUM_ELEMENTS: Final = 10_000
"""Limit on the names of one list; the document has none.  A message is sent to each of them as a separate
packet that contains the whole list, so that no real sender has so many."""


class FormatType(enum.IntEnum):
    """MQFFormatNameElement.FormatType. [MS-MQMQ] 2.2.18.1.4."""

    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    DISTRIBUTION_LIST = 6


_SIZE_BY_TYPE: Final = {
    FormatType.PUBLIC.value: PublicQueueFormatName.SIZE,
    FormatType.PRIVATE.value: PrivateQueueFormatName.SIZE,
    FormatType.DISTRIBUTION_LIST.value: 16,
}
"""Bytes of the names that are aligned to four bytes; a direct name follows its type without padding."""


@attrs.frozen
class MQFDirectQueueFormatName:
    r"""MQFDirectQueueFormatName. [MS-MQMQ] 2.2.18.1.4.1.

    @ivar text: C{OS:alpha\private$\orders}, without its NUL; peers may begin it with C{DIRECT=}.
    """

    text: str


@attrs.frozen
class MQFDistributionQueueFormatName:
    """MQFDistributionQueueFormatName. [MS-MQMQ] 2.2.18.1.4.2."""

    distribution_list: UUID


ElementName: TypeAlias = (
    PublicQueueFormatName | PrivateQueueFormatName | MQFDirectQueueFormatName | MQFDistributionQueueFormatName
)


@attrs.frozen
class MQFFormatNameElement:
    """MQFFormatNameElement: one name of a list. [MS-MQMQ] 2.2.18.1.4.

    @ivar format_name: its structure determines C{format_type}.
    """

    format_name: ElementName

    @property
    def format_type(self) -> FormatType:
        """The type of the structure that follows."""
        match self.format_name:
            case PublicQueueFormatName():
                return FormatType.PUBLIC
            case PrivateQueueFormatName():
                return FormatType.PRIVATE
            case MQFDirectQueueFormatName():
                return FormatType.DIRECT
            case MQFDistributionQueueFormatName():
                return FormatType.DISTRIBUTION_LIST

    def resolve(self) -> FormatName:
        """The format name that this element is.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        match self.format_name:
            case PublicQueueFormatName():
                return PublicFormatName(self.format_name.queue)
            case PrivateQueueFormatName():
                return PrivateFormatName(self.format_name.queue_manager, self.format_name.number)
            case MQFDirectQueueFormatName():
                return DirectFormatName.from_wire_text(self.format_name.text)
            case MQFDistributionQueueFormatName():
                return DistributionListFormatName(self.format_name.distribution_list)

    def write(self, writer: Writer) -> None:
        """Write the element; the position of C{writer} is a multiple of two bytes.

        @raise LocalProtocolError: a number that does not fit, or a text that holds a NUL.
        """
        writer.u16(self.format_type, "FormatType")
        match self.format_name:
            case PublicQueueFormatName() | PrivateQueueFormatName():
                writer.align(4)
                self.format_name.write(writer)
            case MQFDistributionQueueFormatName():
                writer.align(4)
                writer.guid(self.format_name.distribution_list)
            case MQFDirectQueueFormatName():
                writer.utf16(self.format_name.text, "DirectFormatName")


def _malformed(header: str, section: str, field: str, offset: int, rule: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"[MS-MQMQ] {section}", header, field, offset, rule)


def end_of_text(data: bytes, position: int, stop: int) -> int:
    """The end of the UTF-16 text that begins at C{position}, its NUL included; -1 if it has no NUL."""
    found = data.find(_NUL, position, stop)
    if found < 0 or (found - position) % 2 == 0:
        return found + 2 if found >= 0 else -1
    # These zeros belong to two characters, and such pairs can be frequent; a number of all lower
    # bytes and one of all upper bytes have a zero together where a character has.
    size = _FIRST_LOOK
    while True:
        end = min(position + size, stop - (stop - position) % 2)
        lower = int.from_bytes(data[position:end:2], "little")
        upper = int.from_bytes(data[position + 1 : end : 2], "little")
        unit = (lower | upper).to_bytes((end - position) // 2, "little").find(0)
        if unit >= 0:
            return position + 2 * unit + 2
        if end >= stop - 1:
            return -1
        size *= 2


def end_of_elements(data: bytes, position: int, stop: int, count: int) -> int:
    """Validate C{count} elements from C{position}, a multiple of four; return where the last one ends.

    @raise RemoteProtocolError: they do not end before C{stop}, or one is of no known type.
    """
    unpack = _FORMAT_TYPE.unpack_from
    for _ in range(count):
        if position + 2 > stop:
            raise _malformed(
                "MQFAddressHeader", "2.2.20.2", "ElementCount", position, "more than the list contains"
            )
        (format_type,) = unpack(data, position)
        size = _SIZE_BY_TYPE.get(format_type)
        if size is not None:
            end = (position + 5 & ~3) + size
        elif format_type == FormatType.DIRECT:
            end = end_of_text(data, position + 2, stop)
        else:
            rule = f"{format_type} is not a type of format name"
            raise _malformed("MQFFormatNameElement", "2.2.18.1.4", "FormatType", position, rule)
        if end < 0 or end > stop:
            rule = f"does not end before {stop}"
            raise _malformed("MQFFormatNameElement", "2.2.18.1.4", "FormatName", position + 2, rule)
        position = end
    return position


@attrs.frozen
class MQFAddressHeader:
    """MQFAddressHeader: one list of queues. [MS-MQMQ] 2.2.20.2.

    Reserved is sent as 0 and ignored on receipt.
    HeaderSize is sent without the padding that follows, and accepted with it or without.

    @ivar header_id: which of the three lists this is.
    @ivar element_count: how many elements C{format_name_list} has.
    @ivar format_name_list: the encoded elements, which a signature covers.
    """

    NAME: ClassVar[str] = "MQFAddressHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.2"
    LAYOUT: ClassVar[Struct] = Struct("<IHHI")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    DESTINATION: ClassVar[int] = 0x0064
    ADMIN: ClassVar[int] = 0x00C8
    RESPONSE: ClassVar[int] = 0x012C

    header_id: int
    element_count: int = 0
    format_name_list: bytes = b""

    @classmethod
    def of(cls, header_id: int, names: Iterable[ElementName]) -> MQFAddressHeader:
        """The list of these names.

        @raise LocalProtocolError: a name that cannot be written.
        """
        writer = Writer()
        count = 0
        for name in names:
            writer.align(2)
            MQFFormatNameElement(name).write(writer)
            count += 1
        return cls(header_id, count, writer.getvalue())

    @property
    def elements(self) -> tuple[MQFFormatNameElement, ...]:
        """The names, one by one."""
        reader = Reader(self.format_name_list)
        return tuple(self._read_element(reader) for _ in range(self.element_count))

    def _read_element(self, reader: Reader) -> MQFFormatNameElement:
        format_type = reader.u16("FormatType")
        if format_type == FormatType.DIRECT:
            start = reader.position
            stop = end_of_text(self.format_name_list, start, len(self.format_name_list))
            text = reader.utf16(stop - start, "DirectFormatName")
            return MQFFormatNameElement(MQFDirectQueueFormatName(text))
        reader.align(4)
        if format_type == FormatType.PUBLIC:
            return MQFFormatNameElement(PublicQueueFormatName.read(reader))
        if format_type == FormatType.PRIVATE:
            return MQFFormatNameElement(PrivateQueueFormatName.read(reader))
        return MQFFormatNameElement(MQFDistributionQueueFormatName(reader.guid("GUID")))

    @classmethod
    def read(cls, reader: Reader, header_id: int) -> MQFAddressHeader:
        """Read the list that has to be C{header_id}, and the padding that follows.

        @raise RemoteProtocolError: it is a different list, its size is wrong, or ElementCount is.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            size, found_id, _, count = reader.unpack(cls.LAYOUT, "HeaderSize")
            if found_id != header_id:
                raise reader.malformed(
                    "HeaderID", f"{found_id:#06x} is not {header_id:#06x}", offset=start + 4
                )
            if size < cls.FIXED_SIZE:
                raise reader.malformed("HeaderSize", f"{size} is less than 12", offset=start)
            if count > MAXIMUM_ELEMENTS:
                rule = f"{count} are more than {MAXIMUM_ELEMENTS}"
                raise reader.malformed("ElementCount", rule, offset=start + 8)
            begin = reader.position
            data = reader.bytes(size - cls.FIXED_SIZE, "FormatNameList")
            try:
                end = end_of_elements(data, 0, len(data), count)
            except RemoteProtocolError as error:
                raise RemoteProtocolError(
                    error.section, error.header, error.field, begin + error.offset, error.rule
                ) from None
            if len(data) - end > 3:
                raise reader.malformed(
                    "ElementCount", f"{count} elements leave {len(data) - end} bytes", offset=start + 8
                )
            reader.align(4)
        return cls(header_id, count, data[:end])

    def write(self, writer: Writer) -> None:
        """Write the list and its padding; the position of C{writer} is a multiple of four bytes.

        @raise LocalProtocolError: C{format_name_list} does not hold C{element_count} elements, or these are
            more than L{MAXIMUM_ELEMENTS}.
        """
        if self.element_count > MAXIMUM_ELEMENTS:
            raise LocalProtocolError(f"ElementCount: {self.element_count} are more than {MAXIMUM_ELEMENTS}")
        try:
            end = end_of_elements(self.format_name_list, 0, len(self.format_name_list), self.element_count)
        except RemoteProtocolError as error:
            raise LocalProtocolError(f"FormatNameList: {error}") from error
        if end != len(self.format_name_list):
            raise LocalProtocolError(f"FormatNameList: more than {self.element_count} elements")
        writer.u32(self.FIXED_SIZE + len(self.format_name_list), "HeaderSize")
        writer.u16(self.header_id, "HeaderID")
        writer.u16(0, "Reserved")
        writer.u32(self.element_count, "ElementCount")
        writer.bytes(self.format_name_list)
        writer.align(4)


@attrs.frozen
class MQFSignatureHeader:
    """MQFSignatureHeader. [MS-MQMQ] 2.2.20.3.

    Reserved is sent as 0 and ignored on receipt.

    @ivar signature: may be empty.
    """

    NAME: ClassVar[str] = "MQFSignatureHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.3"
    LAYOUT: ClassVar[Struct] = Struct("<HHI")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    ID: ClassVar[int] = 0x015E

    signature: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> MQFSignatureHeader:
        """Read the header and its padding.

        @raise RemoteProtocolError: it has a different ID, or is longer than the remaining bytes.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            found_id, _, size = reader.unpack(cls.LAYOUT, "ID")
            if found_id != cls.ID:
                raise reader.malformed("ID", f"{found_id:#06x} is not {cls.ID:#06x}", offset=start)
            signature = reader.bytes(size, "Signature")
            reader.align(4)
        return cls(signature)

    def write(self, writer: Writer) -> None:
        """Write the header and its padding; the position of C{writer} is a multiple of four bytes."""
        writer.u16(self.ID, "ID")
        writer.u16(0, "Reserved")
        writer.u32(len(self.signature), "Size")
        writer.bytes(self.signature)
        writer.align(4)


@attrs.frozen
class MultiQueueFormatHeader(Structure):
    """MultiQueueFormatHeader. [MS-MQMQ] 2.2.20.1.

    All four parts are always present; an empty list has no elements.
    """

    NAME: ClassVar[str] = "MultiQueueFormatHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.1"

    destination: MQFAddressHeader = MQFAddressHeader(MQFAddressHeader.DESTINATION)
    administration: MQFAddressHeader = MQFAddressHeader(MQFAddressHeader.ADMIN)
    response: MQFAddressHeader = MQFAddressHeader(MQFAddressHeader.RESPONSE)
    signature: MQFSignatureHeader = MQFSignatureHeader()

    @classmethod
    def of(
        cls,
        destination: Iterable[ElementName],
        administration: Iterable[ElementName] = (),
        response: Iterable[ElementName] = (),
        signature: bytes = b"",
    ) -> MultiQueueFormatHeader:
        """The header of these names.

        @raise LocalProtocolError: a name that cannot be written.
        """
        return cls(
            MQFAddressHeader.of(MQFAddressHeader.DESTINATION, destination),
            MQFAddressHeader.of(MQFAddressHeader.ADMIN, administration),
            MQFAddressHeader.of(MQFAddressHeader.RESPONSE, response),
            MQFSignatureHeader(signature),
        )

    @classmethod
    def read(cls, reader: Reader) -> MultiQueueFormatHeader:
        """Read the four parts; the header begins at a multiple of four bytes of the packet.

        @raise RemoteProtocolError: one of them is missing, out of order or malformed.
        """
        return cls(
            MQFAddressHeader.read(reader, MQFAddressHeader.DESTINATION),
            MQFAddressHeader.read(reader, MQFAddressHeader.ADMIN),
            MQFAddressHeader.read(reader, MQFAddressHeader.RESPONSE),
            MQFSignatureHeader.read(reader),
        )

    def write(self, writer: Writer) -> None:
        """Write the four parts; the position of C{writer} is a multiple of four bytes.

        @raise LocalProtocolError: a list has the wrong HeaderID, or not the length that it declares.
        """
        for part, header_id in (
            (self.destination, MQFAddressHeader.DESTINATION),
            (self.administration, MQFAddressHeader.ADMIN),
            (self.response, MQFAddressHeader.RESPONSE),
        ):
            if part.header_id != header_id:
                raise LocalProtocolError(
                    f"HeaderID: {part.header_id:#06x} is where {header_id:#06x} is expected"
                )
            part.write(writer)
        self.signature.write(writer)
