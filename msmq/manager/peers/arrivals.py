"""Arriving messages: facts for the decision, then enqueue, forward or refuse. [MS-MQQB] 3.1.5.8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.interfaces.session import ISession
from msmq.interfaces.session_policy import MessageRefusal
from msmq.manager.outbox import Outbox
from msmq.manager.peers.acknowledgements import Acknowledgements
from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.peers.arrival_commits import ArrivalCommits
from msmq.manager.peers.arrival_refusals import ArrivalRefusals
from msmq.manager.peers.connectors import Connectors
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.express_history import ExpressHistory
from msmq.manager.peers.forwarding import Forwarding
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.performer import Performer
from msmq.manager.securing.inspection import Inspection, Inspector, Refused
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.manager.states import as_changes
from msmq.manager.trace_reports import Reports
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.queues.arriving.admission import Admission
from msmq.queues.arriving.reported import reported_arrivals
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.session.effects import CloseReason
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import (
    UserMessageView,
    different_ones,
    have_one_destination,
    total_size,
)
from msmq.structures.status import MQError
from msmq.transfer.decisions.arrival_decision import (
    ABSENT_DESTINATION,
    LOCAL_DESTINATION,
    ArrivalDecision,
    ArrivalFacts,
    ArrivalOutcome,
    ArrivalRefusal,
    Destination,
    cut_at,
    decide,
)
from msmq.transfer.decisions.commit_backlog import has_to_wait
from msmq.transfer.decisions.forwarding_decision import passing_refusal
from msmq.wire.guid import NULL_GUID


class Arrivals:
    """Accepts messages from sessions into the queues. [MS-MQQB] 3.1.5.8."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        arrival_commits: ArrivalCommits,
        forwarding: Forwarding,
        inspector: Inspector,
        express: ExpressHistory,
        acknowledgements: Acknowledgements,
        trusted_peers: TrustedPeers,
        refusals: ArrivalRefusals,
        reports: Reports | None,
        connectors: Connectors,
        source_journal: SourceJournal,
        deliveries: DeliveryLog,
        *,
        trusts_identifiers: bool,
    ) -> None:
        """Create the part, with its policies.

        @param refusals: records messages that are not accepted.
        @param trusted_peers: the addresses that may send unauthenticated messages.
        @param reports: reports of traced messages; C{None} if none are sent.
        @param connectors: finds the queues of messages for foreign sites.
        @param source_journal: gets the administration acknowledgements among the messages.
        @param deliveries: records them.
        @param trusts_identifiers: whether a peer may forward messages of another queue manager to direct
        names.
        """
        self._express = express
        self._inspector = inspector
        self._arrival_commits = arrival_commits
        self._performer = performer
        self._outbox = outbox
        self._connectors = connectors
        self._source_journal = source_journal
        self._deliveries = deliveries
        self._own_addresses = (NULL_GUID.bytes_le, performer.model.identifier.bytes_le)
        self._trusts_identifiers = trusts_identifiers
        self._trusted_peers = trusted_peers
        self._forwarding = forwarding
        self._reports = reports
        self._refusals = refusals
        self.refused = refusals.counts
        """Refused messages, by the name of the reason."""
        self.refused_recently = refusals.recent
        """Those of the last quarter of an hour."""
        self._acknowledgements = acknowledgements
        self._gathering: dict[ISession, int] = {}
        self._gathered = 0

    def take(
        self,
        session: ISession,
        messages: Sequence[UserMessageView],
        first_recoverable: int,
        peer: bytes | None,
        now: Moment,
        refused: Mapping[UserMessageView, MessageRefusal],
    ) -> Deferred[None] | None:
        """Accept a batch of messages; a Deferred only while a check or commit is pending.

        @param peer: the bytes of the GUID of the peer, if it has stated one.
        @param refused: those that the session policy refuses, and why.

        A recoverable message that cannot be stored closes its session without an acknowledgement, so that its
        sender keeps it.
        """
        peer = None if self._trusts_identifiers else peer
        batch = ArrivalBatch(session, first_recoverable, self._outbox.answers(), peer)
        if refused:
            batch.refused = {
                message: Refused(
                    refusal.message_class, f"the session policy: {refusal.reason}", precedes_queue=True
                )
                for message, refusal in refused.items()
            }
        free = self._performer.model.storage.free
        queues = self._locate(messages)
        different = different_ones(messages)
        if not self._inspector.concerns(session, different, queues):
            return self._take(batch, messages, different, queues, free, now)
        inspected = Deferred.fromCoroutine(self._inspector.inspect(session, messages, queues, batch.refused))
        return inspected.addCallback(lambda inspection: self._take_inspected(batch, inspection, queues))

    def _locate(self, messages: Sequence[UserMessageView]) -> list[Queue | None]:
        """The local queues of these messages."""
        queue_for = self._performer.model.queue_for
        connector_queue = self._connectors.queue_for
        own = self._own_addresses
        if len(messages) > 1 and have_one_destination(messages) and messages[0].queue_manager_address in own:
            return [queue_for(messages[0])] * len(messages)
        return [
            queue_for(message) if message.queue_manager_address in own else connector_queue(message)
            for message in messages
        ]

    def _take_inspected(
        self, batch: ArrivalBatch, inspection: Inspection, inspected: Sequence[Queue | None]
    ) -> Deferred[None] | None:
        """Accept messages after their security checks, which may have taken time.

        @param inspected: the queues against which they were checked; a queue that was created meanwhile gets
        none of them.
        """
        if self._performer.is_stopped:
            # They are not acknowledged, so they are sent again.
            return None
        batch.refused = inspection.refused
        queues = [
            queue if queue is before else None
            for queue, before in zip(self._locate(inspection.messages), inspected, strict=True)
        ]
        free, messages = self._performer.model.storage.free, inspection.messages
        return self._take(
            batch, messages, different_ones(messages), queues, free, self._performer.clock.now()
        )

    def _take(
        self,
        batch: ArrivalBatch,
        messages: Sequence[UserMessageView],
        different: Sequence[UserMessageView],
        queues: Sequence[Queue | None],
        free: int,
        now: Moment,
    ) -> Deferred[None] | None:
        """Gather the facts about messages, and perform the decision.

        @param different: as of L{ArrivalFacts}.
        @param queues: their local queues.
        @param free: bytes that are free in the queue manager's quota.
        """
        routes: dict[UserMessageView, OutgoingQueue] = {}
        facts = self._facts(batch, messages, different, queues, routes, free, now)
        decision = decide(messages, facts, self._arrival_commits.history, now)
        arrivals = self._perform(batch, messages, queues, routes, decision)
        return self._admit(batch, facts, arrivals, now)

    def _facts(
        self,
        batch: ArrivalBatch,
        messages: Sequence[UserMessageView],
        different: Sequence[UserMessageView],
        queues: Sequence[Queue | None],
        routes: dict[UserMessageView, OutgoingQueue],
        free: int,
        now: Moment,
    ) -> ArrivalFacts:
        """The facts for L{decide}.

        @param routes: filled with the outgoing queue of each message that may be forwarded.
        """
        own = self._own_addresses
        session = batch.session
        first = queues[0] if queues else None
        destinations = (
            [LOCAL_DESTINATION[first.definition.transactional]] * len(queues)
            if first is not None and queues.count(first) == len(queues)
            else [
                ABSENT_DESTINATION[message.queue_manager_address in own]
                if queue is None
                else LOCAL_DESTINATION[queue.definition.transactional]
                for message, queue in zip(messages, queues, strict=True)
            ]
        )
        is_routing = self._forwarding.is_routing_server
        without_route: Mapping[UserMessageView, str] = {}
        if Destination.ELSEWHERE in destinations:
            without_route = self._find_routes(batch, messages, destinations, routes, now)
        return ArrivalFacts(
            address=session.remote_address,
            is_trusted=self._trusted_peers.admits(session.remote_address),
            peer=batch.peer,
            destinations=destinations,
            security=batch.refused,
            is_durable=self._performer.store.durable,
            free=free,
            is_routing_server=is_routing,
            without_route=without_route,
            duplicates=self._express.classify(batch, messages, different, queues, now),
            different=different,
            size=total_size(messages),
        )

    def _find_routes(
        self,
        batch: ArrivalBatch,
        messages: Sequence[UserMessageView],
        destinations: Sequence[Destination],
        routes: dict[UserMessageView, OutgoingQueue],
        now: Moment,
    ) -> Mapping[UserMessageView, str]:
        """Find the outgoing queues of messages in transit; returns which have none now, and why."""
        without: dict[UserMessageView, str] = {}
        is_routing = self._forwarding.is_routing_server
        for message, destination in zip(messages, destinations, strict=True):
            if (
                destination is not Destination.ELSEWHERE
                or message in batch.refused
                or passing_refusal(
                    message, is_routing_server=is_routing, is_late=now.wall >= message.reach_limit
                )
            ):
                continue
            queue = self._forwarding.queue_for(message, batch.session.remote_address, now)
            if isinstance(queue, str):
                without[message] = queue
            else:
                routes[message] = queue
        return without

    def _perform(
        self,
        batch: ArrivalBatch,
        messages: Sequence[UserMessageView],
        queues: Sequence[Queue | None],
        routes: Mapping[UserMessageView, OutgoingQueue],
        decision: ArrivalDecision,
    ) -> list[tuple[Queue, UserMessageView]]:
        """Refuse, count and acknowledge as decided; returns the messages that enter their queues."""
        batch.unverified = decision.unverified
        batch.is_classified = decision.is_classified
        if decision.closure is not None:
            batch.close = CloseReason[decision.closure.name]
        outcomes = decision.outcomes
        queue = queues[0] if queues else None
        if (
            queue is not None
            and outcomes.count(ArrivalOutcome.ENQUEUED) == len(outcomes) == len(messages)
            and queues.count(queue) == len(queues)
        ):
            # Nearly everything that arrives: all of it enters one queue.
            batch.last_recoverable += decision.acknowledged
            return [(queue, message) for message in messages]
        arrivals: list[tuple[Queue, UserMessageView]] = []
        for index, (message, queue) in enumerate(
            zip(messages[: len(decision.outcomes)], queues, strict=False)
        ):
            match decision.outcomes[index]:
                case ArrivalOutcome.ENQUEUED if queue is not None:
                    arrivals.append((queue, message))
                case ArrivalOutcome.FORWARDED:
                    passing = self._forwarding.forwarded(message, batch.session.remote_address)
                    batch.growth += passing.size - message.size
                    arrivals.append((routes[message], passing))
                case ArrivalOutcome.ACKNOWLEDGEMENT:
                    if not self._acknowledgements.take(batch, message):
                        self._refusals.refuse(batch, message, MessageClass.NACK_BAD_DST_Q)
                    elif batch.is_cut:
                        decision = cut_at(decision, messages, index)
                        batch.is_cut = False
                        batch.close = batch.close or CloseReason.GUESSING
                case ArrivalOutcome.NO_ROOM:
                    self._refusals.no_stream(
                        batch,
                        message,
                        self._arrival_commits.history.streams.held_by(f"TCP:{batch.session.remote_address}"),
                    )
                case ArrivalOutcome.IGNORED:
                    self._express.take_back((message,))
                case ArrivalRefusal(why, detail, is_sent_again):
                    self._refusals.refuse(batch, message, why, detail, is_sent_again=is_sent_again)
                case fate:
                    self.refused[fate.name] += 1
        if len(decision.outcomes) < len(messages):
            self._express.take_back(messages[len(decision.outcomes) :])
        batch.last_recoverable += decision.acknowledged
        return arrivals

    def _admit(
        self,
        batch: ArrivalBatch,
        facts: ArrivalFacts,
        arrivals: Sequence[tuple[Queue, UserMessageView]],
        now: Moment,
    ) -> Deferred[None] | None:
        """Enqueue messages within the quotas, then store and show them."""
        session = batch.session
        performer = self._performer
        # The history has the messages of the decision as accepted: none of them may be refused since others
        # were copied meanwhile, as those that a FinalAck of this batch is about.
        spare = max(facts.free, 0) - max(performer.model.storage.free, 0) + batch.growth
        admission = performer.model.admit(arrivals, now, by_session=True, spare=max(spare, 0))
        reached = reported_arrivals(admission.groups)
        if self._refusals.of_admission(batch, admission):
            batch.close = CloseReason.NO_RESOURCES
        admission.copies += batch.dead_letters
        admission.dropped += batch.dropped
        admission.changes += batch.changes
        if batch.close is not None:
            session.close(batch.close)
        if admission.overflow:
            performer.overflow(admission)
        drained = performer.drained()
        if reached:
            batch.answers.add(reached, MessageClass.ACK_REACH_QUEUE)
        batch.proofs = self._source_journal.answers(session, admission.groups)
        if batch.proofs is not None and batch.proofs.change is not None:
            admission.changes += as_changes([batch.proofs.change])
        changes = [*admission.changes, *batch.answers.prepare()]
        if self._deliveries.answered(admission.groups, session.remote_address, now) and changes:
            changes += self._deliveries.changes()
        is_behind = session in self._gathering
        if batch.is_classified or changes or drained is not None or is_behind:
            # Messages after others that wait for a commit are stored in order, too.
            batch.is_classified |= is_behind
            stored: Deferred[Any] = self._commit(batch, changes, now).addCallback(
                self._stored, batch, admission, drained
            )
            if drained is not None or batch.acknowledgements or batch.close is not None:
                return stored
            return self._gather(session, facts.size, stored)
        self._show(batch, admission, now)
        return None

    def _gather(self, session: ISession, size: int, stored: Deferred[None]) -> Deferred[None] | None:
        """Accept more messages while these are stored, so that they share the next commit with others.

        @return: the commit for which the session has to wait, if the limit is exceeded.
        """
        if stored.called:
            return stored
        mine = self._gathering[session] = self._gathering.get(session, 0) + size
        self._gathered += size
        stored.addBoth(self._left, session, size)
        if has_to_wait(of_session=mine, of_all=self._gathered):
            return stored
        stored.addErrback(self._failed, session)
        return None

    def _left(self, result: object, session: ISession, size: int) -> object:
        self._gathered -= size
        self._gathering[session] -= size
        if not self._gathering[session]:
            del self._gathering[session]
        return result

    def _failed(self, failure: Failure, session: ISession) -> None:
        self.log.failure("messages from {address} were not accepted", failure, address=session.remote_address)
        session.close(CloseReason.INTERNAL_ERROR)

    def disconnected(self, address: str) -> None:
        """No session with this address is left. [MS-MQQB] 3.1.6.9."""
        self._arrival_commits.history.streams.disconnected(f"TCP:{address}")

    def _commit(self, batch: ArrivalBatch, changes: Sequence[Change], now: Moment) -> Deferred[Moment | None]:
        """Store a batch; fires with the time of the commit, or C{None} if it failed."""
        if batch.is_classified:
            return self._arrival_commits.store(changes, now)
        return Deferred.fromCoroutine(self._commit_alone(changes))

    async def _commit_alone(self, changes: Sequence[Change]) -> Moment | None:
        """Store a batch that changes neither streams nor the history of duplicates."""
        try:
            await self._performer.commit(changes)
        except MQError:
            return None
        return self._performer.clock.now()

    def _stored(
        self,
        stored_at: Moment | None,
        batch: ArrivalBatch,
        admission: Admission,
        drained: Deferred[None] | None,
    ) -> Deferred[None] | None:
        """Show the messages that were stored, and only then let the session acknowledge them.

        @param stored_at: the time of the commit; C{None} if it failed.
        """
        performer = self._performer
        if stored_at is None:
            batch.answers.withdraw()
            self._express.take_back(batch.express)
            # Express messages over the memory limit may be in the store.
            performer.insist_later(
                performer.model.withdraw(admission), "the removal of express messages that were not accepted"
            )
            if (others := performer.peer_line("not stored")) is not None:
                self.log.error(
                    "messages from {address} were not stored{others}",
                    address=batch.session.remote_address,
                    others=others,
                )
            batch.session.close(CloseReason.NO_RESOURCES)
            return None
        self._show(batch, admission, stored_at)
        if batch.acknowledgements:
            return Deferred.fromCoroutine(self._persist_acknowledged(batch, drained))
        self._persist(batch)
        return drained

    async def _persist_acknowledged(self, batch: ArrivalBatch, drained: Deferred[None] | None) -> None:
        """A FinalAck is sent only once, so its consequences have to be stored before it is acknowledged."""
        for acknowledgement in batch.acknowledgements:
            if not await acknowledgement:
                return
        self._persist(batch)
        if drained is not None:
            await drained

    def _persist(self, batch: ArrivalBatch) -> None:
        """Let the session acknowledge the messages of a batch."""
        if batch.last_recoverable >= batch.first_recoverable:
            batch.session.persisted(batch.last_recoverable)

    def _show(self, batch: ArrivalBatch, admission: Admission, now: Moment) -> None:
        """Make stored messages available in their queues."""
        reached: list[UserMessageView] = []
        if self._reports is not None:
            reached += (position.view for position in admission.positions if position.view is not None)
        effects = self._performer.model.commit(admission, now)
        if self._reports is not None and reached:
            self._reports.arrived(reached)
        batch.answers.show()
        if batch.proofs is not None:
            self._source_journal.answered(batch.proofs)
        # Effects in their queues come after their arrival.
        self._performer.perform(effects, now)
