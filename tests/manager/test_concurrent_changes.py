"""Changes of operators that are made while the store commits the opposite ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError, Status
from tests.manager.support import ManagerTestCase

THERE = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class ConcurrentChangeTests(ManagerTestCase):
    """The last request decides, at once and after a restart."""

    def both(self, *changes: Callable[[], Any]) -> None:
        """Request changes in this order, each before the one before is stored."""
        self.store.is_slow = True
        results: list[Deferred[Any]] = [ensureDeferred(change()) for change in changes]
        self.store.catch_up()
        for result in results:
            self.successResultOf(result)

    def test_a_queue_is_resumed_while_its_pause_is_stored(self) -> None:
        """It is not paused."""
        self.put(self.orders, b"1")
        self.both(
            lambda: self.service.pause_queue(self.orders), lambda: self.service.resume_queue(self.orders)
        )
        self.assertFalse(self.service.inspection.queue(self.orders).paused)
        self.restart()
        self.assertEqual(self.bodies(self.alpha, self.orders), [b"1"])

    def test_a_queue_is_paused_while_its_end_is_stored(self) -> None:
        """It is paused."""
        self.run_to_end(self.service.pause_queue(self.orders))
        self.both(
            lambda: self.service.resume_queue(self.orders), lambda: self.service.pause_queue(self.orders)
        )
        for restarts in (False, True):
            if restarts:
                self.restart()
            self.assertTrue(self.service.inspection.queue(self.orders).paused)

    def resume_while_one_commits(self, *, by_cursor: bool) -> None:
        """Resume a queue with a receive whose transaction is being committed, and three others."""
        self.put(self.payments, b"1", b"2", b"3")
        self.run_to_end(self.service.pause_queue(self.payments))
        queue = self.service.open_queue(self.payments)
        self.addCleanup(queue.close)
        transaction = self.service.begin()
        messages = [Message(transactional=True)]
        self.run_to_end(self.service.send(self.payments, messages, transaction=transaction))
        first = queue.cursor() if by_cursor else queue
        ending = self.deferred(first.receive(timeout=None, transaction=transaction))
        readers = [queue.cursor(), queue.cursor() if by_cursor else queue, queue]
        others = [self.deferred(reader.receive(timeout=None)) for reader in readers]
        self.both(lambda: self.service.resume_queue(self.payments), transaction.commit)
        failure = self.failureResultOf(ending, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        received = [bytes(self.successResultOf(other).view.body) for other in others]
        self.assertEqual(sorted(received), [b"1", b"2", b"3"])

    def test_a_queue_is_resumed_while_a_reader_commits(self) -> None:
        """A receive of a transaction that is being committed fails, and others get the messages."""
        self.resume_while_one_commits(by_cursor=False)

    def test_a_queue_is_resumed_while_a_cursor_commits(self) -> None:
        """The same for a receive by a cursor, which looks for its message again."""
        self.resume_while_one_commits(by_cursor=True)

    def test_a_queue_is_deleted_while_its_pause_is_stored(self) -> None:
        """It is not among those that are paused, and the store has nothing of it."""
        self.both(
            lambda: self.service.pause_queue(self.orders), lambda: self.service.delete_queue(self.orders)
        )
        self.assertEqual(self.service.inspection.status().queues_paused, 0)
        self.assertEqual([name for name in self.store.names() if "paused" in name], [])

    def test_outgoing_queues(self) -> None:
        """The same is true for a name, a next hop, all outgoing queues, and a redirect."""
        self.put(THERE, b"1")
        service = self.service
        for do, undo in (
            (lambda: service.pause_outgoing(THERE), lambda: service.resume_outgoing(THERE)),
            (lambda: service.pause_next_hop("127.0.0.3"), lambda: service.resume_next_hop("127.0.0.3")),
            (lambda: service.pause_all_outgoing(), lambda: service.resume_all_outgoing()),
            (
                lambda: service.redirect_outgoing(THERE, "127.0.0.4"),
                lambda: service.redirect_outgoing(THERE, None),
            ),
        ):
            self.both(do, undo)
            shown = service.inspection.outgoing_queue(THERE)
            self.assertEqual((list(shown.paused_by), shown.redirected_to), ([], None))
            self.both(do, undo, do)
            shown = service.inspection.outgoing_queue(THERE)
            self.assertNotEqual((list(shown.paused_by), shown.redirected_to), ([], None))
            self.both(undo)


class NewQueueTests(ManagerTestCase):
    """Messages for a queue whose creation is being stored."""

    def test_the_first_is_not_stored(self) -> None:
        """A message that is sent meanwhile is stored, with the queue, whatever happens to the first."""
        for number, is_alone in enumerate((True, False)):
            name = THERE + str(number)
            self.store.is_slow = True
            sending = [
                self.deferred(self.service.send(name, [Message(body=body, delivery=Delivery.RECOVERABLE)]))
                for body in (b"1", b"2")
            ]
            self.store.fail_commit(1)
            self.store.finish(1)
            if not is_alone:
                # The next one, of a queue that has failed once, has to contain it too.
                more = Message(body=b"3", delivery=Delivery.RECOVERABLE)
                sending.append(self.deferred(self.service.send(name, [more])))
            self.store.catch_up()
            self.store.recover()
            self.failureResultOf(sending[0], MQError)
            for each in sending[1:]:
                self.successResultOf(each)
            self.restart(crash=True)
            self.assertEqual(
                self.service.inspection.outgoing_queue(name).messages, len(sending) - 1, "after a restart"
            )

    def test_alteration_that_is_not_stored(self) -> None:
        """A message that is sent meanwhile does not store the properties that were refused."""
        self.store.is_slow = True
        altering = self.deferred(self.service.set_queue(self.orders, {"label": "new"}))
        sending = self.deferred(
            self.service.send(self.orders, [Message(body=b"1", delivery=Delivery.RECOVERABLE)])
        )
        self.store.fail_commit(1)
        self.store.catch_up()
        self.failureResultOf(altering, MQError)
        self.successResultOf(sending)
        self.store.recover()
        self.restart(crash=True)
        self.assertEqual(
            (self.service.inspection.queue(self.orders).label, self.seen(self.orders)), ("", [b"1"])
        )

    def test_journal(self) -> None:
        """So is the journal copy of a message that is received meanwhile."""
        self.run_to_end(self.service.set_queue(self.orders, {"journal": True}))
        self.put(self.orders, b"1", b"2")
        first, second = (self.run_to_end(self.service.reserve(self.orders)) for _ in range(2))
        self.store.is_slow = True
        confirming = [self.deferred(held.confirm()) for held in (first, second)]
        self.store.fail_commit(1)
        self.store.catch_up()
        self.failureResultOf(confirming[0], MQError)
        self.successResultOf(confirming[1])
        self.store.recover()
        self.restart(crash=True)
        self.assertEqual((self.seen(self.orders), self.count(f"{self.orders};journal")), ([b"1"], 1))

    def test_journal_of_a_deleted_queue(self) -> None:
        """A journal that the second of two copies has created is deleted with its queue."""
        self.run_to_end(self.service.set_queue(self.orders, {"journal": True}))
        self.put(self.orders, b"1", b"2")
        held = [self.run_to_end(self.service.reserve(self.orders)) for _ in range(2)]
        self.store.is_slow = True
        confirming = [self.deferred(each.confirm()) for each in held]
        self.store.fail_commit(1)
        self.store.finish(1)
        self.failureResultOf(confirming[0], MQError)
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.store.catch_up()
        self.store.recover()
        self.clock.advance(1)
        self.successResultOf(confirming[1])
        self.successResultOf(deleting)
        self.assertEqual([path for path in self.store.paths() if "orders" in path], [])


class NewQueueOverflowTests(ManagerTestCase):
    """Express messages beyond the memory limit, for a queue whose creation is being stored."""

    limits = {"express_memory": 1000}  # noqa: RUF012

    def test_the_first_is_not_stored(self) -> None:
        """They are stored, with the queue, although the batch that was to create it fails."""
        self.store.is_slow = True
        sending = [self.deferred(self.service.send(THERE, [Message(body=bytes(2000))])) for _ in range(2)]
        self.store.fail_commit(1)
        self.store.catch_up()
        self.failureResultOf(sending[0], MQError)
        self.successResultOf(sending[1])
        self.assertEqual(self.alpha.model.storage.express, 0)
