"""Transactions of many messages: the reactor serves others meanwhile, and the commit is still atomic."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred

from msmq.manager.applications.transaction_commits import PART
from msmq.manager.applications.transactions import TransactionHandle
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError
from tests.manager.applications.test_transactions import TransactionTestCase, transactional
from tests.manager.support import ADMIN, ASK_ALL

COUNT = 3 * PART
BODIES = [str(number).encode() for number in range(COUNT)]
REMOTE = r"DIRECT=TCP:127.0.0.9\private$\elsewhere"


class LargeTransactionTests(TransactionTestCase):
    """A transaction of three parts."""

    def finish(self, work: Coroutine[Deferred[Any], Any, Any]) -> None:
        """Something takes more than one iteration of the reactor, and succeeds."""
        done = self.deferred(work)
        self.assertFalse(done.called, "the reactor was held until all was done")
        self.clock.advance(0)
        self.successResultOf(done)

    def watch(self, work: Coroutine[Deferred[Any], Any, Any], queue: str) -> list[int]:
        """The same; returns how many messages could be received after each iteration."""
        seen: list[int] = []

        def look() -> None:
            seen.append(len(self.seen(queue)))
            if not done.called:
                self.clock.reactor.callLater(0, look)

        done = self.deferred(work)
        look()
        self.clock.advance(0)
        self.successResultOf(done)
        return sorted(set(seen))

    def sending(self, queue: str, **properties: Any) -> TransactionHandle:
        """A transaction that sends all bodies to a queue."""
        transaction = self.service.begin()
        self.send_in(transaction, queue, *BODIES, **properties)
        return transaction

    def receiving(self, queue: str) -> TransactionHandle:
        """A transaction that has received all bodies of a queue."""
        self.finish(self.service.send(queue, transactional(*BODIES)))
        transaction = self.service.begin()
        taken = self.run_to_end(self.service.reserve(queue, count=COUNT, timeout=0, transaction=transaction))
        self.assertEqual(len(taken.messages), COUNT)
        return transaction

    def test_sends(self) -> None:
        """A commit of many messages shows a part of them in each iteration of the reactor; the messages have
        the order in which they were sent, also after a crash.
        """
        seen = self.watch(self.sending(self.payments).commit(), self.payments)
        self.assertEqual(seen, [0, PART, 2 * PART, COUNT])
        self.assertEqual(self.seen(self.payments), BODIES)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.payments), BODIES)

    def test_numbers(self) -> None:
        """Numbers continue from part to part; one message is marked as the first, and one as the last."""
        self.finish(self.sending(self.payments).commit())
        views = [message.view for message in self.messages(self.payments)]
        numbers = [(view.tx_sequence_number, view.previous_tx_sequence_number) for view in views]
        self.assertEqual(numbers, [(number, number - 1) for number in range(1, COUNT + 1)])
        ends = [(view.is_first, view.is_last) for view in views]
        self.assertEqual(ends, [(True, False), *[(False, False)] * (COUNT - 2), (False, True)])

    def test_receives(self) -> None:
        """Received messages leave in parts, and do not return after a crash."""
        transaction = self.receiving(self.payments)
        self.finish(transaction.commit())
        self.assertEqual(self.count(self.payments), 0)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.payments), [])

    def test_abort(self) -> None:
        """An abort returns them in parts, in their order."""
        transaction = self.receiving(self.payments)
        seen = self.watch(transaction.abort(), self.payments)
        self.assertEqual(seen, [PART, 2 * PART, COUNT])
        self.assertEqual(self.seen(self.payments), BODIES)
        self.finish(self.sending(self.refunds).abort())
        self.assertEqual(self.count(self.refunds), 0)

    def test_failure(self) -> None:
        """A store that fails leaves the transaction as it was; it can be committed later."""
        transaction = self.sending(self.payments, acknowledge=ASK_ALL, admin_queue=ADMIN)
        self.store.break_down()
        done = self.deferred(transaction.commit())
        self.clock.advance(0)
        self.failureResultOf(done, MQError)
        self.assertEqual((transaction.state, self.seen(self.payments)), ("active", []))
        self.store.recover()
        self.finish(transaction.commit())
        self.assertEqual(self.seen(self.payments), BODIES)
        self.assertEqual([answer for answer, _ in self.answers()], [MessageClass.ACK_REACH_QUEUE] * COUNT)

    def test_queue_deleted_meanwhile(self) -> None:
        """A queue that is deleted while the commit is prepared loses its messages, and no others."""
        transaction = self.sending(self.payments)
        self.send_in(transaction, self.refunds, b"other")
        done = self.deferred(transaction.commit())
        deleted = self.deferred(self.service.delete_queue(self.payments))
        self.clock.advance(5)
        self.successResultOf(done)
        self.successResultOf(deleted)
        self.assertEqual(self.seen(self.refunds), [b"other"])
        events = [event.event for event in self.events()]
        self.assertEqual(events.count("deleted"), COUNT)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.refunds), [b"other"])
        [queue] = [each for each in self.service.inspection.queues() if each.path == self.refunds]
        self.assertEqual(self.service.inspection.status().bytes, queue.bytes)

    def test_journal_deleted_meanwhile(self) -> None:
        """Messages that were received from a queue with a journal stay received when both are deleted after
        the part of the commit that receives the last of them.
        """
        queue = self.queue(self.alpha, "kept", transactional=True, journal=True)
        transaction = self.receiving(queue)
        self.send_in(transaction, self.refunds, b"in the fourth part")
        done = self.deferred(transaction.commit())
        deleted = self.deferred(self.delete_in(2, queue))
        self.clock.advance(5)
        self.successResultOf(done)
        self.successResultOf(deleted)
        self.assertEqual((transaction.state, self.service.inspection.status().messages), ("committed", 1))
        self.assertEqual(self.events(), [])
        self.restart(crash=True)
        self.assertEqual(self.service.inspection.status().messages, 1)

    def test_one_after_the_other(self) -> None:
        """A commit that begins while another is prepared follows it on the way to the same destination."""
        first = self.sending(REMOTE)
        second = self.service.begin()
        self.send_in(second, REMOTE, b"second")
        both = self.deferred(first.commit()), self.deferred(second.commit())
        self.clock.advance(0)
        for done in both:
            self.successResultOf(done)
        [queue] = self.alpha.model.outgoing_queues()
        bodies = [bytes(position.view.body) for position in queue.positions.loaded() if position.view]
        self.assertEqual(bodies, [*BODIES, b"second"])

    def test_others_meanwhile(self) -> None:
        """What other applications send to a queue while it is created for the commit is kept over a crash."""
        transaction = self.sending(REMOTE)
        done = self.deferred(transaction.commit())
        self.put(REMOTE, b"meanwhile", transactional=False)
        self.assertFalse(done.called)
        self.restart(crash=True)
        [queue] = self.alpha.model.outgoing_queues()
        self.assertEqual(queue.message_count, 1)

    def test_ended_meanwhile(self) -> None:
        """While it is committed it cannot be aborted, and accepts nothing."""
        transaction = self.sending(self.payments)
        done = self.deferred(transaction.commit())
        self.assertEqual(transaction.state, "committing")
        self.failureResultOf(self.deferred(transaction.abort()), MQError)
        late = self.service.send(self.payments, transactional(b"x"), transaction=transaction)
        self.failureResultOf(self.deferred(late), MQError)
        again = self.deferred(transaction.commit())
        self.clock.advance(0)
        self.failureResultOf(again, MQError)
        self.successResultOf(done)
