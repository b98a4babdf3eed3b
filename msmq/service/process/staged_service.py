"""StagedService: a service that starts step by step, and undoes its steps when it stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.service.process.shared_run import SharedRun


class StagedService(Service, ABC):
    """A service whose start is a sequence of steps; the stop undoes them in reverse order.

    @ivar started: fires when it has started, or, with the reason, when it cannot start and has undone each
        step that it had made: its ports are closed, and its data directory is free.
    @ivar refusal: the reason why it cannot start, as soon as that is known; C{None} otherwise.
    @ivar lost: fires with the reason when it cannot go on, and has to be stopped.
    """

    log: ClassVar[Logger]

    def __init__(self) -> None:
        self.started: Deferred[None] = Deferred()
        self.refusal: BaseException | None = None
        self.lost: Deferred[Exception] = Deferred()
        self._undo: list[Callable[[], object]] = []
        self._undoing = SharedRun(self._undo_steps, self._not_undone)
        self._control_socket: Path | None = None

    def startService(self) -> None:
        """Start; C{started} fires with the result."""
        Service.startService(self)
        self.refusal = None
        self.started = Deferred.fromCoroutine(self._start())

    def stopService(self) -> Deferred[None]:
        """Stop in the reverse order; fires when all is stopped, or with the first error after all else is.

        Cancelling the Deferred ends the wait alone, not the stop.
        """
        Service.stopService(self)
        self.started.addErrback(lambda _: None)
        self.started.cancel()
        return Deferred.fromCoroutine(self._stop())

    def remove_control_socket(self) -> None:
        """Remove the socket that a failed start has left, when the process ends without running the reactor.

        Twisted closes a port in the next iteration of the reactor, and removes the socket's file then.
        """
        if self._control_socket is not None:
            self._control_socket.unlink(missing_ok=True)
            self._control_socket = None

    @abstractmethod
    async def _start_in_order(self) -> None:
        """Make the steps of the start; what undoes a step is appended to C{_undo} as soon as it is made."""

    @abstractmethod
    def _forget(self) -> None:
        """The service is being stopped, or has failed to start: what it shows of itself is gone."""

    async def _start(self) -> None:
        try:
            await self._start_in_order()
        except GeneratorExit:
            # The reactor is gone, and nothing can be waited for.
            self._forget()
            self._undoing.join().addErrback(self._not_undone)
            raise
        except BaseException as error:
            self.refusal = error
            self._forget()
            try:
                await self._undoing.join()
            except CancelledError:
                # A stop waits for the rest.
                pass
            except Exception:
                self._not_undone(Failure())
            raise error

    async def _stop(self) -> None:
        """Undo the steps of the start in reverse order, one after the other."""
        self._forget()
        await self._undoing.join()
        self._control_socket = None

    async def _undo_steps(self) -> None:
        """Undo each step, whatever the others do.

        @raise BaseException: the first error of a step.
        """
        first: Failure | None = None
        while self._undo:
            try:
                await maybeDeferred(self._undo.pop())
            except Exception:
                failure = Failure()
                if first is None:
                    first = failure
                else:
                    self._not_undone(failure)
        if first is not None:
            first.raiseException()

    def _not_undone(self, failure: Failure) -> None:
        self.log.failure("a step of the start could not be undone", failure)
