"""Journals: copies of messages that were received or sent."""

from __future__ import annotations

from msmq.persistence.changes import MoveMessage, PutMessage, PutQueue, RemoveMessages
from msmq.queues.position import PacketHolder
from tests.queues.builders import NOW, arriving
from tests.queues.leaving.copy_case import CopyCase, asking
from tests.queues.simulation import Alpha


class JournalTests(CopyCase):
    """Reading 45: Journaling."""

    def test_received_messages_are_journaled(self) -> None:
        """A queue with Journaling keeps a copy of each message that is received from it, in order.

        MQDMPR-3.1.1.2-07.
        """
        self.alpha.put(self.queue, b"1", arriving(b"e"), b"2")
        for _ in range(3):
            self.receive()
        self.assertEqual(self.alpha.bodies(self.journal), [b"1", b"e", b"2"])
        plain = self.alpha.create("plain")
        self.alpha.put(plain, b"1")
        self.receive(plain)
        assert plain.journal is not None
        self.assertEqual(self.alpha.bodies(plain.journal), [])

    def test_switched_on_and_off(self) -> None:
        """The value of the property at the time of the receive decides."""
        alter, altered = self.alpha.model.alter_queue, self.alpha.model.altered
        self.alpha.put(self.queue, b"1", b"2", b"3")
        for is_on in (False, True, False):
            alteration = alter(self.queue, self.alpha.now, journal=is_on)
            self.alpha.store.ask(alteration.changes)
            altered(alteration)
            self.receive()
        self.assertEqual(self.alpha.bodies(self.journal), [b"2"])

    def test_the_message_becomes_its_copy_in_the_store(self) -> None:
        """A stored message is not written again; the journal gets to the store with its first message."""
        self.alpha.put(self.queue, b"1", b"2")
        [first, _] = self.queue.peek(2)
        self.receive()
        [copy] = self.journal.peek(9)
        own, journal = self.queue.definition.identifier, self.journal.definition.identifier
        self.assertEqual(
            [change for change in self.alpha.store.done[-1] if isinstance(change, PutQueue | MoveMessage)],
            [
                PutQueue(self.journal.definition),
                MoveMessage(own, first.lookup_id, journal, copy.lookup_id),
            ],
        )
        self.receive()
        kinds = {type(change) for change in self.alpha.store.done[-1]}
        self.assertNotIn(PutMessage, kinds)
        self.assertNotIn(RemoveMessages, kinds)
        self.assertNotIn(PutQueue, kinds)

    def test_a_copy_is_a_message_of_its_own(self) -> None:
        """It has a new LookupIdentifier of the same priority, never expires, and counts nothing.

        The message itself, and when it came, are the same.
        """
        self.alpha.put(self.queue, asking(b"x"))
        [original] = self.queue.peek(1)
        self.alpha.now = self.alpha.now.later(1)
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.alpha.abort(transaction)
        self.receive()
        [copy] = self.journal.peek(9)
        self.assertGreater(copy.lookup_id, original.lookup_id)
        self.assertEqual(copy.priority, 5)
        self.assertEqual((copy.due, copy.aborts, copy.moves), (None, 0, 0))
        self.assertEqual(copy.arrived, NOW.wall)
        self.alpha.later(100)
        self.assertEqual(self.alpha.bodies(self.journal), [b"x"])
        self.assertEqual(self.alpha.view(copy).packet, asking(b"x").packet)

    def test_only_what_is_received(self) -> None:
        """A message that expires, is purged, deleted, moved or returned leaves no copy."""
        self.alpha.put(self.queue, asking(b"expires"), b"purged", b"moved")
        self.alpha.give_back(self.alpha.receive(self.queue))
        self.alpha.move(self.queue.peek(3)[2], self.alpha.subqueue(self.queue))
        self.alpha.later(9)
        self.alpha.purge(self.queue)
        self.assertEqual(self.queue.positions, {})
        self.assertEqual(self.alpha.bodies(self.journal), [])

    def test_a_journal_has_no_journal(self) -> None:
        """Messages received from a journal, or from a system queue, leave no copy."""
        self.alpha.put(self.queue, b"1")
        self.receive()
        self.receive(self.journal)
        self.assertEqual(self.journal.positions, {})
        self.assertEqual(self.alpha.model.storage.used, 0)

    def test_subqueues(self) -> None:
        """Messages received from a subqueue are in the journal of its parent."""
        subqueue = self.alpha.subqueue(self.queue)
        self.assertIsNone(subqueue.journal)
        self.alpha.put(self.queue, b"1")
        self.alpha.move(self.queue.peek(1)[0], subqueue)
        self.receive(subqueue)
        self.assertEqual(self.alpha.bodies(self.journal), [b"1"])

    def test_quota(self) -> None:
        """A copy that exceeds the journal quota is not made; the receive succeeds.

        MQDMPR-3.1.1.2-09.
        """
        self.queue = self.alpha.create("small", journal=True, journal_quota=1)
        self.alpha.put(self.queue, b"x" * 600, b"y" * 600, b"z")
        for _ in range(3):
            self.receive()
        self.assertEqual(self.alpha.bodies(self.journal), [b"x" * 600, b"z"])
        self.assertEqual(self.alpha.stored(self.queue), [])
        self.assertEqual(self.alpha.model.copying.dropped, 1)
        self.receive(self.journal)
        self.alpha.put(self.queue, b"y" * 600)
        self.receive()
        self.assertEqual(len(self.alpha.bodies(self.journal)), 2)

    def test_quota_of_the_queue(self) -> None:
        """Copies do not count against the quota of the queue itself."""
        self.queue = self.alpha.create("small", journal=True, quota=1)
        for _ in range(5):
            self.alpha.put(self.queue, b"x" * 600)
            self.receive()
        self.assertEqual(len(self.alpha.bodies(self.journal)), 5)

    def test_quota_of_all_journals(self) -> None:
        """JournalQuota of the queue manager is for all journals and dead-letter queues together."""
        self.alpha = Alpha(journal_quota=2)
        queues = [self.alpha.create(name, journal=True) for name in ("a", "b")]
        for queue in queues:
            self.alpha.put(queue, b"x" * 700, b"y" * 700)
            self.receive(queue)
        for queue in queues:
            self.receive(queue)
        kept = [self.alpha.bodies(queue.journal) for queue in queues if queue.journal is not None]
        self.assertEqual(kept, [[b"x" * 700], [b"x" * 700]])
        self.alpha.put(queues[0], asking(b"z" * 700))
        self.alpha.later(9)
        self.assertEqual((self.dead_letters(), self.alpha.model.copying.dropped), ([], 3))
        self.assertLessEqual(self.alpha.model.storage.journaled, 2048)

    def test_quota_of_the_queue_manager(self) -> None:
        """A copy replaces its message, so it fits when the quota is used up."""
        self.alpha = Alpha(quota=1)
        self.queue = self.alpha.create(journal=True)
        self.alpha.put(self.queue, b"x" * 700)
        self.assertEqual(len(self.alpha.put(self.queue, b"y" * 700).refusals), 1)
        self.receive()
        self.assertEqual(self.alpha.bodies(self.journal), [b"x" * 700])
        self.assertEqual(len(self.alpha.put(self.queue, b"y" * 700).refusals), 1)

    def test_a_store_that_fails(self) -> None:
        """There is no copy then, and the message is back; the next time there is one copy."""
        self.alpha.put(self.queue, b"1")
        self.alpha.store.fails = 1
        self.receive()
        self.assertEqual((self.alpha.bodies(self.queue), self.journal.positions), ([b"1"], {}))
        self.receive()
        self.assertEqual(self.alpha.bodies(self.journal), [b"1"])

    def test_in_a_transaction(self) -> None:
        """The copy is there when the transaction commits, in the same batch."""
        self.alpha.put(self.queue, b"1", b"2")
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.alpha.send_in(transaction, self.queue, b"3")
        self.assertEqual(self.journal.positions, {})
        self.alpha.store.fails = 1
        self.alpha.commit(transaction)
        self.assertEqual(self.journal.positions, {})
        batches = len(self.alpha.store.done)
        self.alpha.commit(transaction)
        self.assertEqual(len(self.alpha.store.done), batches + 1)
        self.assertEqual(self.alpha.bodies(self.journal), [b"1"])

    def test_waiting_readers_of_a_journal(self) -> None:
        """A copy wakes its readers once it is stored."""
        waits = self.alpha.read(self.journal, wait=True)
        self.alpha.put(self.queue, b"1")
        held = self.alpha.receive(self.queue)
        self.alpha.store.is_slow = True
        self.alpha.confirm(held)
        self.assertNotIn(waits, self.alpha.reads)
        self.alpha.store.drain()
        self.assertIn(waits, self.alpha.reads)

    def test_restart(self) -> None:
        """Copies of recoverable messages are there again, those of express ones are not."""
        self.alpha.put(self.queue, b"1", arriving(b"e"))
        self.receive(count=2)
        self.assertEqual(
            {each.kept for each in self.journal.peek(9)}, {PacketHolder.STORE, PacketHolder.MEMORY}
        )
        self.alpha = self.alpha.restart()
        self.queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.alpha.bodies(self.journal), [b"1"])
        self.assertEqual(self.alpha.model.storage.journaled, self.journal.total_bytes)
