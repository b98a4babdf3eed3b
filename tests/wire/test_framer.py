"""Tests of the stream framer."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

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

        for head, is_http in (
            (b"HTTP/1.1 400 Bad", True),
            (b"POST / HTTP/1.1\r", True),
            (b"POSTS / HTTP/1.1", False),
        ):
            _, framer = cut([PACKETS[1], head])
            assert framer.error is not None
            self.assertEqual("an HTTP message" in framer.error.rule, is_http)
            self.assertEqual((framer.error.field, framer.error.offset), ("VersionNumber", 0))

    def test_refusals_say_what_is_wrong(self) -> None:
        """The error names the field, where it is, what it is and what it ought to be.

        Of two wrong fields it names the first.
        """
        good = base_header(0x0003, 120)
        for data, field, offset, rule in (
            (b"\x0f" + good[1:], "VersionNumber", 0, "0x0f is not 0x10"),
            (b"\x11" + good[1:4] + bytes(12), "VersionNumber", 0, "0x11 is not 0x10"),
            (good[:4] + b"ROIL" + good[8:], "Signature", 4, "0x4c494f52 is not 0x524f494c"),
            (good[:4] + bytes(4) + b"\xff" * 8, "Signature", 4, "0x00000000 is not 0x524f494c"),
            (base_header(0x0003, 0x00400001), "PacketSize", 8, "4194305 is more than 4194304"),
            (base_header(0x0003, 119), "PacketSize", 8, "119 is less than 120"),
            (base_header(0x0008, 120), "PacketSize", 8, "120 is not the size of an internal packet"),
        ):
            frames, framer = cut([data])
            self.assertEqual((frames, framer.buffered), ([], 0))
            assert framer.error is not None
            self.assertEqual(framer.error.section, "[MS-MQMQ] 2.2.19.1")
            self.assertEqual(framer.error.header, "BaseHeader")
            self.assertEqual((framer.error.field, framer.error.offset), (field, offset))
            self.assertEqual(framer.error.rule, rule)

    def test_sizes_of_packets(self) -> None:
        """An internal packet has one of three sizes; a user packet has 120 bytes to 4 MiB."""
        for flags, sizes in ((0x0008, {32, 36, 572}), (0x0003, set(range(120, 1000)))):
            for size in range(16, 1000):
                _, framer = cut([base_header(flags, size)])
                self.assertEqual(framer.error is None, size in sizes, size)
        for size, is_good in ((0x00400000, True), (0x00400001, False)):
            _, framer = cut([base_header(0x0003, size)])
            self.assertEqual((framer.error is None, framer.buffered), (is_good, 16 if is_good else 0))
        smallest = base_header(0x0003, 120) + bytes(104)
        self.assertEqual(cut([smallest + PACKETS[1]])[0], [(smallest, None), FRAMES[1]])

    def test_where_the_session_header_is(self) -> None:
        """A SessionHeader follows the headers that PacketSize counts, or is the last that it counts.

        Elsewhere there is none, and the packet is malformed.
        """
        packet = base_header(0x0013, 136) + bytes(range(120))
        measured: list[bytes] = []

        def measuring(counted: int) -> Callable[[memoryview], int]:
            def measure(view: memoryview) -> int:
                measured.append(bytes(view))
                return counted

            return measure

        for counted, kept, header in (
            (136, base_header(0x0003, 136) + packet[16:], HEADER),
            (120, base_header(0x0003, 120) + packet[16:120], packet[120:]),
        ):
            frames = StreamFramer(measuring(counted)).feed(PACKETS[2] + packet + HEADER)
            self.assertEqual(frames, [FRAMES[2], (kept, header)])
        for counted in (0, 119, 121, 135, 137, 152):
            framer = StreamFramer(measuring(counted))
            self.assertEqual(framer.feed(PACKETS[1] + packet + HEADER), [FRAMES[1]])
            assert framer.error is not None
            self.assertEqual(framer.error.rule, f"136 where the headers end at {counted}")
            self.assertEqual((framer.error.field, framer.error.offset), ("PacketSize", 8))
        self.assertEqual(measured, [packet] * 8)

    def test_a_packet_whose_headers_are_malformed(self) -> None:
        """The error of the headers ends the stream."""
        error = RemoteProtocolError("[MS-MQMQ] 2.2.20.6", "SecurityHeader", "Size", 7, "is wrong")

        def measure(_: memoryview) -> int:
            raise error

        framer = StreamFramer(measure)
        self.assertEqual(framer.feed(PACKETS[2] + PACKETS[4]), [FRAMES[2]])
        self.assertIs(framer.error, error)
        self.assertEqual((framer.buffered, framer.feed(PACKETS[2])), (0, []))

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

    def test_a_new_framer(self) -> None:
        """It holds nothing, and has seen neither an error nor a user packet."""
        for is_opening in (False, True):
            framer = StreamFramer(measure_user_message, internal_only=is_opening)
            self.assertEqual((framer.buffered, framer.error), (0, None))
            self.assertEqual((framer.internal_only, framer.user_packet_waiting), (is_opening, False))
            self.assertEqual(framer.feed(b""), [])
        self.assertFalse(StreamFramer(measure_user_message).internal_only)

    def test_what_is_buffered(self) -> None:
        """The bytes behind the last whole packet, whichever chunks they came in."""
        stream = b"".join(PACKETS)
        for size in (1, 7, 16, 17, 500):
            framer = StreamFramer(measure_user_message)
            taken = 0
            for place in range(0, len(stream), size):
                for packet, header in framer.feed(stream[place : place + size]):
                    taken += len(packet) + len(header or b"")
                self.assertEqual(framer.buffered, min(place + size, len(stream)) - taken)
            self.assertEqual(framer.buffered, 0)

    def test_nothing_is_buffered_behind_an_error(self) -> None:
        """The beginning of the malformed packet is given up, and what follows is not kept."""
        bad = base_header(0x0003, 119)
        for place in range(len(bad)):
            framer = StreamFramer(measure_user_message)
            self.assertEqual(framer.feed(PACKETS[1] + bad[:place]), [FRAMES[1]])
            self.assertEqual(framer.buffered, place)
            framer.feed(bad[place:] + bytes(100))
            error = framer.error
            self.assertIsNotNone(error)
            self.assertEqual(framer.buffered, 0)
            self.assertEqual((framer.feed(PACKETS[1] + bad), framer.buffered), ([], 0))
            self.assertIs(framer.error, error)

    @given(st.lists(st.integers(0, len(b"".join(PACKETS))), max_size=20), st.integers(0, 21))
    def test_packets_that_wait_for_the_session(self, places: list[int], opened_at: int) -> None:
        """Packets before the first user packet are given at once, all others once the session is open.

        A user packet waits from the chunk with the last byte of its BaseHeader on.
        """
        stream = b"".join(PACKETS)
        before = len(PACKETS[0] + PACKETS[1])
        edges = [0, *sorted(places), len(stream)]
        framer = StreamFramer(measure_user_message, internal_only=True)
        frames: list[Frame] = []
        for number, (start, end) in enumerate(itertools.pairwise(edges)):
            if number == opened_at:
                framer.internal_only = False
                frames += framer.feed(b"")
                self.assertFalse(framer.user_packet_waiting)
            frames += framer.feed(stream[start:end])
            if number < opened_at:
                self.assertEqual(framer.user_packet_waiting, end >= before + 16)
                self.assertEqual(frames, FRAMES[: (end >= len(PACKETS[0])) + (end >= before)])
                self.assertEqual(framer.buffered, end - sum(len(frame[0]) for frame in frames))
        framer.internal_only = False
        frames += framer.feed(b"")
        self.assertEqual((frames, framer.error, framer.buffered), (FRAMES, None, 0))

    @given(st.binary(max_size=200))
    def test_garbage_never_raises(self, data: bytes) -> None:
        """Any bytes are packets, the beginning of one, or an error that is remembered."""
        frames, framer = cut([data])
        self.assertTrue(framer.error is not None or framer.buffered <= len(data))
        self.assertEqual([frame for frame in frames if len(frame[0]) < 32], [])
