"""Queues and messages that change while a transaction, a removal or a move is pending."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.leaving.transaction import TransactionState
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.queues.builders import arriving
from tests.queues.simulation import Alpha


def mortal(body: bytes, seconds: int = 5) -> UserMessageView:
    """A transactional message with this TimeToBeReceived in seconds."""
    return arriving(body, transactional=True, time_to_be_received=seconds)


class MeanwhileCase(SynchronousTestCase):
    """ALPHA with a transactional queue and two messages in it."""

    def setUp(self) -> None:
        self.alpha = Alpha()
        self.queue = self.alpha.create(transactional=True)
        self.put(b"1", b"2")
        self.store = self.alpha.store

    def put(self, *bodies: bytes) -> None:
        """Let transactional messages be there."""
        self.alpha.put(self.queue, *(arriving(body, transactional=True) for body in bodies))

    def reported(self) -> list[tuple[str, bytes]]:
        """The entries of the event log: message and event."""
        names: list[tuple[str, bytes]] = []
        for departure in self.alpha.departures:
            assert departure.message_class in MessageClass
            names += ((departure.message_class.name, self.said(each)) for each in departure.positions)
        return names

    def said(self, position: MessagePosition) -> bytes:
        """The body of a removed message."""
        assert position.view is not None
        return bytes(position.view.body)

    def tearDown(self) -> None:
        self.store.drain()
        self.alpha.check()
        self.alpha.check_store()


class DeletedTests(MeanwhileCase):
    """Reading 17: operations in a deleted queue have no effect, and each message has one event."""

    def test_received(self) -> None:
        """The deletion logs the message; an abort does nothing with it, and a commit is an abort."""
        for end in (self.alpha.commit, self.alpha.abort):
            queue = self.queue = self.alpha.create("short", transactional=True)
            self.put(b"x")
            transaction = self.alpha.begin()
            self.alpha.receive_in(transaction, queue)
            self.alpha.delete(queue)
            end(transaction)
            self.assertIs(transaction.state, TransactionState.ABORTED)
            self.assertEqual(self.alpha.events, [("deleted", "private$\\short")])
            self.store.contents.events.clear()
            self.alpha.check_store()
        self.assertEqual(self.alpha.departures, [])

    def test_received_and_being_committed(self) -> None:
        """A message whose commit is being stored was received, and not deleted."""
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.store.is_slow = True
        self.alpha.commit(transaction)
        self.alpha.delete(self.queue)
        self.store.drain()
        self.assertEqual(len(self.alpha.events), 1, "the one that was not received")

    def test_received_and_not_stored(self) -> None:
        """If that commit fails, the message was deleted with its queue, and has an event."""
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.store.is_slow = True
        self.alpha.commit(transaction)
        self.alpha.delete(self.queue)
        self.store.fails = 1
        self.store.drain()
        self.assertEqual(len(self.alpha.events), 2)
        self.assertEqual(self.reported(), [("NACK_Q_DELETED", b"1")])
        self.alpha.commit(transaction)
        self.assertIs(transaction.state, TransactionState.ABORTED)
        self.assertEqual(len(self.alpha.events), 2)

    def test_a_removal_that_is_stored(self) -> None:
        """A message whose removal is being stored counts as received, also if its queue is deleted."""
        held = self.alpha.receive(self.queue)
        self.store.is_slow = True
        self.alpha.confirm(held)
        self.alpha.delete(self.queue)
        self.store.drain()
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders")])

    def test_a_removal_that_is_not_stored(self) -> None:
        """If the store fails, it was not received, and has an event as the others."""
        held = self.alpha.receive(self.queue)
        self.store.is_slow = True
        self.alpha.confirm(held)
        self.alpha.delete(self.queue)
        self.store.fails = 1
        self.store.drain()
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders")] * 2)
        self.assertEqual(self.reported(), [("NACK_Q_DELETED", b"1")])

    def test_sent_and_aborted(self) -> None:
        """A message that was never sent has no event."""
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"never")
        self.alpha.delete(self.queue)
        self.alpha.abort(transaction)
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders")] * 2)

    def test_sent_and_committed(self) -> None:
        """A message to a queue that is deleted by then leaves at once, with a durable event."""
        other = self.alpha.create("other", transactional=True)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"late")
        self.alpha.send_in(transaction, other, b"there")
        self.alpha.delete(self.queue)
        self.alpha.commit(transaction)
        self.assertEqual(self.reported(), [("NACK_Q_DELETED", b"late")])
        self.assertEqual(len(self.alpha.events), 3)
        self.assertEqual(self.alpha.bodies(other), [b"there"])

    def test_sent_and_being_committed(self) -> None:
        """The same if the queue is deleted while the commit is being stored."""
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"late")
        self.store.is_slow = True
        self.alpha.commit(transaction)
        self.alpha.delete(self.queue, at_once=10)
        self.store.drain()
        self.assertEqual(self.reported(), [("NACK_Q_DELETED", b"late")])
        self.assertEqual(len(self.alpha.events), 3)

    def test_an_arrival(self) -> None:
        """A message that is being stored has an event if it arrives, and none if the store fails."""
        for fails, expected in ((0, 3), (1, 2)):
            self.alpha = Alpha()
            self.store = self.alpha.store
            self.queue = self.alpha.create()
            self.put(b"1", b"2")
            self.store.is_slow = True
            self.put(b"coming")
            self.alpha.delete(self.queue)
            self.store.fails = fails
            self.store.drain()
            self.assertEqual(len(self.alpha.events), expected)
            self.assertEqual(len(self.reported()), expected - 2)
            self.alpha.check_store()

    def test_an_arrival_and_then_a_crash(self) -> None:
        """A message is never out of the store before its event is in it."""
        self.store.is_slow = True
        self.put(b"3")
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"4")
        self.alpha.commit(transaction)
        held = self.alpha.receive(self.queue)
        self.alpha.confirm(held)
        self.alpha.delete(self.queue, at_once=9)
        contents, identifier = self.store.contents, self.queue.definition.identifier
        known = []
        while self.store.batches:
            self.store.step()
            known.append(len(contents.messages.get(identifier, {})) + len(contents.events))
        self.assertEqual(known[:3], [3, 4, 3], "two were there; 3 and 4 come, and 1 is received")
        self.assertEqual(set(known[3:]), {3})
        self.assertEqual(len(contents.events), 3)

    def test_moved_from(self) -> None:
        """A move out of a deleted queue comes to nothing."""
        target = self.alpha.subqueue(self.queue)
        for end in (self.alpha.commit, self.alpha.abort):
            source = self.alpha.subqueue(self.queue, "source")
            self.alpha.move(self.queue.peek(1)[0], source)
            transaction = self.alpha.begin()
            self.alpha.move_in(transaction, source.peek(1)[0], target)
            self.alpha.delete(source)
            end(transaction)
            self.assertEqual((target.positions, source.positions), ({}, {}))
            self.assertEqual(target.users, 0)
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders;source")] * 2)

    def test_moved_to(self) -> None:
        """If the target is gone by the commit, the message is back where it was; the rest is done."""
        target = self.alpha.subqueue(self.queue)
        transaction = self.alpha.begin()
        self.alpha.move_in(transaction, self.queue.peek(1)[0], target)
        self.alpha.send_in(transaction, self.queue, b"3")
        self.alpha.delete(target)
        self.store.fails = 1
        self.alpha.commit(transaction)
        self.alpha.commit(transaction)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2", b"3"])
        self.assertEqual(self.alpha.events, [])

    def test_a_pending_move(self) -> None:
        """A target that is deleted while the move is stored takes the message with it, with one event."""
        for fails, expected in ((0, []), (1, [b"1", b"2"])):
            self.alpha = Alpha()
            self.store = self.alpha.store
            self.queue = self.alpha.create()
            self.put(b"1", b"2")
            target = self.alpha.subqueue(self.queue)
            self.store.is_slow = True
            for position in self.queue.peek(2):
                self.alpha.move(position, target)
            self.alpha.delete(target)
            self.store.fails = 2 * fails
            self.store.drain()
            self.assertEqual(self.alpha.bodies(self.queue), expected)
            names = [] if fails else [("NACK_Q_DELETED", b"1"), ("NACK_Q_DELETED", b"2")]
            self.assertEqual(self.reported(), names)
            self.assertEqual(len(self.alpha.events), len(names))
            self.alpha.check()
            self.alpha.check_store()

    def test_journals_go_silently(self) -> None:
        """Messages that were received before have no further event, pending copies included."""
        queue = self.alpha.create("kept", journal=True)
        self.alpha.put(queue, b"1", b"2", b"3")
        self.alpha.confirm(self.alpha.receive(queue))
        assert queue.journal is not None
        self.assertEqual(self.alpha.bodies(queue.journal), [b"1"])
        self.store.is_slow = True
        self.alpha.confirm(self.alpha.receive(queue))
        self.alpha.delete(queue)
        self.store.drain()
        self.assertEqual(self.alpha.events, [("deleted", "private$\\kept")])
        self.assertEqual(self.alpha.model.storage.journaled, 0)

    def test_messages_that_are_leaving(self) -> None:
        """A message that was being removed has an event with that reason, and no other."""
        self.alpha.put(self.queue, mortal(b"3", 1))
        self.store.is_slow = True
        self.alpha.later(2)
        self.alpha.delete(self.queue)
        self.store.drain()
        self.assertEqual(sorted(event for event, _ in self.alpha.events), ["deleted", "deleted", "expired"])


class PurgedTests(MeanwhileCase):
    """Readings 26, 27 and 50."""

    def take(self) -> list[MessagePosition]:
        """Begin a transaction that receives the first and moves the second message; then purge."""
        self.transaction = self.alpha.begin()
        self.target = self.alpha.subqueue(self.queue)
        received = self.alpha.receive_in(self.transaction, self.queue)
        moved = self.queue.peek(1)
        self.alpha.load(moved)
        self.alpha.move_in(self.transaction, moved[0], self.target)
        self.alpha.send_in(self.transaction, self.queue, b"3")
        self.alpha.purge(self.queue)
        return [*received, *moved]

    def test_committed(self) -> None:
        """Received messages count as received; messages to be moved are removed as purged; sent ones stay.

        MQDMPR-3.1.1.11-04
        """
        held = self.take()
        self.assertEqual({position.state for position in held}, {PositionState.PURGE_PENDING})
        self.alpha.commit(self.transaction)
        self.assertEqual(self.reported(), [("NACK_Q_PURGED", b"2")])
        self.assertEqual(self.alpha.events, [("purged", "private$\\orders")])
        self.assertEqual(self.alpha.bodies(self.queue), [b"3"])
        self.assertEqual(self.target.positions, {})

    def test_aborted(self) -> None:
        """Both leave as purged.

        MQDMPR-3.1.4.5-02.
        """
        self.take()
        self.alpha.abort(self.transaction)
        self.assertEqual(sorted(self.reported()), [("NACK_Q_PURGED", b"1"), ("NACK_Q_PURGED", b"2")])
        self.assertEqual(self.queue.positions, {})

    def test_a_commit_that_is_not_stored(self) -> None:
        """A failed commit does not cancel the purge: an abort removes both messages, another commit one."""
        held = self.take()
        self.store.fails = 1
        self.alpha.commit(self.transaction)
        self.assertEqual({position.state for position in held}, {PositionState.PURGE_PENDING})
        self.assertEqual(self.reported(), [])
        self.alpha.commit(self.transaction)
        self.assertEqual(self.reported(), [("NACK_Q_PURGED", b"2")])
        self.put(b"1", b"2")
        self.take()
        self.store.fails = 1
        self.alpha.commit(self.transaction)
        self.alpha.abort(self.transaction)
        self.assertEqual(len(self.reported()), 1 + 2 + 1)
        self.assertEqual(self.queue.positions, {})

    def test_a_crash(self) -> None:
        """Messages that readers had are removed after it as purged, with an event; the rest is there.

        MQDMPR-3.1.1.11-01 (reading 9)
        """
        self.put(b"3")
        held = self.alpha.receive(self.queue, 2)
        self.alpha.purge(self.queue)
        self.assertEqual({position.state for position in held}, {PositionState.PURGE_PENDING})
        self.put(b"4", b"5")
        self.alpha.receive(self.queue)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"never")
        self.store.contents.events.clear()
        self.alpha = self.alpha.restart()
        self.queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.alpha.bodies(self.queue), [b"4", b"5"], "a lock without an owner is none")
        self.assertEqual(self.alpha.model.deadline(self.alpha.now), self.alpha.now.monotonic)
        self.alpha.later(0)
        self.assertEqual(sorted(self.reported()), [("NACK_Q_PURGED", b"1"), ("NACK_Q_PURGED", b"2")])
        self.assertEqual(self.alpha.events, [("purged", "private$\\orders")] * 2)
        self.assertEqual(self.alpha.stored(self.queue), [b"4", b"5"])
        self.alpha = self.alpha.restart()
        self.assertIsNone(self.alpha.model.deadline(self.alpha.now))

    def test_what_a_crash_has_to_know_is_forgotten(self) -> None:
        """With the next purge, or with the queue, nothing of it is in the store any more."""
        for end in (self.alpha.purge, self.alpha.delete):
            queue = self.queue = self.alpha.create("short", transactional=True)
            self.put(b"1")
            held = self.alpha.receive(queue)
            self.alpha.purge(queue)
            self.assertEqual(len([name for name in self.store.contents.state if "purge" in name]), 1)
            self.alpha.give_back(held)
            end(queue)
            self.assertEqual([name for name in self.store.contents.state if "purge" in name], [])
            if not queue.is_deleted:
                self.alpha.delete(queue)

    def test_a_purge_that_is_not_stored(self) -> None:
        """Available messages are back at their positions, and what readers have is theirs."""
        held = self.alpha.receive(self.queue)
        self.store.fails = 1
        self.alpha.purge(self.queue)
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.assertEqual(held[0].state, PositionState.LOCKED_READER)
        self.alpha.give_back(held)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2"])

    def test_a_purge_of_a_deleted_queue(self) -> None:
        """A purge that fails after its queue was deleted is logged as the deletion."""
        self.store.is_slow = True
        self.alpha.purge(self.queue)
        self.alpha.delete(self.queue)
        self.store.fails = 1
        self.store.drain()
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders")] * 2)

    def test_subqueues(self) -> None:
        """A queue is purged by itself, and so is a subqueue."""
        target = self.alpha.subqueue(self.queue)
        self.alpha.move(self.queue.peek(1)[0], target)
        self.alpha.purge(self.queue)
        self.assertEqual((self.alpha.bodies(self.queue), self.alpha.bodies(target)), ([], [b"1"]))
        self.alpha.purge(target)
        self.assertEqual(self.alpha.bodies(target), [])


class ExpiredTests(MeanwhileCase):
    """Readings 31 and 32."""

    def setUp(self) -> None:
        super().setUp()
        self.alpha.confirm(self.alpha.receive(self.queue, 2))
        self.alpha.put(self.queue, mortal(b"5"))

    def received(self) -> Queue:
        """A transaction that received the message which lives for 5 seconds."""
        self.transaction = self.alpha.begin()
        self.alpha.receive_in(self.transaction, self.queue)
        return self.queue

    def test_received_and_committed(self) -> None:
        """A message held by a transaction at its expiry is received all the same.

        MQDMPR-3.1.7.2.7-01 (reading 32: there is no operation for it, it waits for what its reader decides)
        """
        self.received()
        self.alpha.later(9)
        self.assertEqual(len(self.transaction.operations), 1)
        self.alpha.commit(self.transaction)
        self.assertEqual((self.reported(), self.alpha.events), ([], []))

    def test_received_and_aborted(self) -> None:
        """It leaves then, and no reader gets it."""
        self.received()
        self.alpha.later(9)
        waits = self.alpha.read(self.queue, wait=True)
        self.alpha.abort(self.transaction)
        self.assertEqual(self.reported(), [("NACK_RECEIVE_TIMEOUT", b"5")])
        self.assertNotIn(waits, self.alpha.reads)

    def test_moved(self) -> None:
        """Its time limit continues in the subqueue, from where it is removed when it has expired."""
        for seconds, reported in ((2, []), (9, [("NACK_RECEIVE_TIMEOUT", b"5")])):
            target = self.alpha.subqueue(self.queue)
            transaction = self.alpha.begin()
            self.alpha.move_in(transaction, self.queue.peek(1)[0], target)
            self.alpha.now = self.alpha.now.later(seconds)
            self.alpha.commit(transaction)
            self.assertEqual(self.reported(), reported)
            self.alpha.later(9)
            self.assertEqual(self.reported(), [("NACK_RECEIVE_TIMEOUT", b"5")])
            self.assertEqual(self.alpha.events, [("expired", "private$\\orders;sub")])
            self.alpha.departures.clear()
            self.store.contents.events.clear()
            self.alpha.put(
                self.queue,
                arriving(
                    b"5", transactional=True, time_to_be_received=5, sent_time=self.alpha.now.unix_seconds
                ),
            )

    def test_sent_and_committed_too_late(self) -> None:
        """A message that expires before the commit leaves with it, and no reader sees it.

        MQDMPR-3.1.2.4-02
        """
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, mortal(b"late", 3), arriving(b"3", transactional=True))
        self.alpha.now = self.alpha.now.later(4)
        self.store.fails = 1
        self.alpha.commit(transaction)
        self.assertEqual(self.reported(), [])
        self.alpha.commit(transaction)
        self.assertEqual(self.reported(), [("NACK_RECEIVE_TIMEOUT", b"late")])
        self.assertEqual(self.alpha.stored(self.queue), [b"5", b"3"])

    def test_a_crash_after_a_late_commit(self) -> None:
        """Not even then is a message removed without an event."""
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, mortal(b"late", 3))
        self.alpha.now = self.alpha.now.later(4)
        self.store.is_slow = True
        self.alpha.commit(transaction)
        self.store.step()
        self.alpha = self.alpha.restart()
        self.store.is_slow = False
        self.alpha.later(0)
        self.assertEqual(self.reported(), [("NACK_RECEIVE_TIMEOUT", b"late")])
        self.assertEqual(self.alpha.events, [("expired", "private$\\orders")])

    def test_sent_and_due_later(self) -> None:
        """One that is in time at the commit has a time that goes on."""
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, mortal(b"8", 8))
        self.alpha.later(2)
        self.alpha.commit(transaction)
        self.assertEqual(self.alpha.bodies(self.queue), [b"5", b"8"])
        self.alpha.later(7)
        self.assertEqual(self.reported(), [("NACK_RECEIVE_TIMEOUT", b"5"), ("NACK_RECEIVE_TIMEOUT", b"8")])

    def test_a_departure_that_is_not_stored(self) -> None:
        """No reader gets the message meanwhile; it leaves, with one event, when the store works again."""
        self.store.fails = 1
        self.alpha.later(9)
        self.assertEqual((self.alpha.events, self.queue.message_count), ([], 1))
        self.assertEqual(self.alpha.bodies(self.queue), [])
        self.alpha.try_again()
        self.assertEqual(
            (self.alpha.events, self.queue.message_count), ([("expired", "private$\\orders")], 0)
        )
