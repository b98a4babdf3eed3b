"""Assembly of a queue manager: constructs its parts and connects them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

from msmq.interfaces.directory import IServedDirectory
from msmq.interfaces.sessions import ISessions
from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.interfaces.topology import add_objects
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.administration.queue_administration import Administration
from msmq.manager.administration.unread_removals import UnreadRemovals
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.applications.message_browser import MessageBrowser
from msmq.manager.applications.message_copies import CopySender
from msmq.manager.applications.message_log import MessageLogs
from msmq.manager.applications.message_operations import MessageOperations
from msmq.manager.applications.queue_opener import QueueOpener
from msmq.manager.applications.reads import Reads
from msmq.manager.applications.search import Search
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.sender import MessageSender
from msmq.manager.applications.transactions import TransactionListener, Transactions
from msmq.manager.drains.drains import QueueDrains
from msmq.manager.events import EventLog
from msmq.manager.expired_state import ExpiredState
from msmq.manager.flow_control import FlowControl
from msmq.manager.log_summaries import RefusalLog
from msmq.manager.manager_settings import EnterpriseSettings, ManagerRuntime, ManagerSecurity, TransferPolicy
from msmq.manager.membership.directory_effects import DirectoryEffects
from msmq.manager.membership.directory_health import DirectoryHealth
from msmq.manager.membership.directory_router import DirectoryRouter
from msmq.manager.membership.directory_users import DirectoryUsers
from msmq.manager.membership.divergences import DirectoryDivergences
from msmq.manager.membership.integration import Integration, directory_access
from msmq.manager.membership.kept_topology import KeptTopology
from msmq.manager.membership.procedure_runner import DirectoryClient, DirectoryRunner
from msmq.manager.membership.public_names import PublicNames
from msmq.manager.outbox import Outbox
from msmq.manager.peers.ack_sessions import AckSessions
from msmq.manager.peers.acknowledgements import Acknowledgements
from msmq.manager.peers.acknowledging_peers import AcknowledgingPeers
from msmq.manager.peers.arrival_commits import ArrivalCommits
from msmq.manager.peers.arrival_refusals import ArrivalRefusals
from msmq.manager.peers.arrivals import Arrivals
from msmq.manager.peers.connectors import Connectors
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.dispatcher import Dispatcher
from msmq.manager.peers.express_history import ExpressHistory
from msmq.manager.peers.final_acks import FinalAcks
from msmq.manager.peers.foreign_sites import ForeignSites
from msmq.manager.peers.forwarding import Forwarding, RoutingRole
from msmq.manager.peers.introductions import Introductions
from msmq.manager.peers.order_acks import OrderAcks
from msmq.manager.peers.peer_dead_letters import PeerDeadLetters
from msmq.manager.peers.peer_queue_limits import PeerQueueLimits
from msmq.manager.peers.peer_table import Peers
from msmq.manager.peers.sequences import Sequences
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.peers.transfer import MessageTransfer
from msmq.manager.performer import Performer
from msmq.manager.routes.idle_queues import IdleOutgoingQueues
from msmq.manager.routes.moved_senders import MovedSenders
from msmq.manager.routes.next_hops import NextHops
from msmq.manager.routes.outgoing_holds import OutgoingHolds
from msmq.manager.routes.outgoing_redirects import OutgoingRedirects
from msmq.manager.routes.route_table import RouteTable
from msmq.manager.routes.sender_search import SenderSearch
from msmq.manager.routes.waiting_acknowledgements import WaitingAcknowledgements
from msmq.manager.securing.certificate_publication import UserDirectory
from msmq.manager.securing.decryption import Decryption
from msmq.manager.securing.encryption import Encryption
from msmq.manager.securing.message_security import MessageSecurity
from msmq.manager.securing.permissions import Permissions
from msmq.manager.securing.public_security import PublicSecurity
from msmq.manager.securing.security_descriptors import SecurityDescriptors
from msmq.manager.securing.signatures import Signer
from msmq.manager.service_values import ServiceValues
from msmq.manager.trace_reports import Reports
from msmq.membership.access import NO_DIRECTORY
from msmq.membership.attributes import DirectoryObject
from msmq.membership.queries import AttributeFilter
from msmq.membership.requests import DirectoryEffect, Outcome, Procedure
from msmq.persistence.changes import AppendEvent
from msmq.queues.holds import Holds
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition
from msmq.queues.redirects import Redirects
from msmq.transfer.acknowledgement_guesses import GuessLimit
from msmq.transfer.incoming_streams import IncomingStreams
from msmq.transfer.kept_arrivals import KeptArrivals
from msmq.transfer.receivers import Receivers

R = TypeVar("R")


class Parts:
    """The parts of one queue manager; L{msmq.manager.service.QueueManagerService} describes its arguments."""

    def __init__(
        self,
        *,
        model: QueueManagerModel,
        store: IMessageStore,
        sessions: ISessions,
        runtime: ManagerRuntime,
        policy: TransferPolicy,
        enterprise: EnterpriseSettings,
        security: ManagerSecurity,
        send_keys: SendKeys,
        transactions: TransactionListener,
    ) -> None:
        reactor, clock, new_identifier = runtime.reactor, runtime.clock, runtime.new_identifier
        directory, router, settings, trusted_peers = (
            enterprise.directory,
            enterprise.router,
            policy.session,
            security.trusted_peers,
        )
        self.model = model
        self.store = store
        self.sessions = sessions
        self.clock = clock
        performer = self.performer = Performer(model, store, reactor, clock, self)
        self.events = EventLog(performer, policy.events)
        self.service_values = ServiceValues(performer)
        self.divergences = DirectoryDivergences(self._note)
        self.public: PublicNames | None = None
        client: DirectoryClient | None = None
        directory_routes: DirectoryRouter | None = None
        kept_topology: KeptTopology | None = None
        if directory is not None:
            client = DirectoryClient(
                directory,
                directory_access(
                    model, enterprise.host, enterprise.changes, routing_server=enterprise.routing_server
                ),
                DirectoryRunner(directory, clock, self.perform_in_directory),
                DirectoryHealth(directory, clock, self._note),
            )
            self.public = PublicNames(client.access, self.ask_directory, clock, reactor, self)
            if router is None:
                kept_topology = KeptTopology(performer.commit_later, runtime.in_thread)
                router = directory_routes = DirectoryRouter(
                    model.identifier,
                    client.access,
                    self.ask_directory,
                    reactor,
                    clock,
                    kept=kept_topology,
                    was_read=client.health.read,
                    add_objects=add_objects,
                    changed=self.topology_changed,
                    in_thread=runtime.in_thread,
                )
        self.router = router
        self.destinations = destinations = Destinations(model, clock, self.public)
        self.peers = Peers(model.identifier, clock, trusted_peers, trusts=settings.trust_identifiers)
        self.answer_room = PeerQueueLimits(performer, self.peers, self)
        certificates = security.providers.make_certificates(clock, runtime.in_thread)
        signer = Signer(
            model.identifier,
            security.providers.sender,
            security.providers.signing,
            security.providers.signing_policy,
            clock,
            certificates,
            sends_sender=security.providers.sends_sender,
        )
        self.trusted_peers = trusted_peers
        streams = self.streams = IncomingStreams(settings)
        connectors = Connectors(model, router)
        outbox = self.outbox = Outbox(
            performer,
            destinations,
            signer,
            self.answer_room,
            FinalAcks(performer, streams, connectors, send_insecure=policy.send_insecure_nacks),
            send_insecure=policy.send_insecure_nacks,
        )
        self.foreign_sites = ForeignSites(router)
        self.redirects = Redirects()
        self.deliveries = DeliveryLog(performer, reactor, policy.delivery_records)
        receivers = Receivers(self.redirects, trusts=settings.trust_identifiers)
        self.sequences = Sequences(
            performer,
            self.events,
            settings,
            reactor,
            self,
            self.foreign_sites,
            receivers,
            self.deliveries,
        )
        self.departures = UnreadRemovals(performer, outbox, self.events, self.sequences)
        self.flow = FlowControl(performer, reactor, self._note)
        moved = MovedSenders(self.peers, router, trusted_peers, self._note)
        acks = AckSessions(self.peers, self.redirects)
        self.order_acks = OrderAcks(performer, outbox, streams, acks, reactor)
        self.arrival_commits = ArrivalCommits(performer, settings, streams, self.order_acks, reactor)
        local = LocalQueues(performer, outbox, self.events, reactor)
        self.integration: Integration | None = None
        self.directory_effects: DirectoryEffects | None = None
        if client is not None and self.public is not None:
            effects = self.directory_effects = DirectoryEffects(
                performer,
                local,
                client.access,
                self.divergences,
                IServedDirectory(client.directory, None),
                security.ciphers,
            )
            integration = Integration(
                performer,
                local,
                client,
                reactor,
                enterprise.host,
                effects,
                self.public,
                directory_routes,
                kept_topology,
                self.divergences,
                routing_server=enterprise.routing_server,
                site=enterprise.site,
            )
            self.integration = integration
        self.descriptors = descriptors = (
            None
            if security.access is None
            else SecurityDescriptors(
                security.access,
                None
                if self.integration is None
                else PublicSecurity(self.integration, clock, enterprise.changes, self.divergences),
            )
        )
        self.administration = Administration(
            performer, self.departures, local, self.integration, descriptors, reactor, new_identifier
        )
        self.permissions = (
            None if descriptors is None else Permissions(performer, local, descriptors, trusted_peers)
        )
        self.route_table = RouteTable(model.identifier, router, reactor, self)
        self.ciphers = None if directory is None else security.ciphers
        self.decryption = Decryption(reactor, clock, self.ciphers, security.encryption)
        self.encryption = Encryption(
            reactor,
            clock,
            self.ciphers,
            None if self.integration is None else self.integration.encryption_keys,
            security.encryption,
        )
        integrated = self.integration
        users: UserDirectory | None = None
        if integrated is not None:
            directory_users = DirectoryUsers(integrated)
            users = UserDirectory(directory_users.read, directory_users.write)
        self.securing = MessageSecurity(
            model,
            security.providers,
            certificates,
            signer,
            trusted_peers,
            self.decryption,
            descriptors,
            reactor,
            clock,
            _no_directory if integrated is None else integrated.read,
            users,
            new_identifier,
        )
        self.inspector = self.securing.inspector
        self.reports = Reports(performer, outbox, self.securing.access_check)
        reports = self.reports if policy.report_messages else None
        refusals = RefusalLog()
        guesses = GuessLimit()
        acknowledging = AcknowledgingPeers(clock, trusted_peers, guesses)
        self.express_history = ExpressHistory(model.identifier, trusted_peers, settings)
        kept = KeptArrivals()
        self.source_journal = SourceJournal(
            performer,
            self.events,
            settings,
            reactor,
            receivers,
            acknowledging,
            self.foreign_sites,
            refusals,
            policy.source_journaling,
            kept,
        )
        role = RoutingRole(enterprise.routing_server, None if client is None else client.access)
        arrivals = Arrivals(
            performer,
            outbox,
            self.arrival_commits,
            Forwarding(performer, role, trusted_peers, self.answer_room, connectors),
            self.inspector,
            self.express_history,
            Acknowledgements(performer, self.sequences, receivers, acknowledging, guesses, refusals),
            trusted_peers,
            ArrivalRefusals(
                performer,
                self.events,
                PeerDeadLetters(performer, trusted_peers, over_quota=policy.dead_letter_over_quota),
                self.express_history,
                refusals,
            ),
            reports,
            connectors,
            self.source_journal,
            self.deliveries,
            trusts_identifiers=settings.trust_identifiers,
        )
        self.holds = Holds(is_clone=bool(policy.clone.suspicion))
        hops = NextHops(
            sessions, self.peers, acks, moved, self.route_table, self.public, self.holds, self.redirects
        )
        waiting = WaitingAcknowledgements(hops, acks, moved, trusts=settings.trust_identifiers)
        dispatcher = Dispatcher(
            performer,
            hops,
            self.sequences,
            self.encryption,
            Introductions(performer, receivers, self.sequences, self.source_journal),
            self.deliveries,
            reports,
            self,
        )
        self.transfer = MessageTransfer(
            performer,
            sessions,
            arrivals,
            self.sequences,
            self.peers,
            hops,
            SenderSearch(hops, waiting, acks, performer, self),
            self.route_table,
            dispatcher,
            self.deliveries,
            self.source_journal,
        )
        self.idle_queues = IdleOutgoingQueues(
            performer, hops, self.sequences, self.redirects, self.answer_room, settings, reactor
        )
        self.outgoing_redirects = OutgoingRedirects(self.redirects, performer, self.transfer)
        self.outgoing_holds = OutgoingHolds(
            self.holds,
            self.outgoing_redirects,
            performer,
            self.transfer,
            policy.clone,
            self.sequences.awaited,
        )
        self.keyed = KeyedMessages(clock, send_keys)
        self.expired_state = ExpiredState(performer, self.keyed, self.peers, reactor)
        self.transactions = Transactions(
            performer, outbox, self.departures, self.sequences, self.events, self.keyed, transactions
        )
        self.search = Search(
            performer, outbox, destinations, signer, self.events, self.transactions, reactor, new_identifier
        )
        self.browser = MessageBrowser(performer, self.departures.kept)
        copies = CopySender(model.identifier, outbox, destinations, self.transactions, new_identifier)
        self.logs = MessageLogs(performer, copies, reactor)
        self.message_administration = MessageOperations(
            performer, self.departures, self.events, self.search, copies, destinations
        )
        self.sender = MessageSender(model.identifier, outbox, self.transactions, self.keyed, new_identifier)
        self.opening = QueueOpener(
            performer,
            Reads(performer, outbox),
            self.sender,
            self.transactions,
            self.administration,
            destinations,
        )
        self.drains = QueueDrains(
            performer,
            outbox,
            destinations,
            self.transactions,
            self.opening,
            self.events,
            self.source_journal,
            kept,
            new_identifier,
            lambda: self.outgoing_holds.suspicion,
        )

    def _note(self, event: str, reason: str, queue: str = "") -> None:
        """Record an event of the queue manager itself or of a queue."""
        self.events.record(AppendEvent(self.clock.now().wall, b"", event, reason, queue=queue))

    # Events from parts to parts that are created later, or that depend on them

    def outgoing_ready(self, queue: OutgoingQueue) -> None:
        """See L{PerformerListener.outgoing_ready}."""
        self.transfer.ready(queue)

    def outgoing_left(self, queue: OutgoingQueue, positions: Sequence[MessagePosition]) -> None:
        """See L{PerformerListener.outgoing_left}."""
        self.sequences.left(queue, positions)

    def departing(self, departure: Departure) -> None:
        """See L{PerformerListener.departing}."""
        self.departures.begin(departure)

    def store_failed(self, error: StorageError) -> None:
        """See L{PerformerListener.store_failed}."""
        self.flow.failed(error)

    def is_awaiting(self, queue: OutgoingQueue) -> bool:
        """See L{ForgottenQueueListener.is_awaiting}."""
        return self.sequences.is_awaiting(queue)

    def outgoing_forgotten(self, queue: OutgoingQueue) -> None:
        """See L{ForgottenQueueListener.outgoing_forgotten}."""
        self.transfer.forget(queue)

    def owner_found(self, identifier: uuid.UUID) -> None:
        """See L{PublicQueueListener.owner_found}."""
        self.transfer.owner_found(identifier)

    def route_changed(self, destination: uuid.UUID) -> None:
        """See L{RouteListener.route_changed}."""
        self.transfer.route_changed(destination)

    def topology_changed(self) -> None:
        """The router has read a changed enterprise."""
        self.route_table.changed()

    async def ask_directory(self, procedure: Procedure[R]) -> R:
        """See L{Integration.ask}."""
        return await self._with_directory.ask(procedure)

    async def perform_in_directory(self, effect: DirectoryEffect) -> Any:
        """See L{DirectoryEffects.perform}."""
        assert self.directory_effects is not None, "only procedures of an integration have effects"
        return await self.directory_effects.perform(effect)

    @property
    def _with_directory(self) -> Integration:
        assert self.integration is not None, "only parts of an integration query"
        return self.integration


async def _no_directory(
    of: type[DirectoryObject], filters: Sequence[AttributeFilter], attributes: tuple[str, ...] | None
) -> Outcome:
    """Read Directory in workgroup mode. [MS-MQDMPR] 3.1.7.1.20."""
    return NO_DIRECTORY
