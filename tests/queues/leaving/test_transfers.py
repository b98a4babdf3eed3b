"""Messages that an administrator moves between queues that have nothing to do with each other."""

from __future__ import annotations

from msmq.persistence.changes import PutState
from msmq.persistence.definition import QueuePrivacy
from msmq.queues.available_positions import SEQUENTIAL_MASK
from msmq.queues.leaving.relocation import check_acceptable, check_transfer
from msmq.queues.position import PositionState
from msmq.queues.queue import Queue
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.user_message_rewrites import (
    patch_authentication_level,
    patch_message_class,
    patch_security_header,
)
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.queues.builders import NOW, arriving
from tests.queues.leaving.test_moves import MoveCase

LOCKED = Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION


class CheckTests(MoveCase):
    """L{check_transfer}: between which queues messages may be moved."""

    def test_allowed(self) -> None:
        """Queues of one kind, their subqueues, and system queues as targets."""
        other = self.alpha.create("other")
        pay, paid = (self.alpha.create(name, transactional=True) for name in ("pay", "paid"))
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        for source, target in (
            (self.queue, other),
            (self.subqueue, other),
            (self.queue, self.alpha.subqueue(other)),
            (self.queue, self.subqueue),
            (self.subqueue, self.queue),
            (pay, self.alpha.subqueue(paid)),
            (self.alpha.subqueue(pay), paid),
            (self.queue, self.deadletter),
            (outgoing, self.deadletter),
            (pay, self.deadletter),
        ):
            check_transfer(source, target)

    def test_refused(self) -> None:
        """Neither outgoing queues nor system queues give messages away, and transactions are not mixed."""
        other = self.alpha.create("other")
        pay = self.alpha.create("pay", transactional=True)
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        assert self.queue.journal is not None and other.journal is not None
        invalid, mixed = Status.MQ_ERROR_INVALID_PARAMETER, Status.MQ_ERROR_TRANSACTION_USAGE
        for source, target, status, why in (
            (outgoing, other, invalid, "copied, purged or redirected"),
            (self.deadletter, other, invalid, "holds copies"),
            (self.queue.journal, other, invalid, "holds copies"),
            (self.queue, other.journal, invalid, "a journal accepts received messages only"),
            (self.queue, self.queue, invalid, "both the source and the target"),
            (self.queue, pay, mixed, "only the second is transactional"),
            (pay, self.queue, mixed, "only the first is"),
            (self.subqueue, pay, mixed, "only the second is transactional"),
            (pay, self.subqueue, mixed, "only the first is"),
        ):
            self.assertIn(why, self.refused(status, check_transfer, source, target))
        gone = self.alpha.create("gone")
        self.alpha.delete(gone)
        for source, target in ((gone, other), (other, gone), (gone, self.deadletter)):
            self.refused(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, check_transfer, source, target)

    def acceptable(self, source: Queue, target: Queue, *, level: int = 0) -> bool:
        """Whether a message of a queue is accepted by another one."""
        view = arriving(b"1")
        if level:
            signed = patch_security_header(view, SecurityHeader(signature=b"signature"))
            view = patch_authentication_level(signed, AuthenticationLevel(level))
        self.alpha.put(source, view)
        position = source.peek(9)[-1]
        try:
            check_acceptable(position, target, view)
        except MQError as error:
            self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
            self.assertIn(target.main.definition.path, error.detail)
            return False
        return True

    def test_authenticated(self) -> None:
        """A queue that accepts authenticated messages alone gets no other, unless their queue did so too."""
        strict, strict_too = (self.alpha.create(name, authenticate=True) for name in ("strict", "strict_too"))
        for target in (strict, self.alpha.subqueue(strict)):
            self.assertFalse(self.acceptable(self.queue, target))
            self.assertTrue(self.acceptable(self.queue, target, level=1))
            self.assertTrue(self.acceptable(strict_too, target))
        self.assertTrue(self.acceptable(strict, self.queue))
        self.assertTrue(self.acceptable(strict, self.alpha.subqueue(strict)))
        self.assertTrue(self.acceptable(strict, self.deadletter))

    def test_private(self) -> None:
        """A queue that wants its messages encrypted, or in clear, gets those of its like alone."""
        queues = {each: self.alpha.create(each.value, privacy=each) for each in QueuePrivacy}
        like = {each: self.alpha.create(f"{each.value}2", privacy=each) for each in QueuePrivacy}
        for source in QueuePrivacy:
            for target in QueuePrivacy:
                expected = target in (source, QueuePrivacy.OPTIONAL)
                self.assertEqual(self.acceptable(queues[source], like[target]), expected, (source, target))
            self.assertTrue(self.acceptable(queues[source], self.deadletter))
            self.assertTrue(self.acceptable(queues[source], self.alpha.subqueue(queues[source])))


class TransferTests(MoveCase):
    """L{msmq.queues.leaving.moves.Moves.transfer}."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.alpha.create("other")

    def message(self, size: int, priority: int = 3) -> UserMessageView:
        """A recoverable message whose packet has this size."""
        overhead = arriving(recoverable=True).size
        return arriving(b"x" * (size - overhead), recoverable=True, priority=priority)

    def test_dead_letters_are_counted(self) -> None:
        """Messages with a class count as dead letters in a system queue, and in no other.

        Neither an application's message in another of its queues does, nor the copy in a journal.
        """
        reason = MessageClass.NACK_ACCESS_DENIED
        counts = self.alpha.model.dead_letter_counts
        journaled = self.alpha.create("journaled", journal=True)
        message = UserMessageView(packet_of(patch_message_class(arriving(b"1"), reason)))
        self.alpha.put(self.queue, message)
        self.alpha.transfer(self.queue.peek(1), self.other)
        self.alpha.transfer(self.other.peek(1), journaled)
        self.alpha.put(journaled, arriving(b"2"))
        for _ in range(2):
            self.alpha.confirm(self.alpha.receive(journaled))
        assert journaled.journal is not None
        self.assertEqual(journaled.journal.arrived_count, 2)
        self.assertEqual(counts, {})
        self.alpha.put(self.queue, message, message, arriving(b"2"))
        self.alpha.transfer(self.queue.peek(3), self.deadletter)
        self.assertEqual(counts, {reason: 2})

    def test_moved(self) -> None:
        """Messages follow those of the same priority that are there, in order, and keep what they are."""
        self.alpha.put(self.other, arriving(b"there", priority=5), arriving(b"last", priority=0))
        self.alpha.put(self.queue, *(arriving(body, priority=5, recoverable=True) for body in (b"1", b"2")))
        self.alpha.put(self.queue, arriving(b"3", recoverable=True, time_to_be_received=60))
        positions = self.queue.peek(3)
        self.alpha.transfer(positions, self.other)
        self.assertEqual(self.alpha.bodies(self.other), [b"there", b"1", b"2", b"3", b"last"])
        self.assertEqual((self.alpha.bodies(self.queue), self.queue.positions), ([], {}))
        moved = self.other.peek(4)[1:]
        self.assertEqual([each.priority for each in moved], [5, 5, 3])
        self.assertEqual([each.moves for each in moved], [1, 1, 1])
        numbers = [each.lookup_id & SEQUENTIAL_MASK for each in moved]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 3)))
        self.assertEqual([each.due for each in moved], [None, None, NOW.unix_seconds + 60])
        self.assertEqual(self.alpha.departures, [])
        self.alpha.later(61)
        self.assertEqual(self.alpha.bodies(self.other), [b"there", b"1", b"2", b"last"])
        self.assertEqual(self.alpha.events, [("expired", "private$\\other")])

    def test_a_store_that_fails(self) -> None:
        """The messages are where they were, and can be moved later."""
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.store.fails = 1
        self.alpha.transfer(self.queue.peek(2), self.other)
        self.assertEqual((self.alpha.bodies(self.queue), self.other.positions), ([b"1", b"2"], {}))
        self.alpha.transfer(self.queue.peek(2), self.other)
        self.assertEqual(self.alpha.bodies(self.other), [b"1", b"2"])

    def test_deadlines(self) -> None:
        """In a system queue nothing is due; what comes from there is due as its packet says."""
        self.alpha.put(self.queue, arriving(b"1", recoverable=True, time_to_be_received=60))
        self.assertIsNotNone(self.alpha.model.deadline(self.alpha.now))
        self.alpha.transfer(self.queue.peek(1), self.deadletter)
        self.assertIsNone(self.alpha.model.deadline(self.alpha.now))
        self.assertIsNone(self.first(self.deadletter).due)
        for is_known, due in ((True, NOW.unix_seconds + 60), (False, None)):
            held = self.alpha.receive(self.deadletter)
            view = held[0].view
            if not is_known:
                held[0].view = None
            relocation = self.alpha.model.move_locked(held, self.other)
            [(_, moved)] = relocation.moves
            self.assertEqual(moved.due, due)
            held[0].view = view
            self.alpha.model.unmove(relocation, self.alpha.now)

    def test_a_packet_that_is_read_meanwhile(self) -> None:
        """A packet that is read from the store during the move is with the message afterwards."""
        self.alpha.put(self.queue, b"1")
        self.alpha = self.alpha.restart()
        self.queue, other = (self.alpha.find(f".\\private$\\{name}") for name in ("orders", "other"))
        position = self.first()
        self.assertIsNone(position.view)
        view = self.alpha.view(position)
        self.alpha.store.is_slow = True
        self.alpha.transfer([position], other)
        position.view = view
        self.alpha.store.drain()
        self.assertIs(self.first(other).view, view)

    def test_numbers_are_reserved(self) -> None:
        """A move that uses up the reserved numbers reserves more, once."""
        self.alpha.put(self.queue, b"1", b"2", b"3")
        sequential = self.alpha.model.holdings.sequential
        sequential.take(sequential.requested - sequential.last)
        for is_reserved in (True, False):
            relocation = self.alpha.model.transfer(self.queue.peek(1), self.other)
            kinds = [type(change) for change in relocation.changes]
            self.assertEqual(PutState in kinds, is_reserved)
            self.alpha.store.ask(relocation.changes)
            self.alpha.perform(self.alpha.model.moved(relocation, self.alpha.now))

    def test_none(self) -> None:
        """Of no messages none is moved."""
        self.alpha.transfer([], self.other)
        self.assertEqual(self.other.positions, {})

    def test_over_a_restart(self) -> None:
        """The moved messages are in the target, and later ones get other numbers."""
        self.alpha.put(self.queue, b"1")
        self.alpha.transfer(self.queue.peek(1), self.other)
        self.alpha = self.alpha.restart()
        other = self.alpha.find(".\\private$\\other")
        self.alpha.put(other, b"2")
        self.assertEqual(self.alpha.bodies(other), [b"1", b"2"])
        self.assertEqual(self.alpha.bodies(self.alpha.find(".\\private$\\orders")), [])

    def test_locked(self) -> None:
        """If one of them is not available, none is moved."""
        self.alpha.put(self.queue, b"1", b"2")
        first, second = self.queue.peek(2)
        self.queue.take_one(second, "reader")
        self.refused(LOCKED, self.alpha.transfer, [first, second], self.other)
        self.assertEqual((first.state, self.other.positions), (PositionState.AVAILABLE, {}))
        self.assertEqual(self.alpha.bodies(self.queue), [b"1"])

    def test_quota(self) -> None:
        """The quota of the target holds to the byte for all of them together; beyond it none is moved."""
        small = self.alpha.create("small", quota=1)
        self.alpha.put(self.queue, self.message(512), self.message(512))
        self.alpha.transfer(self.queue.peek(2), small)
        self.assertEqual((small.total_bytes, small.message_count), (1024, 2))
        tight = self.alpha.create("tight", quota=1)
        self.alpha.put(self.queue, self.message(512), self.message(513))
        positions = self.queue.peek(2)
        why = self.refused(
            Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
            self.alpha.transfer,
            positions,
            self.alpha.subqueue(tight),
        )
        self.assertIn(f"message {positions[1].lookup_id} ", why)
        self.assertEqual({each.state for each in positions}, {PositionState.AVAILABLE})
        self.assertEqual(self.alpha.model.storage.messages, 4)

    def test_quota_where_it_does_not_count(self) -> None:
        """Within a family nothing is added, and a system queue takes what it is given."""
        full = self.alpha.create("full", quota=1)
        self.alpha.put(full, self.message(1024))
        sub = self.alpha.subqueue(full)
        self.alpha.transfer(full.peek(1), sub)
        self.assertEqual((full.message_count, sub.message_count), (0, 1))
        self.alpha.transfer(sub.peek(1), self.deadletter)
        self.assertEqual((sub.message_count, self.deadletter.message_count), (0, 1))
