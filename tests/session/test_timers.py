"""L{Timers}: deadlines of the timers of a session."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.timers import Timer, Timers
from tests.session.support import START


class TimersTests(SynchronousTestCase):
    """Timers run on the monotonic clock, each with its own duration."""

    def setUp(self) -> None:
        self.timers = Timers()

    def expired(self, seconds: float) -> list[Timer]:
        """Take the timers that have expired by then."""
        return [timer for timer, _ in self.timers.take_expired(START.later(seconds))]

    def remaining(self) -> float | None:
        """Seconds from the start to the deadline."""
        return None if self.timers.deadline is None else self.timers.deadline - START.monotonic

    def test_expired_timers_come_in_the_order_of_their_deadlines(self) -> None:
        """Whatever the order in which they were started; a timer is due at its very deadline."""
        self.timers.start(Timer.CLEANUP, 30, START)
        self.timers.start(Timer.ACK_SEND, 10, START)
        self.timers.start(Timer.ACK_WAIT, 20, START)
        self.timers.start(Timer.LINGER, 31, START)
        self.assertEqual(self.expired(9.5), [])
        self.assertEqual(self.expired(30), [Timer.ACK_SEND, Timer.ACK_WAIT, Timer.CLEANUP])
        self.assertEqual(self.remaining(), 31)
        self.assertEqual(self.expired(30.5), [])
        self.assertEqual(self.expired(31), [Timer.LINGER])
        self.assertIsNone(self.remaining())
        self.assertEqual(self.expired(1000), [])

    def test_an_expired_timer_does_not_run(self) -> None:
        """It says how long it ran, and can be started again."""
        self.timers.start(Timer.ACK_WAIT, 20, START)
        [(_, running)] = self.timers.take_expired(START.later(25))
        self.assertEqual((running.started, running.duration), (START.monotonic, 20))
        self.assertIsNone(self.timers.running(Timer.ACK_WAIT))
        self.timers.start_if_stopped(Timer.ACK_WAIT, 5, START.later(25))
        self.assertEqual(self.remaining(), 30)

    def test_the_deadline_is_the_earliest(self) -> None:
        """After each start, restart and stop it is that of the timer which expires first."""
        self.timers.start(Timer.CLEANUP, 30, START)
        self.assertEqual(self.remaining(), 30)
        self.timers.start(Timer.ACK_SEND, 10, START)
        self.assertEqual(self.remaining(), 10)
        self.timers.start(Timer.ACK_WAIT, 20, START)
        self.assertEqual(self.remaining(), 10)
        self.timers.start(Timer.ACK_SEND, 25, START)
        self.assertEqual(self.remaining(), 20, "the earliest was restarted, and another is the first now")
        self.timers.start(Timer.CLEANUP, 40, START)
        self.assertEqual(self.remaining(), 20)
        self.timers.stop(Timer.ACK_WAIT)
        self.assertEqual(self.remaining(), 25)
        self.timers.stop(Timer.ACK_WAIT)
        self.assertEqual(self.remaining(), 25, "one that does not run cannot be stopped")
        self.timers.start(Timer.ACK_SEND, 5, START.later(10))
        self.assertEqual(self.remaining(), 15)
        self.timers.stop_all()
        self.assertIsNone(self.remaining())
        self.assertEqual(self.expired(1000), [])

    def test_a_running_timer_is_not_started_again(self) -> None:
        """C{start_if_stopped} leaves the deadline of a running timer alone."""
        self.timers.start_if_stopped(Timer.ACK_SEND, 10, START)
        self.timers.start_if_stopped(Timer.ACK_SEND, 1, START)
        self.timers.start_if_stopped(Timer.ACK_SEND, 20, START.later(5))
        self.assertEqual(self.remaining(), 10)

    def test_shortened(self) -> None:
        """A timer never expires later than before, and one that does not run is started."""
        self.timers.shorten(Timer.ACK_SEND, 10, START)
        self.assertEqual(self.remaining(), 10)
        self.timers.shorten(Timer.ACK_SEND, 11, START)
        self.assertEqual(self.remaining(), 10)
        self.timers.shorten(Timer.ACK_SEND, 8, START.later(2))
        running = self.timers.running(Timer.ACK_SEND)
        assert running is not None
        self.assertEqual(running.duration, 10, "the same deadline is no reason to restart it")
        self.timers.shorten(Timer.ACK_SEND, 7, START.later(2))
        self.assertEqual(self.remaining(), 9)

    def test_part_of_the_duration(self) -> None:
        """From 0 at the start to 1 at the deadline; a timer without a duration is over at once."""
        self.timers.start(Timer.ACK_SEND, 10, START)
        running = self.timers.running(Timer.ACK_SEND)
        assert running is not None
        self.assertEqual([running.elapsed_part(START.later(each)) for each in (0, 5, 10)], [0, 0.5, 1])
        self.timers.start(Timer.ACK_SEND, 0.5, START)
        running = self.timers.running(Timer.ACK_SEND)
        assert running is not None
        self.assertEqual(running.elapsed_part(START.later(0.25)), 0.5)
        self.timers.start(Timer.ACK_SEND, 0, START)
        running = self.timers.running(Timer.ACK_SEND)
        assert running is not None
        self.assertEqual(running.elapsed_part(START), 1)
