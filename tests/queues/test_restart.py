"""State of a queue manager after a restart."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.changes import Change, PutQueue, PutState
from msmq.persistence.snapshot import Snapshot
from msmq.queues.counters import ReservedCounter
from msmq.queues.model import QueueManagerModel
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.status import MQError
from tests.queues.builders import NOW, admit, arriving, create, model, peek, put, receive
from tests.queues.simulation import Alpha

PATH = parse_path_name(".\\private$\\orders")


class RestartTestCase(SynchronousTestCase):
    """A model, a store that outlives it, and the next model."""

    def setUp(self) -> None:
        self.store = MemoryMessageStore(durable=True)
        self.model = self.started()

    def snapshot(self) -> Snapshot:
        self.successResultOf(self.store.close())
        return self.successResultOf(self.store.open())

    def started(self, now: Moment = NOW) -> QueueManagerModel:
        alpha = model()
        alpha.restore(self.snapshot(), now)
        return alpha

    def stored(self, changes: Sequence[Change]) -> None:
        self.successResultOf(self.store.commit(changes))

    def create(self) -> None:
        creation = self.model.create_queue(
            PATH, identifier=self.model.identifier, now=NOW, label="L", quota=9
        )
        self.stored(creation.changes)
        self.model.created(creation)

    def put(self, *bodies: bytes, recoverable: bool = True, name: str | None = None) -> None:
        queue = self.model.find(PATH)
        if name is not None:
            queue = self.model.outgoing(parse_format_name(name), NOW)
        assert queue is not None
        views = [arriving(body, recoverable=recoverable, priority=len(body)) for body in bodies]
        admission = admit(self.model, queue, *views)
        self.stored(admission.changes)
        self.model.commit(admission, NOW)


class RestartTests(RestartTestCase):
    """What is there again."""

    def test_queues_come_back(self) -> None:
        """A queue is there again with all its properties, under all its names."""
        self.create()
        before = self.model.find(PATH)
        again = self.started().find(PATH)
        assert before is not None and again is not None
        self.assertEqual(again.definition, before.definition)

    def test_recoverable_messages_come_back_in_order(self) -> None:
        """MQDMPR-3.1.1.12-01: recoverable messages are there again, in their order; express ones are gone."""
        self.create()
        self.put(b"1", b"22", b"3")
        self.put(b"e", recoverable=False)
        before = self.model.find(PATH)
        assert before is not None
        lookup_ids = [position.lookup_id for position in receive(self.model, before, count=3)]
        alpha = self.started()
        queue = alpha.find(PATH)
        assert queue is not None
        self.assertEqual(queue.message_count, 3)
        found = receive(alpha, queue, count=9)
        packets = self.successResultOf(
            self.store.read(queue.definition.identifier, [position.lookup_id for position in found])
        )
        self.assertEqual([packet[-4:].rstrip(b"\0") for packet in packets], [b"22", b"1", b"3"])
        self.assertEqual([position.size for position in found], [len(packet) for packet in packets])
        self.assertEqual(queue.total_bytes, sum(len(packet) for packet in packets))
        self.assertEqual(alpha.storage.used, queue.total_bytes)
        self.assertEqual({position.arrived for position in found}, {NOW.wall})
        self.assertTrue(set(lookup_ids) & {position.lookup_id for position in found})

    def test_packet_is_read_first(self) -> None:
        """A message that was restored has no packet before that is read from the store."""
        self.create()
        self.put(b"1")
        alpha = self.started()
        queue = alpha.find(PATH)
        assert queue is not None
        [position] = receive(alpha, queue)
        self.assertTrue(position.is_recoverable)
        with self.assertRaises(LocalProtocolError):
            position.packet  # noqa: B018
        position.view = arriving(b"1")
        self.assertEqual(position.packet, arriving(b"1").packet)

    def test_removed_messages_stay_away(self) -> None:
        """Received messages do not return; locked ones do."""
        self.create()
        self.put(b"1", b"2")
        queue = self.model.find(PATH)
        assert queue is not None
        removal = self.model.remove(receive(self.model, queue))
        self.stored(removal.changes)
        self.model.removed(removal, NOW)
        receive(self.model, queue)
        alpha = self.started()
        again = alpha.find(PATH)
        assert again is not None
        self.assertEqual((again.message_count, len(receive(alpha, again, count=9))), (1, 1))

    def test_deleted_queue_stays_away(self) -> None:
        """A deleted queue and its messages do not come back."""
        self.create()
        self.put(b"1")
        queue = self.model.find(PATH)
        assert queue is not None
        self.stored(self.model.delete_queue(queue).changes)
        alpha = self.started()
        self.assertEqual((list(alpha.queues()), alpha.storage.used), ([], 0))

    def test_what_the_store_has_is_known(self) -> None:
        """Queues of any kind that the store has are not stored again, and go when they are deleted."""
        alpha = Alpha()
        queue = alpha.create(journal=True)
        for is_first in (True, False):
            model = alpha.model
            outgoing = model.outgoing(parse_format_name("DIRECT=OS:BETA\\private$\\q"), NOW)
            subqueue = alpha.subqueue(queue)
            alpha.store.done.clear()
            alpha.put(queue, b"1", b"2", b"3")
            alpha.put(outgoing, b"4")
            alpha.confirm(alpha.receive(queue))
            alpha.transfer(queue.peek(1), model.system_queue(QueueSuffix.DEADLETTER))
            alpha.move(queue.peek(1)[0], subqueue)
            put = [each for changes in alpha.store.done for each in changes if isinstance(each, PutQueue)]
            self.assertEqual(len(put), 4 if is_first else 0)
            alpha = alpha.restart()
            queue = alpha.find(str(PATH))
        [outgoing] = alpha.model.outgoing_queues()
        alpha.confirm(alpha.receive(outgoing, 2))
        self.assertEqual(len(alpha.store.contents.queues), 5)
        alpha.delete(queue)
        alpha.delete(outgoing)
        [left] = alpha.store.contents.queues.values()
        self.assertEqual(left, alpha.model.system_queue(QueueSuffix.DEADLETTER).definition)

    def test_one_message_that_is_not_read_yet(self) -> None:
        """A queue with a single message is not empty after a restart, so it is not deleted as such."""
        alpha = Alpha()
        name = parse_format_name("DIRECT=OS:BETA\\private$\\q")
        subqueue, outgoing = alpha.subqueue(alpha.create()), alpha.model.outgoing(name, NOW)
        alpha.put(alpha.find(str(PATH)), b"1")
        alpha.move(alpha.find(str(PATH)).peek(1)[0], subqueue)
        alpha.put(outgoing, b"2")
        alpha = alpha.restart()
        subqueue, outgoing = alpha.find(f"{PATH};sub"), alpha.model.outgoing(name, NOW)
        self.assertEqual(alpha.model.collection.forget_empty(subqueue), [])
        error = self.assertRaises(MQError, alpha.delete, outgoing)
        self.assertIn("1 messages are pending", str(error))
        self.assertTrue(all(queue.positions for queue in (subqueue, outgoing)))
        self.assertEqual((alpha.bodies(subqueue), alpha.bodies(outgoing)), ([b"1"], [b"2"]))

    def test_outgoing_messages_come_back(self) -> None:
        """Recoverable messages that wait to be sent are restored, and their queue begins inactive."""
        name = "DIRECT=OS:beta\\private$\\orders"
        self.put(b"1", name=name)
        self.put(b"2", name=name)
        alpha = self.started()
        queue = alpha.outgoing(parse_format_name(name), NOW)
        self.assertEqual(queue.message_count, 2)
        self.assertEqual(len(list(alpha.outgoing_queues())), 1)
        self.assertEqual(list(alpha.queues()), [])
        self.assertTrue(queue.is_active)

    def test_numbers_never_come_twice(self) -> None:
        """Sequential and message identifiers rise over every restart.

        MQDMPR-3.1.1.1-02 MQDMPR-3.1.1.1-39 MQMQ-2.2.19.2-09
        """
        self.create()
        seen: list[int] = []
        sent: list[int] = []
        for _ in range(3):
            first = self.model.take_message_ids(3)
            sent += range(first, first + 3)
            self.put(b"1", b"2")
            self.put(b"3")
            queue = self.model.find(PATH)
            assert queue is not None
            seen += sorted(set(queue.positions) - set(seen))
            self.model = self.started()
        self.assertEqual(sent, sorted(set(sent)))
        low = [lookup_id & (1 << 56) - 1 for lookup_id in seen]
        self.assertEqual((len(low), low), (9, sorted(set(low))))

    def test_private_numbers_never_come_twice(self) -> None:
        """The number of a queue that was deleted is not given again after a restart either."""
        self.create()
        queue = self.model.find(PATH)
        assert queue is not None
        self.stored(self.model.delete_queue(queue).changes)
        self.model = self.started()
        self.assertGreater(create(self.model).definition.number, queue.definition.number)

    def test_a_deadline_beside_a_purged_message(self) -> None:
        """Messages near one that was purged while it was locked expire as all others do."""
        alpha = Alpha()
        queue = alpha.create()
        mortal = [arriving(body, recoverable=True, time_to_be_received=60) for body in (b"1", b"2", b"3")]
        alpha.put(queue, mortal[0], arriving(b"forever", recoverable=True), mortal[1])
        alpha.receive(queue)
        alpha.purge(queue)
        alpha.put(queue, mortal[2], arriving(b"4", recoverable=True))
        alpha = alpha.restart()
        queue = alpha.find(".\\private$\\orders")
        self.assertEqual(alpha.bodies(queue), [b"3", b"4"])
        alpha.later(0)
        self.assertEqual([event for event, _ in alpha.events], ["purged"] * 3)
        self.assertEqual(queue.message_count, 2)
        alpha.later(60)
        self.assertEqual([event for event, _ in alpha.events], [*["purged"] * 3, "expired"])
        self.assertEqual(alpha.bodies(queue), [b"4"])


class RestoredTests(RestartTestCase):
    """A store that is restored from a backup, whose queue manager went on."""

    def used_after_restarts(self, restarts: int) -> range:
        """The MessageIDs of messages that were sent after a backup, with a restart before each of them."""
        first = 0
        for number in range(restarts):
            self.model = self.started(NOW.later(100 + 2 * number))
            first = self.model.take_message_ids(10)
            self.put(b"x")
        return range(first, first + 10)

    def test_numbers_that_were_used_after_the_backup(self) -> None:
        """Receivers would take new messages with the MessageIDs of others for duplicates of these, and
        acknowledge them.
        """
        self.create()
        self.model.take_message_ids(1)
        self.put(b"x")
        for restarts in (1, 2, 20):
            backup = self.snapshot()
            used = self.used_after_restarts(restarts)
            restored = model()
            restored.restore(backup, NOW.later(100 + 2 * restarts))
            self.assertNotIn(restored.take_message_ids(1), used)
            self.assertGreater(restored.take_message_ids(1), used[-1])

    def test_a_bound_ahead_of_the_clock(self) -> None:
        """The clock was set back, or many messages were sent: no number is repeated."""
        self.create()
        last = self.model.take_message_ids(3_000_000) + 2_999_999
        self.put(b"x")
        for seconds in (1.0, 60.0, -86_400.0):
            self.model = self.started(NOW.later(seconds))
            self.assertGreater(self.model.take_message_ids(1), last)

    def test_numbers_begin_again(self) -> None:
        """The clock has passed the largest MessageID since: it is ahead, with a smaller number."""
        begun = Moment(0.0, (3 << 22) - 10)
        counter = ReservedCounter("n", 32, 64)
        for seconds, expected in ((0, 0xFFFFD801), (9, 0xFFFFFC01), (10, 1), (12, 0x801), (-5, 0xFFFFD801)):
            counter.resume_by_clock(
                (0xFFFFD800).to_bytes(8, "little"), begun.later(seconds).unix_seconds << 10
            )
            self.assertEqual(counter.take(1), expected, seconds)


class LostStateTests(SynchronousTestCase):
    """A store that forgets everything."""

    def test_numbers_of_an_earlier_life(self) -> None:
        """Ids do not begin again where they began before, although the store remembers nothing."""
        first = model()
        ids = first.take_message_ids(1000)
        put(first, create(first), *[b"x"] * 10)
        second = model(now=NOW.later(1))
        self.assertGreater(second.take_message_ids(1), ids + 999)
        queue = create(second)
        put(second, queue, b"x")
        self.assertEqual(len(peek(second, queue)), 1)


class ReservedCounterTests(SynchronousTestCase):
    """Numbers that are reserved in blocks."""

    @given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=30))
    def test_no_number_leaves_before_it_is_reserved(self, takes: list[tuple[int, bool]]) -> None:
        """Whenever nothing has to be stored, every number given so far is below a stored bound."""
        counter = ReservedCounter("n", 16, 64)
        kept = 0
        for count, is_stored in takes:
            counter.take(count)
            change = counter.reservation()
            if change is None:
                self.assertLessEqual(counter.last, kept)
            elif is_stored:
                kept = int.from_bytes(change.value, "little")
                counter.stored(change)
        after = ReservedCounter("n", 16, 64)
        after.resume(kept.to_bytes(8, "little"))
        self.assertGreater(after.take(1), kept)

    def test_stored_once_in_a_block(self) -> None:
        """A thousand numbers cost few writes."""
        counter = ReservedCounter("n", 32, 100)
        changes: list[PutState] = []
        for _ in range(1000):
            counter.take(1)
            if (change := counter.reservation()) is not None:
                changes.append(change)
                counter.stored(change)
        self.assertLess(len(changes), 25)

    def test_bounds(self) -> None:
        """The next block is reserved once half of the last one is taken, and no bound exceeds the width."""
        for last, bound in ((0, 17), (200, 217), (237, 254), (238, 255), (239, 255), (253, 255)):
            counter = ReservedCounter("n", 8, 16)
            counter.start(last)
            self.assertEqual(counter.take(1), last + 1)
            for _ in range(2):
                change = counter.reservation()
                self.assertEqual(change, PutState("n", bound.to_bytes(8, "little")), "not stored yet")
        counter = ReservedCounter("n", 8, 16)
        for count, expected in ((0, 16), (8, None), (1, 25), (8, None), (1, 34), (17, 51)):
            self.assertEqual(self.used(counter, count), expected)

    def used(self, counter: ReservedCounter, count: int) -> int | None:
        """Take numbers, and store the bound that this needs; answers with it."""
        if count:
            counter.take(count)
        change = counter.reservation()
        if change is None:
            return None
        counter.stored(change)
        return int.from_bytes(change.value, "little")

    def test_begins_again(self) -> None:
        """After the largest number comes 1, and it is reserved again."""
        counter = ReservedCounter("n", 8, 16)
        counter.start(250)
        self.assertEqual(counter.take(5), 251)
        self.assertEqual(counter.take(2), 1)
        change = counter.reservation()
        assert change is not None
        counter.stored(change)
        self.assertEqual(counter.secured, 18)
