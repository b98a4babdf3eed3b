"""SoapHeader: the SOAP envelope of a message received over HTTP. [MS-MQMQ] 2.2.20.7."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

import attrs

from msmq.structures.names.queue_names import utf16_length
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer


@attrs.frozen
class SoapHeader(Structure):
    """SoapHeader. [MS-MQMQ] 2.2.20.7.

    Both reserved fields are sent as 0 and ignored on receipt.
    Each of the two sections is padded to a multiple of four bytes.

    @ivar header: the envelope's header, without its NUL.
    @ivar body: the envelope's body, without its NUL.
    """

    NAME: ClassVar[str] = "SoapHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.7"
    LAYOUT: ClassVar[Struct] = Struct("<HHI")
    HEADER_SECTION_ID: ClassVar[int] = 0x0320
    BODY_SECTION_ID: ClassVar[int] = 0x0384

    header: str
    body: str

    @classmethod
    def read(cls, reader: Reader) -> SoapHeader:
        """Read both sections.

        @raise RemoteProtocolError: a section has a different identifier, is longer than the remaining bytes,
            or its text does not end with its only NUL.
        """
        with reader.header(cls.NAME, cls.SECTION):
            header = cls._read_section(reader, "Header", cls.HEADER_SECTION_ID)
            return cls(header, cls._read_section(reader, "Body", cls.BODY_SECTION_ID))

    @classmethod
    def _read_section(cls, reader: Reader, field: str, wanted: int) -> str:
        start = reader.position
        section_id, _, length = reader.unpack(cls.LAYOUT, f"{field}SectionID")
        if section_id != wanted:
            raise reader.malformed(
                f"{field}SectionID", f"{section_id:#06x} is not {wanted:#06x}", offset=start
            )
        text = reader.utf16(2 * length, field)
        reader.align(4)
        return text

    def write(self, writer: Writer) -> None:
        """Write both sections; the position of C{writer} is a multiple of four bytes.

        @raise LocalProtocolError: a text holds a NUL.
        """
        self._write_section(writer, "Header", self.HEADER_SECTION_ID, self.header)
        self._write_section(writer, "Body", self.BODY_SECTION_ID, self.body)

    @staticmethod
    def _write_section(writer: Writer, field: str, section_id: int, text: str) -> None:
        writer.u16(section_id, f"{field}SectionID")
        writer.u16(0, "Reserved")
        writer.u32(utf16_length(text) + 1, f"{field}DataLength")
        writer.utf16(text, field)
        writer.align(4)
