"""Options and service of C{twistd msmq}."""

from __future__ import annotations

import atexit
import os
import sys
from typing import ClassVar, cast

from twisted.application.service import IService
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime

from msmq.interfaces.server_program import IServerProgram
from msmq.net.clock import SystemClock
from msmq.net.name_service import LookupReactor, NameService
from msmq.net.session import SessionProtocol
from msmq.service.configuration import ConfigurationError, ConfigurationSource, Overrides
from msmq.service.process.descriptors import raise_descriptor_limit
from msmq.service.process.service_manager import ServiceManager
from msmq.service.process.steady_timers import SchedulingReactor, keep_timers_steady
from msmq.service.process.twistd_log import LoggedOptions, file_observer, log_output
from msmq.service.program_loading import ProgramError, load_program
from msmq.service.server import Server
from msmq.service.twistd_service import ExitStatus, ReloadingReactor, TwistdService


class Options(LoggedOptions):
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
    keep_timers_steady(cast(SchedulingReactor, reactor))
    # Every endpoint of the process uses it: sessions, directory servers, the store.
    IReactorPluggableNameResolver(reactor).installNameResolver(NameService(cast(LookupReactor, reactor)))
    status = ExitStatus()
    atexit.register(status.at_exit)
    output = log_output(options, configuration.log)
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
    observer = output or file_observer(options)
    return TwistdService(server, running, status, sys.__stderr__ or sys.stderr, manager, observer)


def _program(text: str, reactor: IReactorTime) -> IServerProgram:
    """The program of the broker that an option names.

    @raise SystemExit: it cannot be used; its text says why.
    """
    try:
        return load_program(text, reactor, SystemClock())
    except ProgramError as error:
        raise SystemExit(f"msmq: --broker {text}: {error}") from error
