"""Messages that were not received, or did not get away: where they are kept, and how they are sent again."""

from __future__ import annotations

from uuid import UUID

from twisted.internet.defer import CancelledError

from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, BROKEN, DEADLETTER, DEADXACT, FULL, ManagerTestCase

NOWHERE = "DIRECT=TCP:127.0.0.4\\private$\\orders"
LATER = 100.0
CONNECTOR_TYPE = UUID("5a6b1c0e-8f1d-4a9e-a3a5-6f3f0e6b7c21")


class DeadLetterTestCase(ManagerTestCase):
    """Messages that live for ten seconds."""

    def let_expire(self, queue: str, *bodies: bytes, **properties: object) -> list[MessageIdentifier]:
        """Send messages, and let their time be over."""
        properties = {"dead_letter": True, "time_to_be_received": 10, **properties}
        identifiers = self.put(queue, *bodies, **properties)
        self.clock.advance(LATER)
        return identifiers

    def dead_letters(self, queue: str = DEADLETTER) -> list[tuple[bytes, MessageClass]]:
        """The messages in a dead-letter queue, and the reasons."""
        return [
            (bytes(message.view.body), MessageClass(message.view.message_class))
            for message in self.messages(queue)
        ]


class BurialTests(DeadLetterTestCase):
    """Messages that become dead letters."""

    def test_not_received_in_time(self) -> None:
        """It is kept with the class that says why, recoverable ones over a crash; the event says so too."""
        [identifier] = self.let_expire(self.orders, b"kept")
        self.let_expire(self.orders, b"express", delivery=Delivery.EXPRESS)
        self.let_expire(self.orders, b"not wanted", dead_letter=False)
        timeout = MessageClass.NACK_RECEIVE_TIMEOUT
        self.assertEqual(self.dead_letters(), [(b"kept", timeout), (b"express", timeout)])
        self.assertEqual(self.service.inspection.status().dead_letters, 2)
        self.restart(crash=True)
        self.assertEqual(self.dead_letters(), [(b"kept", timeout)])
        [event] = self.run_to_end(self.service.inspection.explain(identifier)).events
        self.assertEqual(
            (event.event, event.reason, event.message_class, event.queue),
            ("expired", "kept as a dead letter", timeout, "private$\\orders"),
        )

    def test_transactional(self) -> None:
        """A message that was sent in a transaction here is kept in the transactional dead-letter queue."""
        self.let_expire(self.payments, b"1")
        self.assertEqual(self.dead_letters(DEADXACT), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])
        self.assertEqual(self.dead_letters(), [])

    def test_not_away_in_time(self) -> None:
        """A message that waits for another queue manager for too long is kept here, over a restart too."""
        self.put(NOWHERE, b"1", dead_letter=True, time_to_reach_queue=10)
        self.put(NOWHERE, b"2", dead_letter=True, time_to_reach_queue=50)
        self.clock.advance(20)
        self.restart(seconds=LATER)
        self.clock.advance(1)
        timeout = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        self.assertEqual(self.dead_letters(), [(b"1", timeout), (b"2", timeout)])
        self.assertEqual(self.service.inspection.outgoing()[0].messages, 0)

    def test_removed_by_an_administrator(self) -> None:
        """A message that an administrator removes leaves no dead letter."""
        self.put(self.orders, b"1", b"2", dead_letter=True)
        self.run_to_end(self.service.purge_queue(self.orders))
        self.put(self.orders, b"3", dead_letter=True)
        self.run_to_end(self.service.delete_queue(self.orders))
        self.assertEqual(self.dead_letters(), [])
        self.assertEqual([event.event for event in self.events()], ["purged", "purged", "deleted"])

    def test_given_back_too_late(self) -> None:
        """A message that expires while a reader has it is a dead letter once it is returned."""
        self.put(self.orders, b"1", dead_letter=True, time_to_be_received=10)
        reservation = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.clock.advance(LATER)
        self.assertEqual(self.dead_letters(), [])
        reservation.release()
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])

    def test_in_a_transaction(self) -> None:
        """So is one that an abort returns, and one that was sent too long before the commit."""
        self.put(self.payments, b"1", dead_letter=True, time_to_be_received=10)
        transaction = self.service.begin()
        self.run_to_end(self.service.receive(self.payments, timeout=0, transaction=transaction))
        self.clock.advance(LATER)
        self.run_to_end(transaction.abort())
        self.assertEqual(self.dead_letters(DEADXACT), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])

    def test_copies_are_not_acknowledged(self) -> None:
        """The expiry is acknowledged; receiving or purging the dead letter is not."""
        self.let_expire(self.orders, b"1", b"2", acknowledge=ASK_ALL)
        self.answers()
        self.take_letters(1)
        self.run_to_end(self.service.purge_queue(DEADLETTER))
        self.assertEqual(self.answers(), [])

    def take_letters(self, count: int) -> None:
        """Receive dead letters permanently."""
        for _ in range(count):
            self.run_to_end(self.service.receive(DEADLETTER, timeout=0))


class UnreliableStoreTests(DeadLetterTestCase):
    """The store fails while messages leave."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def test_commits_fail(self) -> None:
        """They cannot be received meanwhile, and are there once, when the store works again."""
        self.put(
            self.orders,
            b"1",
            dead_letter=True,
            acknowledge=Acknowledge.NEGATIVE_RECEIVE,
            time_to_be_received=10,
        )
        self.store.break_down()
        self.clock.advance(LATER)
        self.assertEqual((self.seen(self.orders), self.dead_letters(), self.answers()), ([], [], []))
        self.store.recover()
        self.clock.advance(LATER)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])
        self.assertEqual(self.answers(), [(MessageClass.NACK_RECEIVE_TIMEOUT, b"1")])
        self.assertEqual(self.count(self.orders), 0)

    def test_the_store_is_full(self) -> None:
        """Dead letters wait for space and are not lost."""
        self.put(self.orders, b"1", dead_letter=True, time_to_be_received=10)
        self.store.break_down(FULL)
        self.clock.advance(LATER)
        self.assertEqual((self.dead_letters(), self.count(self.orders)), ([], 1))
        self.assertTrue(self.service.inspection.status().throttled)
        self.store.recover()
        self.clock.advance(LATER)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])
        self.assertEqual(self.service.inspection.status().copies_dropped, 0)

    def test_a_packet_cannot_be_read(self) -> None:
        """It does not leave before it could, since it could not be kept."""
        self.store.unreadable = BROKEN
        self.let_expire(self.orders, b"1")
        self.assertEqual(self.dead_letters(), [])
        self.store.recover()
        self.clock.advance(LATER)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])

    def test_a_packet_can_never_be_read(self) -> None:
        """In the end the message leaves without one, and the event log says so."""
        self.store.unreadable = BROKEN
        self.let_expire(self.orders, b"1")
        self.clock.advance(1000)
        self.assertEqual((self.count(self.orders), self.dead_letters()), (0, []))
        self.assertEqual([event.event for event in self.events()], ["expired"])

    def test_stopped_meanwhile(self) -> None:
        """The next life goes on with it."""
        self.put(self.orders, b"1", dead_letter=True, time_to_be_received=10)
        self.store.break_down()
        self.clock.advance(LATER)
        self.restart()
        self.store.recover()
        self.clock.advance(LATER)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])


class RequeueTests(DeadLetterTestCase):
    """L{QueueManagerService.requeue}."""

    def test_sent_again(self) -> None:
        """It is in its queue under a new identifier, and no dead letter any more; the old identifier
        leads there.
        """
        [identifier] = self.let_expire(self.orders, b"1", label="first", priority=5)
        again = self.run_to_end(self.service.requeue(identifier))
        self.assertNotEqual(again, identifier)
        self.restart(crash=True)
        [message] = self.messages(self.orders)
        self.assertEqual((message.view.label, message.view.priority), ("first", 5))
        self.assertEqual((message.view.message_class, str(message.view.identifier)), (0, str(again)))
        self.assertEqual(self.dead_letters(), [])
        events = self.run_to_end(self.service.inspection.explain(identifier)).events
        self.assertEqual([event.event for event in events], ["expired", "requeued"])
        self.assertIn(str(again), events[-1].reason)

    def test_connector_type(self) -> None:
        """It has the connector type of the message: without it a foreign system does not know its
        properties.
        """
        [identifier] = self.let_expire(self.orders, b"1", connector_type=CONNECTOR_TYPE)
        self.run_to_end(self.service.requeue(identifier))
        [message] = self.messages(self.orders)
        self.assertEqual(message.view.connector_type, CONNECTOR_TYPE)

    def test_counted_once(self) -> None:
        """The metric of events does not count what failed, nor does it for a message that is moved."""
        identifiers = [*self.let_expire(self.orders, b"1"), *self.let_expire(self.payments, b"2")]
        other = self.queue(self.alpha, "other")
        self.put(self.orders, b"3")
        move = self.service.message_administration.move
        chosen = [message.lookup_id for message in self.messages(self.orders)]
        self.store.break_down()
        failed = Status.MQ_ERROR_MESSAGE_STORAGE_FAILED
        for identifier in identifiers:
            self.refused(self.service.requeue(identifier), failed)
        self.refused(move(self.orders, chosen, other), failed)
        self.store.recover()
        for identifier in identifiers:
            self.run_to_end(self.service.requeue(identifier))
        self.run_to_end(move(self.orders, chosen, other))
        counts = self.service.inspection.measurements.events()
        self.assertEqual((counts["requeued"], counts["moved"]), (2, 1))

    def test_express(self) -> None:
        """An express one as well."""
        [identifier] = self.let_expire(self.orders, b"1", delivery=Delivery.EXPRESS)
        self.run_to_end(self.service.requeue(identifier))
        self.assertEqual((self.seen(self.orders), self.dead_letters()), ([b"1"], []))

    def test_transactional(self) -> None:
        """A transactional one is sent and removed in one transaction, which is not left behind."""
        [identifier] = self.let_expire(self.payments, b"1")
        again = self.run_to_end(self.service.requeue(identifier))
        self.restart(crash=True)
        self.assertEqual((self.seen(self.payments), self.dead_letters(DEADXACT)), ([b"1"], []))
        self.assertEqual(self.service.inspection.transactions(), [])
        explained = self.run_to_end(self.service.inspection.explain(identifier))
        self.assertEqual(explained.events[-1].reason, f"sent again as {again}")
        self.assertTrue(explained.summary.endswith(f"; was sent again as {again}"), explained.summary)

    def test_to_another_queue_manager(self) -> None:
        """A dead letter of an unsent message is pending again."""
        [identifier] = self.put(NOWHERE, b"1", dead_letter=True, time_to_reach_queue=10)
        self.clock.advance(LATER)
        self.run_to_end(self.service.requeue(identifier))
        self.assertEqual((self.service.inspection.outgoing()[0].messages, self.dead_letters()), (1, []))

    def test_acknowledged_like_the_first_time(self) -> None:
        """The administration queue gets acknowledgements of the new message as it did of the old one."""
        for queue in (self.orders, self.payments):
            [identifier] = self.let_expire(queue, b"1", acknowledge=ASK_ALL)
            self.answers()
            self.run_to_end(self.service.requeue(identifier))
            self.assertEqual([name for name, _ in self.answers()], [MessageClass.ACK_REACH_QUEUE])
            self.take(self.alpha, queue)
            self.assertEqual([name for name, _ in self.answers()], [MessageClass.ACK_RECEIVE])

    def test_full_queue_manager(self) -> None:
        """Although its quota is used up, a message is sent again, since it replaces its dead letter."""
        for queue, dead_letters in ((self.orders, DEADLETTER), (self.payments, DEADXACT)):
            [identifier] = self.let_expire(queue, b"1")
            self.alpha.model.storage.limit = self.alpha.model.storage.used
            self.run_to_end(self.service.requeue(identifier))
            self.alpha.model.storage.limit = None
            self.assertEqual((self.seen(queue), self.dead_letters(dead_letters)), ([b"1"], []))

    def test_refused(self) -> None:
        """A message that cannot be sent again stays a dead letter."""
        unknown = MessageIdentifier(self.alpha.model.identifier, 7)
        self.refused(self.service.requeue(unknown), Status.MQ_ERROR_MESSAGE_NOT_FOUND)
        [identifier] = self.put(self.orders, b"there")
        self.refused(self.service.requeue(identifier), Status.MQ_ERROR_MESSAGE_NOT_FOUND)
        for queue in (self.orders, self.payments):
            [identifier] = self.let_expire(queue, b"1")
            dead_letters = DEADXACT if queue == self.payments else DEADLETTER
            held = self.run_to_end(self.service.reserve(dead_letters, timeout=0))
            locked = Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
            self.refused(self.service.requeue(identifier), locked)
            held.release()
            for error, status in (
                (BROKEN, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED),
                (FULL, Status.MQ_ERROR_INSUFFICIENT_RESOURCES),
            ):
                self.store.fail_commit(1, error)
                self.refused(self.service.requeue(identifier), status)
                self.clock.advance(LATER)
                self.assertEqual(len(self.dead_letters(dead_letters)), 1)
            self.run_to_end(self.service.delete_queue(queue))
            self.refused(self.service.requeue(identifier), Status.MQ_ERROR_QUEUE_NOT_FOUND)
            self.assertEqual(len(self.dead_letters(dead_letters)), 1)
        self.assertEqual(self.service.inspection.transactions(), [])

    def test_over_the_quota(self) -> None:
        """A queue that is full takes it no more than any other message."""
        [identifier] = self.let_expire(self.orders, b"1")
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 0}))
        self.refused(self.service.requeue(identifier), Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertEqual((self.count(self.orders), len(self.dead_letters())), (0, 1))

    def test_twice_at_once(self) -> None:
        """Only one of two callers that ask for it gets it."""
        for queue in (self.orders, self.payments):
            [identifier] = self.let_expire(queue, b"1")
            self.store.is_slow = True
            both = [self.deferred(self.service.requeue(identifier)) for _ in range(2)]
            self.store.catch_up()
            self.successResultOf(both[0])
            self.failureResultOf(both[1], MQError)
            self.assertEqual(self.seen(queue), [b"1"])

    def test_cancelled(self) -> None:
        """It goes on to its end."""
        [identifier] = self.let_expire(self.orders, b"1")
        self.store.is_slow = True
        requeuing = self.deferred(self.service.requeue(identifier))
        requeuing.cancel()
        self.failureResultOf(requeuing, CancelledError)
        self.store.catch_up()
        self.assertEqual((self.seen(self.orders), self.dead_letters()), ([b"1"], []))


class ListTests(DeadLetterTestCase):
    """L{QueueManagerService.dead_letters}."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def test_list(self) -> None:
        """The list has the first messages of both queues, up to the limit for each."""
        self.let_expire(self.orders, b"1", b"2", b"3")
        self.let_expire(self.payments, b"4", b"5")
        places = self.run_to_end(self.service.inspection.dead_letters(2))
        self.assertEqual([bytes(place.message.view.body) for place in places], [b"1", b"2", b"4", b"5"])
        self.assertEqual([place.queue for place in places], [DEADLETTER] * 2 + [DEADXACT] * 2)

    def test_some_go_meanwhile(self) -> None:
        """A message that is received while the list is made is not in it, and no other is left out."""
        self.let_expire(self.orders, b"1", b"2", b"3")
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(DEADLETTER, timeout=0))
        self.store.finish()
        listing = self.deferred(self.service.inspection.dead_letters())
        self.store.catch_up()
        self.successResultOf(receiving)
        places = self.successResultOf(listing)
        self.assertEqual([bytes(place.message.view.body) for place in places], [b"2", b"3"])
