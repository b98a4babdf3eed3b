"""Subqueues, and messages that are moved between them."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, BROKEN, DEADLETTER, ManagerTestCase


class SubqueueTestCase(ManagerTestCase):
    """A subqueue of each queue."""

    def setUp(self) -> None:
        super().setUp()
        self.aside = f"{self.orders};aside"
        self.later = f"{self.payments};later"

    def move(self, identifier: MessageIdentifier, target: str) -> None:
        """Move a message outside a transaction."""
        self.run_to_end(self.service.move(identifier, target))

    def subqueues(self, queue: str) -> list[str]:
        """The names of the subqueues that there are."""
        return [subqueue.name for subqueue in self.service.inspection.queue(queue).subqueues]


class MoveTests(SubqueueTestCase):
    """L{QueueManagerService.move}."""

    def test_there_and_back(self) -> None:
        """It keeps its position, and its LookupIdentifier; the store has it where it is."""
        first, second, _ = self.put(self.orders, b"1", b"2", b"3")
        lookup_ids = [message.lookup_id for message in self.messages(self.orders)]
        self.move(first, self.aside)
        self.move(second, self.aside)
        self.assertEqual((self.seen(self.orders), self.seen(self.aside)), ([b"3"], [b"1", b"2"]))
        self.restart(crash=True)
        self.assertEqual((self.seen(self.orders), self.seen(self.aside)), ([b"3"], [b"1", b"2"]))
        self.move(first, self.orders)
        messages = self.messages(self.orders)
        self.assertEqual([message.lookup_id for message in messages], [lookup_ids[0], lookup_ids[2]])
        self.assertEqual([message.moves for message in messages], [2, 0])
        self.move(second, self.orders)
        self.assertEqual((self.seen(self.orders), self.subqueues(self.orders)), ([b"1", b"2", b"3"], []))

    def test_express(self) -> None:
        """An express message is moved in memory."""
        [identifier] = self.put(self.orders, b"1", delivery=Delivery.EXPRESS)
        self.move(identifier, self.aside)
        self.assertEqual(self.seen(self.aside), [b"1"])
        self.restart()
        self.assertEqual(self.count(self.aside), 0)

    def test_wakes_waiting_readers(self) -> None:
        """A reader of the target gets it."""
        [identifier] = self.put(self.orders, b"1")
        waiting = self.deferred(self.service.receive(self.aside))
        self.move(identifier, self.aside)
        self.assertEqual(bytes(self.successResultOf(waiting).body), b"1")
        self.assertEqual((self.count(self.aside), self.subqueues(self.orders)), (0, []))

    def test_moves_are_not_acknowledged(self) -> None:
        """A move is not a receipt: the acknowledgement follows when the message is received."""
        [identifier] = self.put(self.orders, b"1", acknowledge=ASK_ALL)
        self.answers()
        self.move(identifier, self.aside)
        self.assertEqual((self.answers(), self.events()), ([], []))
        self.take_one(self.aside)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.ACK_RECEIVE])

    def take_one(self, queue: str) -> None:
        """Receive permanently."""
        self.run_to_end(self.service.receive(queue, timeout=0))

    def test_expires_there(self) -> None:
        """Its time goes on, over a restart as well, and where it was then stands in the event."""
        first, second = self.put(self.orders, b"1", b"2", time_to_be_received=100)
        self.move(first, self.aside)
        self.clock.advance(50)
        self.move(second, self.aside)
        self.restart(seconds=60)
        self.clock.advance(1)
        self.assertEqual(self.count(self.aside), 0)
        self.assertEqual([event.queue for event in self.events()], ["private$\\orders;aside"] * 2)
        self.assertEqual(self.subqueues(self.orders), [])

    def test_by_hand_among_the_dead(self) -> None:
        """An administrator may move a message to the dead letters, where it does not expire."""
        [identifier] = self.put(self.orders, b"1", time_to_be_received=10)
        self.move(identifier, DEADLETTER)
        self.clock.advance(20)
        self.restart(crash=True)
        self.assertEqual(self.seen(DEADLETTER), [b"1"])

    def test_refused(self) -> None:
        """To itself, to another queue, a missing message, one that a reader has, and sending to a
        subqueue.
        """
        [identifier] = self.put(self.orders, b"1")
        for target in (self.orders, self.payments, ".\\private$\\admin"):
            self.refused(self.service.move(identifier, target), Status.MQ_ERROR_INVALID_PARAMETER)
        self.refused(self.service.move(identifier, ".\\private$\\nowhere;x"), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        unknown = MessageIdentifier(self.alpha.model.identifier, 7)
        self.refused(self.service.move(unknown, self.aside), Status.MQ_ERROR_MESSAGE_NOT_FOUND)
        held = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        locked = Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
        self.refused(self.service.move(identifier, self.aside), locked)
        held.release()
        sending = self.service.send(self.aside, [Message(body=b"2")])
        self.refused(sending, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
        self.assertEqual(self.subqueues(self.orders), [])

    def test_the_store_fails(self) -> None:
        """It is where it was, and no subqueue is left."""
        [identifier] = self.put(self.orders, b"1")
        self.store.fail_commit(1)
        self.refused(self.service.move(identifier, self.aside), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual((self.seen(self.orders), self.subqueues(self.orders)), ([b"1"], []))
        self.move(identifier, self.aside)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.aside), [b"1"])

    def test_pending_moves(self) -> None:
        """It is in neither queue for readers, and is not moved twice; a caller that cancels changes
        nothing.
        """
        [identifier] = self.put(self.orders, b"1")
        self.store.is_slow = True
        moving = self.deferred(self.service.move(identifier, self.aside))
        self.assertEqual((self.seen(self.orders), self.seen(self.aside)), ([], []))
        again = self.service.move(identifier, f"{self.orders};other")
        self.refused(again, Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION)
        moving.cancel()
        self.failureResultOf(moving, CancelledError)
        self.store.catch_up()
        self.assertEqual(self.seen(self.aside), [b"1"])


class TransactionalMoveTests(SubqueueTestCase):
    """Moves in transactions."""

    def test_commit_and_abort(self) -> None:
        """It is there with the commit; an abort leaves it where it was, and no subqueue."""
        [identifier] = self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.run_to_end(self.service.move(identifier, self.later, transaction=transaction))
        self.assertEqual((self.seen(self.payments), self.seen(self.later)), ([], []))
        self.run_to_end(transaction.abort())
        self.assertEqual((self.seen(self.payments), self.subqueues(self.payments)), ([b"1"], []))
        transaction = self.service.begin()
        self.run_to_end(self.service.move(identifier, self.later, transaction=transaction))
        self.run_to_end(transaction.commit())
        self.restart(crash=True)
        self.assertEqual((self.seen(self.payments), self.seen(self.later)), ([], [b"1"]))
        transaction = self.service.begin()
        self.run_to_end(self.service.move(identifier, self.payments, transaction=transaction))
        self.run_to_end(transaction.commit())
        self.assertEqual((self.seen(self.payments), self.subqueues(self.payments)), ([b"1"], []))

    def test_not_into_a_system_queue(self) -> None:
        """No transaction moves there."""
        [identifier] = self.put(self.payments, b"1")
        transaction = self.service.begin()
        moving = self.service.move(identifier, DEADLETTER, transaction=transaction)
        self.refused(moving, Status.MQ_ERROR_TRANSACTION_USAGE)
        self.run_to_end(transaction.commit())
        self.assertEqual(self.seen(self.payments), [b"1"])

    def test_the_target_is_purged_and_deleted(self) -> None:
        """A subqueue that is deleted meanwhile gets nothing: the message stays where it was."""
        first, second = self.put(self.payments, b"1", b"2")
        self.move(first, self.later)
        transaction = self.service.begin()
        self.run_to_end(self.service.move(second, self.later, transaction=transaction))
        self.run_to_end(self.service.delete_queue(self.later))
        self.run_to_end(transaction.commit())
        self.restart()
        self.assertEqual((self.seen(self.payments), self.count(self.later)), ([b"2"], 0))


class LifeTests(SubqueueTestCase):
    """When subqueues come and go."""

    def test_it_goes_with_its_last_message(self) -> None:
        """However that leaves, in memory and in the store."""

        def receive() -> None:
            self.run_to_end(self.service.receive(self.aside, timeout=0))

        def purge() -> None:
            self.run_to_end(self.service.purge_queue(self.aside))

        def expire() -> None:
            self.clock.advance(2000)

        def move_back() -> None:
            self.move(identifier, self.orders)
            self.take(self.alpha, self.orders)

        for leave in (receive, purge, expire, move_back):
            [identifier] = self.put(self.orders, b"1", time_to_be_received=1000)
            self.move(identifier, self.aside)
            self.assertEqual(self.subqueues(self.orders), ["aside"])
            leave()
            self.assertEqual(self.subqueues(self.orders), [], leave.__name__)
            self.restart(crash=True)
            self.assertEqual(self.subqueues(self.orders), [], leave.__name__)

    def test_in_a_transaction(self) -> None:
        """A commit empties it as well."""
        [identifier] = self.put(self.payments, b"1")
        self.move(identifier, self.later)
        transaction = self.service.begin()
        self.run_to_end(self.service.receive(self.later, timeout=0, transaction=transaction))
        self.assertEqual(self.subqueues(self.payments), ["later"])
        self.run_to_end(transaction.commit())
        self.assertEqual(self.subqueues(self.payments), [])

    def test_looking_makes_none(self) -> None:
        """A read that finds nothing leaves no subqueue behind."""
        self.refused(self.service.receive(self.aside, timeout=0), Status.MQ_ERROR_IO_TIMEOUT)
        waiting = self.deferred(self.service.receive(self.aside, timeout=10))
        self.assertEqual(self.subqueues(self.orders), ["aside"])
        self.clock.advance(10)
        self.failureResultOf(waiting, MQError)
        self.assertEqual(self.subqueues(self.orders), [])

    def test_goes_with_its_queue(self) -> None:
        """Its messages are logged as deleted."""
        first, _ = self.put(self.orders, b"1", b"2", acknowledge=ASK_ALL)
        self.move(first, self.aside)
        self.answers()
        waiting = self.deferred(self.service.receive(f"{self.orders};empty"))
        self.run_to_end(self.service.delete_queue(self.orders))
        failure = self.failureResultOf(waiting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_QUEUE_DELETED)
        deleted = MessageClass.NACK_Q_DELETED
        self.assertEqual(sorted(self.answers()), [(deleted, b"1"), (deleted, b"2")])
        self.restart()
        self.queue(self.alpha)
        self.assertEqual(self.subqueues(self.orders), [])

    def test_nothing_is_left_of_a_purged_one(self) -> None:
        """The store forgets the messages that a reader held while it was purged, as it forgets the queue."""
        [identifier] = self.put(self.orders, b"1")
        self.move(identifier, self.aside)
        reservation = self.run_to_end(self.service.reserve(self.aside, timeout=0))
        self.run_to_end(self.service.purge_queue(self.aside))
        self.assertEqual(len([name for name in self.store.names() if "purge" in name]), 1)
        reservation.release()
        self.assertEqual(self.subqueues(self.orders), [])
        self.assertEqual([name for name in self.store.names() if "purge" in name], [])

    def test_a_caller_that_leaves(self) -> None:
        """It goes with its last message also if nothing waits for the end of the move."""
        [identifier] = self.put(self.orders, b"1")
        self.move(identifier, self.aside)
        self.store.is_slow = True
        moving = self.deferred(self.service.move(identifier, self.orders))
        self.assertTrue(self.store.is_busy)
        moving.cancel()
        self.failureResultOf(moving, CancelledError)
        self.store.catch_up()
        self.assertEqual(self.seen(self.orders), [b"1"])
        self.assertEqual(self.subqueues(self.orders), [])

    def test_its_quota_is_that_of_its_queue(self) -> None:
        """Moved messages still count towards the quota."""
        small = self.queue(self.alpha, "small", quota=1)
        [identifier] = self.put(small, bytes(600))
        self.move(identifier, f"{small};aside")
        sending = self.service.send(small, [Message(body=bytes(600))])
        self.refused(sending, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.run_to_end(self.service.purge_queue(f"{small};aside"))
        self.put(small, bytes(600))

    def test_unreadable_after_a_restart(self) -> None:
        """A message that was moved before it was first read is read at its new location."""
        [identifier] = self.put(self.orders, b"1")
        self.restart(crash=True)
        self.move(identifier, self.aside)
        self.store.unreadable = BROKEN
        self.refused(self.service.receive(self.aside, timeout=0), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.assertEqual(self.seen(self.aside), [b"1"])
