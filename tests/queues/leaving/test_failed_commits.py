"""Commits during which queues are purged or deleted, and commits that are not stored."""

from __future__ import annotations

from msmq.queues.effects import Effect
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.leaving.transaction import TransactionState
from msmq.queues.position import PositionState
from msmq.structures.packet.message_class import MessageClass
from tests.queues.builders import arriving
from tests.queues.leaving.test_moves import MoveCase


class UnmovedTests(MoveCase):
    """What a transaction was to move, and cannot move any more."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.alpha.create("other")
        self.aside = self.alpha.subqueue(self.other)
        self.transaction = self.alpha.begin()
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.put(self.other, b"3")
        self.alpha.move_in(self.transaction, self.first(), self.subqueue)
        self.alpha.move_in(self.transaction, self.first(self.other), self.aside)
        self.alpha.receive_in(self.transaction, self.queue)

    def unmoved(self) -> list[tuple[list[bytes], MessageClass]]:
        """The bodies and the reasons of what leaves."""
        found = self.alpha.model.transacting.unmoved(self.transaction)
        for departure in found:
            self.assertEqual({each.state for each in departure.positions}, {PositionState.LEAVING})
        effects: list[Effect] = [*found]
        self.alpha.perform(effects)
        return [([self.alpha.body(each) for each in one.positions], one.message_class) for one in found]

    def test_nothing_happened(self) -> None:
        """What it can still move does not leave."""
        self.assertEqual(self.unmoved(), [])
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.bodies(self.subqueue), [b"1"])
        self.assertEqual(self.unmoved(), [])

    def test_purged(self) -> None:
        """What was purged leaves for that reason, once; what was received as well does not."""
        self.alpha.purge(self.queue)
        self.assertEqual(self.unmoved(), [([b"1"], MessageClass.NACK_Q_PURGED)])
        self.assertEqual(self.unmoved(), [])
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.bodies(self.aside), [b"3"])
        self.assertEqual((self.alpha.bodies(self.subqueue), self.queue.positions), ([], {}))

    def test_deleted(self) -> None:
        """What was in a deleted queue leaves with it."""
        model = self.alpha.model
        deletion = model.delete_queue(self.other)
        [departure] = model.transacting.unmoved(self.transaction)
        self.assertEqual([self.alpha.body(each) for each in departure.positions], [b"3"])
        self.assertEqual(departure.message_class, MessageClass.NACK_Q_DELETED)
        self.assertIs(departure.queue, self.other)
        self.assertEqual(model.transacting.unmoved(self.transaction), [])
        removal = model.delete_messages(list(deletion.positions), self.alpha.now)
        self.alpha.store.ask(removal.changes)
        self.alpha.perform(model.messages_deleted(removal, self.alpha.now))
        self.alpha.perform([departure])
        self.alpha.store.ask(deletion.changes, lambda: model.deleted(deletion))
        self.alpha.abort(self.transaction)
        self.assertEqual(self.alpha.events, [("deleted", "private$\\other")])

    def test_ended(self) -> None:
        """Nothing leaves for a transaction that has ended, or is being committed."""
        self.alpha.store.is_slow = True
        self.alpha.commit(self.transaction)
        self.assertIs(self.transaction.state, TransactionState.COMMITTING)
        self.assertEqual(self.unmoved(), [])


class UncommittedTests(MoveCase):
    """A commit that is not stored, while queues are deleted."""

    def setUp(self) -> None:
        super().setUp()
        self.target = self.alpha.create("target", transactional=True)
        self.transaction = self.alpha.begin()

    def send(self) -> None:
        """Send two messages to the target."""
        views = [arriving(body, transactional=True) for body in (b"1", b"2")]
        self.assertEqual(self.alpha.send_in(self.transaction, self.target, *views), [])

    def test_deleted_before(self) -> None:
        """The dead letters of messages to a deleted queue are made by each attempt anew, and count once."""
        self.send()
        self.alpha.delete(self.target)
        self.alpha.store.fails = 1
        self.alpha.commit(self.transaction)
        self.assertEqual((self.alpha.model.storage.used, self.alpha.model.message_count), (0, 0))
        self.assertEqual(self.alpha.events, [])
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.events, [("deleted", "private$\\target")] * 2)
        self.assertIs(self.transaction.state, TransactionState.COMMITTED)

    def test_deleted_meanwhile(self) -> None:
        """Messages to a queue that is deleted during the commit count no more when that fails."""
        self.send()
        self.alpha.store.is_slow = True
        self.alpha.commit(self.transaction)
        self.alpha.delete(self.target)
        self.alpha.store.fails = 1
        self.alpha.store.step()
        self.assertEqual((self.alpha.model.storage.used, self.alpha.model.message_count), (0, 0))
        self.assertEqual(self.target.message_count, 0)

    def test_received_meanwhile(self) -> None:
        """Messages that it received or moved leave with their queue if the commit is not stored."""
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.receive_in(self.transaction, self.queue)
        self.alpha.move_in(self.transaction, self.first(), self.subqueue)
        model = self.alpha.model
        commitment = model.transacting.commit(self.transaction, self.alpha.give_places, self.alpha.now)
        deletion = model.delete_queue(self.queue)
        departures = model.transacting.uncommit(commitment)
        found = [(self.alpha.body(each), one.message_class) for one in departures for each in one.positions]
        deleted = MessageClass.NACK_Q_DELETED
        self.assertEqual(found, [(b"1", deleted), (b"2", deleted)])
        removal = model.delete_messages(list(deletion.positions), self.alpha.now)
        self.alpha.perform(model.messages_deleted(removal, self.alpha.now))
        effects: list[Departure] = [*departures]
        self.alpha.perform(effects)
        self.alpha.store.ask(deletion.changes, lambda: model.deleted(deletion))
        self.assertEqual((model.storage.used, model.message_count), (0, 0))

    def test_committed_again(self) -> None:
        """A transaction whose commit was not stored is as it was before, and can be committed or aborted."""
        self.send()
        self.alpha.put(self.queue, b"3")
        self.alpha.receive_in(self.transaction, self.queue)
        for _ in range(2):
            self.alpha.store.fails = 1
            self.alpha.commit(self.transaction)
            self.assertIs(self.transaction.state, TransactionState.ACTIVE)
            self.assertEqual((self.alpha.bodies(self.target), self.alpha.bodies(self.queue)), ([], []))
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.bodies(self.target), [b"1", b"2"])
        self.assertEqual((self.queue.positions, self.transaction.operations), ({}, []))
