"""Whether messages may come in, and when they are seen."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.persistence.changes import (
    Change,
    PutMessage,
    PutMessages,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    single_changes,
)
from msmq.queues.arriving.admission import EnqueueStatus, refusal_class
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.position import PositionState
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.queues.builders import (
    NOW,
    admit,
    arriving,
    bodies,
    completions,
    create,
    leave,
    model,
    peek,
    put,
    receive,
    take_out,
)


def message_changes(changes: list[Change]) -> list[PutMessage]:
    return [change for change in changes if isinstance(change, PutMessage)]


class VisibilityTests(SynchronousTestCase):
    """Durable first, then seen."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def test_unseen_before_commit(self) -> None:
        """A message that is not stored yet is seen by no reader, and wakes none."""
        self.assertEqual(self.model.receive(self.queue, tag="waiting", now=NOW), [])
        admission = admit(self.model, self.queue, arriving(b"1", recoverable=True))
        self.assertEqual(peek(self.model, self.queue), [])
        self.assertEqual(receive(self.model, self.queue), [])
        self.assertEqual(completions(self.model.commit(admission, NOW)), [("waiting", [b"1"])])

    def test_only_recoverable_messages_are_stored(self) -> None:
        """The store is asked to keep recoverable and transactional messages, and no express ones."""
        express, recoverable = arriving(b"e"), arriving(b"r", recoverable=True)
        transactional = arriving(b"t", transactional=True)
        admission = admit(self.model, self.queue, express, recoverable, transactional)
        stored = message_changes(admission.changes)
        self.assertEqual([change.packet for change in stored], [recoverable.packet, transactional.packet])
        self.assertEqual({change.queue for change in stored}, {self.queue.definition.identifier})
        self.assertEqual([change.arrived for change in stored], [NOW.wall, NOW.wall])
        self.model.commit(admission, NOW)
        positions = receive(self.model, self.queue, count=3)
        self.assertEqual(
            {position.lookup_id for position in positions if position.is_recoverable},
            {change.lookup_id for change in stored},
        )

    def test_a_run_is_one_change(self) -> None:
        """Messages with consecutive LookupIdentifiers are stored by one change, up to a limit."""
        batch = [arriving(b"%d" % number, recoverable=True) for number in range(300)]
        batch[10] = arriving(b"urgent", recoverable=True, priority=7)
        admission = admit(self.model, self.queue, *batch)
        changes = [change for change in admission.changes if isinstance(change, PutMessage | PutMessages)]
        self.assertEqual(
            [len(change.packets) if isinstance(change, PutMessages) else 1 for change in changes],
            [10, 1, 256, 33],
        )
        singles = [each for each in single_changes(changes) if isinstance(each, PutMessage)]
        self.assertEqual([each.packet for each in singles], [view.packet for view in batch])
        self.model.commit(admission, NOW)
        self.assertEqual({each.lookup_id for each in singles}, set(self.queue.positions))

    def test_messages_that_expire_at_different_times(self) -> None:
        """Each time has a change of its own."""
        lasting = [arriving(b"%d" % number, recoverable=True) for number in range(2)]
        mortal = [arriving(b"m", recoverable=True, time_to_be_received=60) for number in range(3)]
        changes = admit(self.model, self.queue, *lasting, *mortal).changes
        runs = [change for change in changes if isinstance(change, PutMessages)]
        self.assertEqual([len(run.packets) for run in runs], [2, 3])
        self.assertIsNone(runs[0].due)
        self.assertIsNotNone(runs[1].due)

    def test_express_messages_need_no_store(self) -> None:
        """Once numbers are reserved, express messages ask the store for nothing."""
        put(self.model, self.queue, b"1")
        self.assertEqual(admit(self.model, self.queue, *[b"x"] * 100).changes, [])

    def test_withdrawn(self) -> None:
        """A message that could not be stored never existed."""
        admission = admit(self.model, self.queue, arriving(b"1", recoverable=True), b"2")
        self.model.withdraw(admission)
        self.assertEqual((self.queue.message_count, self.queue.total_bytes), (0, 0))
        self.assertEqual(self.model.storage.used, 0)
        self.assertEqual(peek(self.model, self.queue), [])

    def test_batch_for_several_queues(self) -> None:
        """One batch may hold messages for any queues, in any order."""
        other = create(self.model, "other")
        arrivals = [(queue, arriving(body)) for body in (b"1", b"2") for queue in (self.queue, other)]
        self.model.commit(self.model.admit(arrivals, NOW), NOW)
        self.assertEqual(peek(self.model, self.queue), [b"1", b"2"])
        self.assertEqual(peek(self.model, other), [b"1", b"2"])

    def test_arrival_time(self) -> None:
        """MQDMPR-3.1.1.12-07: a message keeps when it was sent, and gets the time at which it came in."""
        put(self.model, self.queue, arriving(sent_time=1_600_000_000), now=NOW.later(0.25))
        [position] = receive(self.model, self.queue)
        self.assertEqual(position.arrived, NOW.wall + 0.25)
        assert position.view is not None
        self.assertEqual(position.view.sent_time, 1_600_000_000)


class CountTests(SynchronousTestCase):
    """Messages and bytes are counted from the moment they come in to the moment they are gone."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def counts(self) -> tuple[int, int, int]:
        return self.queue.message_count, self.queue.total_bytes, self.model.storage.used

    def test_bytes_are_those_of_the_packets(self) -> None:
        """MQDMPR-3.1.1.2-19 MQDMPR-3.1.7.2.1-01: TotalBytes follows what is in the queue, back to 0."""
        views = [arriving(b"x" * size) for size in (0, 1, 1000)]
        size = sum(view.size for view in views)
        put(self.model, self.queue, *views)
        self.assertEqual(self.counts(), (3, size, size))
        held = receive(self.model, self.queue, count=3)
        self.assertEqual(self.counts(), (3, size, size))
        removal = self.model.remove(held)
        self.assertEqual(self.counts(), (3, size, size))
        self.model.removed(removal, NOW)
        self.assertEqual(self.counts(), (0, 0, 0))

    def test_release_counts_nothing_twice(self) -> None:
        """MQDMPR-3.1.7.2.2-01: bytes are charged once, however often a message is returned."""
        view = arriving(b"x")
        put(self.model, self.queue, view)
        for _ in range(3):
            self.model.release(receive(self.model, self.queue), NOW)
        self.assertEqual(self.counts(), (1, view.size, view.size))

    def test_message_count_of_all(self) -> None:
        """The queue manager counts the messages of all its queues, outgoing ones too."""
        outgoing = self.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), NOW)
        put(self.model, self.queue, b"1", b"2")
        put(self.model, outgoing, b"3")
        self.assertEqual(self.model.message_count, 3)


class RemovalTests(SynchronousTestCase):
    """Received messages are removed permanently, or returned to the queue."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def test_removal_is_stored(self) -> None:
        """The store is asked to forget recoverable messages, queue by queue, and no others."""
        other = create(self.model, "other")
        put(self.model, self.queue, arriving(b"1", recoverable=True), b"2", arriving(b"3", recoverable=True))
        put(self.model, other, arriving(b"4", recoverable=True))
        held = receive(self.model, self.queue, count=3)
        held_too = receive(self.model, other)
        removal = self.model.remove([*held, *held_too])
        self.assertEqual(
            list(removal.changes),
            [
                RemoveMessages(self.queue.definition.identifier, (held[0].lookup_id, held[2].lookup_id)),
                RemoveMessages(other.definition.identifier, (held_too[0].lookup_id,)),
            ],
        )

    def test_removed_message_does_not_come_back(self) -> None:
        """MQDMPR-3.1.7.2.1-02: what is removed cannot be found, released or removed again."""
        put(self.model, self.queue, b"1", b"2")
        held = receive(self.model, self.queue)
        self.model.removed(self.model.remove(held), NOW)
        self.assertEqual(held[0].state, PositionState.DELETED)
        self.assertEqual(self.model.release(held, NOW), [])
        self.assertEqual(list(self.model.remove(held).positions), [])
        self.assertEqual(peek(self.model, self.queue), [b"2"])

    def test_removal_that_was_not_stored(self) -> None:
        """If the store fails, the message can be returned to its position."""
        put(self.model, self.queue, b"1", b"2")
        held = receive(self.model, self.queue)
        self.model.remove(held)
        self.model.release(held, NOW)
        self.assertEqual(peek(self.model, self.queue), [b"1", b"2"])

    def test_released_twice(self) -> None:
        """Returning a message twice returns it once."""
        put(self.model, self.queue, b"1")
        held = receive(self.model, self.queue)
        self.model.release(held, NOW)
        self.model.release(held, NOW)
        self.assertEqual(peek(self.model, self.queue), [b"1"])

    def test_release_of_what_another_holds(self) -> None:
        """A returned message is available at its position, to the next reader."""
        put(self.model, self.queue, b"1", b"2")
        held = receive(self.model, self.queue, tag="first")
        self.model.release(held, NOW)
        self.assertIsNone(held[0].owner)
        again = receive(self.model, self.queue, tag="second")
        self.assertEqual((bodies(again), again[0].owner), ([b"1"], "second"))


class QuotaTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.9 rStatus."""

    def test_queue_quota(self) -> None:
        """A queue takes as many kilobytes as its quota says, and not a byte more.

        MQDMPR-3.1.1.2-08 MQDMPR-3.1.7.1.9-03
        """
        alpha = model()
        queue = create(alpha, quota=1)
        overhead = arriving().size
        exact = arriving(b"x" * (1024 - overhead))
        self.assertEqual(exact.size, 1024)
        admission = admit(alpha, queue, exact, arriving())
        [refusal] = admission.refusals
        self.assertEqual((refusal.index, refusal.status), (1, EnqueueStatus.QUEUE_QUOTA_EXCEEDED))
        self.assertEqual(int(refusal.status), 1)
        alpha.commit(admission, NOW)
        self.assertEqual((queue.message_count, queue.total_bytes), (1, 1024))
        take_out(alpha, receive(alpha, queue))
        self.assertEqual(admit(alpha, queue, exact).refusals, [])

    def test_smaller_message_still_fits(self) -> None:
        """A message that is too large keeps none out that is not."""
        alpha = model()
        queue = create(alpha, quota=1)
        admission = admit(alpha, queue, arriving(b"x" * 2000), b"small", arriving(b"x" * 2000), b"too")
        self.assertEqual([refusal.index for refusal in admission.refusals], [0, 2])
        alpha.commit(admission, NOW)
        self.assertEqual(peek(alpha, queue), [b"small", b"too"])

    def test_quota_counts_what_is_underway(self) -> None:
        """Messages that are being stored count as well, so that a quota is not overrun meanwhile."""
        alpha = model()
        queue = create(alpha, quota=1)
        admit(alpha, queue, arriving(b"x" * 800, recoverable=True))
        [refusal] = admit(alpha, queue, arriving(b"x" * 800)).refusals
        self.assertEqual(refusal.status, EnqueueStatus.QUEUE_QUOTA_EXCEEDED)

    def test_quota_of_zero(self) -> None:
        """A queue with a quota of 0 takes no message."""
        alpha = model()
        self.assertEqual(len(admit(alpha, create(alpha, quota=0), b"").refusals), 1)

    def test_queue_manager_quota(self) -> None:
        """Beyond the quota of all queues together the status is 2.

        MQDMPR-3.1.7.1.9-02 MQDMPR-3.1.7.1.9-04
        """
        alpha = model(quota=1)
        orders, bills = create(alpha), create(alpha, "bills", quota=0)
        admission = alpha.admit([(orders, arriving(b"x" * 500)), (bills, arriving(b"x" * 900))], NOW)
        [refusal] = admission.refusals
        self.assertEqual(refusal.status, EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED)
        self.assertEqual(int(refusal.status), 2)
        self.assertIs(refusal.queue, bills)

    def test_default_queue_manager_quota(self) -> None:
        """MQDMPR-3.1.1.1-09: a new queue manager may hold 0x00100000 kilobytes."""
        self.assertEqual(model().storage.limit, 0x00100000 * 1024)
        self.assertIsNone(model(quota=0xFFFFFFFF).storage.limit)

    def test_flow_control(self) -> None:
        """Throttled, it takes nothing: status 2.

        MQDMPR-3.1.7.2.5-01 MQDMPR-3.1.7.1.9-01
        """
        alpha = model(quota=0xFFFFFFFF)
        queue = create(alpha)
        alpha.storage.throttled = True
        [refusal] = admit(alpha, queue, b"1").refusals
        self.assertEqual(refusal.status, EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED)
        alpha.storage.throttled = False
        self.assertEqual(admit(alpha, queue, b"1").refusals, [])

    def test_late_for_transfer(self) -> None:
        """An outgoing queue takes no message whose TimeToReachQueue has expired: status 3.

        MQDMPR-3.1.7.1.9-05
        """
        alpha = model()
        outgoing = alpha.outgoing(parse_format_name("DIRECT=OS:beta\\q"), NOW)
        sent = NOW.unix_seconds - 10
        due, late = [arriving(time_to_reach_queue=seconds, sent_time=sent) for seconds in (10, 9)]
        forever = arriving(sent_time=0)
        admission = admit(alpha, outgoing, due, late, forever)
        [refusal] = admission.refusals
        self.assertEqual((refusal.index, refusal.status), (1, EnqueueStatus.TIMED_OUT_IN_TRANSIT))
        self.assertEqual(int(refusal.status), 3)

    def test_the_moment_of_being_late(self) -> None:
        """TimeToReachQueue is over one second after the last one that it names, and not before."""
        alpha = model()
        outgoing = alpha.outgoing(parse_format_name("DIRECT=OS:beta\\q"), NOW)
        message = arriving(time_to_reach_queue=10, sent_time=1_700_000_000)
        for wall, status in (
            (1_700_000_010.999, None),
            (1_700_000_011.0, EnqueueStatus.TIMED_OUT_IN_TRANSIT),
            (1_700_000_011.001, EnqueueStatus.TIMED_OUT_IN_TRANSIT),
        ):
            refusals = alpha.admit([(outgoing, message)], Moment(0.0, wall)).refusals
            self.assertEqual([refusal.status for refusal in refusals], [status] if status else [])

    def test_late_for_the_destination(self) -> None:
        """In the destination queue TimeToReachQueue no longer counts, whatever else is checked there."""
        alpha = model()
        sent = NOW.unix_seconds - 10
        for limit in (0xFFFFFFFF, 60):
            late = arriving(time_to_reach_queue=1, time_to_be_received=limit, sent_time=sent)
            again = UserMessageView.shaped(late.packet, late.shape)
            for batch in ((late,), (late, again)):
                queue = create(alpha, f"q{limit}-{len(batch)}")
                self.assertEqual(admit(alpha, queue, *batch).refusals, [])


class PriorityTests(SynchronousTestCase):
    """Messages whose senders state a priority."""

    def test_transactional(self) -> None:
        """A transactional message has priority 0, and keeps its order, whatever its packet says.

        A packet that is built here always says 0; one of a peer may say something else.
        """
        alpha = model()
        queue = create(alpha)
        packets = [bytearray(arriving(b"%d" % number, transactional=True).packet) for number in range(4)]
        for packet in packets[1:]:
            # PR of the BaseHeader.
            packet[2] |= 7
        first, *urgent = [UserMessageView(bytes(packet)) for packet in packets]
        together = [UserMessageView.shaped(view.packet, urgent[1].shape) for view in urgent[1:]]
        self.assertEqual([view.priority for view in urgent], [7, 7, 7])
        for batch in ([first], urgent[:1], together):
            put(alpha, queue, *batch)
        self.assertEqual(peek(alpha, queue), [b"0", b"1", b"2", b"3"])


class DeletedQueueTests(SynchronousTestCase):
    """Deletion of a queue during any pending operation."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def test_messages_go_with_it(self) -> None:
        """Every message of a deleted queue has an event, in the order of arrival, including those held by
        readers.
        """
        put(self.model, self.queue, b"1", b"2", arriving(b"3", priority=7))
        receive(self.model, self.queue)
        deletion = self.model.delete_queue(self.queue)
        self.assertEqual(bodies(deletion.positions), [b"1", b"2", b"3"])
        journal = self.queue.journal
        assert journal is not None
        self.assertEqual(
            list(deletion.changes),
            [RemoveQueue(each.definition.identifier) for each in (self.queue, journal)],
        )
        self.assertEqual((self.model.storage.used, self.model.message_count), (0, 0))

    def test_readers_of_a_deleted_queue(self) -> None:
        """Readers of messages of a deleted queue may confirm or return them, without effect.

        Their confirmation removes nothing from the store, as their reader gets an error: the deletion does,
        with their events.
        """
        put(self.model, self.queue, arriving(b"1", recoverable=True), b"2")
        first, second = receive(self.model, self.queue), receive(self.model, self.queue)
        self.model.delete_queue(self.queue)
        removal = self.model.remove(first)
        self.assertEqual(list(removal.changes), [])
        self.assertEqual((list(removal.positions), self.model.removed(removal, NOW)), ([], []))
        self.assertEqual(self.model.release(second, NOW), [])
        self.assertEqual(self.model.storage.used, 0)

    def test_pending_removal(self) -> None:
        """A removal that is stored after its queue was deleted frees nothing twice."""
        put(self.model, self.queue, b"1")
        removal = self.model.remove(receive(self.model, self.queue))
        self.model.delete_queue(self.queue)
        self.model.removed(removal, NOW)
        self.assertEqual((self.model.storage.used, self.queue.total_bytes), (0, 0))

    def test_pending_admission(self) -> None:
        """A message that is stored after its queue was deleted leaves for that reason, and frees nothing.

        One that was withdrawn has no event.
        """
        committed = admit(self.model, self.queue, b"1")
        withdrawn = admit(self.model, self.queue, b"2")
        deletion = self.model.delete_queue(self.queue)
        self.assertEqual(self.model.delete_messages(list(deletion.positions), NOW).changes, [])
        [departure] = self.model.commit(committed, NOW)
        assert isinstance(departure, Departure)
        self.assertEqual(bodies(departure.positions), [b"1"])
        self.assertEqual(departure.message_class, MessageClass.NACK_Q_DELETED)
        leave(self.model, departure)
        self.model.withdraw(withdrawn)
        self.assertEqual(self.model.storage.used, 0)

    def test_arrival_at_a_deleted_queue(self) -> None:
        """A message for a queue that was deleted meanwhile is refused."""
        self.model.delete_queue(self.queue)
        [refusal] = admit(self.model, self.queue, b"1").refusals
        self.assertEqual(refusal.status, EnqueueStatus.QUEUE_DELETED)


class OutgoingStorageTests(SynchronousTestCase):
    """Messages that wait to be sent to another host."""

    def test_definition_is_stored_with_the_first_recoverable_message(self) -> None:
        """An outgoing queue is kept once there is something in it to keep, and only asked for once."""
        alpha = model()
        outgoing = alpha.outgoing(parse_format_name("DIRECT=OS:beta\\q"), NOW)
        express = admit(alpha, outgoing, b"1")
        self.assertEqual([change for change in express.changes if not isinstance(change, PutState)], [])
        first = admit(alpha, outgoing, arriving(b"2", recoverable=True)).changes
        self.assertEqual([type(change) for change in first][:2], [PutQueue, PutMessage])
        second = admit(alpha, outgoing, arriving(b"3", recoverable=True)).changes
        self.assertEqual([type(change) for change in second][:1], [PutMessage])
        self.assertNotIn(PutQueue, [type(change) for change in second])

    def test_definition_that_was_not_stored(self) -> None:
        """If the first batch could not be stored, the next one asks for the definition again."""
        alpha = model()
        outgoing = alpha.outgoing(parse_format_name("DIRECT=OS:beta\\q"), NOW)
        alpha.withdraw(admit(alpha, outgoing, arriving(b"1", recoverable=True)))
        changes = admit(alpha, outgoing, arriving(b"2", recoverable=True)).changes
        self.assertEqual([type(change) for change in changes][:2], [PutQueue, PutMessage])

    def test_identifier_follows_from_the_name(self) -> None:
        """Each queue manager has its own queue for a name, and it is the same after a restart."""
        name = parse_format_name("DIRECT=OS:beta\\q")
        first, second = model().outgoing(name, NOW), model().outgoing(name, NOW)
        self.assertEqual(first.definition.identifier, second.definition.identifier)
        self.assertNotEqual(first.definition.identifier, UUID(int=0))


class RefusalClassTests(SynchronousTestCase):
    """L{refusal_class}: what the sender of a message that was not enqueued gets."""

    def test_each_status(self) -> None:
        """A line for each; over the quota of the queue manager nothing is acknowledged."""
        for status, expected in (
            (EnqueueStatus.QUEUE_QUOTA_EXCEEDED, MessageClass.NACK_Q_EXCEED_QUOTA),
            (EnqueueStatus.TIMED_OUT_IN_TRANSIT, MessageClass.NACK_REACH_QUEUE_TIMEOUT),
            (EnqueueStatus.QUEUE_DELETED, MessageClass.NACK_BAD_DST_Q),
            (EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED, None),
        ):
            self.assertIs(refusal_class(status), expected)
