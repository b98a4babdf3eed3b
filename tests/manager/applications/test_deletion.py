"""Queues that are deleted while something is in them, open on them, or being done to them."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, BROKEN, FULL, ManagerTestCase

FULL_STATUS = Status.MQ_ERROR_INSUFFICIENT_RESOURCES
MANY = 1000


class DeletionTests(ManagerTestCase):
    """L{QueueManagerService.delete_queue}."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def fill(self, count: int = MANY) -> None:
        """Send this number of messages to the queue, half of them express."""
        bodies = [b"%d" % number for number in range(count // 2)]
        self.put(self.orders, *bodies, acknowledge=ASK_ALL)
        self.put(self.orders, *bodies, acknowledge=ASK_ALL, delivery=Delivery.EXPRESS)
        self.answers()

    def test_a_large_queue(self) -> None:
        """It is deleted at once; its messages leave in slices, each has an event, and none comes back."""
        self.fill()
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.refused(self.service.receive(self.orders, timeout=0), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertNoResult(deleting)
        self.clock.advance(1)
        self.successResultOf(deleting)
        self.assertEqual({event.event for event in self.events()}, {"deleted"})
        self.assertEqual(len({event.identity for event in self.events()}), MANY)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * MANY)
        self.assertEqual(
            (self.service.inspection.status().messages, self.service.inspection.status().bytes), (0, 0)
        )
        self.restart()
        self.assertEqual(
            [queue.path for queue in self.service.inspection.queues()], [self.payments, self.admin]
        )

    def test_confirmed_after_the_deletion(self) -> None:
        """A reader that confirms messages of a deleted queue gets an error (reading 17).

        Their senders got NackQueueDeleted, and would have the work done twice. MQDMPR-3.1.7.1.12-01
        """
        self.put(self.orders, b"1", b"2", acknowledge=ASK_ALL)
        reservation = self.run_to_end(self.service.reserve(self.orders, count=2, timeout=0))
        self.answers()
        self.run_to_end(self.service.delete_queue(self.orders))
        self.refused(reservation.confirm(), Status.MQ_ERROR_QUEUE_DELETED)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * 2)
        self.assertEqual([event.event for event in self.events()], ["deleted"] * 2)
        self.assertEqual(self.service.inspection.status().messages, 0)

    def test_the_store_fails(self) -> None:
        """The deletion fails with an error; the removal is retried until nothing of the queue is left."""
        self.fill()
        self.store.fail_commit(3, of=AppendEvent)
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.clock.advance(1)
        failure = self.failureResultOf(deleting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.clock.advance(100)
        self.assertEqual(len(self.events()), MANY)
        self.assertEqual(len(self.answers()), MANY)
        self.restart(crash=True)
        self.assertEqual(
            [queue.path for queue in self.service.inspection.queues()], [self.payments, self.admin]
        )

    def test_an_error_that_passes(self) -> None:
        """The removal is tried again after a second, not after a minute, in which a name would be taken by a
        queue that is not there, and damage would be found in its messages.
        """
        self.fill()
        self.store.fail_commit(1, of=AppendEvent)
        self.refused(self.service.delete_queue(self.orders), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.clock.advance(1)
        self.assertEqual(len(self.events()), MANY)
        self.queue(self.alpha)

    def test_a_full_store(self) -> None:
        """The caller gets that the deletion is pending; no dead letter or acknowledgement is counted that is
        not stored, and the deletion completes within seconds once there is space, not after a minute.
        """
        self.put(self.payments, *[b"1"] * 300, dead_letter=True, transactional=True, acknowledge=ASK_ALL)
        self.answers()
        self.store.break_down(FULL)
        failure = self.refused(self.service.delete_queue(self.payments), FULL_STATUS)
        self.assertIn("is deleted, and its removal from the store is pending", str(failure))
        self.clock.advance(30)
        status = self.service.inspection.status()
        self.assertEqual((status.dead_letters, status.messages), (0, 0))
        self.store.recover()
        self.clock.advance(6)
        self.assertEqual(self.service.inspection.status().dead_letters, 300)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * 300)
        self.assertEqual([event.event for event in self.events()].count("deleted"), 300)
        self.queue(self.alpha, "payments", transactional=True)

    def test_the_name_is_taken_until_it_is_gone(self) -> None:
        """Two queues of one name are never in the store."""
        self.store.break_down()
        self.refused(self.service.delete_queue(self.orders), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.refused(self.service.create_queue(self.orders), Status.MQ_ERROR_QUEUE_EXISTS)
        self.clock.advance(100)
        self.queue(self.alpha)
        self.put(self.orders, b"1")
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_stopped_meanwhile(self) -> None:
        """A deletion that was not finished is not half done in the next life: what is left is there."""
        self.fill()
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.store.break_down()
        self.clock.advance(1)
        self.failureResultOf(deleting, MQError)
        self.store.recover()
        self.restart()
        self.assertEqual(self.count(self.orders), MANY // 2 - len(self.events()))

    def test_a_caller_at_a_stop(self) -> None:
        """The caller of a deletion that a stop interrupts gets an error that names the queue."""
        self.fill()
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.assertNoResult(deleting)
        self.restart()
        failure = self.failureResultOf(deleting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        self.assertIn("private$\\orders", failure.value.detail)
        self.assertIn(self.orders, [queue.path for queue in self.service.inspection.queues()])

    def test_cancelled_deletion(self) -> None:
        """It is completed."""
        self.fill()
        deleting = self.deferred(self.service.delete_queue(self.orders))
        deleting.cancel()
        self.failureResultOf(deleting, CancelledError)
        self.clock.advance(1)
        self.assertEqual(len(self.events()), MANY)

    def test_packets_cannot_be_read(self) -> None:
        """Their senders get no acknowledgements, but the queue is deleted, and the event log has their
        number.
        """
        self.fill()
        self.store.unreadable = BROKEN
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.clock.advance(1)
        self.successResultOf(deleting)
        self.assertEqual(len(self.events()), MANY)

    def test_messages_that_readers_hold(self) -> None:
        """Messages that readers hold are deleted too, with one event, released or confirmed too late."""
        self.put(self.orders, b"1", b"2", b"3", acknowledge=ASK_ALL)
        held = [self.run_to_end(self.service.reserve(self.orders, timeout=0)) for _ in range(2)]
        self.answers()
        self.run_to_end(self.service.delete_queue(self.orders))
        self.refused(held[0].confirm(), Status.MQ_ERROR_QUEUE_DELETED)
        held[1].release()
        deleted = MessageClass.NACK_Q_DELETED
        self.assertEqual(sorted(self.answers()), [(deleted, b"1"), (deleted, b"2"), (deleted, b"3")])
        self.assertEqual(self.service.inspection.status().messages, 0)

    def test_an_arrival_in_progress(self) -> None:
        """A message that arrives while its queue is being deleted is refused, or logged as deleted; it
        is never lost.
        """
        self.store.is_slow = True
        sending = self.deferred(self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)]))
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.store.catch_up()
        self.successResultOf(deleting)
        [identifier] = self.successResultOf(sending)
        explanation = self.run_to_end(self.service.inspection.explain(identifier))
        self.assertEqual([event.event for event in explanation.events], ["deleted"])
        self.restart(crash=True)
        self.assertEqual(self.run_to_end(self.service.inspection.explain(identifier)).places, [])

    def test_a_removal_in_progress(self) -> None:
        """A message whose receipt is being confirmed was received, and is not logged as deleted."""
        [identifier] = self.put(self.orders, b"1", acknowledge=ASK_ALL)
        reservation = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.answers()
        self.store.is_slow = True
        confirming = self.deferred(reservation.confirm())
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.store.catch_up()
        self.successResultOf(confirming)
        self.successResultOf(deleting)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.ACK_RECEIVE])
        self.assertEqual(self.run_to_end(self.service.inspection.explain(identifier)).events, [])

    def test_waits_and_open_handles(self) -> None:
        """Waits end; the handle reports that the queue is gone, and can be closed."""
        handle = self.service.open_queue(self.orders)
        sender = self.service.open_queue(self.orders, QueueAccessType.SEND)
        cursor = handle.cursor()
        waits = [
            self.deferred(handle.receive()),
            self.deferred(cursor.peek(timeout=None)),
            self.deferred(self.service.peek(self.orders)),
        ]
        self.run_to_end(self.service.delete_queue(self.orders))
        for wait in waits:
            failure = self.failureResultOf(wait, MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_QUEUE_DELETED)
        gone = Status.MQ_ERROR_QUEUE_NOT_AVAILABLE
        for work in (handle.receive(), cursor.peek(), handle.purge(), sender.send([Message()])):
            self.refused(work, gone)
        self.assertEqual(self.assertRaises(MQError, handle.cursor).status, gone)
        for each in (cursor, handle, sender):
            each.close()
        self.refused(handle.receive(), Status.MQ_ERROR_INVALID_HANDLE)
        self.queue(self.alpha)
        self.put(self.orders, b"1")
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_a_packet_that_is_just_being_read(self) -> None:
        """Its reader gets the status of a deleted queue."""
        self.put(self.orders, b"1")
        self.store.is_slow = True
        reads = [
            self.deferred(self.service.receive(self.orders, timeout=0)),
            self.deferred(self.service.peek(self.payments, timeout=0)),
        ]
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.store.catch_up()
        self.successResultOf(deleting)
        self.failureResultOf(reads[1], MQError)
        failure = self.failureResultOf(reads[0], MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_QUEUE_DELETED)

    def test_alterations(self) -> None:
        """Properties that are being stored do not bring the queue back."""
        self.store.is_slow = True
        setting = self.deferred(self.service.set_queue(self.orders, {"label": "x"}))
        deleting = self.deferred(self.service.delete_queue(self.orders))
        late = self.service.set_queue(self.orders, {"label": "y"})
        self.refused(late, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.store.catch_up()
        self.successResultOf(setting)
        self.successResultOf(deleting)
        self.restart()
        self.assertNotIn(self.orders, [queue.path for queue in self.service.inspection.queues()])


class CreationTests(ManagerTestCase):
    """L{QueueManagerService.create_queue} and L{QueueManagerService.set_queue}, interrupted."""

    def test_cancelled_creation(self) -> None:
        """A queue that the store has exists, and its name is taken."""
        self.store.is_slow = True
        creating = self.deferred(self.service.create_queue(".\\private$\\new"))
        creating.cancel()
        self.failureResultOf(creating, CancelledError)
        self.store.catch_up()
        self.refused(self.service.create_queue(".\\private$\\new"), Status.MQ_ERROR_QUEUE_EXISTS)
        self.put(".\\private$\\new", b"1")
        self.restart(crash=True)
        self.assertEqual(self.seen(".\\private$\\new"), [b"1"])

    def test_cancelled_change_of_properties(self) -> None:
        """The next change does not undo it."""
        self.store.is_slow = True
        setting = self.deferred(self.service.set_queue(self.orders, {"label": "x"}))
        setting.cancel()
        self.failureResultOf(setting, CancelledError)
        second = self.deferred(self.service.set_queue(self.orders, {"quota": 7}))
        self.store.catch_up()
        queue = self.successResultOf(second)
        self.assertEqual((queue.label, queue.quota), ("x", 7))

    def test_values_of_the_wrong_type(self) -> None:
        """They are refused by name, and nothing changes."""
        for name, value in (("log_age", "long"), ("quota", "big"), ("log_size", [])):
            setting = self.service.set_queue(self.orders, {"label": "x", name: value})
            error = self.refused(setting, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
            self.assertIn(name, str(error))
        self.assertEqual(self.service.inspection.queue(self.orders).label, "")
