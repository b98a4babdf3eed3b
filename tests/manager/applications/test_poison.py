"""Messages that are received again and again, and never permanently."""

from __future__ import annotations

from twisted.logger import LogLevel, capturedLogs, formatEvent

from msmq.manager.applications.transaction_commits import PART
from msmq.manager.applications.transactions import POISONED
from tests.manager.support import ManagerTestCase


class PoisonTestCase(ManagerTestCase):
    """Messages are moved aside after three aborts."""

    limits = {"poison_after": 3}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.poison = f"{self.payments};poison"

    def fail_once(self, count: int = 1) -> None:
        """Receive some messages in a transaction, and abort it."""
        transaction = self.service.begin()
        for _ in range(count):
            self.run_to_end(self.service.receive(self.payments, timeout=0, transaction=transaction))
        self.run_to_end(transaction.abort())


class PoisonTests(PoisonTestCase):
    """AbortCount, and what follows from it."""

    def test_counted_over_restarts(self) -> None:
        """The store keeps the count."""
        self.put(self.payments, b"1")
        self.fail_once()
        self.restart(crash=True)
        self.fail_once()
        self.assertEqual([message.aborts for message in self.messages(self.payments)], [2])

    def test_moved_to_the_subqueue(self) -> None:
        """The third abort moves it to the subqueue; the next message in the queue is received then."""
        self.put(self.payments, b"bad", b"good")
        for _ in range(3):
            self.fail_once()
        self.assertEqual((self.seen(self.payments), self.seen(self.poison)), ([b"good"], [b"bad"]))
        self.restart(crash=True)
        [message] = self.messages(self.poison)
        self.assertEqual((bytes(message.view.body), message.aborts, message.moves), (b"bad", 3, 1))

    def test_is_reported(self) -> None:
        """An event for each message, stored with its move, a line in the log and a count tell of it."""
        self.put(self.payments, b"1", b"2", b"good")
        wanted = [message.view.identity for message in self.messages(self.payments)][:2]
        with capturedLogs() as logged:
            for _ in range(3):
                self.fail_once(2)
        [line] = [formatEvent(each) for each in logged if each["log_level"] is LogLevel.warn]
        self.assertIn(f"2 poison message(s) moved to {self.payments};poison after 3 aborted", line)
        self.assertEqual(self.service.inspection.status().poisoned, {self.payments: 2})
        self.restart(crash=True)
        events = [event for event in self.events() if event.event == POISONED]
        self.assertEqual(
            [(event.identity, event.queue) for event in events],
            [(each, "private$\\payments") for each in wanted],
        )
        self.assertIn("after 3 aborted transactions", events[0].reason)

    def test_several_queues_together(self) -> None:
        """One transaction may have poisonous messages of several queues, and others."""
        refunds = self.queue(self.alpha, "refunds", transactional=True)
        self.put(self.payments, b"1")
        self.fail_once()
        self.fail_once()
        self.put(refunds, b"2", transactional=True)
        transaction = self.service.begin()
        for queue in (self.payments, refunds):
            self.run_to_end(self.service.receive(queue, timeout=0, transaction=transaction))
        self.run_to_end(transaction.abort())
        self.assertEqual((self.seen(self.poison), self.seen(refunds)), ([b"1"], [b"2"]))

    def test_received_for_good(self) -> None:
        """A reader of the subqueue may abort as often as it likes: the message stays there."""
        self.put(self.payments, b"bad")
        for _ in range(3):
            self.fail_once()
        for _ in range(4):
            transaction = self.service.begin()
            self.run_to_end(self.service.receive(self.poison, timeout=0, transaction=transaction))
            self.run_to_end(transaction.abort())
        self.assertEqual(self.seen(self.poison), [b"bad"])
        transaction = self.service.begin()
        self.run_to_end(self.service.receive(self.poison, timeout=0, transaction=transaction))
        self.run_to_end(transaction.commit())
        self.assertEqual(self.service.inspection.queue(self.payments).subqueues, [])

    def test_moves_are_no_receives(self) -> None:
        """An aborted move counts nothing."""
        [identifier] = self.put(self.payments, b"1")
        for _ in range(4):
            transaction = self.service.begin()
            self.run_to_end(self.service.move(identifier, f"{self.payments};x", transaction=transaction))
            self.run_to_end(transaction.abort())
        self.assertEqual([message.aborts for message in self.messages(self.payments)], [0])
        self.assertEqual(self.service.inspection.queue(self.payments).subqueues, [])

    def test_the_store_cannot_move_them(self) -> None:
        """The abort is done all the same: each of them stays where it is, and is moved with the next one."""
        refunds = self.queue(self.alpha, "refunds", transactional=True)
        for queue in (self.payments, refunds):
            self.put(queue, b"1", transactional=True)
        for attempt in range(4):
            transaction = self.service.begin()
            for queue in (self.payments, refunds):
                self.run_to_end(self.service.receive(queue, timeout=0, transaction=transaction))
            if attempt == 2:
                self.store.break_down()
            self.run_to_end(transaction.abort())
            self.store.recover()
            if attempt == 2:
                self.assertEqual((self.seen(self.payments), self.seen(refunds)), ([b"1"], [b"1"]))
        self.assertEqual((self.count(self.payments), self.count(refunds)), (0, 0))
        self.assertEqual((self.seen(self.poison), self.seen(f"{refunds};poison")), ([b"1"], [b"1"]))
        # The metric counts only those that were moved.
        self.assertEqual(self.service.inspection.measurements.events()["poisoned"], 2)

    def test_the_queue_goes_meanwhile(self) -> None:
        """A message that is being moved aside has one event, as deleted."""
        [identifier] = self.put(self.payments, b"1")
        self.fail_once()
        self.fail_once()
        transaction = self.service.begin()
        self.run_to_end(self.service.receive(self.payments, timeout=0, transaction=transaction))
        self.store.is_slow = True
        aborting = self.deferred(transaction.abort())
        deleting = self.deferred(self.service.delete_queue(self.payments))
        self.store.catch_up()
        self.successResultOf(aborting)
        self.successResultOf(deleting)
        explanation = self.run_to_end(self.service.inspection.explain(identifier))
        self.assertEqual([event.event for event in explanation.events], [POISONED, "deleted"])
        self.assertEqual((explanation.places, self.service.inspection.status().messages), ([], 0))

    def test_the_queue_is_purged_meanwhile(self) -> None:
        """A purge while a long transaction is aborted removes its messages, poisonous or not."""
        count = 2 * PART
        self.put(self.payments, *[b"bad"] * count)
        for attempt in range(3):
            transaction = self.service.begin()
            reading = self.service.reserve(self.payments, count=count, timeout=0, transaction=transaction)
            self.run_to_end(reading)
            aborting = self.deferred(transaction.abort())
            if attempt == 2:
                self.assertNoResult(aborting)
                self.run_to_end(self.service.purge_queue(self.payments))
            self.clock.advance(0)
            self.successResultOf(aborting)
        self.assertEqual((self.seen(self.poison), self.seen(self.payments)), ([], []))
        self.restart(crash=True)
        self.assertEqual((self.seen(self.poison), self.seen(self.payments)), ([], []))
        self.assertEqual({event.event for event in self.events()}, {"purged"})


class NoPoisonTests(PoisonTestCase):
    """No number of aborts is too many."""

    limits = {"poison_after": 0}  # noqa: RUF012

    def test_never_moved(self) -> None:
        """It stays at its position."""
        self.put(self.payments, b"1")
        for _ in range(20):
            self.fail_once()
        self.assertEqual([message.aborts for message in self.messages(self.payments)], [20])
