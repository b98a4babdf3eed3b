"""The event log: events of messages that were not received, and the explanation of one message."""

from __future__ import annotations

from msmq.queues.arriving.message import Delivery
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import Status
from tests.manager.support import BROKEN, ManagerTestCase


class EventTestCase(ManagerTestCase):
    """The fixtures of L{ManagerTestCase}."""

    def reported(self, identifier: MessageIdentifier) -> list[tuple[str, str]]:
        """The events of a message, and their queues."""
        explanation = self.run_to_end(self.service.inspection.explain(identifier))
        return [(event.event, event.queue) for event in explanation.events]

    def places(self, identifier: MessageIdentifier) -> list[tuple[str, str]]:
        """Where a message is, and in which state."""
        explanation = self.run_to_end(self.service.inspection.explain(identifier))
        return sorted((place.queue, place.state) for place in explanation.places)


class EventTests(EventTestCase):
    """Every removal of a message that was not received."""

    def test_each_removal(self) -> None:
        """One line for each, with the queue, in one commit with its removal; express messages too."""
        for delivery in Delivery:
            [expired] = self.put(self.orders, b"1", delivery=delivery, time_to_be_received=10)
            self.clock.advance(20)
            [purged] = self.put(self.orders, b"2", delivery=delivery)
            self.run_to_end(self.service.purge_queue(self.orders))
            [deleted] = self.put(self.orders, b"3", delivery=delivery)
            self.run_to_end(self.service.delete_queue(self.orders))
            self.queue(self.alpha)
            path = "private$\\orders"
            self.assertEqual(self.reported(expired), [("expired", path)])
            self.assertEqual(self.reported(purged), [("purged", path)])
            self.assertEqual(self.reported(deleted), [("deleted", path)])

    def test_times_and_classes(self) -> None:
        """An event has the time of the wall clock, and the class that says it on the wire."""
        self.put(self.orders, b"1", time_to_be_received=10)
        sent = self.clock.now().wall
        self.clock.advance(60)
        [event] = self.events()
        self.assertEqual(event.message_class, MessageClass.NACK_RECEIVE_TIMEOUT)
        self.assertTrue(10 <= event.time - sent < 11, event.time - sent)

    def test_count_while_the_store_fails(self) -> None:
        """The metric counts an event once, however often its removal is tried."""
        self.put(self.orders, b"1", b"2", time_to_be_received=10)
        self.put(self.orders, b"3")
        self.store.break_down()
        for _ in range(10):
            self.clock.advance(10)
        self.refused(self.service.purge_queue(self.orders), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.clock.advance(100)
        self.assertEqual(self.run_to_end(self.service.purge_queue(self.orders)), 1)
        counts = self.service.inspection.measurements.events()
        self.assertEqual((counts["expired"], counts["purged"]), (2, 1))

    def test_count_during_a_commit_that_fails(self) -> None:
        """The metric never decreases, which would be taken for a restart of the server."""
        self.put(self.orders, b"1", b"2", time_to_be_received=10)
        self.store.break_down()
        self.store.is_slow = True
        measurements = self.service.inspection.measurements
        counts = []
        for _ in range(3):
            self.clock.advance(20)
            counts.append(measurements.events()["expired"])
            self.store.finish()
            counts.append(measurements.events()["expired"])
        self.store.recover()
        self.store.catch_up()
        self.clock.advance(100)
        counts.append(measurements.events()["expired"])
        self.assertEqual(counts, [2] * 7)

    def test_stop(self) -> None:
        """Events that wait for the commit of others when the queue manager stops are stored."""
        self.store.is_slow = True
        for word in ("first", "second", "third"):
            self.service.note(word, "an administrator did that")
        stopped = self.service.stopService()
        self.store.catch_up()
        self.successResultOf(stopped)
        self.alpha.deaf()
        self.begin()
        self.assertEqual([event.event for event in self.events()], ["first", "second", "third"])

    def test_received(self) -> None:
        """A received message leaves no event."""
        [identifier] = self.put(self.orders, b"1")
        self.take(self.alpha, self.orders)
        self.assertEqual((self.reported(identifier), self.places(identifier), self.events()), ([], [], []))

    def test_held_when_purged(self) -> None:
        """Messages that readers had then have an event after their decision."""
        [identifier] = self.put(self.orders, b"1")
        reservation = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.run_to_end(self.service.purge_queue(self.orders))
        self.assertEqual(self.reported(identifier), [])
        reservation.release()
        self.assertEqual(self.reported(identifier), [("purged", "private$\\orders")])


class ExplainTests(EventTestCase):
    """L{QueueManagerService.explain}."""

    def test_where_it_is(self) -> None:
        """In its queue, with a reader, in a transaction, in a journal, or in transit; in memory or not."""
        kept = self.queue(self.alpha, "kept", journal=True)
        [first] = self.put(kept, b"1")
        [express] = self.put(kept, b"2", delivery=Delivery.EXPRESS)
        [sent] = self.put("DIRECT=TCP:127.0.0.4\\private$\\orders", b"3")
        transaction = self.service.begin()
        [received] = self.put(self.payments, b"4")
        self.run_to_end(self.service.receive(self.payments, timeout=0, transaction=transaction))
        reservation = self.run_to_end(self.service.reserve(kept, timeout=0))
        self.assertEqual(self.places(first), [(kept, "locked")])
        self.assertEqual(self.places(express), [(kept, "available")])
        self.assertEqual(self.places(sent), [("DIRECT=TCP:127.0.0.4\\private$\\orders", "available")])
        [place] = self.run_to_end(self.service.inspection.explain(received)).places
        self.assertEqual((place.state, place.transaction), ("locked", transaction.identifier))
        self.run_to_end(reservation.confirm())
        self.assertEqual(self.places(first), [(f"{kept};journal", "available")])

    def test_in_two_queues(self) -> None:
        """A message for several queues is listed in each."""
        other = self.queue(self.alpha, "other")
        names = [self.service.inspection.queue(path).format_name for path in (self.orders, other)]
        [identifier] = self.put(",".join(names), b"1")
        expected = sorted([(self.orders, "available"), (other, "available")])
        self.assertEqual(self.places(identifier), expected)

    def test_unknown_message(self) -> None:
        """An unknown message is not an error."""
        self.assertEqual(self.places(MessageIdentifier(self.alpha.model.identifier, 1)), [])

    def test_it_leaves_meanwhile(self) -> None:
        """A message that is being received is shown as that; once it is received it is in no queue."""
        [identifier] = self.put(self.orders, b"1")
        self.restart()
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.orders, timeout=0))
        self.store.finish(1)
        explaining = self.deferred(self.service.inspection.explain(identifier))
        self.store.catch_up()
        self.successResultOf(receiving)
        [place] = self.successResultOf(explaining).places
        self.assertEqual(place.state, "removing")
        self.assertEqual(self.places(identifier), [])

    def test_the_store_fails(self) -> None:
        """It says so rather than that nothing is known."""
        [identifier] = self.put(self.orders, b"1")
        self.restart()
        self.store.unreadable = BROKEN
        self.refused(self.service.inspection.explain(identifier), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)

    def test_very_many_in_memory(self) -> None:
        """The reactor is not held up by a look at all of them."""
        identifiers = self.put(self.orders, *(b"%d" % n for n in range(5000)), delivery=Delivery.EXPRESS)
        explaining = self.deferred(self.service.inspection.explain(identifiers[-1]))
        self.assertNoResult(explaining)
        self.clock.advance(1)
        [place] = self.successResultOf(explaining).places
        self.assertEqual(bytes(place.message.view.body), b"4999")


class BoundedTests(EventTestCase):
    """The event log does not grow without end."""

    limits = {"events": 2000}  # noqa: RUF012

    def test_oldest_go(self) -> None:
        """The newest stay, and a little more than wanted."""
        for start in range(0, 6000, 500):
            self.put(self.orders, *(b"%d" % n for n in range(start, start + 500)), delivery=Delivery.EXPRESS)
            purging = self.deferred(self.service.purge_queue(self.orders))
            self.clock.advance(1)
            self.successResultOf(purging)
        events = self.events()
        self.assertTrue(2000 <= len(events) <= 3000, len(events))
        last = self.put(self.orders, b"last", delivery=Delivery.EXPRESS)[0]
        self.run_to_end(self.service.purge_queue(self.orders))
        self.assertEqual(self.events()[-1].identity, last.to_bytes())

    def test_after_restarts(self) -> None:
        """Events from before a restart count too."""
        for _ in range(7):
            self.put(self.orders, *(b"x" for n in range(500)), delivery=Delivery.EXPRESS)
            purging = self.deferred(self.service.purge_queue(self.orders))
            self.clock.advance(1)
            self.successResultOf(purging)
            self.restart()
        self.assertLessEqual(len(self.events()), 2500)
