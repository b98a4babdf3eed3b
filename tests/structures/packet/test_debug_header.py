"""[MS-MQMQ] 2.2.20.8: where reports go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.debug_header import DebugHeader
from msmq.wire.reader import Reader
from tests.builders import GAMMA
from tests.strategies import debug_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways


def read(data: bytes) -> DebugHeader:
    return DebugHeader.read(Reader(data, base=200))


class DebugHeaderTests(SynchronousTestCase):
    """L{DebugHeader}."""

    def test_is_four_bytes_or_twenty(self) -> None:
        """MQMQ-2.2.20.8-01: with QT 1 the GUID of a queue follows."""
        self.assertEqual(DebugHeader().to_bytes(), bytes(4))
        self.assertEqual(DebugHeader(GAMMA).to_bytes(), b"\1\0\0\0" + GAMMA.bytes_le)
        self.assertEqual(read(b"\1\0\0\0" + GAMMA.bytes_le), DebugHeader(GAMMA))
        self.assertEqual(read(bytes(4)), DebugHeader())

    def test_other_kinds_of_queue_are_malformed(self) -> None:
        """MQMQ-2.2.20.8-02: QT 2 and 3 have no meaning."""
        for number in (2, 3):
            error = self.assertRaises(RemoteProtocolError, read, bytes([number]) + bytes(19))
            self.assertEqual((error.header, error.field, error.offset), ("DebugHeader", "Flags", 200))

    @given(debug_headers, st.integers(0, 0xFFFF), st.binary(min_size=2, max_size=2))
    def test_meaningless_bits_are_ignored(self, header: DebugHeader, junk: int, reserved: bytes) -> None:
        """MQMQ-2.2.20.8-03: 0xFFFC of Flags and Reserved are sent as 0, and may be anything on receipt."""
        data = header.to_bytes()
        self.assertEqual(data[:4], bytes([header.queue_identifier is not None, 0, 0, 0]))
        flags = int.from_bytes(data[:2], "little") | junk & 0xFFFC
        self.assertEqual(read(flags.to_bytes(2, "little") + reserved + data[4:]), header)

    @given(debug_headers)
    def test_every_header_round_trips(self, header: DebugHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=24))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(DebugHeader.read, data)
