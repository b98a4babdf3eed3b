"""[MS-MQQB] 2.2.1: the header of the packets that a session sends for itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.packet.internal_header import InternalHeader, InternalPacketType
from msmq.wire.reader import Reader
from tests.strategies import internal_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import vector


class InternalHeaderTests(SynchronousTestCase):
    """L{InternalHeader}."""

    def test_is_read_from_the_packets_of_the_document(self) -> None:
        """It follows the BaseHeader and distinguishes the packets."""
        for name, packet_type in (
            ("mqqb-4.1.3-establish-connection-request", InternalPacketType.ESTABLISH_CONNECTION),
            ("mqqb-4.1.4-establish-connection-response", InternalPacketType.ESTABLISH_CONNECTION),
            ("mqqb-4.1.5-connection-parameters-request", InternalPacketType.CONNECTION_PARAMETERS),
            ("mqqb-4.1.6-connection-parameters-response", InternalPacketType.CONNECTION_PARAMETERS),
            ("mqqb-4.1.8-session-ack", InternalPacketType.SESSION_ACK),
        ):
            header = InternalHeader.read(Reader(vector(name)[16:]))
            self.assertEqual(header, InternalHeader(packet_type), name)

    def test_type_and_refusal_are_in_their_bits(self) -> None:
        """PT is 0x000F and CS is 0x0010 of the second 16 bits."""
        header = InternalHeader(InternalPacketType.CONNECTION_PARAMETERS, is_refused=True)
        self.assertEqual(header.to_bytes(), b"\0\0\x13\0")

    def test_another_packet_type_is_malformed(self) -> None:
        """Thirteen of sixteen numbers are no packet type."""
        for number in {*range(16)} - {1, 2, 3}:
            error = self.assertRaises(
                RemoteProtocolError, InternalHeader.read, Reader(bytes([0, 0, number, 0]), base=16)
            )
            self.assertEqual((error.header, error.field, error.offset), ("InternalHeader", "Flags", 18))

    @given(internal_headers, st.binary(min_size=2, max_size=2), st.integers(0, 0xFFFF))
    def test_meaningless_bits_are_ignored(self, header: InternalHeader, reserved: bytes, junk: int) -> None:
        """Reserved and 0xFFE0 of Flags may be anything."""
        flags = int.from_bytes(header.to_bytes()[2:], "little") | junk & 0xFFE0
        data = reserved + flags.to_bytes(2, "little")
        self.assertEqual(InternalHeader.read(Reader(data)), header)

    def test_a_session_ack_has_no_refusal(self) -> None:
        """CS in it is neither sent nor heeded."""
        refusal = InternalHeader(InternalPacketType.SESSION_ACK, is_refused=True)
        self.assertRaises(LocalProtocolError, refusal.to_bytes)
        self.assertFalse(InternalHeader.read(Reader(b"\0\0\x11\0")).is_refused)

    @given(internal_headers)
    def test_every_header_round_trips(self, header: InternalHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=8))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(InternalHeader.read, data)
