"""Options and service of C{twistd msmq}."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TextIO, cast

import attrs
from twisted.application.service import IService, Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime
from twisted.logger import ILogObserver, Logger, jsonFileLogObserver, textFileLogObserver
from twisted.python import usage
from twisted.python.components import Componentized
from twisted.python.failure import Failure
from twisted.python.logfile import LogFile

from msmq.errors import MsmqError
from msmq.interfaces.server_program import IServerProgram
from msmq.net.clock import SystemClock
from msmq.net.name_service import LookupReactor, NameService
from msmq.net.session import SessionProtocol
from msmq.service.configuration import ConfigurationError, ConfigurationSource, Overrides
from msmq.service.process import collector
from msmq.service.process.descriptors import raise_descriptor_limit
from msmq.service.process.log_output import LogOutput
from msmq.service.process.service_manager import ServiceManager
from msmq.service.program_loading import ProgramError, load_program
from msmq.service.server import Server
from msmq.service.settings import Configuration, LogSettings
from msmq.structures.status import MQError, Status


class Options(usage.Options):
    """The options of C{twistd msmq}."""

    synopsis = "[options]"
    longdesc = (
        "An open MSMQ queue manager. Without options it is bound to 127.0.0.1 and keeps its identity in "
        "./msmq-data. In a container: twistd -n --pidfile= msmq."
    )
    optParameters: ClassVar[list[list[str | None]]] = [
        ["config", "c", None, "Configuration file (TOML); options win over it."],
        ["data", "d", None, "Data directory: identity, keys, store."],
        ["name", None, None, "ComputerName of the queue manager."],
        ["address", "a", None, "IP address for session, ping and discovery; their ports are unchanged."],
        ["storage", None, None, "Description of the message store."],
        ["directory", None, None, "Description of the directory."],
        [
            "broker",
            "b",
            None,
            "Broker that processes the messages: MODULE:CLASS.",
        ],
    ]
    optFlags: ClassVar[list[list[str | None]]] = [
        ["accept-loss", None, "Open a store that is not the one last used, or lacks something."],
    ]

    file_observer: str | None = None
    """The log observer of Twisted that C{--logger} names, if it needs a file."""

    def postOptions(self) -> None:
        """Take over a log observer that needs a file: C{twistd} would create it without arguments."""
        main = cast("dict[str, Any] | None", self.parent)
        if main is not None and main.get("logger") in _FILE_OBSERVERS:
            self.file_observer = main["logger"]
            main["logger"] = None


_FILE_OBSERVERS: Final[Mapping[str | None, Callable[[TextIO], ILogObserver]]] = {
    # Without the record separator of RFC 7464 each line is an object that any reader of JSON lines accepts.
    "twisted.logger.jsonFileLogObserver": partial(jsonFileLogObserver, recordSeparator=""),
    "twisted.logger.textFileLogObserver": textFileLogObserver,
}
"""Creates a log observer of Twisted that needs a file."""


@attrs.define
class ExitStatus:
    """The exit status of a process that C{twistd} runs, which C{twistd} itself ends with 0.

    Register L{at_exit} with C{atexit} before anything else that has to run at the end.
    """

    failed: bool = False

    def at_exit(self) -> None:
        """End the process with status 1, if it failed."""
        if self.failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)


class ReloadingReactor(Protocol):
    """The part of the reactor that L{TwistdService} uses."""

    def stop(self) -> None:
        """See L{twisted.internet.interfaces.IReactorCore}."""

    def callFromThread(self, function: Callable[[], object]) -> None:
        """See L{twisted.internet.interfaces.IReactorFromThreads}."""


class TwistdService(Service):
    """Runs a L{Server} as the only service of a process: if it cannot start, the process ends.

    An error is reported in one line on standard error and in the log, and the exit status is 1.
    Most failures are known before the reactor runs; those of a store that needs time to open come later.

    @param status: receives the failure.
    @param stderr: the stream for errors.
    @param manager: is notified when the server is ready, reloads and stops.
    @param log_output: writes the log of the process; C{None} leaves that to C{twistd}.
    """

    name = "msmq"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        server: Server,
        reactor: ReloadingReactor,
        status: ExitStatus,
        stderr: TextIO,
        manager: ServiceManager,
        log_output: ILogObserver | None = None,
    ) -> None:
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
        self._status.failed = True
        line = f"msmq ends, since another server is active: {error}"
        self.log.critical("{line}", line=line)
        self._stderr.write(f"{line}\n")
        self._stderr.flush()
        self._reactor.stop()

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
            self._manager.ready(f"reloaded; changed: {', '.join(result['changed']) or 'nothing'}")
        except MQError as error:
            self._manager.ready(f"not reloaded: {error}")
            # The server has logged a mistake in the configuration.
            if error.status is not Status.MQ_ERROR_INVALID_PARAMETER:
                self.log.warn("SIGHUP is ignored: {error}", error=error)

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        self._has_failed = True
        self._status.failed = True
        if failure.check(MsmqError) is None:
            self.log.failure("the server cannot start", failure)
        line = f"msmq cannot start: {failure.getErrorMessage()}"
        self.log.critical("{line}", line=line)
        self._stderr.write(f"{line}\n")
        self._stderr.flush()
        if not self._is_called_by_twistd:
            self._reactor.stop()


def makeService(options: Options) -> IService:
    """Create the service that C{twistd msmq} runs.

    @raise SystemExit: the configuration cannot be used; its text has a line for each problem.
    """
    from twisted.internet import reactor

    source = ConfigurationSource(
        options["config"],
        Overrides(
            data=options["data"],
            name=options["name"],
            address=options["address"],
            storage=options["storage"],
            directory=options["directory"],
        ),
    )
    try:
        configuration = source.load()
    except ConfigurationError as error:
        raise SystemExit(str(error)) from None
    raise_descriptor_limit()
    # Every endpoint of the process uses it: sessions, directory servers, the store.
    IReactorPluggableNameResolver(reactor).installNameResolver(NameService(cast(LookupReactor, reactor)))
    status = ExitStatus()
    atexit.register(status.at_exit)
    output = _log_output(options, configuration)
    timed = IReactorTime(reactor)
    manager = ServiceManager.of(os.environ, IReactorTime(reactor))
    program = None if options["broker"] is None else _program(options["broker"], timed)
    server = Server(
        configuration,
        timed,
        session_protocol=SessionProtocol if program is None else program.session_protocol,
        program=program,
        source=source.load,
        log_output=output,
        accepts_loss=bool(options["accept-loss"]),
        announce=manager.ready,
    )
    running = cast(ReloadingReactor, reactor)
    observer = output or _file_observer(options)
    return TwistdService(server, running, status, sys.__stderr__ or sys.stderr, manager, observer)


def _program(text: str, reactor: IReactorTime) -> IServerProgram:
    """The program of the broker that an option names.

    @raise SystemExit: it cannot be used; its text says why.
    """
    try:
        return load_program(text, reactor, SystemClock())
    except ProgramError as error:
        raise SystemExit(f"msmq: --broker {text}: {error}") from error


def _log_output(options: Options, configuration: Configuration) -> LogOutput | None:
    """What writes the log of a process in the foreground; C{None} if C{twistd} was given another log."""
    twistd: Mapping[str, Any] = options.parent or {}
    is_named = options.file_observer or twistd.get("logger")
    is_elsewhere = is_named or twistd.get("syslog") or twistd.get("logfile") not in (None, "-")
    if is_elsewhere or not twistd.get("nodaemon"):
        if configuration.log != LogSettings():
            sys.stderr.write(
                "msmq: [log] applies only to twistd -n without --logfile, --logger and --syslog\n"
            )
        return None
    return LogOutput(configuration.log, sys.stdout)


def _file_observer(options: Options) -> ILogObserver | None:
    """A log observer of Twisted that writes where C{twistd} would write; C{None} if none was named."""
    if options.file_observer is None:
        return None
    twistd: Mapping[str, Any] = options.parent or {}
    path = twistd.get("logfile")
    if twistd.get("nodaemon") and path in (None, "", "-"):
        file = sys.stdout
    else:
        file = cast(TextIO, LogFile.fromFullPath(path or "twistd.log"))
    return _FILE_OBSERVERS[options.file_observer](file)
