"""Tests of the fast parser of a SessionAck: it never accepts more than the full one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.internal.session_ack import SessionAck
from tests.builders import ALPHA, establish, session_ack, session_header, user_packet

GOOD = session_ack(session_header(7, 9, recoverable_base=3, recoverable_flags=5, window_size=2))


def carefully(packet: bytes) -> SessionAck | None:
    try:
        return SessionAck.from_bytes(packet)
    except RemoteProtocolError:
        return None


class ShortWayTests(SynchronousTestCase):
    """L{SessionAck.of} compared with L{SessionAck.from_bytes}."""

    def test_reads_what_peers_send(self) -> None:
        """An ordinary SessionAck is read by the fast parser, with the same result."""
        self.assertEqual(SessionAck.of(GOOD), SessionAck.from_bytes(GOOD))

    def test_leaves_other_packets_alone(self) -> None:
        """Other packets, and incomplete ones, are not accepted."""
        for packet in (b"", GOOD[:-1], GOOD + b"\0", establish(ALPHA), user_packet()):
            self.assertIsNone(SessionAck.of(packet))

    @given(st.integers(0, 35), st.integers(0, 255))
    def test_agrees_after_any_change(self, place: int, value: int) -> None:
        """With any one byte changed it returns the same packet as the full parser, or leaves it to that."""
        packet = bytearray(GOOD)
        packet[place] = value
        found = SessionAck.of(bytes(packet))
        if found is not None:
            self.assertEqual(found, carefully(bytes(packet)))

    @given(st.binary(min_size=36, max_size=36))
    def test_agrees_on_garbage(self, packet: bytes) -> None:
        """Random bytes are never accepted unless the full parser accepts them."""
        found = SessionAck.of(packet)
        if found is not None:
            self.assertEqual(found, carefully(packet))
