"""One direction of a TCP connection, put together from captured segments."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.tcp import LARGEST_BACKLOG, Piece, TcpDirection


class TcpDirectionTests(SynchronousTestCase):
    def test_bytes_in_order_come_at_once(self) -> None:
        """Each segment gives its bytes."""
        direction = TcpDirection(1000)
        self.assertEqual(direction.add(1000, b"abc"), [Piece(0, b"abc")])
        self.assertEqual(direction.add(1003, b"de"), [Piece(0, b"de")])

    def test_late_segments_are_waited_for(self) -> None:
        """An early segment is delivered after the missing one has arrived."""
        direction = TcpDirection(1000)
        self.assertEqual(direction.add(1003, b"de"), [])
        self.assertEqual(direction.add(1005, b"f"), [])
        self.assertEqual(direction.add(1000, b"abc"), [Piece(0, b"abcdef")])

    def test_repeated_bytes_are_dropped(self) -> None:
        """A retransmission gives nothing, an overlapping one only what is new."""
        direction = TcpDirection(1000)
        direction.add(1000, b"abc")
        self.assertEqual(direction.add(1000, b"abc"), [])
        self.assertEqual(direction.add(1001, b"bcde"), [Piece(0, b"de")])

    def test_overlaps_of_early_segments_are_dropped(self) -> None:
        """Two early segments that share bytes give them once."""
        direction = TcpDirection(1000)
        direction.add(1002, b"cd")
        direction.add(1002, b"cdef")
        direction.add(1003, b"d")
        self.assertEqual(direction.add(1000, b"ab"), [Piece(0, b"abcdef")])

    def test_numbers_wrap(self) -> None:
        """After 0xFFFFFFFF comes 0."""
        direction = TcpDirection(0xFFFFFFFE)
        self.assertEqual(direction.add(0, b"cd"), [])
        self.assertEqual(direction.add(0xFFFFFFFE, b"ab"), [Piece(0, b"abcd")])
        self.assertEqual(direction.add(2, b"e"), [Piece(0, b"e")])

    def test_a_hole_is_reported_after_the_wait(self) -> None:
        """The data behind a hole comes with the number of bytes that are missing."""
        direction = TcpDirection(1000)
        direction.add(1000, b"ab")
        direction.add(1010, b"k")
        direction.add(1005, b"fg")
        self.assertEqual(direction.give_up(), [Piece(3, b"fg"), Piece(3, b"k")])
        self.assertEqual(direction.add(1011, b"l"), [Piece(0, b"l")])

    def test_a_hole_is_given_up_when_too_much_waits(self) -> None:
        """Memory stays bounded when a capture lacks a segment."""
        direction = TcpDirection(0)
        half = bytes(LARGEST_BACKLOG // 2)
        self.assertEqual(direction.add(10, half), [])
        self.assertEqual(direction.add(10 + len(half), half), [])
        [piece] = direction.add(10 + 2 * len(half), b"x")
        self.assertEqual((piece.missing, len(piece.data)), (10, LARGEST_BACKLOG + 1))

    @given(st.binary(min_size=1, max_size=60), st.data())
    def test_any_order_gives_the_stream(self, stream: bytes, data: st.DataObject) -> None:
        """Segments cut anywhere, repeated and shuffled, give every byte once and in order."""
        first = data.draw(st.integers(0, 0xFFFFFFFF))
        cuts = sorted(data.draw(st.sets(st.integers(1, len(stream)))) | {0, len(stream)})
        segments = [
            (start, stream[start : end + data.draw(st.integers(0, 3))]) for start, end in pairwise(cuts)
        ]
        repeated = segments + data.draw(st.lists(st.sampled_from(segments), max_size=3))
        direction = TcpDirection(first)
        received = []
        for start, segment in data.draw(st.permutations(repeated)):
            received += direction.add((first + start) & 0xFFFFFFFF, segment)
        self.assertEqual(b"".join(piece.data for piece in received), stream)
        self.assertEqual([piece.missing for piece in received if piece.missing], [])
