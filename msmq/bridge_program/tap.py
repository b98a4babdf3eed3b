"""Options and service of C{twistd msmq-bridge}."""

from __future__ import annotations

import atexit
import os
import sys
from typing import ClassVar, cast

from twisted.application.service import IService
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime

from msmq.bridge_program.configuration import BridgeOverrides, load_bridge
from msmq.bridge_program.server import BridgeServer
from msmq.net.name_service import LookupReactor, NameService
from msmq.service.configuration import ConfigurationError
from msmq.service.process.descriptors import raise_descriptor_limit
from msmq.service.process.service_manager import ServiceManager
from msmq.service.process.steady_timers import SchedulingReactor, keep_timers_steady
from msmq.service.process.twistd_log import LoggedOptions, file_observer, log_output
from msmq.service.twistd_service import ExitStatus, ReloadingReactor, TwistdService


class BridgeOptions(LoggedOptions):
    """The options of C{twistd msmq-bridge}."""

    synopsis = "--config FILE [options]"
    longdesc = (
        "Routes between queues of any number of queue managers, by their control API, and other brokers. "
        "In a container: twistd -n --pidfile= msmq-bridge --config FILE."
    )
    optParameters: ClassVar[list[list[str | None]]] = [
        ["config", "c", None, "Configuration file (TOML)."],
        ["data", "d", None, "Data directory: lock, control socket, addresses of requests."],
        ["name", None, None, "Name of the bridge in the trails of messages, unique among bridges."],
    ]


Options = BridgeOptions


def makeService(options: BridgeOptions) -> IService:
    """Create the service that C{twistd msmq-bridge} runs.

    @raise SystemExit: the configuration cannot be used; its text has a line for each problem.
    """
    from twisted.internet import reactor

    if options["config"] is None:
        raise SystemExit("msmq-bridge: --config is missing; it names the file with the routes")
    try:
        configuration = load_bridge(
            options["config"], BridgeOverrides(data=options["data"], name=options["name"])
        )
    except ConfigurationError as error:
        raise SystemExit(str(error)) from None
    raise_descriptor_limit()
    keep_timers_steady(cast(SchedulingReactor, reactor))
    IReactorPluggableNameResolver(reactor).installNameResolver(NameService(cast(LookupReactor, reactor)))
    status = ExitStatus()
    atexit.register(status.at_exit)
    timed = IReactorTime(reactor)
    return TwistdService(
        BridgeServer(configuration, timed),
        cast(ReloadingReactor, reactor),
        status,
        sys.__stderr__ or sys.stderr,
        ServiceManager.of(os.environ, timed),
        log_output(options, configuration.log) or file_observer(options),
        program="msmq-bridge",
    )
