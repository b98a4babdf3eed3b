"""Messages that were not used lately are packed; nothing else tells them from others."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import MessageColumns, StoredMessage
from msmq.queues import available_positions, ordered_positions, packed_positions
from msmq.queues import queue as queue_module
from msmq.queues.effects import ReadCompleted
from msmq.queues.leaving.deadlines import ExpiringMessages
from msmq.queues.packed_positions import PackedPositions
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.queues.reading.seek import MessageSeekAction
from tests.queues.builders import ORDERS, arriving
from tests.queues.simulation import Alpha
from tests.samples import examples

LEVELS = (3, 4)
CHUNK = 8
"""Positions of a chunk here, so that few messages are many chunks."""
COUNT = 3 * CHUNK + 5
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("take", "peek", "after", "before", "page", "get", "remove", "release", "count"),
                *("add", "add", "add express", "pack", "pack", "expire"),
            ]
        ),
        st.integers(0, 2 * COUNT),
    ),
    max_size=40,
)


def messages(*, due: int | None = None) -> list[StoredMessage]:
    return [
        (level << 56 | number, 100 + number, number / 2, due, number % 3, 0)
        for level in LEVELS
        for number in range(1, COUNT + 1)
    ]


def restored(rows: list[StoredMessage], apart: set[int] | None = None) -> tuple[Queue, list[MessagePosition]]:
    queue = Queue(QueueDefinition(identifier=UUID(int=1), path="private$\\q", number=1), ExpiringMessages())
    return queue, queue.restore(MessageColumns.of(rows), apart or set())


class PackedPositionTests(SynchronousTestCase):
    """A queue after a start, and while messages arrive."""

    def setUp(self) -> None:
        self.patch(ordered_positions, "CHUNK_LENGTH", CHUNK)
        self.patch(available_positions, "CHUNK_LENGTH", CHUNK)
        self.patch(queue_module, "CHUNK_LENGTH", CHUNK)
        self.patch(available_positions, "SPARE", 1)
        self.patch(packed_positions, "SHORTEST", 2)

    @given(STEPS, st.booleans())
    @settings(max_examples=examples(60), deadline=None)
    def test_any_steps(self, steps: list[tuple[str, int]], is_restored: bool) -> None:
        """After any operations, the queue finds what a sorted list finds, and messages expire in time."""
        rows = [(*row[:3], row[0] % 7 or None, *row[4:]) for row in messages()] if is_restored else []
        queue, _ = restored(rows)
        deadlines = queue.deadlines
        assert isinstance(deadlines, ExpiringMessages)
        due = {row[0]: row[3] for row in rows}
        sizes = {row[0]: row[1] for row in rows}
        available = [row[0] for row in rows]
        held: list[MessagePosition] = []
        next_number, now = 10 * COUNT, 0
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
                    self.assertEqual(lookup_id in queue.positions, lookup_id in sizes)
                    found = queue.positions.get(lookup_id)
                    self.assertEqual(found is not None, lookup_id in sizes)
                    self.assertIs(found, queue.positions.get(lookup_id))
                case "remove" if held:
                    one = held.pop(number % len(held))
                    self.assertEqual(queue.unlink(one), sizes.pop(one.lookup_id))
                    deadlines.discard([one])
                    del due[one.lookup_id]
                case "release":
                    queue.make_available(held)
                    available = sorted([*available, *(one.lookup_id for one in held)])
                    deadlines_of(deadlines, held)
                    held = []
                case "add" | "add express":
                    fresh = [LEVELS[number % 2] << 56 | next_number + each for each in range(number)]
                    next_number += number
                    kept = PacketHolder.STORE if step == "add" else PacketHolder.MEMORY
                    positions = [MessagePosition(queue, each, None, 1, 0.0, kept=kept) for each in fresh]
                    for one in positions:
                        one.due = now + 3 if one.lookup_id % 3 else None
                        queue.link(one)
                        due[one.lookup_id], sizes[one.lookup_id] = one.due, one.size
                    queue.make_available(positions)
                    deadlines_of(deadlines, positions)
                    available = sorted([*available, *fresh])
                case "pack":
                    queue.pack()
                case "expire":
                    now += 1
                    late = {one for one in available if (due[one] or 99) <= now}
                    expired: set[int] = set()
                    while some := deadlines.take_due(now, 1 + number):
                        self.assertLessEqual({one.due for one in some}, set(range(now + 1)))
                        for one in some:
                            if one.state is PositionState.AVAILABLE:
                                self.assertIs(queue.positions.get(one.lookup_id), one)
                                queue.remove_available(one)
                                queue.unlink(one)
                                expired.add(one.lookup_id)
                                del sizes[one.lookup_id], due[one.lookup_id]
                    self.assertEqual(expired, late)
                    available = [one for one in available if one not in late]
            self.assertEqual(queue.message_count, len(sizes))
            self.assertEqual(queue.available_count, len(available))
        self.assertEqual([one.lookup_id for one in queue.peek(len(available) + 1)], available)
        self.assertEqual({one.lookup_id: one.size for one in queue.positions.values()}, sizes)
        self.assertEqual({one.lookup_id: one.due for one in queue.positions.values()}, due)

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
        """Unused chunks stay packed: a read creates objects of one chunk, and so does a look-up."""
        queue, _ = restored(messages())
        before = len(queue.positions.loaded())
        queue.peek(3)
        queue.positions.get(LEVELS[1] << 56 | COUNT // 2)
        self.assertLessEqual(len(queue.positions.loaded()), before + CHUNK)
        self.assertEqual(queue.message_count, 2 * COUNT)

    def test_deadlines(self) -> None:
        """Messages with a deadline are packed too, and become objects when the first of a chunk expires."""
        queue, objects = restored([*messages()[:COUNT], *messages(due=7)[COUNT:]])
        self.assertEqual(objects, [])
        deadlines = queue.deadlines
        assert isinstance(deadlines, ExpiringMessages)
        self.assertEqual(deadlines.next_due(), 7)
        self.assertEqual(deadlines.take_due(6, 99), [])
        late: list[MessagePosition] = []
        while some := deadlines.take_due(7, 3):
            late += some
        self.assertEqual(sorted(one.lookup_id for one in late), [row[0] for row in messages()[COUNT:]])

    def test_packed_object(self) -> None:
        """An object of a message that was packed meanwhile leads to the one that stands for it now."""
        queue, _ = restored(messages())
        lookup_id = LEVELS[1] << 56 | CHUNK + 2
        before = queue.positions[lookup_id]
        queue.peek(2 * COUNT)
        for _ in range(4):
            queue.pack()
        self.assertIs(before.state, PositionState.PACKED)
        now = before.current()
        assert now is not None
        self.assertIs(now.state, PositionState.AVAILABLE)
        queue.take_one(now, "owner")
        queue.unlink(now)
        self.assertIsNone(before.current())

    def test_purge_pending_messages(self) -> None:
        """A message that a purge has marked is removed when it is returned, and cannot be received."""
        apart = {LEVELS[0] << 56 | 5}
        queue, objects = restored(messages(), apart)
        self.assertLessEqual(apart, {one.lookup_id for one in objects})
        self.assertEqual(queue.available_count, 2 * COUNT - 1)
        self.assertEqual(queue.after((LEVELS[0] << 56) + 4).lookup_id & 0xFF, 6)  # type: ignore[union-attr]

    def test_pieces_of_a_chunk(self) -> None:
        """Neighbours that the store has in one way are packed; those in memory stay objects, in order."""
        memory, store, overflow = PacketHolder.MEMORY, PacketHolder.STORE, PacketHolder.OVERFLOW
        view = arriving(b"in memory")
        kinds = [memory, memory, store, store, store, memory, store, overflow, overflow, memory]
        queue, _ = restored([])
        positions = [
            MessagePosition(queue, number, None, 1, 0.0, PositionState.AVAILABLE, None, kind, due=9)
            for number, kind in enumerate(kinds, LEVELS[0] << 56)
        ]
        for position in positions:
            queue.link(position)
        positions[0].view = positions[1].view = positions[5].view = positions[9].view = view
        pieces = packed_positions.pack_chunk(queue, ordered_positions.Chunk(positions))
        found = [
            [each.lookup_id & 0xFF for each in piece]
            if isinstance(piece, ordered_positions.Chunk)
            else (piece.kept, [each & 0xFF for each in piece.lookup_ids])
            for piece in pieces
            if isinstance(piece, ordered_positions.Chunk | PackedPositions)
        ]
        self.assertEqual(found, [[0, 1], (store, [2, 3, 4]), [5, 6], (overflow, [7, 8]), [9]])
        self.assertEqual([each.state is PositionState.PACKED for each in positions].count(True), 5)
        self.assertEqual((queue.message_count, len(queue.positions.loaded())), (10, 5))

    def test_identifiers_that_no_message_has(self) -> None:
        """Of a lookup identifier beyond those of all priorities, or without a message, nothing is found."""
        queue, _ = restored(messages())
        there = [level << 56 | number for level in LEVELS for number in (1, 2, COUNT // 2, COUNT)]
        strange = [-1, 0, 1, 2 << 56 | 1, 5 << 56 | 1, *(high << 56 | 1 for high in (8, 9, 15, 16, 255, 256))]
        for number in (*strange, *there):
            self.assertEqual(number in queue.positions, number in there)
        self.assertTrue(queue.positions.packed)
        for number in (*strange, *there):
            self.assertEqual(queue.positions.get(number) is not None, number in there)

    def test_look_up(self) -> None:
        """The messages of a queue are looked up as in a dictionary, packed or not."""
        queue, _ = restored(messages())
        known = {row[0] for row in messages()}
        self.assertEqual(set(queue.positions.keys()), known)
        self.assertEqual(set(queue.positions), known)
        self.assertEqual({number for number, _ in queue.positions.items()}, known)
        self.assertNotIn(5, queue.positions)
        self.assertIn(min(known), queue.positions)
        self.assertEqual(queue.positions[min(known)].lookup_id, min(known))
        self.assertRaises(KeyError, lambda: queue.positions[5])
        self.assertIsNone(queue.positions.get(5))
        self.assertTrue(queue.positions)
        queue.clear()
        self.assertFalse(queue.positions)

    def test_deadlines_of_a_deleted_queue(self) -> None:
        """Packed messages of a deleted queue expire no more."""
        queue, _ = restored(messages(due=7))
        deadlines = queue.deadlines
        assert isinstance(deadlines, ExpiringMessages)
        self.assertEqual(deadlines.next_due(), 7)
        gone = queue.clear()
        deadlines.discard(gone.loaded())
        self.assertIsNone(deadlines.next_due())

    def test_deleted(self) -> None:
        """The messages of a deleted queue are objects one chunk at a time, all of them once."""
        queue, _ = restored(messages())
        queue.peek(1)
        gone = queue.clear()
        self.assertEqual((len(gone), queue.message_count), (2 * COUNT, 0))
        packed = len(gone.packed)
        first = gone.take(CHUNK)
        self.assertEqual(len(gone.packed), packed - 1)
        self.assertLess(len(list(gone.loaded())), 6 * CHUNK)
        self.assertEqual(len(gone), 2 * COUNT - CHUNK)
        found = [*first, *gone]
        self.assertEqual(
            [one.lookup_id for one in gone.take(len(gone) + 1)], [one.lookup_id for one in found[CHUNK:]]
        )
        self.assertFalse(gone)
        self.assertEqual({one.lookup_id for one in found}, {row[0] for row in messages()})
        self.assertEqual(len(found), 2 * COUNT)


def deadlines_of(deadlines: ExpiringMessages, positions: list[MessagePosition]) -> None:
    for position in positions:
        if position.due is not None:
            deadlines.add(position, position.due)


class ArrivingTests(SynchronousTestCase):
    """A queue manager with many messages in a queue, and no memory for packets."""

    def setUp(self) -> None:
        self.patch(ordered_positions, "CHUNK_LENGTH", CHUNK)
        self.patch(available_positions, "CHUNK_LENGTH", CHUNK)
        self.patch(queue_module, "CHUNK_LENGTH", CHUNK)
        self.patch(packed_positions, "SHORTEST", 2)
        self.alpha = Alpha(packet_memory=0)
        self.queue = self.alpha.create()
        self.most = (available_positions.SPARE + 3) * CHUNK

    def send(self, count: int, seconds: int = 0xFFFFFFFF) -> None:
        for number in range(count):
            message = arriving(b"%d" % number, time_to_be_received=seconds, recoverable=True)
            self.alpha.put(self.queue, message)

    def test_cursor_at_the_end(self) -> None:
        """A cursor that was at the end continues with the first message after it, in the middle of a chunk
        that was packed meanwhile.
        """
        before = 2 * CHUNK + 3
        self.send(before)
        # As a cursor at the end does.
        self.queue.ends += 1
        since = self.queue.insertions
        self.send(1)
        [*_, wanted] = self.queue.positions
        middle = since + 1
        self.send(20 * CHUNK)
        self.assertTrue(self.queue.available.is_packed(wanted))
        for mark in (since, middle):
            found = self.queue.first_since(mark)
            self.assertEqual(None if found is None else found.lookup_id, wanted + mark - since)

    def test_bounded_objects(self) -> None:
        """While messages arrive, and are browsed to the end, few of them are objects."""
        self.send(40 * CHUNK)
        self.assertLessEqual(len(self.queue.positions.loaded()), self.most)
        after, seen = -1, 0
        while page := self.queue.page(after, CHUNK):
            after, seen = page[-1].lookup_id, seen + len(page)
            self.assertLessEqual(len(self.queue.positions.loaded()), self.most + 2 * CHUNK)
        self.assertEqual(seen, 40 * CHUNK)
        self.alpha.check()

    def objects(self, queue: Queue | None = None) -> int:
        """How many messages of a queue are objects."""
        return len((self.queue if queue is None else queue).positions.loaded())

    def test_bounded_objects_of_transactions(self) -> None:
        """The same is true of messages that transactions send."""
        for _ in range(40 * CHUNK):
            transaction = self.alpha.begin()
            self.alpha.send_in(transaction, self.queue, b"1")
            self.alpha.commit(transaction)
        self.assertLessEqual(self.objects(), self.most)
        self.assertEqual(self.queue.message_count, 40 * CHUNK)

    def test_bounded_objects_of_moves(self) -> None:
        """The same is true of messages that are moved into a queue."""
        self.send(40 * CHUNK)
        other = self.alpha.create("other")
        while positions := self.queue.peek(CHUNK):
            self.alpha.transfer(positions, other)
        self.assertLessEqual(self.objects(other), self.most + CHUNK)
        self.assertEqual(other.message_count, 40 * CHUNK)

    def test_bounded_objects_for_a_cursor(self) -> None:
        """A cursor, or a reader by lookup identifier, that looks at each message leaves few objects."""
        self.send(40 * CHUNK)
        now = self.alpha.now
        for is_cursor in (True, False):
            self.alpha = self.alpha.restart()
            self.queue = self.alpha.find(".\\private$\\orders")
            descriptors = self.alpha.model.descriptors
            handle = descriptors.open([ORDERS], QueueAccessType.PEEK, now=now)
            cursor = descriptors.open_cursor(handle)
            assert cursor is not None
            most, place = 0, 0
            for number in range(40 * CHUNK):
                if not is_cursor:
                    action = MessageSeekAction.NEXT if number else MessageSeekAction.FIRST
                    [effect] = descriptors.read_by_lookup_identifier(
                        handle, place, action, tag="t", now=now, peek=True
                    )
                elif number:
                    [effect] = descriptors.peek_next(handle, cursor, tag="t", now=now, deadline=0)
                else:
                    [effect] = descriptors.peek(handle, tag="t", now=now, cursor=cursor, deadline=0)
                assert isinstance(effect, ReadCompleted)
                [position] = effect.positions
                self.assertGreater(position.lookup_id, place)
                place, most = position.lookup_id, max(most, self.objects())
            self.assertLessEqual(most, self.most + 2 * CHUNK)

    def test_messages_in_memory(self) -> None:
        """A message whose packet memory has stays an object, with its packet."""
        alpha = Alpha()
        queue = alpha.create()
        for number in range(40 * CHUNK):
            alpha.put(queue, arriving(b"1", recoverable=number % 4 > 0))
        self.assertEqual(self.objects(queue), 40 * CHUNK)
        self.assertTrue(all(position.view is not None for position in queue.peek(40 * CHUNK)))
        alpha.check()

    def test_deleted_queue(self) -> None:
        """All messages of a deleted queue and its subqueue leave, each with an event, and are due no more."""
        count = 10 * CHUNK
        self.send(2 * count, seconds=3600)
        subqueue = self.alpha.subqueue(self.queue)
        for _ in range(10):
            self.alpha.transfer(self.queue.peek(CHUNK), subqueue)
        for queue in (self.queue, subqueue):
            self.assertEqual(queue.message_count, count)
            self.assertLess(self.objects(queue), count)
        self.assertIsNotNone(self.alpha.model.deadline(self.alpha.now))
        deletion = self.alpha.delete(self.queue, at_once=3 * CHUNK)
        self.assertEqual(len(deletion.positions), 0)
        for path in ("private$\\orders", "private$\\orders;sub"):
            self.assertEqual(self.alpha.events.count(("deleted", path)), count)
        self.assertEqual(len(self.alpha.events), 2 * count)
        self.assertIsNone(self.alpha.model.deadline(self.alpha.now))
        self.assertFalse(any(self.alpha.store.contents.messages.values()))
        self.alpha.check()
        self.alpha.check_store()
