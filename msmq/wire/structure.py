"""Base classes of structures: values to bytes, and bytes to values."""

from __future__ import annotations

from typing import ClassVar, Self

from msmq.errors import RemoteProtocolError
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


class Structure:
    """A value that is written as the documents lay it out; it usually stands among others in a packet.

    A subclass says how with C{write}.
    There are no slots here, and nothing else that an instance would have to carry.
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
    """A structure that also stands alone: as a datagram, a packet, or the value of an attribute.

    A subclass says with C{read} how it is read.

    @cvar NAME: the structure's name in its document, for errors.
    @cvar SECTION: where the document describes it.
    @cvar END_FIELD: the field that tells where the structure ends: what decides its size, or else its last.
    """

    __slots__ = ()

    NAME: ClassVar[str]
    SECTION: ClassVar[str]
    END_FIELD: ClassVar[str]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the structure and leave what follows it.

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
        """Make, for the caller to raise, the error that says that bytes follow the structure."""
        with reader.header(cls.NAME, cls.SECTION):
            return reader.malformed(cls.END_FIELD, f"{reader.remaining} bytes follow it")
