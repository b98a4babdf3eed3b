"""The one mechanism by which anything of ours happens at its time."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.deadline_timer import DeadlineTimer
from msmq.moment import Moment
from msmq.testing.clock import ManualClock


class DeadlineTimerTests(SynchronousTestCase):
    """A deadline is set, moves, expires or is cancelled; there is never more than one delayed call."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.begin = self.clock.now().monotonic
        self.expired: list[float] = []
        self.timer = DeadlineTimer(self.clock.reactor, self.clock, self._expire)

    def _expire(self, now: Moment) -> None:
        self.expired.append(now.monotonic - self.begin)

    def set(self, seconds: float) -> None:
        """A deadline this number of seconds after the beginning."""
        self.timer.set(self.begin + seconds)

    def test_expires_once(self) -> None:
        """A deadline expires when it has come, and not again."""
        self.set(5)
        self.clock.advance(4)
        self.assertEqual(self.expired, [])
        self.clock.advance(1)
        self.clock.advance(100)
        self.assertEqual(self.expired, [5])

    def test_earlier_deadline(self) -> None:
        """An earlier deadline replaces a later one."""
        self.set(50)
        self.set(5)
        self.clock.advance(5)
        self.assertEqual(self.expired, [5])
        self.clock.advance(100)
        self.assertEqual(self.expired, [5])

    def test_later_deadline(self) -> None:
        """A later deadline replaces an earlier one, and does not expire before its time."""
        self.set(5)
        for seconds in range(6, 20):
            self.set(seconds)
        self.assertEqual(len(self.clock.reactor.getDelayedCalls()), 1)
        for _ in range(18):
            self.clock.advance(1)
        self.assertEqual(self.expired, [])
        self.clock.advance(1)
        self.assertEqual(self.expired, [19])

    def test_deadline_in_the_past(self) -> None:
        """A deadline that has passed already expires in the next iteration of the reactor, not within
        the call.
        """
        self.clock.advance(10)
        self.set(5)
        self.assertEqual(self.expired, [])
        self.clock.advance(0)
        self.assertEqual(self.expired, [10])

    def test_no_deadline(self) -> None:
        """None cancels, and leaves no delayed call; a deadline may be set afterwards."""
        self.set(5)
        self.timer.set(None)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        self.set(6)
        self.clock.advance(6)
        self.assertEqual(self.expired, [6])

    def test_set_again_when_it_expires(self) -> None:
        """The callback may set the next deadline."""

        def expire(now: Moment) -> None:
            self._expire(now)
            timer.set(now.monotonic + 2 if len(self.expired) < 3 else None)

        timer = DeadlineTimer(self.clock.reactor, self.clock, expire)
        timer.set(self.begin + 2)
        for _ in range(10):
            self.clock.advance(1)
        self.assertEqual(self.expired, [2, 4, 6])

    def test_stopped(self) -> None:
        """After stop no deadline expires."""
        self.set(5)
        self.timer.stop()
        self.set(6)
        self.clock.advance(10)
        self.assertEqual(self.expired, [])
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
