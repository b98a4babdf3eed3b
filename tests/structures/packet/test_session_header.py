"""[MS-MQMQ] 2.2.20.4: the header that acknowledges."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.packet.session_header import SessionHeader
from msmq.wire.reader import Reader
from tests.strategies import session_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import vector


class SessionHeaderTests(SynchronousTestCase):
    """L{SessionHeader}."""

    def test_is_read_from_the_session_ack_of_the_document(self) -> None:
        """Frame 8 acknowledges one message, with a window of 64."""
        header = SessionHeader.read(Reader(vector("mqqb-4.1.8-session-ack")[20:]))
        self.assertEqual(header, SessionHeader(1, 0, 0, 0, 0, 0x40))
        self.assertEqual(header.to_bytes(), vector("mqqb-4.1.8-session-ack")[20:])

    def test_every_field_is_at_its_offset(self) -> None:
        """Six numbers, little-endian, and two reserved bytes of 0.

        MQMQ-2.2.20.4-01, MQMQ-2.2.20.4-02.
        """
        header = SessionHeader(0x0102, 0x0304, 0x05060708, 0x090A, 0x0B0C, 0x0D0E)
        self.assertEqual(header.to_bytes().hex(), "02010403080706050a090c0b0e0d0000")
        self.assertEqual(SessionHeader.from_bytes(header.to_bytes()), header)

    @given(session_headers, st.binary(min_size=2, max_size=2))
    def test_reserved_is_ignored(self, header: SessionHeader, reserved: bytes) -> None:
        """MQMQ-2.2.20.4-12: the last two bytes do not affect the header."""
        self.assertEqual(SessionHeader.from_bytes(header.to_bytes()[:14] + reserved), header)

    def test_a_window_of_0_is_read_and_never_written(self) -> None:
        """A received 0 is kept as it is; we send at least 1."""
        header = SessionHeader.from_bytes(bytes(16))
        self.assertEqual(header.window_size, 0)
        self.assertRaises(LocalProtocolError, header.to_bytes)

    def test_a_number_beyond_its_field_is_our_mistake(self) -> None:
        """It is refused instead of being cut."""
        header = SessionHeader(1, 1, 1, 1, 1, 1)
        for name in ("ack_sequence_number", "user_msg_sequence_number", "window_size"):
            self.assertRaises(LocalProtocolError, attrs.evolve(header, **{name: 0x10000}).to_bytes)

    def test_only_sixteen_bytes_are_a_header_that_stands_alone(self) -> None:
        """Fewer or more are malformed."""
        for size in (0, 15, 17, 32):
            self.assertRaises(RemoteProtocolError, SessionHeader.from_bytes, bytes(size))

    @given(session_headers)
    def test_every_header_round_trips(self, header: SessionHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=20))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(SessionHeader.read, data)
