"""Timers that a change of the wall clock does not move."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.steady_timers import SteadySeconds, keep_timers_steady


class SteadySecondsTests(SynchronousTestCase):
    """Seconds that begin with the wall clock."""

    def test_wall_clock_is_set(self) -> None:
        """They begin as those of the wall clock, and go on as those of the other one."""
        wall, monotonic = Clock(), Clock()
        wall.advance(1_700_000_000)
        monotonic.advance(40)
        seconds = SteadySeconds(wall.seconds, monotonic.seconds)
        self.assertEqual(seconds(), 1_700_000_000)
        wall.advance(-86_400)
        monotonic.advance(2)
        self.assertEqual(seconds(), 1_700_000_002)

    def test_reactor(self) -> None:
        """A reactor is changed once; what is scheduled keeps its time."""
        reactor: Any = Clock()
        keep_timers_steady(reactor)
        seconds = reactor.seconds
        keep_timers_steady(reactor)
        self.assertIs(reactor.seconds, seconds)
        self.assertIsInstance(seconds, SteadySeconds)
