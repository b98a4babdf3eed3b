"""Reads that wait, and that end without a message."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, ManagerTestCase


class WaitTests(ManagerTestCase):
    """L{QueueManagerService.receive}, C{peek} and C{reserve}."""

    def test_in_turn(self) -> None:
        """Who waits longest gets the first message; a look takes it from nobody."""
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
        """Nothing there is told at once."""
        for work in (
            self.service.receive(self.orders, timeout=0),
            self.service.peek(self.orders, timeout=0),
            self.service.reserve(self.orders, count=5, timeout=0),
        ):
            self.refused(work, Status.MQ_ERROR_IO_TIMEOUT)

    def test_cancelled(self) -> None:
        """Whoever goes away misses nothing, and costs nobody else anything."""
        first = self.deferred(self.service.receive(self.orders))
        second = self.deferred(self.service.receive(self.orders))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.put(self.orders, b"1", b"2")
        self.assertEqual(bytes(self.successResultOf(second).body), b"1")
        self.assertEqual(self.seen(self.orders), [b"2"])

    def test_cancelled_while_it_is_removed(self) -> None:
        """A receive whose removal is under way has received."""
        self.put(self.orders, b"1", acknowledge=ASK_ALL)
        self.answers()
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.orders, timeout=0))
        receiving.cancel()
        self.failureResultOf(receiving, CancelledError)
        self.store.catch_up()
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

    def test_none_is_no_count(self) -> None:
        """Nobody can ask for no message, and nothing of the question is left."""
        waiting = self.deferred(self.service.reserve(self.orders, count=0))
        self.failureResultOf(waiting, LocalProtocolError)
        self.successResultOf(self.service.stopService())

    def test_its_reader_answers_at_once(self) -> None:
        """Who sends again from where his message came does not confuse the queue."""
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
    """What follows a reservation."""

    def test_the_store_fails(self) -> None:
        """The messages are back in their places, for all who wait."""
        self.put(self.orders, b"1", b"2", b"3")
        reservation = self.run_to_end(self.service.reserve(self.orders, count=2, timeout=0))
        self.store.fail_commit(1)
        self.refused(reservation.confirm(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual(self.seen(self.orders), [b"1", b"2", b"3"])
        self.run_to_end(reservation.confirm())
        self.assertEqual(self.seen(self.orders), [b"1", b"2", b"3"])

    def test_nobody_waits_for_it(self) -> None:
        """It goes on to its end: nobody gets the messages again."""
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

    def test_sends_that_nobody_waits_for(self) -> None:
        """A message that the store was asked for is there, for everybody, before a restart and after it."""
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
        """All who wait are told, and who asks again is refused."""
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

    def test_who_tries_again_for_ever(self) -> None:
        """A reader that takes no refusal for an answer does not keep it from stopping."""
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
        """What nobody has confirmed is there in the next life; to give it back then is not an error."""
        self.put(self.orders, b"1", b"2")
        first = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        second = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.restart()
        self.refused(first.confirm(), Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        second.release()
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.assertEqual(self.count(self.orders), 2)

    def test_no_timer_is_left(self) -> None:
        """Whatever waits for its time is forgotten."""
        self.put(self.orders, b"1", time_to_be_received=1000)
        self.put("DIRECT=TCP:127.0.0.4\\private$\\orders", b"2", time_to_reach_queue=1000)
        self.store.break_down()
        self.clock.advance(10)
        self.deferred(self.service.purge_queue(self.orders)).addErrback(lambda failure: None)
        self.successResultOf(self.service.stopService())
        self.clock.advance(0)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
