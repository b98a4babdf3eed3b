"""Journals of what was received, and what a store that is slow, full or broken means for them."""

from __future__ import annotations

from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, BROKEN, FULL, JOURNAL, ManagerTestCase


class JournalTests(ManagerTestCase):
    """Queues with Journaling."""

    def setUp(self) -> None:
        super().setUp()
        self.kept = self.queue(self.alpha, "kept", journal=True)
        self.journal = f"{self.kept};journal"

    def receive(self, queue: str) -> bytes:
        """Receive one message permanently."""
        return bytes(self.run_to_end(self.service.receive(queue, timeout=0)).body)

    def test_received_messages(self) -> None:
        """It is in the journal, in the order of receiving, recoverable ones over a crash."""
        self.put(self.kept, b"1", b"2")
        self.put(self.kept, b"3", delivery=Delivery.EXPRESS)
        self.put(self.kept, b"first", priority=7)
        for body in (b"first", b"1", b"2", b"3"):
            self.assertEqual(self.receive(self.kept), body)
        self.assertEqual(self.seen(self.journal), [b"first", b"1", b"2", b"3"])
        self.assertEqual(self.service.inspection.queue(self.kept).journal_messages, 4)
        self.restart(crash=True)
        self.assertEqual((self.seen(self.journal), self.seen(self.kept)), ([b"first", b"1", b"2"], []))

    def test_only_what_was_received(self) -> None:
        """Neither what expired is, nor what was purged or moved, nor what a journal holds."""
        self.put(self.kept, b"1", time_to_be_received=10)
        self.clock.advance(20)
        [moved] = self.put(self.kept, b"2")
        self.run_to_end(self.service.move(moved, f"{self.kept};aside"))
        self.put(self.kept, b"3")
        self.run_to_end(self.service.purge_queue(self.kept))
        self.assertEqual(self.count(self.journal), 0)
        self.put(self.kept, b"4")
        self.receive(self.kept)
        self.assertEqual(self.receive(self.journal), b"4")
        self.assertEqual(self.count(self.journal), 0)

    def test_a_subqueue(self) -> None:
        """Messages received from a subqueue are in the journal of its queue."""
        [moved] = self.put(self.kept, b"1")
        self.run_to_end(self.service.move(moved, f"{self.kept};aside"))
        self.receive(f"{self.kept};aside")
        self.assertEqual(self.seen(self.journal), [b"1"])

    def test_in_a_transaction(self) -> None:
        """The copy is there with the commit, and never with an abort."""
        kept = self.queue(self.alpha, "both", journal=True, transactional=True)
        self.put(kept, b"1", transactional=True)
        for is_committed in (False, True):
            transaction = self.service.begin()
            self.run_to_end(self.service.receive(kept, timeout=0, transaction=transaction))
            self.assertEqual(self.seen(f"{kept};journal"), [])
            self.run_to_end(transaction.commit() if is_committed else transaction.abort())
        self.assertEqual(self.seen(f"{kept};journal"), [b"1"])

    def test_its_quota(self) -> None:
        """Over the quota the message is received all the same, and the missing copy is counted."""
        small = self.queue(self.alpha, "small", journal=True, journal_quota=1)
        self.put(small, bytes(600), b"x" * 600)
        for _ in range(2):
            self.receive(small)
        self.assertEqual(
            (self.count(f"{small};journal"), self.service.inspection.status().copies_dropped), (1, 1)
        )

    def test_missing_copies_of_receipts_that_fail(self) -> None:
        """A missing copy counts once, when the receipt is stored; so does one of a transaction."""
        small = self.queue(self.alpha, "small", journal=True, journal_quota=0)
        both = self.queue(self.alpha, "both", journal=True, journal_quota=0, transactional=True)
        self.put(small, b"1")
        self.put(both, b"2", transactional=True)

        def dropped() -> int:
            return self.service.inspection.status().copies_dropped

        self.store.break_down(BROKEN)
        self.failureResultOf(self.deferred(self.service.receive(small, timeout=0)), MQError)
        transaction = self.service.begin()
        self.run_to_end(self.service.receive(both, timeout=0, transaction=transaction))
        self.failureResultOf(self.deferred(transaction.commit()), MQError)
        self.assertEqual(dropped(), 0)
        self.store.recover()
        self.receive(small)
        self.assertEqual(dropped(), 1)
        self.run_to_end(transaction.commit())
        self.assertEqual(dropped(), 2)

    def test_a_store_without_space(self) -> None:
        """Receiving continues since it frees space; only the copies are not made."""
        self.put(self.kept, b"1", b"2")
        self.store.break_down(FULL)
        failing = self.service.send(self.kept, [])
        self.run_to_end(failing)
        refused = self.deferred(self.service.create_queue(".\\private$\\another"))
        self.failureResultOf(refused, MQError)
        self.assertTrue(self.service.inspection.status().throttled)
        self.store.recover()
        self.receive(self.kept)
        self.assertEqual((self.count(self.journal), self.service.inspection.status().copies_dropped), (0, 1))
        self.clock.advance(10)
        self.receive(self.kept)
        self.assertEqual(self.seen(self.journal), [b"2"])

    def test_the_receive_fails(self) -> None:
        """The message is back, and there is no copy of it."""
        self.put(self.kept, b"1")
        for crash in (False, True):
            self.store.fail_commit(1)
            receiving = self.service.receive(self.kept, timeout=0)
            self.refused(receiving, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
            self.assertEqual((self.seen(self.kept), self.count(self.journal)), ([b"1"], 0))
            self.restart(crash=crash)

    def test_copies_are_not_acknowledged(self) -> None:
        """A sender gets one acknowledgement of receipt, and none of the fate of the copy."""
        self.put(self.kept, b"1", b"2", acknowledge=ASK_ALL)
        for _ in range(2):
            self.receive(self.kept)
        self.assertEqual(
            [name for name, _ in self.answers()],
            [MessageClass.ACK_REACH_QUEUE] * 2 + [MessageClass.ACK_RECEIVE] * 2,
        )
        self.receive(self.journal)
        self.run_to_end(self.service.purge_queue(self.journal))
        self.assertEqual(self.answers(), [])

    def test_not_sent_to(self) -> None:
        """Only receiving fills a journal."""
        unsupported = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        self.refused(self.service.send(self.journal, []), unsupported)
        [identifier] = self.put(self.kept, b"1")
        self.refused(self.service.move(identifier, self.journal), Status.MQ_ERROR_INVALID_PARAMETER)
        self.refused(self.service.delete_queue(self.journal), Status.MQ_ERROR_ILLEGAL_OPERATION)

    def test_goes_with_its_queue(self) -> None:
        """It has no event, and nothing of it comes back."""
        self.put(self.kept, b"1")
        self.receive(self.kept)
        self.run_to_end(self.service.delete_queue(self.kept))
        self.assertEqual((self.events(), self.service.inspection.status().messages), ([], 0))
        self.restart()
        self.queue(self.alpha, "kept", journal=True)
        self.assertEqual(self.seen(self.journal), [])

    def test_pending_receives(self) -> None:
        """While the store is at work the message is in neither queue for readers."""
        self.put(self.kept, b"1")
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.kept, timeout=0))
        self.assertEqual((self.seen(self.kept), self.seen(self.journal)), ([], []))
        self.store.catch_up()
        self.successResultOf(receiving)
        self.assertEqual((self.seen(self.kept), self.seen(self.journal)), ([], [b"1"]))


class SentHereTests(ManagerTestCase):
    """[MS-MQDMPR] 3.1.1.12 PositiveJournalingRequested of messages to queues of the same queue manager."""

    def put_both(self, queue: str, **properties: object) -> None:
        """A message that asks for a copy, and one that does not."""
        self.put(queue, b"kept", journal=True, **properties)
        self.put(queue, b"plain", **properties)

    def test_arrived(self) -> None:
        """It is copied when it is in its queue; a recoverable one, and its copy, are there after a crash."""
        self.put_both(self.orders)
        self.put_both(self.orders, delivery=Delivery.EXPRESS)
        self.assertEqual(self.seen(JOURNAL), [b"kept", b"kept"])
        self.restart(crash=True)
        self.assertEqual((self.seen(JOURNAL), self.seen(self.orders)), ([b"kept"], [b"kept", b"plain"]))
        self.run_to_end(self.service.receive(self.orders, timeout=0))
        self.run_to_end(self.service.purge_queue(self.orders))
        self.assertEqual(self.seen(JOURNAL), [b"kept"])

    def test_transactional(self) -> None:
        """The copy of a transactional message is made when it is received permanently, and never
        otherwise.
        """
        self.put_both(self.payments)
        self.assertEqual(self.seen(JOURNAL), [])
        transaction = self.service.begin()
        self.run_to_end(self.service.receive(self.payments, timeout=0, transaction=transaction))
        self.run_to_end(transaction.abort())
        self.assertEqual(self.seen(JOURNAL), [])
        for _ in range(2):
            self.run_to_end(self.service.receive(self.payments, timeout=0))
        self.assertEqual(self.seen(JOURNAL), [b"kept"])
        self.restart(crash=True)
        self.assertEqual((self.seen(JOURNAL), self.seen(self.payments)), ([b"kept"], []))
        self.put(self.payments, b"expires", journal=True, time_to_be_received=5)
        self.put(self.payments, b"purged", journal=True)
        self.clock.advance(20)
        self.run_to_end(self.service.purge_queue(self.payments))
        self.assertEqual(self.seen(JOURNAL), [b"kept"])

    def test_both_journals(self) -> None:
        """The journal of the queue and that of the machine have a copy each, and copies are not copied."""
        both = self.queue(self.alpha, "both", journal=True, transactional=True)
        self.put(both, b"1", journal=True, transactional=True)
        for _ in range(2):
            [reservation] = [self.run_to_end(self.service.reserve(both, timeout=0))]
            self.run_to_end(reservation.confirm())
            self.assertEqual((self.seen(JOURNAL), self.seen(f"{both};journal")), ([b"1"], [b"1"]))
            self.run_to_end(self.service.receive(f"{both};journal", timeout=0))
            self.assertEqual(self.seen(JOURNAL), [b"1"])
            self.run_to_end(self.service.receive(JOURNAL, timeout=0))
            self.put(both, b"1", journal=True, transactional=True)

    def test_the_store_fails(self) -> None:
        """A message that was not stored was not sent, and has no copy."""
        self.store.break_down(BROKEN)
        for queue in (self.orders, self.payments):
            message = Message(
                delivery=Delivery.RECOVERABLE, journal=True, transactional=queue == self.payments
            )
            sending = self.service.send(queue, [message])
            self.refused(sending, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.assertEqual((self.seen(JOURNAL), self.seen(self.orders), self.seen(self.payments)), ([], [], []))
        self.assertEqual(self.service.inspection.status().bytes, 0)

    def test_a_dead_letter_and_a_journal_copy(self) -> None:
        """With both requested, a plain message that had arrived has its copy, and the dead letter."""
        self.put(self.orders, b"1", journal=True, dead_letter=True, time_to_be_received=5)
        self.clock.advance(20)
        self.assertEqual(self.seen(JOURNAL), [b"1"])
        [dead_letter] = self.messages(".\\system$;deadletter")
        self.assertEqual(dead_letter.view.message_class, MessageClass.NACK_RECEIVE_TIMEOUT)


class FullMachineJournalTests(ManagerTestCase):
    """The machine journal is full."""

    limits = {"journal_quota": 0}  # noqa: RUF012

    def test_no_room(self) -> None:
        """The copy is dropped, and counted; the message arrives, or is received, all the same."""
        self.put(self.orders, b"1", journal=True)
        self.put(self.payments, b"2", journal=True)
        self.assertEqual(self.seen(self.orders), [b"1"])
        self.run_to_end(self.service.receive(self.payments, timeout=0))
        self.assertEqual((self.seen(JOURNAL), self.seen(self.payments)), ([], []))
        self.assertEqual(self.service.inspection.status().copies_dropped, 2)
