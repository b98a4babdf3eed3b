"""The composition root: from a configuration to the objects of one server, none of them listening yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast
from uuid import UUID, uuid4

import attrs
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime
from twisted.internet.threads import deferToThread

from msmq.archive_service.settings import store_location
from msmq.control.server.factory import ControlSite, make_site
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.directory.factory import make_directory
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import (
    IAddressBook,
    IControlBook,
    IServedDirectory,
)
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.plugins import DirectoryContext, ServerContext
from msmq.interfaces.security.tls import ITls
from msmq.interfaces.storage import IMessageStore
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.live_settings import LiveSettings
from msmq.manager.manager_settings import (
    CloneCheck,
    EnterpriseSettings,
    ManagerRuntime,
    ManagerSecurity,
    TransferPolicy,
)
from msmq.manager.securing.gated_peers import GatedPeers
from msmq.manager.service import QueueManagerService
from msmq.membership.local import HostIdentity
from msmq.net.clock import SystemClock
from msmq.net.connector import Probe
from msmq.net.discovery import DiscoveryServerProtocol
from msmq.net.hosts import HostTable, OwnNames, parse_address
from msmq.net.ping import Pinger, PingReactor, PingResponderProtocol
from msmq.net.resolver import HostResolver
from msmq.net.session_factory import SessionFactory
from msmq.queues.model import ModelLimits, QueueManagerModel
from msmq.security.access.control import AccessControl
from msmq.security.access.rules import Rules
from msmq.security.tls import PinnedTls
from msmq.service.directory_servers import DirectorySearch
from msmq.service.policy_plugins import make_access_control, make_router, make_session_policy
from msmq.service.replacements import CONFIGURED, Replacements
from msmq.service.security_parts import (
    access_control,
    access_policy,
    ciphers,
    encryption_preferences,
    security_providers,
    signing_policy,
    trusted_peers,
)
from msmq.service.settings import Configuration
from msmq.service.stored_rows import StoredRows, location_of_store
from msmq.session.connection_limits import ConnectionRefusal
from msmq.session.descriptor_shares import DescriptorShares
from msmq.transfer.source_journaling import SourceJournaling
from msmq.wire.addresses import AddressSet

if TYPE_CHECKING:
    from msmq.archive_service.service import ArchiveService
    from msmq.bridge_service.service import BridgeService
    from msmq.shadow_service.service import ShadowService


@attrs.frozen
class ServerParts:
    """The objects of one server.

    @ivar manager: the queue manager; it owns the store.
    @ivar sessions: listens on the session port.
    @ivar pings: listens on the ping port.
    @ivar control: listens on the control socket.
    @ivar pinger: sends pings to other queue managers.
    @ivar search: looks for directory servers.
    @ivar resolver: finds other queue managers.
    @ivar access: decides by the descriptors of queues, and by rules.
    @ivar rows: reads the store for readers on other machines.
    @ivar discovery: listens on the discovery port; C{None} without a connected network.
    @ivar tls: makes the TLS of the session port, and of the hosts that have it.
    @ivar bridge: the routes to other brokers; C{None} without any.
    @ivar shadows: the shadows of queues; C{None} without any.
    @ivar archive: keeps the archive; C{None} without one.
    """

    manager: QueueManagerService
    sessions: SessionFactory
    pings: PingResponderProtocol
    control: ControlSite
    pinger: Pinger
    search: DirectorySearch
    resolver: HostResolver
    access: AccessControl
    rows: StoredRows
    discovery: DiscoveryServerProtocol | None = None
    tls: ITls | None = None
    bridge: BridgeService | None = None
    shadows: ShadowService | None = None
    archive: ArchiveService | None = None

    def configure(self, configuration: Configuration, rules: Rules) -> None:
        """Apply the settings of another configuration that need no restart; this does not fail.

        @param rules: the contents of its rules file.
        """
        session, limits, timers = configuration.session, configuration.limits, configuration.timers
        self.manager.configure(live_settings(configuration, self.manager.store))
        self.sessions.configure(session, _allowed(configuration))
        self.pings.configure(session)
        self.pinger.configure(session)
        self.access.configure(rules)
        self.resolver.configure(
            HostTable.of(configuration.hosts),
            resolution_time=timers.name_resolution,
            connect_time=timers.connect,
            address_limit=limits.host_addresses,
        )

    async def stop(self) -> None:
        """End the sessions and all waiting requests, then close the store."""
        self.rows.stop()
        await self.pinger.stop()
        await self.search.stop()
        await self.manager.stopService()


def compose(
    configuration: Configuration,
    identifier: UUID,
    store: IMessageStore,
    reactor: IReactorTime,
    *,
    shares: DescriptorShares,
    server: ServerConfiguration,
    clone: CloneCheck,
    addresses: Callable[[], Sequence[str]] = tuple,
    clock: IClock | None = None,
    replacements: Replacements = CONFIGURED,
    search: DirectorySearch | None = None,
) -> ServerParts:
    """Create the objects of a server from its configuration.

    @param identifier: QueueManager.Identifier.
    @param store: not open yet.
    @param shares: how many descriptors of the process each kind of connection may have.
    @param server: shows and reloads the configuration.
    @param clone: whether the data directory may be a copy.
    @param addresses: returns the addresses that the server listens on, once it does.
    @param clock: the time; by default the machine's.
    @param replacements: parts of an application; its store is C{store}.
    @param search: looks for directory servers, and may have found some already.
    """
    clock = SystemClock() if clock is None else clock
    search = DirectorySearch(configuration, reactor, clock) if search is None else search
    queue_manager, limits, settings = configuration.queue_manager, configuration.limits, configuration.session
    bound = configuration.listen.session
    bind_address = None if bound is None else bound.bind_address
    directory = replacements.directory
    if directory is None:
        directory = make_directory(
            configuration.directory, directory_context(configuration, reactor, clock, search)
        )
    context = ServerContext(
        identifier=identifier,
        name=queue_manager.name,
        data=queue_manager.data,
        clock=clock,
        reactor=reactor,
        directory=directory,
    )
    served = None if directory is None else IServedDirectory(directory, None)
    if served is not None:
        served.add_servers(search.found)
    book = None if directory is None else IAddressBook(directory, None)
    # The sessions count refused peers, those with a wrong certificate included.
    tls = PinnedTls(lambda address, why: sessions.refuse(ConnectionRefusal.CERTIFICATE, address, why))
    resolver = HostResolver(
        reactor,
        IReactorPluggableNameResolver(reactor).nameResolver,
        HostTable.of(configuration.hosts),
        bind_address=bind_address,
        port=settings.session_port,
        resolution_time=configuration.timers.name_resolution,
        connect_time=configuration.timers.connect,
        address_limit=limits.host_addresses,
        address_of=_no_address if book is None else book.address_of,
        tls=tls,
    )
    pinger = Pinger(
        identifier,
        reactor=cast(PingReactor, reactor),
        clock=clock,
        settings=settings,
        interface=bind_address or "",
    )
    sessions = replacements.session_factory(
        identifier,
        reactor=reactor,
        clock=clock,
        lookup=resolver.resolve,
        probe=_probe(pinger),
        shares=shares,
        settings=settings,
        allowed=_allowed(configuration),
        protocol=replacements.session_protocol,
        policy=replacements.session_policy
        or make_session_policy(configuration.security.session_policy, context),
    )
    live = live_settings(configuration, store)
    access = access_control(configuration, directory, clock)
    deciding = replacements.access or make_access_control(configuration.security.access, context, access)
    own = OwnNames(
        (queue_manager.name, queue_manager.dns_name),
        () if bound is None or bound.interface is None else (bound.interface,),
    )
    model = QueueManagerModel(
        identifier,
        computer_names=own.names,
        is_own_address=own.is_own_address,
        quota=live.limits.quota,
        journal_quota=live.limits.journal_quota,
        peer_dead_letters=live.limits.peer_dead_letters,
        express_memory=live.limits.express_memory,
        packet_memory=live.limits.packet_memory,
        poison_after=configuration.queues.poison_after,
        is_hardened=configuration.security.hardened,
        now=clock.now(),
    )
    manager = QueueManagerService(
        model=model,
        store=store,
        sessions=sessions,
        runtime=ManagerRuntime(reactor=reactor, clock=clock, in_thread=deferToThread, new_identifier=uuid4),
        policy=TransferPolicy(
            session=live.session,
            send_insecure_nacks=live.send_insecure_nacks,
            report_messages=queue_manager.report_messages,
            dead_letter_over_quota=configuration.queues.dead_letter_over_quota,
            source_journaling=SourceJournaling(configuration.queues.journal_on),
            events=live.events,
            delivery_records=live.delivery_records,
            clone=clone,
        ),
        enterprise=EnterpriseSettings(
            host=HostIdentity(queue_manager.name, qualified_computer_name=queue_manager.dns_name),
            directory=directory,
            changes=configuration.directory_changes,
            router=replacements.router or make_router(configuration.routing, context),
            routing_server=queue_manager.routing_server,
            site=queue_manager.sites[0] if queue_manager.sites else None,
        ),
        security=ManagerSecurity(
            trusted_peers=(
                live.trusted_peers
                if replacements.gate is None
                else GatedPeers(gate=replacements.gate, clock=clock)
            ),
            access=access_policy(configuration.security, access, deciding, clock),
            ciphers=None if directory is None else ciphers(configuration),
            encryption=live.encryption,
            providers=security_providers(configuration),
        ),
        send_keys=SendKeys(live.send_keys, live.send_key_lifetime),
        addresses=addresses,
    )
    bridge = _bridge(configuration, manager, reactor)
    shadows = _shadows(configuration, manager, reactor)
    is_configured = replacements.store is None
    rows = StoredRows(
        location_of_store(configuration.storage, queue_manager.data) if is_configured else None, reactor
    )
    archive = _archive(configuration, manager, reactor, clock)
    control = make_site(
        manager,
        members=EstateMembers(
            (queue_manager.name, queue_manager.dns_name),
            configuration.control_servers,
            None if directory is None else IControlBook(directory, None),
        ),
        configuration=server,
        limits=ControlLimits(
            receives=limits.control_receives,
            # Remote control has as many for itself.
            connections=shares.control
            if configuration.listen.remote_control is None
            else max(1, shares.control // 2),
        ),
        clock=reactor,
        bridges=bridge,
        shadows=shadows,
        rows=rows,
        archive=archive,
    )
    pings = replacements.ping_protocol(identifier, sessions, clock)
    discovery = None
    if queue_manager.connected_networks:
        discovery = replacements.discovery(queue_manager, reactor, lambda: manager.membership, search)
    return ServerParts(
        manager,
        sessions,
        pings,
        control,
        pinger,
        search,
        resolver,
        access,
        rows,
        discovery,
        tls,
        bridge,
        shadows,
        archive,
    )


def _bridge(
    configuration: Configuration, manager: IQueueManager, reactor: IReactorTime
) -> BridgeService | None:
    if not configuration.bridges:
        return None
    # A server without routes imports neither the bridge nor pika.
    from msmq.bridge_service.manager_queues import ManagerQueues
    from msmq.bridge_service.service import BridgeService

    queues = ManagerQueues(manager)
    directory = configuration.queue_manager.data / "bridge"
    return BridgeService(configuration.bridges, lambda _: queues, reactor, directory)


def _shadows(
    configuration: Configuration, manager: IQueueManager, reactor: IReactorTime
) -> ShadowService | None:
    if not configuration.shadows:
        return None
    # A server without shadows imports nothing of them.
    from msmq.shadow_service.service import ShadowService

    directory = configuration.queue_manager.data / "shadows"
    name = configuration.queue_manager.name
    return ShadowService(configuration.shadows, manager, name, reactor, deferToThread, directory)


def _archive(
    configuration: Configuration, manager: IQueueManager, reactor: IReactorTime, clock: IClock
) -> ArchiveService | None:
    settings, data = configuration.archive, configuration.queue_manager.data
    location = store_location(configuration.storage, data)
    if settings.directory is None or location is None:
        return None
    # A server without an archive imports nothing of it.
    from msmq.archive_service.service import ArchiveService, process_launch

    return ArchiveService(settings, location, manager, reactor, clock, process_launch(reactor))


def live_settings(configuration: Configuration, store: IMessageStore) -> LiveSettings:
    """The settings of a configuration that a running queue manager can apply."""
    limits = configuration.limits
    return LiveSettings(
        session=configuration.session,
        limits=ModelLimits(
            quota=_quota(configuration, store),
            journal_quota=limits.journal_quota,
            peer_dead_letters=limits.peer_dead_letters,
            express_memory=limits.express_memory if store.durable else None,
            packet_memory=limits.packet_memory if store.durable else None,
        ),
        events=limits.events,
        delivery_records=limits.delivery_records,
        send_keys=limits.send_keys,
        send_key_lifetime=configuration.timers.send_key_lifetime,
        send_insecure_nacks=configuration.security.permit_insecure_nacks,
        trusted_peers=trusted_peers(configuration.security),
        encryption=encryption_preferences(configuration),
        signing=signing_policy(configuration.security),
    )


def _allowed(configuration: Configuration) -> AddressSet | None:
    allowed = configuration.security.sessions_from
    return AddressSet(allowed) if allowed else None


def directory_context(
    configuration: Configuration, reactor: IReactorTime, clock: IClock, search: DirectorySearch
) -> DirectoryContext:
    """The context in which the directory of a configuration is created."""
    return DirectoryContext(
        clock, reactor, configuration.queue_manager.data, configuration.directory_options, search.find
    )


def _no_address(name: str) -> str | None:
    """A directory that knows no addresses, or none at all."""
    return None


def _probe(pinger: Pinger) -> Probe:
    async def probe(address: str) -> bool:
        """Ping the host of a TCP endpoint; other kinds of endpoints have no address to ping."""
        return parse_address(address) is None or await pinger.would_accept(address)

    return probe


def _quota(configuration: Configuration, store: IMessageStore) -> int:
    """QueueManagerQuota in kilobytes; in a store that is not durable every message is express."""
    limits = configuration.limits
    if store.durable:
        return limits.quota
    return min(limits.quota, limits.express_memory // 1024)
