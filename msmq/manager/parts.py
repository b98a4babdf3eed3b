"""What a queue manager is made of, and how its parts know each other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.interfaces.ciphers import ICiphers
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.routing import IRouter
from msmq.interfaces.session import ISessions
from msmq.interfaces.storage import IMessageStore
from msmq.interfaces.topology import add_objects
from msmq.manager.ack_sessions import AckSessions
from msmq.manager.administration import Administration
from msmq.manager.arriving import Arrivals
from msmq.manager.departing import Departures
from msmq.manager.destinations import Destinations
from msmq.manager.directory import DirectoryClient, DirectoryRunner
from msmq.manager.directory_health import DirectoryHealth
from msmq.manager.events import EventLog
from msmq.manager.flow import FlowControl
from msmq.manager.forwarding import Forwarding
from msmq.manager.handovers import Handovers
from msmq.manager.integration import Integration, directory_access
from msmq.manager.kept_topology import KeptTopology
from msmq.manager.keyed import KeyedMessages
from msmq.manager.message_log import MessageLogs
from msmq.manager.opening import Opening
from msmq.manager.order_acks import OrderAcks
from msmq.manager.outbox import Outbox
from msmq.manager.ownership import check_owner, claim
from msmq.manager.peer_dead_letters import PeerDeadLetters
from msmq.manager.peers import Peers
from msmq.manager.performing import Performer
from msmq.manager.public_names import PublicNames
from msmq.manager.reads import Reads
from msmq.manager.reporting import Reports
from msmq.manager.routing import DirectoryRouter
from msmq.manager.searching import Search
from msmq.manager.securing.assembly import Securing, SecurityProviders
from msmq.manager.securing.certificates import UserDirectory
from msmq.manager.securing.decrypting import Decryption
from msmq.manager.securing.descriptors import Descriptors
from msmq.manager.securing.encrypting import Encryption
from msmq.manager.securing.gate import Gate
from msmq.manager.securing.permissions import Permissions
from msmq.manager.securing.public_descriptors import PublicDescriptors
from msmq.manager.send_keys import SendKeys
from msmq.manager.sending import Sender
from msmq.manager.sequences import Sequences
from msmq.manager.transactions import Transactions
from msmq.manager.transfer import Transfer
from msmq.manager.turns import Turns
from msmq.manager.ways import Ways
from msmq.queues.changes import AppendEvent
from msmq.queues.directory.access import NO_DIRECTORY
from msmq.queues.directory.entry import DirectoryEntry
from msmq.queues.directory.local import HostIdentity
from msmq.queues.directory.objects import DirectoryObject, UserObject
from msmq.queues.directory.requests import DirectoryEffect, Outcome, Procedure
from msmq.queues.directory.selecting import AttributeFilter, equals
from msmq.queues.model import QueueManagerModel
from msmq.queues.snapshot import Snapshot
from msmq.session.ordering.incoming_streams import IncomingStreams
from msmq.session.securing.choosing import Preferences
from msmq.session.settings import SessionSettings
from msmq.structures.status import MQError

R = TypeVar("R")


class Parts:
    """The parts of one queue manager; L{msmq.manager.service.QueueManagerService} tells what it is given."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        *,
        model: QueueManagerModel,
        store: IMessageStore,
        sessions: ISessions,
        reactor: IReactorTime,
        clock: IClock,
        host: HostIdentity,
        send_insecure_nacks: bool,
        report_messages: bool,
        dead_letter_over_quota: bool,
        events: int,
        settings: SessionSettings,
        new_identifier: Callable[[], uuid.UUID],
        directory: IDirectory | None,
        router: IRouter | None,
        routing_server: bool,
        site: uuid.UUID | None,
        gate: Gate,
        descriptors: Descriptors | None,
        beside: Callable[..., Deferred[Any]],
        send_keys: SendKeys,
        ciphers: ICiphers | None,
        preferences: Preferences,
        security: SecurityProviders,
    ) -> None:
        self.model = model
        self.store = store
        self.sessions = sessions
        self.clock = clock
        performer = self.performer = Performer(model, store, reactor, clock)
        self.events = EventLog(performer, events)
        self.public: PublicNames | None = None
        client: DirectoryClient | None = None
        directory_routes: DirectoryRouter | None = None
        kept_topology: KeptTopology | None = None
        if directory is not None:
            client = DirectoryClient(
                directory,
                directory_access(model, host, routing_server=routing_server),
                DirectoryRunner(directory, clock, self.perform_in_directory),
                DirectoryHealth(directory, clock, self._note),
            )
            self.public = PublicNames(client.access, self.ask_directory, clock, reactor, self)
            if router is None:
                kept_topology = KeptTopology(performer.commit_later, beside)
                router = directory_routes = DirectoryRouter(
                    model.identifier,
                    client.access,
                    self.ask_directory,
                    reactor,
                    clock,
                    kept=kept_topology,
                    was_read=client.health.read,
                    tell=add_objects,
                    changed=self.topology_changed,
                    beside=beside,
                )
        self.router = router
        self.destinations = destinations = Destinations(model, clock, self.public)
        outbox = self.outbox = Outbox(performer, destinations, send_insecure=send_insecure_nacks)
        self.reports = Reports(performer, outbox)
        self.departures = Departures(performer, outbox, self.events)
        self.sequences = Sequences(performer, self.events, settings, reactor)
        self.peers = Peers(model.identifier, clock, trusts=settings.trust_identifiers)
        acks = AckSessions(self.peers)
        streams = IncomingStreams(settings)
        self.order_acks = OrderAcks(performer, outbox, streams, acks, reactor)
        self.turns = Turns(performer, settings, streams, self.order_acks, reactor)
        self.administration = Administration(
            performer, self.departures, outbox, self.events, reactor, new_identifier
        )
        self.administration.descriptors = descriptors
        self.permissions = (
            None if descriptors is None else Permissions(performer, self.administration, descriptors, gate)
        )
        self.integration: Integration | None = None
        if client is not None and self.public is not None:
            integration = Integration(
                performer,
                self.administration,
                client,
                reactor,
                host,
                ciphers,
                self.public,
                directory_routes,
                kept_topology,
                routing_server=routing_server,
                site=site,
            )
            self.integration = integration
            if descriptors is not None:
                descriptors.machine_sid = integration.machine_sid
                descriptors.public = PublicDescriptors(integration.read_security, clock)
                descriptors.write_public = integration.write_security
        self.ways = Ways(model.identifier, router, reactor, self)
        forwarding = Forwarding(performer, lambda: routing_server or self._is_routing_server(), gate)
        self.ciphers = None if directory is None else ciphers
        self.decryption = Decryption(reactor, clock, self.ciphers, preferences)
        self.encryption = Encryption(
            reactor,
            clock,
            self.ciphers,
            None if self.integration is None else self.integration.encryption_keys,
            preferences,
        )
        self.securing = Securing(
            model,
            security,
            gate,
            self.decryption,
            descriptors,
            reactor,
            clock,
            self._read_directory,
            new_identifier,
            beside,
        )
        if self.integration is not None and self.securing.certificates is not None:
            self.securing.certificates.users = UserDirectory(self._read_user, self._write_user)
        outbox.secure = self.securing.signer.secure
        outbox.signed_again = self.securing.signer.signed_again
        outbox.tells_sender = security.tells_sender
        self.inspector = self.securing.inspector
        arrivals = Arrivals(
            performer,
            outbox,
            self.events,
            self.turns,
            self.sequences,
            forwarding,
            self.inspector,
            PeerDeadLetters(performer, gate, over_quota=dead_letter_over_quota),
        )
        arrivals.trusts_identifiers = settings.trust_identifiers
        arrivals.admits = self.peers.admits = gate.admits
        arrivals.acknowledgements.gate = gate
        self.sequences.is_answered_for = self._is_answered_for
        self.departures.on_left = self.sequences.left
        self.handovers = Handovers()
        self.transfer = Transfer(
            performer,
            sessions,
            outbox,
            arrivals,
            self.sequences,
            self.peers,
            acks,
            self.ways,
            _nobody if self.public is None else self.public.owner_of,
            self.encryption,
            self.handovers,
        )
        forwarding.make_room = self.transfer.answer_room.make
        if report_messages:
            arrivals.on_reached = self.reports.arrived
            self.transfer.on_sent = self.reports.departed
        self.keyed = KeyedMessages(clock, send_keys)
        self.transactions = Transactions(performer, outbox, self.sequences, self.keyed)
        self.search = Search(
            performer, outbox, destinations, self.events, self.transactions, reactor, new_identifier
        )
        self.logs = MessageLogs(performer, outbox, destinations, self.transactions, reactor, new_identifier)
        self.flow = FlowControl(performer, reactor)
        self.sender = Sender(model.identifier, outbox, self.transactions, self.keyed, new_identifier)
        self.opening = Opening(
            performer,
            Reads(performer, outbox),
            self.sender,
            self.transactions,
            self.administration,
            destinations,
        )

    async def open(self) -> None:
        """Open the store and take over what it holds."""
        try:
            snapshot = await self.store.open()
            await check_owner(self.store, snapshot, self.model.identifier)
            self.model.restore(snapshot, self.clock.now())
            self.sequences.load(snapshot.state)
            self.turns.load(snapshot.state)
            if self.permissions is not None:
                self.permissions.load(snapshot.state)
            self.keyed.keys.load(snapshot.state, self.clock.now())
            self.performer.start()
            await self._claim(snapshot)
            if self.ciphers is not None:
                self.ciphers.open()
            self.securing.open()
            if self.integration is not None:
                await self.integration.open(snapshot.state)
            if self.router is not None:
                # It may take its time: until it has read the enterprise, what needs a way waits.
                self.router.open().addErrback(
                    lambda failure: self.log.failure("the router could not be opened", failure)
                )
        except BaseException:
            self.performer.stop()
            raise

    async def _claim(self, snapshot: Snapshot) -> None:
        try:
            await self.performer.commit(claim(self.store, snapshot, self.model.identifier))
        except MQError as error:
            # A store without space opens all the same; the next start does it.
            self.log.error("whose the store is was not stored: {error}", error=error)

    def start(self) -> None:
        """Begin to send what waits."""
        self.outbox.start()
        self.logs.start()
        self.sequences.start()
        self.turns.start()
        self.order_acks.schedule()
        # What has expired while nobody looked leaves now.
        self.performer.perform(())
        self.transfer.bring_online()

    def stop(self) -> Deferred[Any]:
        """End the sessions and the waits, then close the store."""
        self.logs.stop()
        self.sequences.stop()
        self.turns.stop()
        self.order_acks.stop()
        self.encryption.stop()
        self.decryption.stop()
        self.flow.stop()
        self.transfer.stop()
        self.performer.stop()
        self.securing.stop()
        closed: Deferred[Any] = succeed(None) if self.router is None else self.router.close()
        integration = self.integration
        if self.public is not None:
            self.public.stop()
        if integration is not None:
            closed.addBoth(lambda _: integration.stop())
        closed.addErrback(lambda failure: self.log.failure("the directory was not closed", failure))
        return closed.addCallback(lambda _: self.store.close())

    def _note(self, event: str, reason: str) -> None:
        """An event of the queue manager itself, and not of a message."""
        self.events.record(AppendEvent(self.clock.now().wall, b"", event, reason))

    # Events: what a part reports to one that is made later, or that depends on it

    def owner_found(self, identifier: uuid.UUID) -> None:
        """See L{PublicQueueListener.owner_found}."""
        self.transfer.owner_found(identifier)

    def route_changed(self, destination: uuid.UUID) -> None:
        """See L{RouteListener.route_changed}."""
        self.transfer.route_changed(destination)

    def topology_changed(self) -> None:
        """The router has read an enterprise that differs from the one before."""
        self.ways.changed()

    async def ask_directory(self, procedure: Procedure[R]) -> R:
        """See L{Integration.ask}."""
        return await self._with_directory.ask(procedure)

    async def perform_in_directory(self, effect: DirectoryEffect) -> Any:
        """See L{Integration.perform}."""
        return await self._with_directory.perform(effect)

    @property
    def _with_directory(self) -> Integration:
        assert self.integration is not None, "only parts of an integration ask"
        return self.integration

    # Facts that parts ask for

    def _is_routing_server(self) -> bool:
        """Whether the directory says so of this queue manager."""
        return self.integration is not None and self.integration.access.local.object.routing_server

    def _is_answered_for(self, queue_manager: uuid.UUID) -> bool:
        """Whether another may acknowledge what is for a queue manager.

        That is who connects a foreign site; and nobody can say so of a queue manager that the directory does
        not tell of, because it is away for example.
        """
        if self.router is None:
            return False
        topology = self.router.topology
        machine = topology.queue_manager(queue_manager)
        if machine is None:
            return True
        sites = map(topology.site, machine.sites)
        return any(site is None or site.is_foreign for site in sites)

    async def _read_directory(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter],
        attributes: tuple[str, ...] | None,
    ) -> Outcome:
        """[MS-MQDMPR] 3.1.7.1.20 Read Directory, if there is one."""
        if self.integration is None:
            return NO_DIRECTORY
        return await self.integration.read(of, filters, attributes)

    async def _read_user(self, sid: bytes) -> Outcome:
        return await self._read_directory(UserObject, [equals("security_identifier", sid)], None)

    async def _write_user(self, user: UserObject, former: DirectoryEntry[UserObject] | None) -> Outcome:
        if self.integration is None:
            return NO_DIRECTORY
        return await self.integration.write_user(user, former)


def _nobody(identifier: uuid.UUID) -> uuid.UUID | None:
    """Without a directory nobody knows who has a public queue."""
    return None
