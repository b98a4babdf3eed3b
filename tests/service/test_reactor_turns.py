"""How long the reactor is busy, in the metrics and in the log."""

from __future__ import annotations

from typing import cast

from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.reactor_turns import INTERVAL, LINES, ReactorTurns
from msmq.testing.clock import ManualClock


class ReactorTurnTests(SynchronousTestCase):
    """A call that is due every tenth of a second."""

    def setUp(self) -> None:
        self.reactor, self.clock = Clock(), ManualClock()
        self.delays: list[float] = []
        self.turns = ReactorTurns(self.reactor, self.clock, self.delays.append)
        self.turns.start()
        self.events: list[LogEvent] = []
        observer = cast(ILogObserver, self.events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def lines(self) -> list[str]:
        """The lines in the log."""
        return [str(formatEvent(event)) for event in self.events]

    def test_a_busy_reactor_shows(self) -> None:
        """While one call takes seven seconds nothing else is served; that delay is observed and logged."""
        self.reactor.advance(INTERVAL)
        self.reactor.advance(7)
        self.turns.stop()
        self.assertEqual([round(delay, 3) for delay in self.delays], [0, 7 - INTERVAL])
        self.assertAlmostEqual(self.turns.longest, 7 - INTERVAL)
        self.assertEqual(
            self.lines(),
            [
                "reactor busy for 6900 ms: nothing was read or written meanwhile, longest so far 6900 ms",
            ],
        )
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_short_turns_are_not_logged(self) -> None:
        """Up to a tenth of a second."""
        for _ in range(20):
            self.reactor.advance(INTERVAL + 0.09)
        self.assertEqual((len(self.delays), self.lines()), (20, []))

    def test_the_log_has_a_few_lines_a_minute(self) -> None:
        """However often the reactor is busy; the next line says how many were left out."""
        for _ in range(50):
            self.reactor.advance(1)
        self.assertEqual(len(self.lines()), LINES)
        self.clock.advance(60)
        self.reactor.advance(1)
        self.assertIn("45 more since the last such line", self.lines()[-1])
