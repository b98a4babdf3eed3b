"""Tests of the stream framer."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.user_message_view import measure_user_message
from msmq.wire.framer import Frame, StreamFramer
from tests.builders import (
    ALPHA,
    base_header,
    establish,
    parameters,
    session_ack,
    session_header,
    user_packet,
)

HEADER = session_header(received=3, sent=1)
PACKETS = (
    establish(ALPHA),
    parameters(),
    user_packet(b"first"),
    session_ack(HEADER),
    user_packet(b"second", header=HEADER),
    user_packet(b"third" * 100, header=HEADER, header_is_counted=True),
    user_packet(b"", private_number=7),
)
FRAMES: list[Frame] = [
    (PACKETS[0], None),
    (PACKETS[1], None),
    (PACKETS[2], None),
    (PACKETS[3], None),
    (user_packet(b"second"), HEADER),
    (user_packet(b"third" * 100), HEADER),
    (PACKETS[6], None),
]


def cut(chunks: list[bytes]) -> tuple[list[Frame], StreamFramer]:
    """Feed a fresh framer with these chunks."""
    framer = StreamFramer(measure_user_message)
    frames: list[Frame] = []
    for chunk in chunks:
        frames += framer.feed(chunk)
    return frames, framer


class StreamFramerTests(SynchronousTestCase):
    """Packets are extracted from a stream, in any chunks."""

    def assert_refuses(self, data: bytes, field: str) -> None:
        frames, framer = cut([data])
        self.assertEqual(frames, [])
        self.assertIsInstance(framer.error, RemoteProtocolError)
        assert framer.error is not None
        self.assertEqual((framer.error.header, framer.error.field), ("BaseHeader", field))

    def test_cuts_packets_that_arrive_glued_together(self) -> None:
        """One chunk with every kind of packet yields each of them, in order.

        A SessionHeader follows PacketSize bytes of a user message (MQMQ-2.2.19.1-15).
        """
        frames, framer = cut([b"".join(PACKETS)])
        self.assertEqual(frames, FRAMES)
        self.assertIsNone(framer.error)
        self.assertEqual(framer.buffered, 0)

    def test_cuts_packets_that_arrive_byte_by_byte(self) -> None:
        """The same packets come out of chunks of one byte (MQQB-2.1.1-09)."""
        stream = b"".join(PACKETS)
        frames, framer = cut([stream[i : i + 1] for i in range(len(stream))])
        self.assertEqual(frames, FRAMES)
        self.assertEqual(framer.buffered, 0)

    @given(st.lists(st.integers(0, len(b"".join(PACKETS))), max_size=20))
    def test_chunks_do_not_matter(self, places: list[int]) -> None:
        """Any cutting of the stream yields the same packets."""
        stream = b"".join(PACKETS)
        edges = [0, *sorted(places), len(stream)]
        frames, framer = cut([stream[a:b] for a, b in itertools.pairwise(edges)])
        self.assertEqual(frames, FRAMES)
        self.assertIsNone(framer.error)

    def test_waits_for_the_sixteenth_byte(self) -> None:
        """Fifteen bytes say nothing yet; the sixteenth completes the header (MQQB-2.1.1-07)."""
        bad = b"\x11" + base_header(0x0B, 32)[1:]
        framer = StreamFramer(measure_user_message)
        self.assertEqual(framer.feed(bad[:15]), [])
        self.assertIsNone(framer.error)
        framer.feed(bad[15:])
        self.assertIsNotNone(framer.error)

    def test_a_counted_session_header_keeps_the_stream_in_step(self) -> None:
        """A peer that counts the SessionHeader in PacketSize is understood (MQQB-2.2-16)."""
        counted = user_packet(b"body", header=HEADER, header_is_counted=True)
        frames, framer = cut([counted + session_ack(HEADER)])
        self.assertEqual(frames, [(user_packet(b"body"), HEADER), (session_ack(HEADER), None)])
        self.assertIsNone(framer.error)

    def test_srmp(self) -> None:
        """An SRMP message, which comes by HTTP, is refused as a transport that is not offered, by name."""
        request = b'POST /msmq/private$/orders HTTP/1.1\r\nHost: alpha\r\nSOAPAction: "MSMQMessage"\r\n\r\n'
        for pieces in ([request], [request[:1], request[1:]], [bytes([byte]) for byte in request]):
            framer = StreamFramer(measure_user_message)
            for piece in pieces:
                framer.feed(piece)
            self.assertIn("SRMP is a transport that is not offered", str(framer.error))

    def test_refuses_a_bad_version(self) -> None:
        """Another VersionNumber ends the stream."""
        self.assert_refuses(b"\x11" + PACKETS[0][1:], "VersionNumber")

    def test_refuses_a_reversed_signature(self) -> None:
        """The signature's bytes in the other order are no signature."""
        self.assert_refuses(PACKETS[0][:4] + b"ROIL" + PACKETS[0][8:], "Signature")

    def test_refuses_an_oversize_packet_before_buffering_it(self) -> None:
        """PacketSize above 4 MiB is refused with its header alone (MQMQ-2.2.19.1-16, MQQB-2.2-10)."""
        self.assert_refuses(base_header(0x0003, 0x00400001), "PacketSize")

    def test_takes_the_largest_packet(self) -> None:
        """PacketSize of exactly 4 MiB is fine."""
        packet = user_packet(bytes(0x00400000 - len(user_packet(b""))))
        self.assertEqual(len(packet), 0x00400000)
        chunks = [packet[i : i + 65536] for i in range(0, len(packet), 65536)]
        frames, framer = cut(chunks)
        self.assertEqual([len(frame[0]) for frame in frames], [0x00400000])
        self.assertIsNone(framer.error)

    def test_refuses_an_internal_packet_of_another_size(self) -> None:
        """No internal packet has 28 bytes."""
        self.assert_refuses(base_header(0x0008, 28) + bytes(12), "PacketSize")

    def test_refuses_a_user_packet_below_the_least_size(self) -> None:
        """Three mandatory headers need 120 bytes."""
        self.assert_refuses(base_header(0x0003, 119) + bytes(103), "PacketSize")

    def test_refuses_a_session_header_that_does_not_fit(self) -> None:
        """Headers that end 8 bytes before PacketSize leave too little space for a SessionHeader."""
        packet = bytearray(user_packet(b"12345678", header=HEADER))
        properties = packet.index(struct.pack("<II", 8, 8))
        packet[properties : properties + 8] = struct.pack("<II", 0, 0)
        frames, framer = cut([bytes(packet)])
        self.assertEqual(frames, [])
        self.assertIsNotNone(framer.error)

    def test_gives_the_good_packets_before_a_bad_one(self) -> None:
        """Whole packets before malformed bytes are not lost, and those yield nothing ever after."""
        framer = StreamFramer(measure_user_message)
        frames = framer.feed(PACKETS[2] + b"rubbish of more than sixteen bytes")
        self.assertEqual(frames, [FRAMES[2]])
        self.assertIsNotNone(framer.error)
        self.assertEqual(framer.feed(PACKETS[2]), [])

    def test_holds_user_packets_back_during_the_handshake(self) -> None:
        """Before the session is open, a user message is announced instead of buffered."""
        framer = StreamFramer(measure_user_message, internal_only=True)
        self.assertEqual(framer.feed(PACKETS[1] + PACKETS[2][:20]), [FRAMES[1]])
        self.assertTrue(framer.user_packet_waiting)
        framer.internal_only = False
        self.assertEqual(framer.feed(PACKETS[2][20:]), [FRAMES[2]])
        self.assertFalse(framer.user_packet_waiting)

    @given(st.binary(max_size=200))
    def test_garbage_never_raises(self, data: bytes) -> None:
        """Any bytes are packets, the beginning of one, or an error that is remembered."""
        frames, framer = cut([data])
        self.assertTrue(framer.error is not None or framer.buffered <= len(data))
        self.assertEqual([frame for frame in frames if len(frame[0]) < 32], [])
