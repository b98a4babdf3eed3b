"""Reads whose messages may have so many bytes together, and peeks that go on behind a message."""

from __future__ import annotations

from functools import partial

from msmq.queues.effects import ReadCompleted
from tests.queues.builders import arriving, bodies
from tests.queues.reading.handles import HandleTestCase


class BoundedReadTests(HandleTestCase):
    """Five messages of the same size, of two priorities."""

    def setUp(self) -> None:
        super().setUp()
        self.put(b"3", arriving(b"1", priority=7), b"4", arriving(b"2", priority=7), b"5")
        self.size = self.find(b"1").size

    def found(self, *, peek: bool, count: int, size: int | None = None, after: int = -1) -> list[bytes]:
        """The bodies of what a read finds at once."""
        begin = self.descriptors.receive
        if peek:
            begin = partial(self.descriptors.peek, after=after)
        effects = begin(
            self.handle, tag=self.tag(), now=self.now, deadline=self.deadline(0), count=count, size=size
        )
        positions = [
            position for each in effects if isinstance(each, ReadCompleted) for position in each.positions
        ]
        if not peek:
            self.taken += positions
        return bodies(positions)

    def test_as_many_as_fit(self) -> None:
        """A receive ends before the message that does not fit; the others stay, in their order."""
        self.assertEqual(self.found(peek=False, count=10, size=3 * self.size), [b"1", b"2", b"3"])
        self.assertEqual(self.found(peek=True, count=10), [b"4", b"5"])
        self.give_back(*self.taken)
        self.assertEqual(self.found(peek=True, count=10, size=3 * self.size + 1), [b"1", b"2", b"3"])
        self.assertEqual(self.found(peek=False, count=10), [b"1", b"2", b"3", b"4", b"5"])

    def test_one_larger_message(self) -> None:
        """A message that alone is too large is read alone."""
        self.assertEqual(self.found(peek=True, count=10, size=1), [b"1"])
        self.assertEqual(self.found(peek=False, count=10, size=1), [b"1"])
        self.assertEqual(self.found(peek=False, count=1, size=1), [b"2"])

    def test_count_is_a_limit_too(self) -> None:
        """Of both limits the one that is reached first counts."""
        self.assertEqual(self.found(peek=False, count=2, size=100 * self.size), [b"1", b"2"])

    def test_waiting_receives_share_within_it(self) -> None:
        """Of a burst, waiting receives take what fits; what fits none of them stays."""
        self.found(peek=False, count=10)
        for _ in range(2):
            self.descriptors.receive(
                self.handle, tag=self.tag(), now=self.now, count=10, size=2 * self.size, deadline=None
            )
        given = self.put(*[b"%d" % number for number in range(6)])
        self.assertEqual(sorted(len(each) for _, each in given), [2, 2])
        self.assertEqual(len(self.found(peek=True, count=10)), 2)

    def test_a_full_receive_has_no_share(self) -> None:
        """A waiting receive whose size is used up by one message leaves the rest of a burst to others."""
        self.found(peek=False, count=10)
        sizes = {"full": self.size, "open": None, "also full": 1}
        for tag, size in sizes.items():
            self.descriptors.receive(self.handle, tag=tag, now=self.now, count=10, size=size, deadline=None)
        given = dict(self.put(*[b"%d" % number for number in range(7)]))
        self.assertEqual(
            {tag: len(each) for tag, each in given.items()}, {"full": 1, "open": 5, "also full": 1}
        )

    def test_peek_goes_on(self) -> None:
        """A peek begins behind a LookupIdentifier, also one whose message was received meanwhile."""
        second = self.find(b"2").lookup_id
        self.assertEqual(self.found(peek=True, after=second, count=2), [b"3", b"4"])
        self.hold(b"2")
        self.hold(b"3", allow_peek=True)
        self.assertEqual(self.found(peek=True, after=second, count=10), [b"3", b"4", b"5"])
        self.assertEqual(self.found(peek=True, count=10), [b"1", b"3", b"4", b"5"])
        self.assertEqual(self.found(peek=True, after=self.find(b"5").lookup_id, count=10), [])
