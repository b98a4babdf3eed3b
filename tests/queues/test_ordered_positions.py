"""Positions in the order of their LookupIdentifier, wherever they come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.definition import QueueDefinition
from msmq.queues import available_positions
from msmq.queues import ordered_positions as ordered
from msmq.queues.leaving.deadlines import ExpiringMessages
from msmq.queues.ordered_positions import OrderedPositions
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from tests.builders import ALPHA

QUEUE = Queue(QueueDefinition(identifier=ALPHA, path="private$\\orders"), ExpiringMessages())

STEPS = st.lists(
    st.one_of(
        st.just(("add", 0)),
        st.tuples(
            st.sampled_from(["add", "go", "go", "take", "give back", "give back"]),
            st.integers(0, 100),
        ),
    ),
    max_size=80,
)


def position(number: int) -> MessagePosition:
    """An available message."""
    return MessagePosition(QUEUE, number, None, 1, 0.0, PositionState.AVAILABLE)


def ids(positions: list[MessagePosition]) -> list[int]:
    return [one.lookup_id for one in positions]


class OrderedPositionsTests(SynchronousTestCase):
    """L{OrderedPositions}."""

    def test_searches_at_every_place(self) -> None:
        """From any place, in, before, between and behind chunks, each search finds the next ones."""
        self.patch(ordered, "CHUNK_LENGTH", 3)
        for count in range(12):
            line: OrderedPositions[MessagePosition] = OrderedPositions()
            numbers = range(2, 2 * count + 2, 2)
            for number in numbers:
                line.add(position(number))
            for place in range(2 * count + 4):
                after = [number for number in numbers if number > place]
                before = [number for number in numbers if number < place]
                found, earlier = line.after(place), line.before(place)
                self.assertEqual(None if found is None else found.lookup_id, min(after, default=None))
                self.assertEqual(None if earlier is None else earlier.lookup_id, max(before, default=None))
                self.assertEqual(ids(list(line.since(place))), after)

    @given(STEPS, st.integers(1, 6), st.integers(0, 120), st.integers(0, 120))
    def test_it_is_a_sorted_list(
        self, steps: list[tuple[str, int]], length: int, place: int, mark: int
    ) -> None:
        """After any insertions and removals it is equal to a sorted list, and searches from any position
        agree.
        """
        self.patch(ordered, "CHUNK_LENGTH", length)
        line: OrderedPositions[MessagePosition] = OrderedPositions()
        there: dict[int, MessagePosition] = {}
        held: dict[int, MessagePosition] = {}
        youngest = insertions = 0

        def come(number: int, one: MessagePosition) -> None:
            nonlocal insertions
            insertions += 1
            there[number] = one
            line.add(one)
            line.number(one, insertions)

        for step, number in steps:
            if step == "add":
                youngest += 1
                come(youngest, position(youngest))
            elif step == "go" and there:
                chosen = sorted(there)[number % len(there)]
                held[chosen] = there.pop(chosen)
                line.discard(held[chosen])
                line.discard(held[chosen])
            elif step == "take":
                taken = line.pop(number % 4)
                self.assertEqual(ids(taken), sorted(there)[: number % 4])
                held.update((one.lookup_id, there.pop(one.lookup_id)) for one in taken)
            elif step == "give back" and held:
                chosen = sorted(held)[number % len(held)]
                come(chosen, held.pop(chosen))
            self.assertEqual(ids(list(line)), sorted(there))
            self.assertEqual((len(line), bool(line)), (len(there), bool(there)))
            after, before = line.after(place), line.before(place)
            self.assertEqual(after and after.lookup_id, min((n for n in there if n > place), default=None))
            self.assertEqual(before and before.lookup_id, max((n for n in there if n < place), default=None))
            self.assertEqual(ids(list(line.since(place))), sorted(n for n in there if n > place))
            self.assertTrue(all(one in line for one in there.values()))
            self.assertFalse(any(one in line for one in held.values()))
            since = [n for n, one in there.items() if one.insertion > mark % (insertions + 1)]
            found = line.first_since(mark % (insertions + 1))
            self.assertEqual(found and found.lookup_id, min(since, default=None))

    def test_another_position_of_the_same_number(self) -> None:
        """Only the very position counts, and not one that is like it."""
        line: OrderedPositions[MessagePosition] = OrderedPositions()
        line.add(position(1))
        line.discard(position(1))
        self.assertEqual(len(line), 1)
        self.assertNotIn(position(1), line)

    def test_it_splits_and_shrinks(self) -> None:
        """Very many that come into the middle and go again, in any order, leave nothing behind."""
        line: OrderedPositions[MessagePosition] = OrderedPositions()
        positions = {number: position(number) for number in range(20_000)}
        for start in (0, 19_999):
            line.add(positions[start])
        for number in range(1, 19_999):
            line.add(positions[number * 7919 % 19_999])
        self.assertEqual(ids(list(line)), list(range(20_000)))
        for number in range(1, 19_999):
            line.discard(positions[number * 6007 % 19_999])
        self.assertEqual(ids(line.pop(9)), [0, 19_999])
        self.assertFalse(line)

    def test_many_are_taken_at_once(self) -> None:
        """However many, and wherever that ends."""
        line: OrderedPositions[MessagePosition] = OrderedPositions()
        for number in range(3000):
            line.add(position(number))
        for count, first in ((700, 0), (1000, 700), (5, 1700), (9999, 1705)):
            self.assertEqual(ids(line.pop(count)), list(range(first, min(first + count, 3000))))
        self.assertEqual(line.pop(1), [])


class AvailabilityTests(SynchronousTestCase):
    """L{Queue.make_available}: messages come in groups, in any order."""

    @given(
        st.lists(
            st.tuples(st.sampled_from([0, 3, 7]), st.integers(0, 20)), unique=True, min_size=1, max_size=24
        ),
        st.lists(st.integers(1, 5), min_size=1, max_size=5),
        st.booleans(),
        st.integers(1, 8),
    )
    def test_any_groups(
        self, places: list[tuple[int, int]], sizes: list[int], is_sorted: bool, length: int
    ) -> None:
        """Readers get them by priority and age, whichever came together, and each once."""
        self.patch(ordered, "CHUNK_LENGTH", length)
        self.patch(available_positions, "CHUNK_LENGTH", length)
        queue = Queue(QueueDefinition(identifier=ALPHA, path="private$\\orders"), ExpiringMessages())
        rest = [MessagePosition(queue, level << 56 | number, None, 1, 0.0) for level, number in places]
        everything = sorted(one.lookup_id for one in rest)
        while rest:
            for size in sizes:
                group, rest = rest[:size], rest[size:]
                if is_sorted:
                    group.sort(key=lambda one: one.lookup_id)
                for one in group:
                    queue.link(one)
                queue.make_available(group)
        self.assertEqual(ids(queue.peek(99)), everything)
        self.assertEqual(queue.available_count, len(everything))
        self.assertEqual(ids(queue.take(99, "reader")), everything)
        self.assertFalse(queue.has_available)

    def test_between(self) -> None:
        """A group of which only the later part follows what is there is put in order."""
        queue = Queue(QueueDefinition(identifier=ALPHA, path="private$\\orders"), ExpiringMessages())
        for group in ((1, 3), (2, 4), (6, 7), (5, 8, 9)):
            queue.make_available([position(number) for number in group])
        self.assertEqual(ids(queue.peek(99)), [1, 2, 3, 4, 5, 6, 7, 8, 9])
