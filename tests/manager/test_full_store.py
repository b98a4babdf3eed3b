"""A store without space: nothing more is taken until it has some, and nothing is called taken that is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from twisted.internet.defer import CancelledError
from twisted.logger import capturedLogs, formatEvent

from msmq.persistence.changes import AppendEvent, Change, PutState, RemoveMessages, RemoveState
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.builders import BETA
from tests.manager.support import BROKEN, FULL, JOURNAL, FaultyStore, ManagerTestCase

FULL_STATUS = Status.MQ_ERROR_INSUFFICIENT_RESOURCES
TO_ALPHA = "DIRECT=TCP:127.0.0.2\\private$\\orders"
BETA_ADMIN = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\admin")


class FullStoreTests(ManagerTestCase):
    """[MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6."""

    def fill(self) -> None:
        """Let the disk be full, and be noticed."""
        self.store.break_down(FULL)
        sending = self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)])
        self.refused(sending, FULL_STATUS)

    def test_nothing_is_taken(self) -> None:
        """Neither recoverable messages nor express ones, nor those of a transaction; the error says why."""
        self.fill()
        self.store.recover()
        transaction = self.service.begin()
        for sending in (
            self.service.send(self.orders, [Message()]),
            self.service.send("DIRECT=TCP:127.0.0.4\\private$\\orders", [Message()]),
            self.service.send(self.payments, [Message(transactional=True)]),
            self.service.send(self.payments, [Message(transactional=True)], transaction=transaction),
        ):
            self.assertIn("store is full", str(self.refused(sending, FULL_STATUS)))
        self.assertEqual(self.service.inspection.status().messages, 0)
        self.assertTrue(self.service.inspection.status().throttled)

    def test_it_ends_by_itself(self) -> None:
        """A few seconds after there is space again everything is taken, and nothing of the probe is left.

        MQDMPR-3.1.7.2.6-01.
        """
        self.fill()
        self.clock.advance(60)
        self.assertTrue(self.service.inspection.status().throttled)
        self.store.recover()
        self.clock.advance(5)
        self.assertFalse(self.service.inspection.status().throttled)
        self.put(self.orders, b"1")
        self.assertEqual(self.seen(self.orders), [b"1"])
        self.successResultOf(self.service.stopService())
        snapshot = self.successResultOf(self.store.open())
        self.assertNotIn("space_probe", snapshot.state)

    def test_probes_that_fail_otherwise(self) -> None:
        """Another error of the store, such as a cancellation, does not end the probes."""
        for error in (BROKEN, CancelledError(), asyncio.CancelledError()):
            self.fill()
            self.store.break_down(error)
            self.clock.advance(30)
            self.store.recover()
            self.clock.advance(30)
            self.assertFalse(self.service.inspection.status().throttled)

    def test_killed_during_a_probe(self) -> None:
        """The next start removes what is left of it."""
        self.fill()
        self.store.recover()
        self.store.is_slow = True
        self.clock.advance(0.5)
        self.store.finish(1)
        self.assertIn("space_probe", self.store.names())
        self.restart(crash=True)
        self.assertNotIn("space_probe", self.store.names())

    def test_copies_that_are_not_made(self) -> None:
        """The event log has when the store was full and when no longer, and how many journal copies of
        messages that were received meanwhile were not made; both are there after a restart.
        """
        self.run_to_end(self.service.set_queue(self.orders, {"journal": True}))
        self.put(self.orders, b"1", b"2")
        self.fill()
        self.store.is_hit = lambda changes: any(isinstance(each, PutState | AppendEvent) for each in changes)
        self.take(self.alpha, self.orders)
        self.clock.advance(10)
        self.store.recover()
        self.clock.advance(5)
        self.restart(crash=True)
        full, space = self.events()
        self.assertEqual((full.event, space.event), ("store_full", "store_has_space"))
        self.assertIn("there is no space", full.reason)
        self.assertIn("2 journal copies and dead letters were not made", space.reason)

    def test_receiving_goes_on(self) -> None:
        """Stored messages are received, moved and purged, since that frees space."""
        self.put(self.orders, b"1", b"2", b"3")
        self.fill()
        self.store.error = None
        self.assertEqual(bytes(self.run_to_end(self.service.receive(self.orders, timeout=0)).body), b"1")
        self.assertEqual(self.run_to_end(self.service.purge_queue(self.orders)), 2)

    def test_space_for_the_probe_alone(self) -> None:
        """While the second half of a look fails, there is no space yet."""
        self.fill()
        self.store.fail_commit(2, FULL)
        self.clock.advance(0.5)
        self.assertTrue(self.service.inspection.status().throttled)
        self.clock.advance(1)
        self.assertFalse(self.service.inspection.status().throttled)

    def test_one_that_was_too_large(self) -> None:
        """When only one batch found no space, others are taken again after a moment."""
        self.store.fail_commit(1, FULL)
        sending = self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)])
        self.refused(sending, FULL_STATUS)
        self.clock.advance(0.5)
        self.put(self.orders, b"1")
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_the_disk_is_left_in_peace(self) -> None:
        """A store that stays full, or has space for the look alone, is asked every few seconds."""
        asked: list[bool] = []
        for has_space_for_a_look in (False, True):
            asked.clear()

            def is_hit(changes: Sequence[Change], spared: bool = has_space_for_a_look) -> bool:
                is_look = all(isinstance(change, PutState | RemoveState) for change in changes)
                asked.append(is_look)
                return not (is_look and spared)

            self.store.error, self.store.is_hit = FULL, is_hit
            for _ in range(600):
                sending = self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)])
                self.refused(sending, FULL_STATUS)
                self.clock.advance(0.1)
            self.assertLess(len(asked), 60)

    def test_other_failures(self) -> None:
        """A store that fails otherwise refuses what it was asked for; express messages need none of it."""
        self.put(self.orders, b"0", delivery=Delivery.EXPRESS)
        self.store.break_down(BROKEN)
        sending = self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)])
        self.refused(sending, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.put(self.orders, b"1", delivery=Delivery.EXPRESS)
        self.assertEqual(
            (self.seen(self.orders), self.service.inspection.status().throttled), ([b"0", b"1"], False)
        )

    def test_stopped_meanwhile(self) -> None:
        """The check ends, and the next start checks again."""
        self.fill()
        self.restart(seconds=100)
        self.assertTrue(self.service.inspection.status().throttled)
        self.store.recover()
        self.clock.advance(5)
        self.put(self.orders, b"1")
        self.assertEqual(self.seen(self.orders), [b"1"])


class FullReceiverTests(ManagerTestCase):
    """BETA sends to an ALPHA without space."""

    def setUp(self) -> None:
        super().setUp()
        self.beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True))
        self.beta.start()
        self.addCleanup(self.beta.service.stopService)

    def send_from_beta(self, *bodies: bytes, **properties: object) -> None:
        """Send recoverable messages to ALPHA."""
        self.send(self.beta, TO_ALPHA, *bodies, delivery=Delivery.RECOVERABLE, **properties)

    def waiting(self) -> int:
        """How many messages BETA has still."""
        return sum(queue.messages for queue in self.beta.service.inspection.outgoing())

    def test_nothing_is_acknowledged(self) -> None:
        """A message that is not stored stays at its sender, and arrives once and in order when there is
        space.
        """
        self.send_from_beta(b"0")
        self.clock.advance(5)
        self.assertEqual(self.waiting(), 0)
        self.store.break_down(FULL)
        self.send_from_beta(*(b"%d" % number for number in range(1, 50)))
        self.clock.advance(120)
        self.assertEqual((self.waiting(), self.seen(self.orders)), (49, [b"0"]))
        self.store.recover()
        self.clock.advance(600)
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.seen(self.orders), [b"%d" % number for number in range(50)])

    def test_transactional(self) -> None:
        """So do the messages of a transaction."""
        self.store.break_down(FULL)
        to = "DIRECT=TCP:127.0.0.2\\private$\\payments"
        self.send(self.beta, to, *(b"%d" % number for number in range(20)), transactional=True)
        self.clock.advance(300)
        self.assertEqual((self.waiting(), self.seen(self.payments)), (20, []))
        self.store.recover()
        self.clock.advance(2000)
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.seen(self.payments), [b"%d" % number for number in range(20)])

    def test_results_of_what_is_received_meanwhile(self) -> None:
        """BETA gets them once there is space, a stop that comes before loses them, and says so."""
        admin = self.queue(self.beta, "admin")
        for is_stopped in (False, True):
            to = "DIRECT=TCP:127.0.0.2\\private$\\payments"
            self.send(self.beta, to, b"1", transactional=True, journal=True)
            self.send_from_beta(b"2", acknowledge=Acknowledge.POSITIVE_RECEIVE, admin_queue=BETA_ADMIN)
            self.clock.advance(60)
            self.store.break_down(FULL)
            sending = self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)])
            self.refused(sending, FULL_STATUS)
            self.store.is_hit = lambda changes: not all(isinstance(each, RemoveMessages) for each in changes)
            self.assertEqual(self.seen(self.payments), [b"1"])
            self.take(self.alpha, self.payments)
            self.take(self.alpha, self.orders)
            with capturedLogs() as logs:
                if is_stopped:
                    self.restart()
            self.store.recover()
            self.clock.advance(100)
            classes = [view.message_class for view in self.take(self.beta, admin)]
            self.assertEqual(classes, [] if is_stopped else [MessageClass.ACK_RECEIVE])
            self.assertEqual(self.beta.service.inspection.queue(JOURNAL).messages, 1)
            lines = [formatEvent(event) for event in logs]
            lost = "the results of 2 message(s) were not sent: the store had failed until the stop"
            self.assertEqual(lost in lines, is_stopped)

    def test_killed_before_it_was_stored(self) -> None:
        """BETA still has the messages that ALPHA lost."""
        self.store.is_slow = True
        self.send_from_beta(*(b"%d" % number for number in range(10)))
        self.clock.advance(5)
        self.assertEqual(self.waiting(), 10)
        self.network.crash("127.0.0.2")
        self.store.lose()
        self.begin()
        self.clock.advance(600)
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.seen(self.orders), [b"%d" % number for number in range(10)])


class ForgetfulSenderTests(ManagerTestCase):
    """BETA's own store fails while its messages are delivered to ALPHA."""

    def setUp(self) -> None:
        super().setUp()
        self.disk = FaultyStore()
        self.beta = self.node("BETA", BETA, store=self.disk)
        self.beta.start()
        self.addCleanup(self.beta.service.stopService)

    def test_what_was_delivered_is_forgotten_later(self) -> None:
        """It is not sent twice, and is gone when the store works again, over a restart too."""
        self.send(self.beta, TO_ALPHA, b"1", b"2", delivery=Delivery.RECOVERABLE, journal=True)
        self.disk.break_down()
        self.clock.advance(30)
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        [outgoing] = self.beta.service.inspection.outgoing()
        self.assertEqual(outgoing.messages, 2)
        self.disk.recover()
        self.clock.advance(100)
        [outgoing] = self.beta.service.inspection.outgoing()
        self.assertEqual((outgoing.messages, outgoing.bytes), (0, 0))
        journal = self.run_to_end(self.beta.service.reserve(JOURNAL, count=9, timeout=0, peek=True))
        self.assertEqual([bytes(message.view.body) for message in journal.messages], [b"1", b"2"])
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])

    def test_refused_sends_leave_no_trace(self) -> None:
        """A message whose send was refused is in no queue."""
        self.disk.break_down(FULL)
        sending = self.deferred(
            self.beta.service.send(TO_ALPHA, [Message(body=b"1", delivery=Delivery.RECOVERABLE)])
        )
        self.assertEqual(self.failureResultOf(sending, MQError).value.status, FULL_STATUS)
        self.disk.recover()
        self.clock.advance(100)
        self.assertEqual(self.seen(self.orders), [])
        self.send(self.beta, TO_ALPHA, b"2", delivery=Delivery.RECOVERABLE)
        self.clock.advance(100)
        self.assertEqual(self.seen(self.orders), [b"2"])
