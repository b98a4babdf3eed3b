"""Messages that a start finds are packed until they are looked at; nothing else tells them from others."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import MessageColumns, StoredMessage
from msmq.queues.ordered_positions import CHUNK_LENGTH
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue

LEVELS = (3, 4)
COUNT = 3 * CHUNK_LENGTH + 40
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["take", "peek", "after", "before", "page", "get", "remove", "release", "add", "count"]
        ),
        st.integers(0, 2 * COUNT),
    ),
    max_size=25,
)


def messages(*, due: int | None = None) -> list[StoredMessage]:
    return [
        (level << 56 | number, 100 + number, number / 2, due, number % 3, 0)
        for level in LEVELS
        for number in range(1, COUNT + 1)
    ]


def restored(rows: list[StoredMessage], apart: set[int] | None = None) -> tuple[Queue, list[MessagePosition]]:
    queue = Queue(QueueDefinition(identifier=UUID(int=1), path="private$\\q", number=1))
    return queue, queue.restore(MessageColumns.of(rows), apart or set())


class PackedPositionTests(SynchronousTestCase):
    """A queue after a start."""

    @given(STEPS)
    @settings(max_examples=60, deadline=None)
    def test_any_steps(self, steps: list[tuple[str, int]]) -> None:
        """Whatever is done, the queue finds the messages that a sorted list finds."""
        queue, _ = restored(messages())
        available = [row[0] for row in messages()]
        everything = set(available)
        held: list[MessagePosition] = []
        for step, number in steps:
            lookup_id = LEVELS[number % 2] << 56 | number // 2
            match step:
                case "take":
                    taken = queue.take(number // 4, "owner")
                    self.assertEqual([one.lookup_id for one in taken], available[: number // 4])
                    del available[: len(taken)]
                    held += taken
                case "peek":
                    seen = queue.peek(number // 4)
                    self.assertEqual([one.lookup_id for one in seen], available[: number // 4])
                case "after":
                    found = queue.after(lookup_id)
                    wanted = next((one for one in available if one > lookup_id), None)
                    self.assertEqual(None if found is None else found.lookup_id, wanted)
                case "before":
                    found = queue.before(lookup_id)
                    wanted = next((one for one in reversed(available) if one < lookup_id), None)
                    self.assertEqual(None if found is None else found.lookup_id, wanted)
                case "page":
                    page = [one.lookup_id for one in queue.page(lookup_id, 20)]
                    self.assertEqual(page, [one for one in available if one > lookup_id][:20])
                case "get":
                    found = queue.positions.get(lookup_id)
                    self.assertEqual(found is not None, lookup_id in everything)
                    self.assertEqual(lookup_id in queue.positions, lookup_id in everything)
                    self.assertIs(found, queue.positions.get(lookup_id))
                case "remove" if held:
                    one = held.pop(number % len(held))
                    self.assertEqual(queue.unlink(one), one.size)
                    everything.discard(one.lookup_id)
                case "release":
                    queue.make_available(held)
                    available = sorted([*available, *(one.lookup_id for one in held)])
                    held = []
                case "add":
                    fresh = LEVELS[number % 2] << 56 | 10 * COUNT + number
                    if fresh not in everything:
                        position = MessagePosition(queue, fresh, None, 1, 0.0)
                        queue.link(position)
                        queue.make_available([position])
                        everything.add(fresh)
                        available = sorted([*available, fresh])
            self.assertEqual(queue.message_count, len(everything))
            self.assertEqual(queue.available_count, len(available))
        self.assertEqual([one.lookup_id for one in queue.peek(len(available) + 1)], available)
        self.assertEqual(set(queue.positions), everything)

    def test_properties(self) -> None:
        """A packed message keeps its size, ArrivalTime, AbortCount and MoveCount."""
        queue, objects = restored(messages())
        self.assertEqual(objects, [])
        self.assertEqual(
            [
                (one.lookup_id, one.size, one.arrived, one.due, one.aborts, one.moves, one.kept, one.state)
                for one in queue.peek(2 * COUNT)
            ],
            [(*row, PacketHolder.STORE, PositionState.AVAILABLE) for row in messages()],
        )

    def test_few_objects(self) -> None:
        """What is not looked at stays packed: a read makes objects of one chunk, and so does a look-up."""
        queue, _ = restored(messages())
        before = len(queue.positions.loaded())
        queue.peek(3)
        queue.positions.get(LEVELS[1] << 56 | COUNT // 2)
        self.assertLessEqual(len(queue.positions.loaded()), before + CHUNK_LENGTH)
        self.assertEqual(queue.message_count, 2 * COUNT)

    def test_deadlines(self) -> None:
        """Messages with a deadline are objects, which are returned so that they can expire."""
        queue, objects = restored([*messages()[:COUNT], *messages(due=7)[COUNT:]])
        self.assertEqual([one.due for one in objects], [7] * COUNT)
        self.assertEqual(queue.available_count, 2 * COUNT)

    def test_apart(self) -> None:
        """What a purge had marked is returned and cannot be received."""
        apart = {LEVELS[0] << 56 | 5}
        queue, objects = restored(messages(), apart)
        self.assertLessEqual(apart, {one.lookup_id for one in objects})
        self.assertEqual(queue.available_count, 2 * COUNT - 1)
        self.assertEqual(queue.after((LEVELS[0] << 56) + 4).lookup_id & 0xFF, 6)  # type: ignore[union-attr]

    def test_deleted(self) -> None:
        """The messages of a deleted queue are objects one chunk at a time, all of them once."""
        queue, _ = restored(messages())
        queue.peek(1)
        gone = queue.clear()
        self.assertEqual((len(gone), queue.message_count), (2 * COUNT, 0))
        first = gone.popleft()
        self.assertLess(len(list(gone.loaded())), 6 * CHUNK_LENGTH)
        self.assertEqual(len(gone), 2 * COUNT - 1)
        found = [first, *gone]
        self.assertEqual({one.lookup_id for one in found}, {row[0] for row in messages()})
        self.assertEqual(len(found), 2 * COUNT)
