"""Starts one server in order, and stops it in the reverse order.

The lock on the data directory comes first, so that two servers never touch the same files.
Then come the identity and the store, then the control socket; the session and ping ports, which peers can
reach, open only when an operator can observe the server.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, cast
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IProtocolFactory,
    IReactorFromThreads,
    IReactorThreads,
    IReactorTime,
)
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from msmq.control.authentication.token_file import TokenExpiry
from msmq.control.server.alarms.expiry_watch import ExpiryWatch
from msmq.control.server.server_configuration import (
    NO_SOURCE,
    ConfigurationReport,
    FollowingConfiguration,
    ReloadPreview,
)
from msmq.directory.factory import identifier_in_directory
from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.plugins import DirectoryContext
from msmq.interfaces.routing import IRouter
from msmq.interfaces.security.access import IAccessControl
from msmq.interfaces.security.gate import IGate
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.interfaces.server_program import IServerProgram
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.standby import IOwnedStore
from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.manager.administration.metered_store import MeteredStore
from msmq.manager.manager_settings import ORIGINAL
from msmq.manager.service import QueueManagerService
from msmq.net.clock import SystemClock
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.endpoints import StreamEndpoint
from msmq.net.reactors import running_reactor
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import MakeSession, SessionFactory
from msmq.net.tls import NeverNone
from msmq.service.composition import ServerParts, compose, directory_context
from msmq.service.configuration import ConfigurationError
from msmq.service.data_directory.data_lock import DataLock
from msmq.service.data_directory.host_fingerprint import check_clone
from msmq.service.data_directory.identity import (
    adopt_identity,
    check_renewal,
    has_identity,
    identity_path,
    load_identity,
)
from msmq.service.data_directory.store_conversion import convert_former_store
from msmq.service.directory_servers import DirectorySearch, DirectoryServerProtocol
from msmq.service.exposure import exposure
from msmq.service.management_endpoints import ManagementEndpoints
from msmq.service.process.collector import CycleSweeps
from msmq.service.process.descriptors import descriptor_limit
from msmq.service.process.log_output import LogOutput
from msmq.service.process.reactor_turns import ReactorTurns
from msmq.service.process.staged_service import StagedService
from msmq.service.reload import PreparedReload, ReloadRefused, ReloadResult, prepare
from msmq.service.replacements import MakeDiscovery, MakePing, MakeSessions, Replacements, ServerPingProtocol
from msmq.service.server_arguments import check_server_arguments
from msmq.service.server_ports import ServerPorts
from msmq.service.settings import Configuration, ListenSettings
from msmq.session.descriptor_shares import SMALL, DescriptorShares
from msmq.storage.factory import make_store
from msmq.structures.status import MQError, Status
from msmq.wire.guid import braced

if TYPE_CHECKING:
    from msmq.service.standby import StandbyWait


RELOADED: Final = "done"
REFUSED: Final = "refused"
"""The result of a reload, a label of C{msmq_config_reloads_total}."""


class _Started(Protocol):
    """A part that works from its start to its stop."""

    def start(self) -> object:
        """Begin."""

    def stop(self) -> object:
        """End; may return a Deferred that fires when it has ended."""


class Server(StagedService):
    """A complete queue manager server, as C{twistd msmq} runs it.

    An application that embeds a whole server adds it to a service of its own.

    Each part of an application replaces the one of the configuration, C{None} leaves that; a plugin can
    provide the same by a name in the configuration (L{msmq.interfaces.plugins}).

    @param reactor: by default Twisted's global reactor.
    @param session_protocol: a subclass of L{SessionProtocol} with hooks of the application's own.
    @param session_factory: a subclass of L{DiallingSessionFactory
        <msmq.net.dialling_session_factory.DiallingSessionFactory>}, or a callable with its arguments.
    @param ping_protocol: a subclass of C{ServerPingProtocol}, or a callable with its arguments.
    @param router: finds the next hops of messages.
    @param directory: not open yet; the server opens and closes it, as it does the store.
    @param store: not open yet; its C{open} is called at each start.
    @param access: decides on the rights of accounts. An error in it denies access.
    @param session_policy: which peers may open sessions, and which messages they may send. An error in it
        refuses.
    @param gate: replaces the lists of trusted addresses in C{[security]}. An error in it refuses.
    @param discovery: a subclass of C{DirectoryServerProtocol}, or a callable with its arguments: answers
        discovery requests ([MS-MQSD] 3.2) where C{connected_networks} are configured.
    @param clock: the time; by default the machine's.
    @param program: works with the queue manager and stops with it, as a broker does; its C{session_protocol}
        has to be given as well.
    @param source: reads the configuration again, for L{reload}; raises L{ConfigurationError
        <msmq.service.configuration.problems.ConfigurationError>} if it cannot be used.
        C{None} refuses reloads.
    @param log_output: writes the log of the process and is configured by a reload; C{None} if another
    observer does.
    @param accepts_loss: open the store also if it is missing, empty, damaged, or not the one that was used
        last, as C{twistd msmq --accept-loss} does; otherwise the server refuses to start.
    @param announce: receives what a standby waits for, as text for a service manager.
    @raise LocalProtocolError: an argument has another type or lacks a member of its interface; names both.
    @ivar configuration: its configuration.
    @ivar started: fires when the server is ready, or with the reason why it cannot start.  Each start
        makes a new one.
    @ivar lost: fires with the error when a server with a standby has lost its store to another one; it has to
        be stopped then.
    @ivar remote_control: address and port of the control API for callers with a token, if configured.
    @ivar web: address and port of the metrics, the health and the console, if they are served.
    """

    name = "msmq"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        configuration: Configuration,
        reactor: IReactorTime | None = None,
        *,
        session_protocol: MakeSession = SessionProtocol,
        session_factory: MakeSessions = DiallingSessionFactory,
        ping_protocol: MakePing = ServerPingProtocol,
        router: IRouter | None = None,
        directory: IDirectory | None = None,
        store: IMessageStore | None = None,
        access: IAccessControl | None = None,
        session_policy: ISessionPolicy | None = None,
        gate: IGate | None = None,
        discovery: MakeDiscovery = DirectoryServerProtocol,
        clock: IClock | None = None,
        program: IServerProgram | None = None,
        source: Callable[[], Configuration] | None = None,
        log_output: LogOutput | None = None,
        accepts_loss: bool = False,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__()
        check_server_arguments(configuration, source, program, reactor, clock, log_output)
        self._accepts_loss = accepts_loss
        self._announce = _no_announcement if announce is None else announce
        self._log_output = log_output
        self.configuration = configuration
        self._source = source
        self._reloads = Counter({RELOADED: 0, REFUSED: 0})
        self._parts: ServerParts | None = None
        self._stands_by = False
        self.remote_control: tuple[str, int] | None = None
        self.web: tuple[str, int] | None = None
        self._reactor = running_reactor() if reactor is None else reactor
        self._clock = SystemClock() if clock is None else clock
        self._replacements = Replacements(
            router=router,
            directory=directory,
            store=store,
            access=access,
            session_policy=session_policy,
            gate=gate,
            discovery=discovery,
            session_protocol=session_protocol,
            session_factory=session_factory,
            ping_protocol=ping_protocol,
        )
        self._program = program
        self._ports = ServerPorts(self._reactor, self._undo.append, self._log_line)
        self._management = ManagementEndpoints(
            self._reactor, self._clock, self._ports, lambda: self.configuration, self._reloads, self.log
        )

    @property
    def is_ready(self) -> bool:
        """Whether it has started and is not being stopped."""
        return self._parts is not None

    @property
    def manager(self) -> QueueManagerService:
        """Its queue manager; each start makes a new one.

        @raise LocalProtocolError: the server is not ready: it was not started, starts, stops, or is stopped.
        """
        return self._ready("manager").manager

    @property
    def sessions(self) -> SessionFactory:
        """The factory of its sessions with other queue managers; each start makes a new one.

        @raise LocalProtocolError: as of C{manager}.
        """
        return self._ready("sessions").sessions

    @property
    def parts(self) -> ServerParts | None:
        """All of its objects, which are internal, while it is ready. Deprecated: C{manager}, C{sessions}."""
        text = "Server.parts is deprecated: use Server.manager and Server.sessions"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self._parts

    def _ready(self, name: str) -> ServerParts:
        if self._parts is None:
            raise LocalProtocolError(f"Server.{name}: the server is not ready; wait for its `started` first")
        return self._parts

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses on which it listens: C{TCP 127.0.0.1:1801}, C{UDP 127.0.0.1:3527}."""
        return self._ports.addresses

    def reload(self) -> dict[str, Any]:
        """Read the configuration again, and apply what can change without a restart.

        Sessions and messages stay; nothing is refused meanwhile. A standby takes over with what it has read.

        @return: C{changed}, C{restart} and C{read}, as L{ReloadResult} has them.
        @raise MQError: MQ_ERROR_INVALID_PARAMETER for a configuration that cannot be used, and
            MQ_ERROR_UNSUPPORTED_OPERATION without a source; nothing has changed.
        """
        try:
            result = self._reload()
        except (ConfigurationError, ReloadRefused) as error:
            self._reloads[REFUSED] += 1
            text = str(error).replace("\n", "; ")
            self.log.error("the configuration is not reloaded, and nothing has changed: {text}", text=text)
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"nothing has changed: {text}") from error
        self._reloads[RELOADED] += 1
        self._log_line(f"configuration reloaded; {result}")
        return result.describe()

    async def read_again(self) -> FollowingConfiguration:
        """L{examine} in a thread: the file of an enterprise may be large, and a disk slow."""
        threads = IReactorThreads(self._reactor)
        return await deferToThreadPool(threads, threads.getThreadPool(), self.examine)

    def examine(self) -> FollowingConfiguration:
        """Read the configuration again, and examine what a reload would do; nothing changes."""
        # Imported by those that ask for it.
        from msmq.service.report.shown_values import shown_problem

        read: Configuration | None = None
        try:
            read = self._read()
            preview = ReloadPreview(**attrs.asdict(self._prepare(read).result))
        except ConfigurationError as error:
            preview = ReloadPreview(problems=[shown_problem(each) for each in error.problems])
        except ReloadRefused as error:
            preview = ReloadPreview(problems=str(error).splitlines())
        except MQError as error:
            preview = ReloadPreview(problems=[error.detail])
        return FollowingConfiguration(read, preview)

    def report(self, following: FollowingConfiguration) -> ConfigurationReport:
        """The configuration, where each value is set, and what a reload would do.

        @param following: from L{read_again}.
        """
        from msmq.service.report.configuration_report import configuration_report

        return configuration_report(self.configuration, following)

    def certificates(self) -> Sequence[EndpointCertificate]:
        """The TLS certificates of its endpoints, as they are presented now."""
        return self._ports.certificates(self._clock.now().wall)

    def tokens(self) -> Sequence[TokenExpiry]:
        """The tokens of callers that expire."""
        tokens = self._management.tokens
        return () if tokens is None else tokens.expiries(self._clock.now().wall)

    def _read(self) -> Configuration:
        if self._source is None:
            raise MQError(Status.MQ_ERROR_UNSUPPORTED_OPERATION, NO_SOURCE)
        return self._source()

    def _prepare(self, read: Configuration) -> PreparedReload:
        return prepare(
            self.configuration, read, tokens=self._management.tokens, endpoints=self._ports.reloadable
        )

    def _reload(self) -> ReloadResult:
        read = self._read()
        if self._parts is None and not self._stands_by:
            raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "the server is starting or stopping")
        former = self.configuration
        prepared = self._prepare(read)
        prepared.apply(self._parts)
        self.configuration = prepared.configuration
        if self._log_output is not None and self.configuration.log != former.log:
            self._log_output.configure(self.configuration.log)
        return prepared.result

    async def _start_in_order(self) -> None:
        configuration = self.configuration
        data = configuration.queue_manager.data
        listen = configuration.listen
        check_renewal(data)
        lock = DataLock(data)
        lock.acquire()
        self._undo.append(lock.release)
        self._management.read_tokens()
        if (warning := exposure(configuration)) is not None:
            self.log.warn("{line}", line=f"listen.session: {warning}")
        clock = self._clock
        standby = await self._stand_by()
        # A standby may have read it again.
        configuration = self.configuration
        search = DirectorySearch(configuration, self._reactor, clock)
        self._undo.append(search.stop)
        identifier = await self._identity(directory_context(configuration, self._reactor, clock, search))
        clone = ORIGINAL
        if configuration.queue_manager.clone_check:
            clone = check_clone(identity_path(data))
        store = self._replacements.store
        if store is None:
            store = make_store(configuration.storage, data, accepts_loss=self._accepts_loss)
        measured = MeteredStore(store, self._reactor.seconds)
        web = self._management.web_endpoint(measured)
        self._begin(
            ReactorTurns(
                self._reactor, clock, _no_metric if web is None else web.instruments.turn_seconds.observe
            )
        )
        self._begin(CycleSweeps(self._reactor))
        descriptors = descriptor_limit()
        if descriptors < SMALL:
            self.log.warn(
                "the process may open {limit} files and connections only; LimitNOFILE of systemd, or"
                " ulimit -n, sets the limit",
                limit=descriptors,
            )
        parts = compose(
            configuration,
            identifier,
            measured,
            self._reactor,
            shares=DescriptorShares.of(descriptors),
            server=self,
            clone=clone,
            addresses=lambda: self.addresses,
            clock=clock,
            replacements=self._replacements,
            search=search,
        )
        self._undo.append(parts.stop)
        if web is not None and listen.web is not None:
            # Before the store opens, which may take long, so that progress can be observed.
            self.web = await self._management.listen_for_web(listen.web, web, parts)
        await self._convert_former_store()
        await parts.manager.open()
        if standby is not None:
            standby.settled()
            if (owned := IOwnedStore(store, None)) is not None:
                owned.ownership_lost().addCallback(self._lose)
        if self._program is not None:
            self._undo.append(self._program.end)
            await self._program.prepare(parts.manager)
        await self._open_ports(listen, parts)
        parts.manager.startService()
        self._parts = parts
        if self._program is not None:
            self._program.begin()
        for service in (parts.bridge, parts.shadows, parts.archive):
            if service is not None:
                self._begin(service)
        self._begin(ExpiryWatch(self._reactor, self.certificates, self.tokens))
        name = configuration.queue_manager.name
        self._log_line(f"queue manager {name}, identifier {braced(identifier)}")
        self._log_line(f"listens on {', '.join(self.addresses) or 'no address'}")
        self._log_line(f"control socket {listen.control or 'off'}, data directory {data}")
        self._log_line(_store_line(store))

    def _begin(self, started: _Started) -> None:
        """Start a part that the stop of the server stops."""
        self._undo.append(started.stop)
        started.start()

    async def _open_ports(self, listen: ListenSettings, parts: ServerParts) -> None:
        """Open the ports for operators first, then those for peers."""
        if listen.control is not None:
            port = await self._management.listen_for_control(listen.control, parts)
            self._control_socket = listen.control
            self._undo.append(port.stopListening)
        if listen.remote_control is not None:
            self.remote_control = await self._management.listen_for_remote_control(
                listen.remote_control, parts
            )
        if listen.session is not None:
            await self._ports.listen_for_sessions(
                listen.session, _listening(listen.session, parts), parts.tls
            )
        if listen.ping is not None:
            self._ports.listen_for_pings(listen.ping, parts.pings)
        if listen.discovery is not None and parts.discovery is not None:
            self._ports.listen_for_discovery(listen.discovery, parts.discovery)

    async def _stand_by(self) -> StandbyWait | None:
        """Wait until the store is free, if several servers share it; then take over its identity."""
        configuration = self.configuration
        if not configuration.storage_sharing.standby or self._replacements.store is not None:
            return None
        # Other servers never import it.
        from msmq.service.standby import StandbyWait

        wait = StandbyWait(configuration, self._reactor, self._announce)
        self._undo.append(lambda: Deferred.fromCoroutine(wait.close()))
        self._stands_by = True
        try:
            owner = await wait.elected()
        finally:
            self._stands_by = False
        if owner is not None:
            adopt_identity(configuration.queue_manager.data, owner)
        return wait

    def _lose(self, error: StorageError) -> None:
        """Another server has the store: nothing that this one does from now on counts."""
        lost, self.lost = self.lost, Deferred()
        lost.callback(error)

    async def _convert_former_store(self) -> None:
        """Convert the store of an older version, if the configuration names the store."""
        if self._replacements.store is not None:
            return
        if converted := await convert_former_store(
            self.configuration.storage,
            self.configuration.queue_manager.data,
            cast(IReactorFromThreads, self._reactor),
            accepts_loss=self._accepts_loss,
        ):
            self._log_line(converted)

    async def _identity(self, context: DirectoryContext) -> UUID:
        """Identifier; at the first start the one in the directory, or a new one. [MS-MQDMPR] 3.1.1.1."""
        configuration = self.configuration
        queue_manager = configuration.queue_manager
        known = None
        if self._replacements.directory is None and not has_identity(queue_manager.data):
            known = await identifier_in_directory(configuration.directory, queue_manager.name, context)
        return load_identity(queue_manager.data, lambda: known or uuid4())

    def _forget(self) -> None:
        self._parts = self.remote_control = self.web = None
        self._ports.forget()

    def _log_line(self, line: str) -> None:
        self.log.info("{line}", line=line)


def _listening(endpoint: StreamEndpoint, parts: ServerParts) -> IProtocolFactory:
    """The factory for connections of the session endpoint; Twisted's TLS needs a protocol for each."""
    return NeverNone(parts.sessions) if endpoint.description.startswith("ssl:") else parts.sessions


def _no_announcement(text: str) -> None:
    """A server without a service manager."""


def _no_metric(seconds: float) -> None:
    """A server without a web endpoint exports no metrics."""


def _store_line(store: IMessageStore) -> str:
    if store.durable:
        return f"store {store.name}"
    return (
        f"store {store.name} is not durable: queues and messages are lost when the server stops; "
        "recoverable and transactional sends are refused"
    )
