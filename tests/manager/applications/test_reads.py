"""Reads that wait, and that end without a message."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from twisted.internet.defer import CancelledError, Deferred

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, ManagerTestCase


class WaitTests(ManagerTestCase):
    """L{QueueManagerService.receive}, C{peek} and C{reserve}."""

    def test_longest_wait_first(self) -> None:
        """The reader that waits longest gets the first message; a peek takes none away."""
        waits = [self.deferred(self.service.receive(self.orders)) for _ in range(3)]
        look = self.deferred(self.service.peek(self.orders))
        waits.append(self.deferred(self.service.receive(self.orders)))
        self.put(self.orders, b"1", b"2", b"3", b"4")
        self.assertEqual([bytes(self.successResultOf(wait).body) for wait in waits], [b"1", b"2", b"3", b"4"])
        self.assertEqual(bytes(self.successResultOf(look).body), b"4")

    def test_timed_out(self) -> None:
        """After its time, to the second; a message that comes then is for others."""
        waiting = self.deferred(self.service.receive(self.orders, timeout=10))
        self.clock.advance(9.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.2)
        failure = self.failureResultOf(waiting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_IO_TIMEOUT)
        self.put(self.orders, b"1")
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_no_wait(self) -> None:
        """An empty queue is reported at once."""
        for work in (
            self.service.receive(self.orders, timeout=0),
            self.service.peek(self.orders, timeout=0),
            self.service.reserve(self.orders, count=5, timeout=0),
        ):
            self.refused(work, Status.MQ_ERROR_IO_TIMEOUT)

    def test_cancelled(self) -> None:
        """A caller that cancels misses no message, and no other is affected."""
        first = self.deferred(self.service.receive(self.orders))
        second = self.deferred(self.service.receive(self.orders))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.put(self.orders, b"1", b"2")
        self.assertEqual(bytes(self.successResultOf(second).body), b"1")
        self.assertEqual(self.seen(self.orders), [b"2"])

    def test_cancelled_by_asyncio(self) -> None:
        """A time-out of asyncio while the packet is read from the store loses no message either."""
        self.put(self.orders, b"1")
        self.restart()
        self.store.is_slow = True
        reserving = self.service.reserve(self.orders, timeout=5)
        assert isinstance(reserving, Coroutine)
        self.assertIsInstance(reserving.send(None), Deferred)
        with self.assertRaises(asyncio.CancelledError):
            reserving.throw(asyncio.CancelledError())
        self.store.catch_up()
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_cancelled_while_it_is_removed(self) -> None:
        """A receive whose removal is pending has received, and returns the message."""
        self.put(self.orders, b"1", acknowledge=ASK_ALL)
        self.answers()
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.orders, timeout=0))
        receiving.cancel()
        self.assertNoResult(receiving)
        self.store.catch_up()
        self.assertEqual(bytes(self.successResultOf(receiving).body), b"1")
        self.assertEqual((self.count(self.orders), len(self.answers())), (0, 1))
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [])

    def test_several(self) -> None:
        """A reservation takes what is there, or waits for the first."""
        waiting = self.deferred(self.service.reserve(self.orders, count=10))
        self.put(self.orders, b"1", b"2")
        reservation = self.successResultOf(waiting)
        self.assertEqual([bytes(each.view.body) for each in reservation.messages], [b"1", b"2"])
        reservation.release()
        reservation.release()
        self.run_to_end(reservation.confirm())
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])

    def test_behind_a_peek_that_begins_later(self) -> None:
        """A message that a waiting peek has passed, since its priority is higher, goes to those behind it."""
        self.put(self.orders, b"1", priority=0)
        reservation = self.run_to_end(self.service.reserve(self.orders))
        [first] = reservation.messages
        reads = [
            self.deferred(self.service.reserve(self.orders, peek=is_peek, after=after))
            for is_peek, after in ((True, first.lookup_id), (True, first.lookup_id), (True, -1), (False, -1))
        ]
        self.put(self.orders, b"2", priority=7)
        for read in reads[:2]:
            self.assertNoResult(read)
        for read in reads[2:]:
            [message] = self.successResultOf(read).messages
            self.assertEqual(message.view.body, b"2")
        self.put(self.orders, b"3", priority=0)
        for read in reads[:2]:
            [message] = self.successResultOf(read).messages
            self.assertEqual(message.view.body, b"3")

    def test_none_is_no_count(self) -> None:
        """A count of 0 is refused, and leaves no trace."""
        waiting = self.deferred(self.service.reserve(self.orders, count=0))
        self.failureResultOf(waiting, LocalProtocolError)
        self.successResultOf(self.service.stopService())

    def test_its_reader_answers_at_once(self) -> None:
        """A reader that sends again in the notification of its message does not disturb the queue."""
        got: list[bytes] = []

        async def serve() -> None:
            while len(got) < 50:
                view = await self.service.receive(self.orders)
                got.append(bytes(view.body))
                await self.service.send(self.orders, [Message(body=b"%d" % len(got))])

        serving = self.deferred(serve())
        self.put(self.orders, b"0", delivery=Delivery.EXPRESS)
        self.successResultOf(serving)
        self.assertEqual(got, [b"%d" % number for number in range(50)])


class ConfirmTests(ManagerTestCase):
    """Confirming and releasing reservations."""

    def test_the_store_fails(self) -> None:
        """The messages are back at their positions, for all readers."""
        self.put(self.orders, b"1", b"2", b"3")
        reservation = self.run_to_end(self.service.reserve(self.orders, count=2, timeout=0))
        self.store.fail_commit(1)
        self.refused(reservation.confirm(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual(self.seen(self.orders), [b"1", b"2", b"3"])
        self.refused(reservation.confirm(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual(self.seen(self.orders), [b"1", b"2", b"3"])

    def test_twice_at_once(self) -> None:
        """A second confirmation during the first is not done before that is stored, and fails with it; so
        does a later one, since the messages are in the queue again.
        """
        for does_fail in (False, True):
            self.put(self.orders, b"1")
            reservation = self.run_to_end(self.service.reserve(self.orders))
            self.store.is_slow = True
            both = [self.deferred(reservation.confirm()) for _ in range(2)]
            for confirming in both:
                self.assertNoResult(confirming)
            if does_fail:
                self.store.break_down()
            self.store.catch_up()
            for confirming in (*both, self.deferred(reservation.confirm())):
                if does_fail:
                    self.failureResultOf(confirming, MQError)
                else:
                    self.successResultOf(confirming)
            self.assertEqual(self.count(self.orders), int(does_fail))

    def test_in_a_transaction(self) -> None:
        """Confirming or releasing what a transaction has received changes nothing: its end decides.

        MQDMPR-3.1.7.1.12-03
        """
        self.put(self.payments, b"1", b"2", transactional=True)
        transaction = self.service.begin()
        for end in (lambda held: self.run_to_end(held.confirm()), lambda held: held.release()):
            end(self.run_to_end(self.service.reserve(self.payments, timeout=0, transaction=transaction)))
        self.assertEqual((self.seen(self.payments), self.count(self.payments)), ([], 2))
        self.run_to_end(transaction.abort())
        self.assertEqual(self.seen(self.payments), [b"1", b"2"])

    def test_block(self) -> None:
        """A block confirms at its end, and releases if it raises or is cancelled while it works."""
        self.put(self.orders, b"1", b"2")

        async def work(doing: Deferred[None]) -> None:
            async with await self.service.reserve(self.orders) as reservation:
                self.assertEqual(len(reservation.messages), 1)
                await doing

        for error, left in ((MQError(Status.MQ_ERROR_NO_DS, "no"), 2), (CancelledError(), 2), (None, 1)):
            doing: Deferred[None] = Deferred()
            working = self.deferred(work(doing))
            self.assertEqual(len(self.seen(self.orders)), 1)
            if error is None:
                doing.callback(None)
                self.successResultOf(working)
            elif isinstance(error, CancelledError):
                working.cancel()
                self.failureResultOf(working, CancelledError)
            else:
                doing.errback(error)
                self.failureResultOf(working, MQError)
            self.assertEqual(len(self.seen(self.orders)), left)

    def test_block_that_decides_itself(self) -> None:
        """A block that has rejected or released its messages is left without effect; the store's error is
        raised at the end.
        """
        self.put(self.orders, b"1", b"2")

        async def work(*, reject: bool = False, release: bool = False) -> None:
            async with await self.service.reserve(self.orders) as reservation:
                if reject:
                    reservation.reject()
                if release:
                    reservation.release()

        self.run_to_end(work(release=True))
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.run_to_end(work(reject=True))
        self.assertEqual(self.seen(self.orders), [b"2"])
        self.store.break_down()
        self.refused(work(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.assertEqual(self.seen(self.orders), [b"2"])

    def test_cancelled_confirmation(self) -> None:
        """It is completed: the messages cannot be received again."""
        self.put(self.orders, b"1")
        reservation = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.store.is_slow = True
        confirming = self.deferred(reservation.confirm())
        confirming.cancel()
        self.failureResultOf(confirming, CancelledError)
        self.assertEqual(self.seen(self.orders), [])
        self.store.catch_up()
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [])

    def test_cancelled_sends(self) -> None:
        """A message that is being stored arrives, before a restart and after it."""
        self.store.is_slow = True
        sending = self.deferred(self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)]))
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.store.catch_up()
        self.assertEqual(self.seen(self.orders), [b""])
        self.restart(crash=True)
        self.assertEqual(self.seen(self.orders), [b""])


class StopTests(ManagerTestCase):
    """The queue manager stops."""

    def test_waits_end(self) -> None:
        """All waiting reads end, and new ones are refused."""
        waits = [
            self.deferred(self.service.receive(self.orders)),
            self.deferred(self.service.peek(self.payments, timeout=100)),
        ]
        self.successResultOf(self.service.stopService())
        for wait in waits:
            failure = self.failureResultOf(wait, MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        for work in (
            self.service.receive(self.orders),
            self.service.send(self.orders, [Message()]),
            self.service.send(self.orders, [Message(delivery=Delivery.RECOVERABLE)]),
            self.service.create_queue(".\\private$\\new"),
        ):
            self.refused(work, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_endless_retries(self) -> None:
        """A reader that repeats a refused read does not keep the service from stopping."""
        refusals: list[Status] = []

        async def insist() -> None:
            while len(refusals) < 5:
                try:
                    await self.service.receive(self.orders)
                except MQError as error:
                    refusals.append(error.status)

        insisting = self.deferred(insist())
        self.successResultOf(self.service.stopService())
        self.successResultOf(insisting)
        self.assertEqual(set(refusals), {Status.MQ_ERROR_SERVICE_NOT_AVAILABLE})

    def test_reservations(self) -> None:
        """Unconfirmed messages are there after the restart; returning them then is not an error."""
        self.put(self.orders, b"1", b"2")
        first = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        second = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.restart()
        self.refused(first.confirm(), Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        second.release()
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.assertEqual(self.count(self.orders), 2)

    def test_no_timer_is_left(self) -> None:
        """No pending timer remains."""
        self.put(self.orders, b"1", time_to_be_received=1000)
        self.put("DIRECT=TCP:127.0.0.4\\private$\\orders", b"2", time_to_reach_queue=1000)
        self.store.break_down()
        self.clock.advance(10)
        self.deferred(self.service.purge_queue(self.orders)).addErrback(lambda failure: None)
        self.successResultOf(self.service.stopService())
        self.clock.advance(0)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
