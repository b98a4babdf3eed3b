"""Transfer between a queue manager and its peers: arrivals, routes, dispatch, reports."""

from __future__ import annotations

from typing import Protocol

import attrs

from msmq.manager.assembly.core import ManagerCore
from msmq.manager.assembly.directory_parts import DirectoryParts
from msmq.manager.assembly.outgoing_parts import OutgoingParts
from msmq.manager.assembly.security_parts import SecurityParts
from msmq.manager.log_summaries import RefusalLog
from msmq.manager.manager_settings import TransferPolicy
from msmq.manager.peers.acknowledgements import Acknowledgements
from msmq.manager.peers.acknowledging_peers import AcknowledgingPeers
from msmq.manager.peers.arrival_refusals import ArrivalRefusals
from msmq.manager.peers.arrivals import Arrivals
from msmq.manager.peers.dispatcher import Dispatcher
from msmq.manager.peers.express_history import ExpressHistory
from msmq.manager.peers.forwarding import Forwarding, RoutingRole
from msmq.manager.peers.introductions import Introductions
from msmq.manager.peers.peer_dead_letters import PeerDeadLetters
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.peers.transfer import MessageTransfer
from msmq.manager.performer import PerformerListener
from msmq.manager.routes.idle_queues import IdleOutgoingQueues
from msmq.manager.routes.next_hops import NextHops
from msmq.manager.routes.outgoing_holds import OutgoingHolds
from msmq.manager.routes.outgoing_redirects import OutgoingRedirects
from msmq.manager.routes.route_table import RouteListener, RouteTable
from msmq.manager.routes.sender_search import SenderSearch
from msmq.manager.routes.waiting_acknowledgements import WaitingAcknowledgements
from msmq.manager.trace_reports import Reports
from msmq.queues.holds import Holds
from msmq.transfer.acknowledgement_guesses import GuessLimit
from msmq.transfer.kept_arrivals import KeptArrivals


class TransferListener(PerformerListener, RouteListener, Protocol):
    """Is notified of outgoing queues from which more may be sent, and of routes that have changed."""


@attrs.frozen(kw_only=True)
class TransferParts:
    """What exchanges messages with peers.

    @ivar route_table: the next hops of routes.
    @ivar reports: sends reports of traced messages.
    @ivar express_history: which express messages have arrived.
    @ivar source_journal: journal copies of what this queue manager has sent.
    @ivar kept: arrivals whose receipt is acknowledged to the sender's journal.
    @ivar holds: outgoing queues that are paused.
    @ivar messages: the broker of the sessions.
    """

    route_table: RouteTable
    reports: Reports
    express_history: ExpressHistory
    source_journal: SourceJournal
    kept: KeptArrivals
    holds: Holds
    messages: MessageTransfer
    idle_queues: IdleOutgoingQueues
    outgoing_redirects: OutgoingRedirects
    outgoing_holds: OutgoingHolds


def make_transfer_parts(
    core: ManagerCore,
    directory: DirectoryParts,
    outgoing: OutgoingParts,
    security: SecurityParts,
    policy: TransferPolicy,
    listener: TransferListener,
    *,
    routing_server: bool,
) -> TransferParts:
    """Make what exchanges messages with peers.

    @param routing_server: whether it forwards messages between other queue managers.
    """
    performer, reactor, clock = core.performer, core.runtime.reactor, core.runtime.clock
    settings, sequences, deliveries = policy.session, outgoing.sequences, outgoing.deliveries
    route_table = RouteTable(core.model.identifier, directory.router, reactor, listener)
    reports = Reports(performer, outgoing.outbox, security.messages.access_check)
    sent_reports = reports if policy.report_messages else None
    express_history = ExpressHistory(core.model.identifier, security.trusted_peers, settings)
    refusals, guesses, kept = RefusalLog(), GuessLimit(), KeptArrivals()
    acknowledging = AcknowledgingPeers(clock, security.trusted_peers, guesses)
    source_journal = SourceJournal(
        performer,
        core.events,
        settings,
        reactor,
        outgoing.receivers,
        acknowledging,
        outgoing.foreign_sites,
        refusals,
        policy.source_journaling,
        kept,
    )
    role = RoutingRole(routing_server, None if directory.reads is None else directory.reads.client.access)
    arrivals = Arrivals(
        performer,
        outgoing.outbox,
        outgoing.arrival_commits,
        Forwarding(performer, role, security.trusted_peers, outgoing.peer_queues, outgoing.connectors),
        security.messages.inspector,
        express_history,
        Acknowledgements(performer, sequences, outgoing.receivers, acknowledging, guesses, refusals),
        security.trusted_peers,
        ArrivalRefusals(
            performer,
            core.events,
            PeerDeadLetters(performer, security.trusted_peers, over_quota=policy.dead_letter_over_quota),
            express_history,
            refusals,
        ),
        sent_reports,
        outgoing.connectors,
        source_journal,
        deliveries,
        trusts_identifiers=settings.trust_identifiers,
    )
    holds = Holds(is_clone=bool(policy.clone.suspicion))
    hops = NextHops(
        core.sessions,
        outgoing.peers,
        outgoing.ack_sessions,
        outgoing.moved_senders,
        route_table,
        directory.public,
        holds,
        outgoing.redirects,
    )
    waiting = WaitingAcknowledgements(
        hops, outgoing.ack_sessions, outgoing.moved_senders, trusts=settings.trust_identifiers
    )
    dispatcher = Dispatcher(
        performer,
        hops,
        sequences,
        security.encryption,
        Introductions(performer, outgoing.receivers, sequences, source_journal),
        deliveries,
        sent_reports,
        listener,
    )
    transfer = MessageTransfer(
        performer,
        core.sessions,
        arrivals,
        sequences,
        outgoing.peers,
        hops,
        SenderSearch(hops, waiting, outgoing.ack_sessions, performer, listener),
        route_table,
        dispatcher,
        deliveries,
        source_journal,
    )
    redirects = OutgoingRedirects(outgoing.redirects, performer, transfer)
    return TransferParts(
        route_table=route_table,
        reports=reports,
        express_history=express_history,
        source_journal=source_journal,
        kept=kept,
        holds=holds,
        messages=transfer,
        idle_queues=IdleOutgoingQueues(
            performer, hops, sequences, outgoing.redirects, outgoing.peer_queues, settings, reactor
        ),
        outgoing_redirects=redirects,
        outgoing_holds=OutgoingHolds(holds, redirects, performer, transfer, policy.clone, sequences.awaited),
    )
