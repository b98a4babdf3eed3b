"""StagedService: a service that starts step by step, and undoes its steps when it stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger


class StagedService(Service, ABC):
    """A service whose start is a sequence of steps; the stop undoes them in reverse order.

    @ivar started: fires when it has started, or fails with the reason.
    @ivar lost: fires with the reason when it cannot go on, and has to be stopped.
    """

    log: ClassVar[Logger]

    def __init__(self) -> None:
        self.started: Deferred[None] = Deferred()
        self.lost: Deferred[Exception] = Deferred()
        self._undo: list[Callable[[], object]] = []
        self._control_socket: Path | None = None

    def startService(self) -> None:
        """Start; C{started} fires with the result."""
        Service.startService(self)
        self.started = Deferred.fromCoroutine(self._start())

    def stopService(self) -> Deferred[None]:
        """Stop in the reverse order; fires when all is stopped."""
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
        except BaseException:
            self._abandon()
            raise

    async def _stop(self) -> None:
        """Undo the steps of the start in reverse order, one after the other."""
        self._forget()
        while self._undo:
            await maybeDeferred(self._undo.pop())
        self._control_socket = None

    def _abandon(self) -> None:
        """Undo the start without waiting: nobody relies on it yet."""
        self._forget()
        while self._undo:
            maybeDeferred(self._undo.pop()).addErrback(
                lambda failure: self.log.failure("undoing a start that failed", failure)
            )
