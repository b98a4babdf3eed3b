"""A service that starts step by step: what it has begun is undone before it reports that it cannot start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import MsmqError
from msmq.service.process.staged_service import StagedService


class StepsError(MsmqError):
    """A step cannot be made."""


class Steps(StagedService):
    """A service with the steps of a test.

    @ivar undone: the steps that were undone, in that order.
    @ivar last: what the last step of the start waits for.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, **steps: Callable[[], object]) -> None:
        super().__init__()
        self._steps = steps
        self.undone: list[str] = []
        self.last: Deferred[None] = Deferred()

    async def _start_in_order(self) -> None:
        for name, undo in self._steps.items():
            self._undo.append(partial(self._undo_step, name, undo))
        await self.last

    def _undo_step(self, name: str, undo: Callable[[], object]) -> object:
        self.undone.append(name)
        return undo()

    def _forget(self) -> None:
        """It shows nothing."""


def closed() -> None:
    """A step that is undone at once."""


def refuse() -> None:
    """A step that cannot be undone."""
    raise StepsError("the port does not close")


class StartTests(SynchronousTestCase):
    def test_a_refused_start_is_undone_before_it_is_reported(self) -> None:
        """C{started} fires when all that was opened is closed, and C{refusal} has the reason at once."""
        port: Deferred[None] = Deferred()
        service = Steps(lock=closed, port=lambda: port)
        service.startService()
        service.last.errback(StepsError("no second port"))
        self.assertNoResult(service.started)
        self.assertEqual(service.undone, ["port"])
        self.assertEqual(str(service.refusal), "no second port")
        port.callback(None)
        self.assertEqual(str(self.failureResultOf(service.started, StepsError).value), "no second port")
        self.assertEqual(service.undone, ["port", "lock"])

    def test_a_stop_waits_for_a_start_that_is_being_undone(self) -> None:
        """A stop meanwhile fires when all is closed, and undoes no step a second time."""
        port: Deferred[None] = Deferred()
        service = Steps(lock=closed, port=lambda: port)
        service.startService()
        service.last.errback(StepsError("no second port"))
        stopping = service.stopService()
        self.assertNoResult(stopping)
        port.callback(None)
        self.successResultOf(stopping)
        self.assertEqual(service.undone, ["port", "lock"])

    def test_a_stop_during_the_start(self) -> None:
        """It fires when all that was opened is closed."""
        port: Deferred[None] = Deferred()
        service = Steps(lock=closed, port=lambda: port)
        service.startService()
        stopping = service.stopService()
        self.assertNoResult(stopping)
        port.callback(None)
        self.successResultOf(stopping)
        self.assertEqual(service.undone, ["port", "lock"])

    def test_a_step_that_cannot_be_undone(self) -> None:
        """The other steps are undone all the same; the start has its own error, and the log has this one."""
        service = Steps(lock=closed, port=refuse)
        service.startService()
        service.last.errback(StepsError("no second port"))
        self.assertEqual(str(self.failureResultOf(service.started, StepsError).value), "no second port")
        self.assertEqual(service.undone, ["port", "lock"])
        [logged] = self.flushLoggedErrors(StepsError)
        self.assertEqual(str(logged.value), "the port does not close")

    def test_it_starts_again(self) -> None:
        """The reason of a former start is gone."""
        service = Steps()
        service.startService()
        service.last.errback(StepsError("no second port"))
        self.failureResultOf(service.started, StepsError)
        service.last = Deferred()
        service.startService()
        self.assertIsNone(service.refusal)
        service.last.callback(None)
        self.successResultOf(service.started)


class StopTests(SynchronousTestCase):
    def started(self, **steps: Callable[[], object]) -> Steps:
        service = Steps(**steps)
        service.startService()
        service.last.callback(None)
        self.successResultOf(service.started)
        return service

    def test_a_step_that_cannot_be_undone(self) -> None:
        """The other steps are undone, and then the stop reports it."""
        service = self.started(lock=closed, port=refuse)
        self.failureResultOf(service.stopService(), StepsError)
        self.assertEqual(service.undone, ["port", "lock"])

    def test_two_stops_at_a_time(self) -> None:
        """Each fires when all is stopped."""
        port: Deferred[None] = Deferred()
        service = self.started(lock=closed, port=lambda: port)
        stopping = [service.stopService(), service.stopService()]
        for each in stopping:
            self.assertNoResult(each)
        port.callback(None)
        for each in stopping:
            self.successResultOf(each)

    def test_cancelling_the_wait_does_not_end_the_stop(self) -> None:
        """All is stopped all the same, and a later stop waits for it."""
        port: Deferred[None] = Deferred()
        service = self.started(lock=closed, port=lambda: port)
        first = service.stopService()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        second = service.stopService()
        self.assertNoResult(second)
        port.callback(None)
        self.successResultOf(second)
        self.assertEqual(service.undone, ["port", "lock"])
