"""Connections are closed to the end, also when a route is stopped meanwhile."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.background import to_the_end


class ToTheEndTests(SynchronousTestCase):
    """Work that a cancellation does not interrupt."""

    def setUp(self) -> None:
        self.step: Deferred[None] = Deferred()
        self.steps: list[str] = []

    async def work(self) -> None:
        """Two steps, between which it waits."""
        await self.step
        self.steps.append("done")

    def test_cancelled(self) -> None:
        """A cancellation is raised once the work is done, and not before; a second one changes nothing."""
        waiting = Deferred.fromCoroutine(to_the_end(self.work()))
        for _ in range(2):
            waiting.cancel()
            self.assertNoResult(waiting)
        self.step.callback(None)
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.steps, ["done"])

    def test_without_cancellation(self) -> None:
        """The result is that of the work."""
        waiting = Deferred.fromCoroutine(to_the_end(self.work()))
        self.step.callback(None)
        self.successResultOf(waiting)
        self.assertEqual(self.steps, ["done"])

    def test_failure(self) -> None:
        """A failure of the work is raised, cancelled or not."""
        waiting = Deferred.fromCoroutine(to_the_end(self.work()))
        waiting.cancel()
        self.step.errback(ValueError("half closed"))
        self.failureResultOf(waiting, ValueError)
