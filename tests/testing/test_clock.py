"""Time that passes only when a test says so."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.errors import LocalProtocolError
from msmq.interfaces import IClock
from msmq.moment import Moment
from msmq.testing import clock as clock_module
from msmq.testing.clock import START, ManualClock


class ManualClockTests(SynchronousTestCase):
    """Use of the clock in a test."""

    def test_provides_the_interface(self) -> None:
        """It stands in for the clocks of the machine."""
        verifyObject(IClock, ManualClock())

    def test_a_stopped_process(self) -> None:
        """Without C{advance} no time passes."""
        clock = ManualClock()
        self.assertEqual((clock.now(), clock.now()), (START, START))

    def test_clocks_advance_together(self) -> None:
        """Both clocks and the scheduler pass the same time."""
        clock = ManualClock(Moment(5.0, 100.0))
        clock.advance(2.5)
        clock.advance(1.0)
        self.assertEqual((clock.now(), clock.reactor.seconds()), (Moment(8.5, 103.5), 3.5))

    def test_timers_see_their_own_time(self) -> None:
        """A timer that is due meanwhile sees the moment at which it was due, and may schedule more."""
        clock = ManualClock(Moment(0.0, 0.0))
        seen: list[float] = []
        looping = LoopingCall(lambda: seen.append(clock.now().monotonic))
        looping.clock = clock.reactor
        looping.start(2.0, now=False)
        clock.advance(7.0)
        self.assertEqual((seen, clock.now().monotonic), ([2.0, 4.0, 6.0], 7.0))
        looping.stop()

    def test_wall_clock_is_set(self) -> None:
        """The wall clock may be set back; the monotonic one and the timers go on."""
        clock = ManualClock(Moment(10.0, 1000.0))
        clock.advance(5.0)
        clock.set_wall(900.0)
        self.assertEqual(clock.now(), Moment(15.0, 900.0))
        clock.advance(1.0)
        self.assertEqual(clock.now(), Moment(16.0, 901.0))

    def test_calls_without_end(self) -> None:
        """What schedules itself without a delay fails, and does not hang; what waits is cancelled."""
        self.patch(clock_module, "MOST_AT_ONCE", 1000)
        clock = ManualClock()

        def again() -> None:
            clock.reactor.callLater(0, again)

        clock.reactor.callLater(1, again)
        cancelled: list[object] = []
        waiting: Deferred[None] = Deferred(cancelled.append)
        error = self.assertRaises(LocalProtocolError, lambda: clock.run(waiting))
        self.assertIn("1000 calls were scheduled without a delay", str(error))
        self.assertEqual(cancelled, [waiting])

    def test_many_calls_at_different_moments(self) -> None:
        """The limit holds for each moment."""
        self.patch(clock_module, "MOST_AT_ONCE", 10)
        clock = ManualClock()
        calls: list[int] = []
        for number in range(30):
            clock.reactor.callLater(0, calls.append, number)
            if number % 10 == 9:
                clock.advance(0.5)
        self.assertEqual(calls, list(range(30)))
