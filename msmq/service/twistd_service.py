"""A server as the only service of a process that C{twistd} runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol, TextIO

import attrs
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.failure import Failure

from msmq.errors import MsmqError
from msmq.service.process import collector
from msmq.service.process.service_manager import ServiceManager
from msmq.structures.status import MQError, Status


@attrs.define
class ExitStatus:
    """The exit status of a process that C{twistd} runs, which C{twistd} itself ends with 0.

    Register L{at_exit} with C{atexit} before anything else that has to run at the end.
    """

    failed: bool = False

    def fail(self, line: str, stderr: TextIO) -> None:
        """The process fails, for the reason in a line, which it prints."""
        self.failed = True
        stderr.write(f"{line}\n")
        stderr.flush()

    def at_exit(self) -> None:
        """End the process with status 1, if it failed."""
        if self.failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)


class StoppableReactor(Protocol):
    """The part of the reactor that L{stop_once} uses."""

    def stop(self) -> None:
        """See L{twisted.internet.interfaces.IReactorCore}."""


def stop_once(reactor: StoppableReactor) -> None:
    """Stop the reactor, unless a signal, or another failure, is stopping it."""
    with suppress(ReactorNotRunning):
        reactor.stop()


class ReloadingReactor(StoppableReactor, Protocol):
    """The part of the reactor that L{TwistdService} uses."""

    def callFromThread(self, function: Callable[[], object]) -> None:
        """See L{twisted.internet.interfaces.IReactorFromThreads}."""


class RunnableServer(Protocol):
    """The part of a server that L{TwistdService} uses; see L{msmq.service.server.Server}."""

    started: Deferred[None]
    refusal: BaseException | None
    lost: Deferred[Exception]

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses on which it listens."""

    def startService(self) -> None:
        """Start; C{started} fires with the result."""

    def stopService(self) -> Deferred[None]:
        """Stop; fires when all is stopped."""

    def reload(self) -> Mapping[str, Any]:
        """Read the configuration again; C{changed} has what has changed."""

    def remove_control_socket(self) -> None:
        """Remove the socket that a failed start has left."""


class TwistdService(Service):
    """Runs a server as the only service of a process: if it cannot start, the process ends.

    An error is reported in one line on standard error and in the log, and the exit status is 1.
    Most failures are known before the reactor runs; those of a store that needs time to open come later.

    @param status: receives the failure.
    @param stderr: the stream for errors.
    @param manager: is notified when the server is ready, reloads and stops.
    @param log_output: writes the log of the process; C{None} leaves that to C{twistd}.
    @param program: its name in errors.
    """

    name = "msmq"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        server: RunnableServer,
        reactor: ReloadingReactor,
        status: ExitStatus,
        stderr: TextIO,
        manager: ServiceManager,
        log_output: ILogObserver | None = None,
        program: str = "msmq",
    ) -> None:
        self._program = program
        self._manager = manager
        self._log_output = log_output
        self.server = server
        self._reactor = reactor
        self._status = status
        self._stderr = stderr
        self._is_called_by_twistd = False
        self._has_failed = False
        self._former_handler: Any = None

    def setServiceParent(self, parent: Any) -> None:
        """Have C{twistd}, which looks for this when it begins to log, use the log of the server."""
        if self._log_output is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._log_output)
        Service.setServiceParent(self, parent)

    def startService(self) -> None:
        """Start the server.

        @raise SystemExit: it cannot start, and the failure is known at once.
        """
        Service.startService(self)
        # Without a handler the signal of a closed terminal, or of logrotate, would end the process.
        self._former_handler = signal.signal(signal.SIGHUP, self._sighup_received)
        self._is_called_by_twistd = True
        self.server.startService()
        self.server.started.addCallbacks(self._started, self._failed)
        self.server.lost.addCallback(self._lost)
        if self.server.refusal is not None:
            # Its ports close in the reactor, which does not run yet, and will not.
            self._failed(Failure(self.server.refusal))
        self._is_called_by_twistd = False
        if self._has_failed:
            self._restore_handler()
            self.server.remove_control_socket()
            raise SystemExit(1)

    def stopService(self) -> Deferred[None]:
        """Stop the server."""
        Service.stopService(self)
        self._manager.stopping()
        self._restore_handler()
        return self.server.stopService()

    def _lost(self, error: Exception) -> None:
        """End the process, with the port of the sessions: its service manager starts it as a standby."""
        line = f"{self._program} ends, since another server is active: {error}"
        self.log.critical("{line}", line=line)
        self._status.fail(line, self._stderr)
        stop_once(self._reactor)

    def _started(self, _: object) -> None:
        collector.settle()
        self._manager.ready(f"listens on {', '.join(self.server.addresses) or 'no address'}")

    def _restore_handler(self) -> None:
        if self._former_handler is not None:
            signal.signal(signal.SIGHUP, self._former_handler)
            self._former_handler = None

    def _sighup_received(self, number: int, frame: object) -> None:
        """The process received SIGHUP: reload in the next iteration of the reactor."""
        self._reactor.callFromThread(self.reload)

    def reload(self) -> None:
        """Reload the configuration; the log has the result."""
        self._manager.reloading()
        try:
            result = self.server.reload()
            self._manager.reloaded(f"reloaded; changed: {', '.join(result['changed']) or 'nothing'}")
        except MQError as error:
            self._manager.reloaded(f"not reloaded: {error}")
            # The server has logged a mistake in the configuration.
            if error.status is not Status.MQ_ERROR_INVALID_PARAMETER:
                self.log.warn("SIGHUP is ignored: {error}", error=error)
        except Exception as error:
            # The service manager would wait for the end of the reload without limit.
            self.log.failure("the configuration could not be reloaded")
            self._manager.reloaded(f"not reloaded: {type(error).__name__}: {error}")

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError) or self._has_failed:
            return
        self._has_failed = True
        if failure.check(MsmqError) is None:
            self.log.failure("the server cannot start", failure)
        line = f"{self._program} cannot start: {failure.getErrorMessage()}"
        self.log.critical("{line}", line=line)
        self._status.fail(line, self._stderr)
        if not self._is_called_by_twistd:
            stop_once(self._reactor)
