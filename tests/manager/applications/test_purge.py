"""Queues that are purged while something is done to them: what a purge says holds after a crash."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from msmq.queues.arriving.message import Delivery, Message
from tests.manager.support import ManagerTestCase


class PurgeTests(ManagerTestCase):
    """L{QueueManagerService.purge_queue}, on a store that takes its time."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def test_two_at_once(self) -> None:
        """The second answers when all that was in the queue is out of the store, and not before."""
        self.put(self.orders, *(b"%d" % number for number in range(300)))
        self.store.is_slow = True
        first = self.deferred(self.service.purge_queue(self.orders))
        second = self.deferred(self.service.purge_queue(self.orders))
        for _ in range(30):
            if second.called:
                break
            self.store.finish(1)
            self.clock.advance(0)
        self.assertEqual((self.successResultOf(first), self.successResultOf(second)), (300, 0))
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [])

    def test_the_first_caller_cancels(self) -> None:
        """The removal begun by the first purge is stored before the second answers."""
        self.put(self.orders, b"1", b"2")
        self.store.is_slow = True
        first = self.deferred(self.service.purge_queue(self.orders))
        self.store.finish(1)
        second = self.deferred(self.service.purge_queue(self.orders))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        for _ in range(30):
            if second.called:
                break
            self.store.finish(1)
            self.clock.advance(0)
        self.successResultOf(second)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [])

    def test_a_pending_removal(self) -> None:
        """A message that a reader has confirmed is removed from the store when the purge answers, also after
        a crash.
        """
        self.put(self.orders, b"1")
        reservation = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.store.is_slow = True
        confirming = self.deferred(reservation.confirm())
        purging = self.deferred(self.service.purge_queue(self.orders))
        self.assertNoResult(purging)
        self.store.finish(1)
        self.successResultOf(confirming)
        self.assertNoResult(purging)
        self.store.finish(1)
        self.assertEqual(self.successResultOf(purging), 0)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [])

    def test_messages_that_arrive_meanwhile(self) -> None:
        """A second purge takes what came after the first was asked for, and each only what was there."""
        self.put(self.orders, b"1")
        self.store.is_slow = True
        first = self.deferred(self.service.purge_queue(self.orders))
        sending = [self.deferred(self.service.send(self.orders, [message])) for message in _messages(b"2")]
        self.store.finish(2)
        second = self.deferred(self.service.purge_queue(self.orders))
        sending += [self.deferred(self.service.send(self.orders, [message])) for message in _messages(b"3")]
        self.store.catch_up()
        for each in sending:
            self.successResultOf(each)
        self.assertEqual(self.successResultOf(first) + self.successResultOf(second), 2)
        self.assertEqual(self.seen(self.orders), [b"3"])


def _messages(*bodies: bytes) -> list[Message]:
    return [Message(body=body, delivery=Delivery.RECOVERABLE) for body in bodies]
