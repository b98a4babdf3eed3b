"""One queue manager of an estate in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final, TypedDict, cast
from uuid import UUID

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort

from msmq.broker.arguments import check_queues
from msmq.broker.broker import Broker
from msmq.broker.program import BrokerProgram
from msmq.errors import LocalProtocolError
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.manager.queue_properties import QueueProperties
from msmq.interfaces.routing import IRouter
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.storage import IMessageStore
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.manager_settings import (
    ORIGINAL,
    EnterpriseSettings,
    ManagerRuntime,
    ManagerSecurity,
    TransferPolicy,
)
from msmq.manager.securing.message_security import SecurityProviders
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.manager.service import QueueManagerService
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import HostIdentity
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.ping import Pinger, PingReactor, PingResponderProtocol
from msmq.net.resolver import HostNotFound, NextHopAddress
from msmq.plugins import lacking
from msmq.queues.arriving.message import Message
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue_names import one_of
from msmq.quoting import kind_of
from msmq.session.descriptor_shares import DescriptorShares
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost
from msmq.transfer.security.cipher_choice import Preferences
from msmq.transfer.source_journaling import SourceJournaling

DOMAIN: Final = "example.com"
"""The DNS domain of the hosts."""
DESCRIPTORS: Final = 65536
EVENTS: Final = 10_000
DELIVERY_RECORDS: Final = 8192
AT_ONCE: Final = 1000
"""Messages that one call takes."""

_INTERFACES: Final = {
    "store": IMessageStore,
    "session_policy": ISessionPolicy,
    "directory": IDirectory,
    "router": IRouter,
}


class ManagerOptions(TypedDict, total=False):
    """What differs from an ordinary queue manager; every one may be left out.

    C{queues}: private queues, as of L{Broker}. C{broker}: receives its messages; it has no store and no
    name of its own. C{store}: opened again at each start; by default in memory, and kept over a stop.
    C{session}, C{session_policy}, C{directory} and C{router}: as of L{Server<msmq.Server>}.
    C{permit_insecure_nacks}: send negative acknowledgements to senders that are not authenticated.
    """

    queues: Iterable[str] | Mapping[str, QueueProperties]
    broker: Broker
    store: IMessageStore
    session: SessionSettings
    session_policy: ISessionPolicy
    directory: IDirectory
    router: IRouter
    permit_insecure_nacks: bool


class MemoryQueueManager:
    """A queue manager of a L{MemoryEstate<msmq.testing.MemoryEstate>}, which creates and starts it.

    It accepts messages from every host of the estate, and decides nothing by users, signatures or encryption.

    @param address_of: the IP address of a host name.
    @ivar name: ComputerName.
    @ivar host: its host on the network; C{host.address} is its IP address.
    @ivar manager: the queue manager, as an application embeds it; each start makes another one.
    """

    def __init__(
        self,
        name: str,
        host: MemoryHost,
        clock: ManualClock,
        address_of: Callable[[str], str | None],
        new_identifier: Callable[[], UUID],
        options: ManagerOptions,
    ) -> None:
        _check_options(options)
        self.name = name
        self.host = host
        self._clock = clock
        self._address_of = address_of
        self._new_identifier = new_identifier
        self._options = options
        self._identifier = new_identifier()
        store = options.get("store")
        # One that is empty may be false.
        self._store = MemoryMessageStore(durable=True) if store is None else store
        self._queues = check_queues("MemoryEstate", options.get("queues")) or []
        self._settings = options.get("session") or SessionSettings()
        self._ports: list[IListeningPort] = []
        self._is_running = False
        self._program: BrokerProgram | None = None
        self._pinger: Pinger | None = None
        self.manager = self._create()

    @property
    def is_running(self) -> bool:
        """Whether it is started."""
        return self._is_running

    def start(self) -> None:
        """Start it, with what its store has; what a start that fails has begun is undone.

        @raise LocalProtocolError: it is running.
        @raise Exception: its store cannot be opened, its port is in use, or its broker refuses.
        """
        if self._is_running:
            raise LocalProtocolError(f"{self.name} is running")
        if self._pinger is None:
            self.manager = self._create()
        self._is_running = True
        try:
            self._start()
        except BaseException:
            with suppress(Exception):
                self.stop()
            raise

    def _start(self) -> None:
        self._clock.run(self.manager.open())
        known = {queue.path.lower() for queue in self.manager.inspection.queues()}
        for queue in self._queues:
            if queue.path.lower() not in known:
                self._clock.run(self.manager.create_queue(queue.path, **queue.properties))
        if self._program is not None:
            self._clock.run(self._program.prepare(self.manager))
        self.manager.startService()
        settings, listening = self._settings, self.host.server_endpoint(self._settings.session_port)
        self._ports.append(self._clock.run(listening.listen(self._sessions)))
        self._ports.append(self.host.listenUDP(settings.ping_port, self._pings))
        if self._program is not None:
            self._program.begin()

    def stop(self) -> None:
        """Stop it: sessions end, and recoverable messages are kept for the next start.

        @raise Exception: a part could not be stopped; all others are.
        """
        if not self._is_running or self._pinger is None:
            return
        self._is_running = False
        ports, self._ports = self._ports, []
        pinger, self._pinger = self._pinger, None
        with ExitStack() as steps:
            # In reverse order, each whatever the others do.
            steps.callback(lambda: self._clock.run(self.manager.stopService()))
            steps.callback(lambda: self._clock.run(pinger.stop()))
            if (program := self._program) is not None:
                steps.callback(lambda: self._clock.run(program.end()))
            for port in reversed(ports):
                steps.callback(self._end_port, port)

    def _end_port(self, port: IListeningPort) -> None:
        self._clock.run(maybeDeferred(port.stopListening))

    def send(self, destination: str, *messages: Message | bytes) -> list[MessageIdentifier]:
        """Send messages; bytes are the body of an express message.

        @raise MQError: refused.
        """
        sent = [Message(body=each) if isinstance(each, bytes) else each for each in messages]
        return self._clock.run(self.manager.send(destination, sent))

    def waiting(self, queue: str) -> list[UserMessageView]:
        """The first L{AT_ONCE} messages of a queue, which stay there; locked ones are left out.

        @param queue: its name, C{orders}, or a path or format name.
        @raise MQError: there is no such queue.
        """
        return self._messages(queue, peek=True)

    def take(self, queue: str) -> list[UserMessageView]:
        """Receive the messages of a queue, at most L{AT_ONCE}; see L{waiting}."""
        return self._messages(queue, peek=False)

    def _messages(self, queue: str, *, peek: bool) -> list[UserMessageView]:
        path = queue if "\\" in queue or "=" in queue else f".\\private$\\{queue}"
        try:
            found = self._clock.run(self.manager.reserve(path, count=AT_ONCE, timeout=0, peek=peek))
        except MQError as error:
            if error.status != Status.MQ_ERROR_IO_TIMEOUT:
                raise
            return []
        if not peek:
            self._clock.run(found.confirm())
        return [message.view for message in found.messages]

    async def _lookup(self, name: str) -> Sequence[NextHopAddress]:
        address = self._address_of(name)
        if address is None:
            raise HostNotFound(f"{name}: the estate has no such host")
        port = self._settings.session_port
        return [NextHopAddress(address, port, self.host.client_endpoint(address, port))]

    def _create(self) -> QueueManagerService:
        options, settings = self._options, self._settings
        host = HostIdentity(self.name, qualified_computer_name=f"{self.name.lower()}.{DOMAIN}")
        broker = options.get("broker")
        self._program = None if broker is None else broker.program(self.host, self._clock)
        self._pinger = Pinger(
            self._identifier, reactor=cast(PingReactor, self.host), clock=self._clock, settings=settings
        )
        self._sessions = DiallingSessionFactory(
            self._identifier,
            reactor=self.host,
            clock=self._clock,
            shares=DescriptorShares.of(DESCRIPTORS),
            lookup=self._lookup,
            probe=self._pinger.would_accept,
            settings=settings,
            policy=options.get("session_policy"),
            protocol=None if self._program is None else self._program.session_protocol,
        )
        self._pings = PingResponderProtocol(
            self._identifier,
            clock=self._clock,
            settings=settings,
            session_count=lambda: self.manager.inspection.status().sessions,
        )
        return QueueManagerService(
            model=QueueManagerModel(
                self._identifier,
                computer_names=[self.name, str(host.qualified_computer_name)],
                is_own_address=one_of([self.host.address]),
                now=self._clock.now(),
            ),
            store=self._store,
            sessions=self._sessions,
            runtime=ManagerRuntime(
                reactor=self.host,
                clock=self._clock,
                in_thread=maybeDeferred,
                new_identifier=self._new_identifier,
            ),
            policy=TransferPolicy(
                session=settings,
                send_insecure_nacks=options.get("permit_insecure_nacks", False),
                report_messages=False,
                dead_letter_over_quota=True,
                source_journaling=SourceJournaling.HANDOVER,
                events=EVENTS,
                delivery_records=DELIVERY_RECORDS,
                clone=ORIGINAL,
            ),
            enterprise=EnterpriseSettings(
                host=host,
                directory=options.get("directory"),
                changes=DirectoryChanges.KEEP,
                router=options.get("router"),
                routing_server=False,
                site=None,
            ),
            security=ManagerSecurity(
                trusted_peers=TrustedPeers(Unauthenticated.ALLOW),
                access=None,
                ciphers=None,
                encryption=Preferences(),
                providers=SecurityProviders(),
            ),
            send_keys=SendKeys(),
            addresses=lambda: [f"TCP {self.host.address}:{settings.session_port}"] if self._ports else [],
        )


def _check_options(options: ManagerOptions) -> None:
    for name, interface in _INTERFACES.items():
        value = options.get(name)
        if value is not None and (lack := lacking(interface, value)):
            raise LocalProtocolError(
                f"MemoryEstate: {name} cannot be used as an {interface.__name__}: {lack}"
            )
    for name, kind in ("broker", Broker), ("session", SessionSettings), ("permit_insecure_nacks", bool):
        value = options.get(name)
        if value is not None and not isinstance(value, kind):
            raise LocalProtocolError(
                f"MemoryEstate: {name} is {kind_of(value)}; it has to be a {kind.__name__}"
            )
