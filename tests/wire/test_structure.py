"""L{msmq.wire.structure}: what every structure can do once it says how it is written and read."""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure, WholeStructure
from msmq.wire.writer import Writer


@attrs.frozen
class Counted(WholeStructure):
    """A number of bytes, and as many bytes."""

    NAME: ClassVar[str] = "COUNTED"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.99"
    END_FIELD: ClassVar[str] = "Count"

    content: bytes

    @classmethod
    def read(cls, reader: Reader) -> Counted:
        with reader.header(cls.NAME, cls.SECTION):
            return cls(reader.bytes(reader.u8("Count"), "Content"))

    def write(self, writer: Writer) -> None:
        writer.u8(len(self.content), "Count")
        writer.bytes(self.content)


class WholeStructureTests(SynchronousTestCase):
    """L{WholeStructure}."""

    def test_bytes_and_back(self) -> None:
        """A value round-trips through its bytes, in any buffer type."""
        data = Counted(b"abc").to_bytes()
        self.assertEqual(data, b"\x03abc")
        for kept in (data, bytearray(data), memoryview(data)):
            self.assertEqual(Counted.from_bytes(kept), Counted(b"abc"))

    def test_bytes_that_follow(self) -> None:
        """The error names the field of the structure that says otherwise, and its end."""
        error = self.assertRaises(RemoteProtocolError, Counted.from_bytes, b"\x03abcde")
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.99", "COUNTED", "Count", 4),
        )
        self.assertIn("2 bytes follow", str(error))

    def test_bytes_that_are_missing(self) -> None:
        """Truncated bytes are malformed, as anywhere in a packet."""
        for size in range(4):
            self.assertRaises(RemoteProtocolError, Counted.from_bytes, b"\x03abc"[:size])

    def test_value_that_does_not_fit(self) -> None:
        """A caller's mistake is reported as one."""
        self.assertRaises(LocalProtocolError, Counted(bytes(256)).to_bytes)

    def test_a_structure_says_how_it_is_written_and_read(self) -> None:
        """One that does not is a mistake in the program, which is not hidden."""
        self.assertRaises(NotImplementedError, Structure().to_bytes)
        self.assertRaises(NotImplementedError, Structure().write, Writer())
        self.assertRaises(NotImplementedError, WholeStructure.from_bytes, b"")
        self.assertRaises(NotImplementedError, WholeStructure.read, Reader(b""))

    def test_values_stay_small_and_frozen(self) -> None:
        """A structure brings no dictionary into its values, and leaves them unchangeable."""
        value = Counted(b"abc")
        self.assertFalse(hasattr(value, "__dict__"))
        self.assertRaises(attrs.exceptions.FrozenInstanceError, setattr, value, "content", b"")
        self.assertEqual((Structure.__slots__, WholeStructure.__slots__), ((), ()))
