"""Base classes of structures: values to bytes, and bytes to values."""

from __future__ import annotations

from typing import ClassVar, Self

from msmq.errors import RemoteProtocolError
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


class Structure:
    """A value with a layout in the documents; usually one of several in a packet.

    A subclass implements C{write}.
    There are no slots here, and no attributes of instances.
    """

    __slots__ = ()

    def write(self, writer: Writer) -> None:
        """Write the structure.

        @raise LocalProtocolError: a value that does not fit its field.
        """
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """The structure alone.

        @raise LocalProtocolError: a value that does not fit its field.
        """
        writer = Writer()
        self.write(writer)
        return writer.getvalue()


class WholeStructure(Structure):
    """A structure that is also used alone: as a datagram, a packet, or the value of an attribute.

    A subclass implements C{read}.

    @cvar NAME: the structure's name in its document, for errors.
    @cvar SECTION: its section in the document.
    @cvar END_FIELD: the field that determines the size of the structure, or else its last field.
    """

    __slots__ = ()

    NAME: ClassVar[str]
    SECTION: ClassVar[str]
    END_FIELD: ClassVar[str]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the structure, and no bytes after it.

        @raise RemoteProtocolError: it is malformed.
        """
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read a structure that makes up the whole of C{data}.

        @raise RemoteProtocolError: it is malformed, or cut short, or bytes follow it.
        """
        reader = Reader(data)
        structure = cls.read(reader)
        if reader.remaining:
            raise cls.too_long(reader)
        return structure

    @classmethod
    def too_long(cls, reader: Reader) -> RemoteProtocolError:
        """Create the error that bytes follow the structure, for the caller to raise."""
        with reader.header(cls.NAME, cls.SECTION):
            return reader.malformed(cls.END_FIELD, f"{reader.remaining} bytes follow it")
