"""What creates and records the messages that leave a queue manager, and the streams of transactional ones."""

from __future__ import annotations

from typing import Protocol

import attrs

from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.administration.unread_removals import UnreadRemovals
from msmq.manager.applications.destinations import Destinations
from msmq.manager.assembly.core import ManagerCore
from msmq.manager.assembly.directory_parts import DirectoryParts
from msmq.manager.manager_settings import ManagerSecurity, TransferPolicy
from msmq.manager.outbox import Outbox
from msmq.manager.peers.ack_sessions import AckSessions
from msmq.manager.peers.arrival_commits import ArrivalCommits
from msmq.manager.peers.connectors import Connectors
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.final_acks import FinalAcks
from msmq.manager.peers.foreign_sites import ForeignSites
from msmq.manager.peers.order_acks import OrderAcks
from msmq.manager.peers.peer_queue_limits import ForgottenQueueListener, PeerQueueLimits
from msmq.manager.peers.peer_table import Peers
from msmq.manager.peers.sequences import Sequences
from msmq.manager.performer import PerformerListener
from msmq.manager.routes.moved_senders import MovedSenders
from msmq.manager.securing.signatures import Signer
from msmq.queues.redirects import Redirects
from msmq.transfer.incoming_streams import IncomingStreams
from msmq.transfer.receivers import Receivers


class OutgoingListener(PerformerListener, ForgottenQueueListener, Protocol):
    """Is notified of outgoing queues from which more may be sent, and of those that are gone."""


@attrs.frozen(kw_only=True)
class OutgoingParts:
    """Messages that leave, and the streams of transactional messages in both directions.

    @ivar destinations: finds the queues of format names.
    @ivar local: creates and deletes queues of this queue manager.
    @ivar peers: what is known of other queue managers.
    @ivar peer_queues: limits the outgoing queues that peers cause.
    @ivar outbox: creates packets, and enqueues them.
    @ivar redirects: other destinations for the messages to some names.
    @ivar deliveries: which next hop has acknowledged which message.
    @ivar receivers: which queue managers may acknowledge a stream.
    @ivar sequences: the outgoing transactional streams.
    @ivar departures: what follows when messages leave without being received.
    @ivar arrival_commits: stores what arrives, and acknowledges it to the session.
    """

    destinations: Destinations
    local: LocalQueues
    peers: Peers
    peer_queues: PeerQueueLimits
    connectors: Connectors
    foreign_sites: ForeignSites
    outbox: Outbox
    redirects: Redirects
    deliveries: DeliveryLog
    receivers: Receivers
    sequences: Sequences
    departures: UnreadRemovals
    moved_senders: MovedSenders
    ack_sessions: AckSessions
    order_acks: OrderAcks
    arrival_commits: ArrivalCommits


def make_outgoing_parts(
    core: ManagerCore,
    directory: DirectoryParts,
    signer: Signer,
    security: ManagerSecurity,
    policy: TransferPolicy,
    listener: OutgoingListener,
) -> OutgoingParts:
    """Make what messages leave by."""
    model, performer, events = core.model, core.performer, core.events
    reactor, clock = core.runtime.reactor, core.runtime.clock
    settings, router = policy.session, directory.router
    destinations = Destinations(model, clock, directory.public)
    peers = Peers(model.identifier, clock, security.trusted_peers, trusts=settings.trust_identifiers)
    peer_queues = PeerQueueLimits(performer, peers, listener)
    streams = IncomingStreams(settings)
    connectors = Connectors(model, router)
    outbox = Outbox(
        performer,
        destinations,
        signer,
        peer_queues,
        FinalAcks(performer, streams, connectors, send_insecure=policy.send_insecure_nacks),
        send_insecure=policy.send_insecure_nacks,
    )
    foreign_sites = ForeignSites(router)
    redirects = Redirects()
    deliveries = DeliveryLog(performer, reactor, policy.delivery_records)
    receivers = Receivers(redirects, trusts=settings.trust_identifiers)
    sequences = Sequences(
        performer, events, settings, reactor, listener, foreign_sites, receivers, deliveries
    )
    ack_sessions = AckSessions(peers, redirects)
    order_acks = OrderAcks(performer, outbox, streams, ack_sessions, reactor)
    return OutgoingParts(
        destinations=destinations,
        local=LocalQueues(performer, outbox, events, reactor),
        peers=peers,
        peer_queues=peer_queues,
        connectors=connectors,
        foreign_sites=foreign_sites,
        outbox=outbox,
        redirects=redirects,
        deliveries=deliveries,
        receivers=receivers,
        sequences=sequences,
        departures=UnreadRemovals(performer, outbox, events, sequences),
        moved_senders=MovedSenders(peers, router, security.trusted_peers, core.note),
        ack_sessions=ack_sessions,
        order_acks=order_acks,
        arrival_commits=ArrivalCommits(performer, settings, streams, order_acks, reactor),
    )
