"""The state of a queue manager, for operators and monitoring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Final, Protocol
from uuid import UUID

import attrs
from zope.interface import implementer

import msmq.version
from msmq.interfaces.manager.queue_manager import IInspection
from msmq.interfaces.manager.received_messages import (
    ExplainedRoute,
    Explanation,
    LoggedMessage,
    MessageLocation,
    MessagePage,
    ReceivedMessage,
)
from msmq.interfaces.manager.summaries import (
    ManagerIdentity,
    ManagerStatus,
    MessageFlow,
    OutgoingQueueSummary,
    PublicQueueSummary,
    QueueSummary,
    ReportCounts,
    SessionSummary,
    StoreSummary,
    TransactionDetails,
    TransactionSummary,
)
from msmq.interfaces.routing import IRouter
from msmq.interfaces.session import ISession
from msmq.interfaces.storage import LogExtent, StorageError, StoredEvent
from msmq.manager.administration.measurements import Measurements
from msmq.manager.administration.message_history import MessageHistory
from msmq.manager.administration.open_sessions import open_session
from msmq.manager.administration.store_summary import summarize_store
from msmq.manager.administration.summaries import (
    dead_letter_count,
    queue_path,
    summarize_queue,
    summarize_quotas,
    summarize_session,
    uncommitted_messages,
)
from msmq.manager.applications.arguments import check_limit
from msmq.manager.applications.checked_calls import checked
from msmq.manager.applications.targets import any_queue, outgoing_queue, own_queue
from msmq.manager.assembly.parts import Parts
from msmq.manager.states import ServiceState
from msmq.membership.local import HostIdentity
from msmq.queues.model import QueueManagerModel
from msmq.routing.topology import Topology
from msmq.routing.topology_description import find_ends, find_members
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status

MOST_LOGGED: Final = 1_000
"""Limit on entries of a message log in one answer."""

_SLICE: Final = 100
"""Queues between two looks at open transactions."""

_FLOW_SLICE: Final = 2000
"""Queues whose figures are added up at a time; 1,000 take about a millisecond."""


class Condition(Protocol):
    """The overall state of a queue manager."""

    @property
    def state(self) -> ServiceState:
        """QueueManagerState. [MS-MQDMPR] 3.1.1.1."""

    @property
    def connection_active(self) -> bool:
        """ConnectionActive. [MS-MQDMPR] 3.1.1.1."""


@implementer(IInspection)
class ManagerInspection:
    """Reads the state of one queue manager, and changes nothing.

    While the queue manager does not run only the status and the sessions are available: all else raises
    MQError
    with MQ_ERROR_SERVICE_NOT_AVAILABLE.

    @param addresses: the addresses on which the queue manager listens.
    @ivar identity: its identifier, names and version.
    @ivar measurements: its figures, for monitoring.
    """

    def __init__(
        self,
        parts: Parts,
        host: HostIdentity,
        addresses: Callable[[], Sequence[str]],
        condition: Condition,
    ) -> None:
        self._parts = parts
        self._addresses = addresses
        self._condition = condition
        self._history = MessageHistory(
            parts.applications.search, parts.outgoing.deliveries, parts.outgoing.peers
        )
        self.measurements = Measurements(parts)
        self.identity = ManagerIdentity(
            parts.core.model.identifier,
            host.computer_name,
            host.qualified_computer_name,
            msmq.version.VERSION,
        )

    @property
    def state(self) -> ServiceState:
        """QueueManagerState. [MS-MQDMPR] 3.1.1.1."""
        return self._condition.state

    @property
    def _model(self) -> QueueManagerModel:
        self._parts.core.performer.check_running()
        return self._parts.core.model

    def now(self) -> float:
        """See L{IInspection.now}."""
        return self.measurements.now()

    def status(self) -> ManagerStatus:
        """See L{IInspection.status}."""
        parts, model, sessions = self._parts, self._parts.core.model, self._parts.core.sessions
        uncommitted = uncommitted_messages(model)
        awaiting = parts.outgoing.sequences.awaited.all()
        integration = parts.integration
        return ManagerStatus(
            identifier=self.identity.identifier,
            name=self.identity.name,
            dns_name=self.identity.dns_name,
            version=self.identity.version,
            state=self._condition.state.value,
            addresses=list(self._addresses()),
            queues=model.queue_count,
            messages=max(0, model.message_count - uncommitted),
            uncommitted=uncommitted,
            bytes=model.storage.used,
            sessions=len(sessions.connections),
            sessions_refused=dict(sessions.refused),
            refused_peers=list(sessions.refused_peers),
            descriptors=sessions.descriptors,
            storage=parts.core.store.name,
            durable=bool(parts.core.store.durable),
            store=self.store(),
            packets=attrs.evolve(
                sessions.counts,
                sent=attrs.evolve(sessions.counts.sent),
                received=attrs.evolve(sessions.counts.received),
            ),
            refused=dict(parts.transfer.messages.arrivals.refused),
            refused_recently=parts.transfer.messages.arrivals.refused_recently.current(
                parts.core.performer.clock.now()
            ),
            expired=dict(parts.outgoing.departures.expired),
            poisoned=dict(parts.applications.transactions.poisoned),
            reports=ReportCounts(
                sent=parts.transfer.reports.sent, discarded=parts.transfer.reports.discarded
            ),
            throttled=model.storage.throttled,
            connection_active=self._condition.connection_active,
            transactions=sum(1 for _ in model.transacting.transactions),
            dead_letters=dead_letter_count(model),
            awaiting_acknowledgements=model.collection.unproven.message_count,
            awaiting_final_acks=awaiting.count,
            awaiting_final_acks_since=awaiting.since,
            copies_dropped=model.copying.dropped,
            events_dropped=parts.core.events.dropped,
            outgoing_paused=parts.transfer.outgoing_holds.paused(),
            redirected_names=parts.transfer.outgoing_redirects.count,
            quotas=summarize_quotas(model),
            identity="clone_suspected" if parts.transfer.outgoing_holds.suspicion else "original",
            clone_suspicion=parts.transfer.outgoing_holds.suspicion or None,
            queues_paused=model.paused_count,
            directory=None if integration is None else integration.health.status,
            directory_differences=None if integration is None else parts.directory.divergences.described(),
        )

    def store(self) -> StoreSummary:
        """See L{IInspection.store}."""
        return summarize_store(self._parts.core.store)

    def flow(self) -> Iterator[MessageFlow | None]:
        """See L{IInspection.flow}."""
        model = self._model
        arrived = received = 0
        oldest: float | None = None
        for number, queue in enumerate(list(model.queues()), 1):
            if number % _FLOW_SLICE == 0:
                yield None
            arrived += queue.arrived_count
            received += queue.received_count
            # Most queues are empty most of the time.
            head = queue.oldest_arrival if queue.total_bytes else None
            if head is not None and (oldest is None or head < oldest):
                oldest = head
        yield MessageFlow(
            messages=max(0, model.message_count - uncommitted_messages(model)),
            bytes=model.storage.used,
            arrived=arrived,
            received=received,
            dead_letters=dead_letter_count(model),
            sessions=len(self._parts.core.sessions.connections),
            oldest_message_time=oldest,
        )

    def queues(self) -> list[QueueSummary]:
        """See L{IInspection.queues}."""
        return list(self.each_queue())

    def each_queue(self) -> Iterator[QueueSummary]:
        """See L{IInspection.each_queue}."""
        model = self._model
        uncommitted = model.transacting.uncommitted()
        for number, queue in enumerate(list(model.queues()), 1):
            if number % _FLOW_SLICE == 0:
                # The caller may have paused meanwhile.
                uncommitted = model.transacting.uncommitted()
            if not queue.is_deleted:
                yield summarize_queue(model, queue, uncommitted)

    @checked
    def queue(self, path: str) -> QueueSummary:
        """See L{IInspection.queue}.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return summarize_queue(self._parts.core.model, own_queue(self._model, path))

    def system_queues(self) -> list[QueueSummary]:
        """See L{IInspection.system_queues}."""
        model = self._model
        return [summarize_queue(model, queue) for queue in model.names.system_queues()]

    @checked
    async def log_extent(self, path: str) -> LogExtent:
        """See L{IInspection.log_extent}.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the store failed.
        """
        return await self._parts.applications.logs.extent(own_queue(self._model, path))

    @checked
    async def logged(self, path: str, after: int = 0, count: int = MOST_LOGGED) -> list[LoggedMessage]:
        """See L{IInspection.logged}."""
        check_limit("count", count)
        queue = own_queue(self._model, path)
        if not queue.definition.log:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_OPERATION,
                f"{queue_path(queue)} has no message log; msmq queue set --log starts one",
            )
        return await self._parts.applications.logs.page(queue, after, min(count, MOST_LOGGED))

    @checked
    async def public_queues(
        self, *, label: str | None = None, application_type: UUID | None = None, path: str | None = None
    ) -> list[PublicQueueSummary]:
        """See L{IInspection.public_queues}.

        @raise MQError: MQ_ERROR_NO_DS without a directory, or while it is away.
        """
        self._parts.core.performer.check_running()
        integration = self._parts.integration
        if integration is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "this queue manager has no directory")
        return await integration.find_queues(label, application_type, path)

    def outgoing(self) -> list[OutgoingQueueSummary]:
        """See L{IInspection.outgoing}."""
        return list(self.each_outgoing())

    def each_outgoing(self) -> Iterator[OutgoingQueueSummary]:
        """See L{IInspection.each_outgoing}."""
        return self._parts.transfer.outgoing_holds.each_summary(self._model.outgoing_queues())

    @checked
    def outgoing_queue(self, name: str) -> OutgoingQueueSummary:
        """See L{IInspection.outgoing_queue}.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return self._parts.transfer.outgoing_holds.summarize(outgoing_queue(self._model, name))

    def sessions(self) -> list[SessionSummary]:
        """See L{IInspection.sessions}."""
        return list(self.each_session())

    def each_session(self) -> Iterator[SessionSummary]:
        """See L{IInspection.each_session}."""
        for connection in list(self._parts.core.sessions.connections):
            yield self._session_summary(connection)

    @checked
    def session(self, identifier: UUID) -> SessionSummary:
        """See L{IInspection.session}."""
        return self._session_summary(open_session(self._parts.core.sessions, identifier))

    def _session_summary(self, connection: ISession) -> SessionSummary:
        peers = self._parts.outgoing.peers
        return summarize_session(connection, peers.clock_skew(connection), peers.other_addresses(connection))

    def transactions(self) -> list[TransactionSummary]:
        """See L{IInspection.transactions}."""
        self._parts.core.performer.check_running()
        return self._parts.applications.transactions.summaries()

    @checked
    def transaction(self, identifier: UUID) -> TransactionDetails:
        """See L{IInspection.transaction}.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it has ended.
        """
        self._parts.core.performer.check_running()
        return self._parts.applications.transactions.details(identifier)

    @checked
    async def browse(self, queue: str, *, after: int = -1, count: int = 100) -> MessagePage:
        """See L{IInspection.browse}."""
        check_limit("count", count)
        found = any_queue(self._model, queue, self._parts.core.runtime.clock.now())
        page = await self._parts.applications.browser.page(found, after, count)
        # A missing subqueue was created for this browse.
        self._parts.core.performer.forget_empty((found,))
        return page

    @checked
    async def read_message(self, queue: str, lookup_id: int) -> ReceivedMessage:
        """See L{IInspection.read_message}."""
        found = any_queue(self._model, queue, self._parts.core.runtime.clock.now())
        try:
            return await self._parts.applications.browser.message(found, lookup_id)
        finally:
            self._parts.core.performer.forget_empty((found,))

    @checked
    async def dead_letters(self, limit: int = 1000) -> list[MessageLocation]:
        """See L{IInspection.dead_letters}."""
        check_limit("limit", limit)
        self._parts.core.performer.check_running()
        return await self._parts.applications.search.dead_letters(limit)

    @checked
    def each_dead_letter(self, limit: int = 1000) -> AsyncIterator[MessageLocation]:
        """See L{IInspection.each_dead_letter}."""
        check_limit("limit", limit)
        self._parts.core.performer.check_running()
        return self._parts.applications.search.each_dead_letter(limit)

    @checked
    async def events(self, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """See L{IInspection.events}.

        @raise MQError: MQ_ERROR_MESSAGE_STORAGE_FAILED.
        """
        self._parts.core.performer.check_running()
        check_limit("limit", limit)
        try:
            return await self._parts.core.performer.store.read_events(after, limit)
        except StorageError as error:
            raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error

    @checked
    async def explain(self, message: MessageIdentifier) -> Explanation:
        """See L{IInspection.explain}."""
        self._parts.core.performer.check_running()
        return await self._history.explain(message)

    @checked
    async def route(self, source: str, destination: str, down: Sequence[str] = ()) -> ExplainedRoute:
        """See L{IInspection.route}. [MS-MQBR] 3.1.5.

        @raise MQError: MQ_ERROR_NO_DS without a directory, MQ_ERROR_MACHINE_NOT_FOUND for an unknown name.
        """
        router = self._router()
        ends = find_ends(router.topology, source, destination)
        members = find_members(router.topology, down)
        return ExplainedRoute(router.topology, await router.route(*ends, members))

    async def topology(self) -> Topology:
        """See L{IInspection.topology}. [MS-MQBR] 3.1.1.1.

        @raise MQError: MQ_ERROR_NO_DS without a directory.
        """
        return self._router().topology

    def unreached_members(self) -> Collection[UUID]:
        """See L{IInspection.unreached_members}."""
        return self._parts.transfer.messages.unreached

    def _router(self) -> IRouter:
        self._parts.core.performer.check_running()
        if self._parts.directory.router is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "no directory is configured, so the enterprise is unknown")
        return self._parts.directory.router
