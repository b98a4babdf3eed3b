"""QueueDrains: the drains of a queue manager, across restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger
from zope.interface import implementer

from msmq.background import run_in_background, undivided
from msmq.interfaces.drains import ARRIVAL_ACKNOWLEDGED, ARRIVAL_UNPROVEN, DrainSummary, IDrains
from msmq.manager.administration.summaries import queue_path
from msmq.manager.applications.checked_calls import checked
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.queue_opener import QueueOpener
from msmq.manager.applications.targets import name_of_outgoing, own_queue
from msmq.manager.applications.transactions import Transactions
from msmq.manager.drains.drain import QueueDrain, not_drained
from msmq.manager.drains.drain_record import DamagedDrain, DrainRecord, stored_drains
from msmq.manager.drains.drained_arrivals import DrainedArrivals
from msmq.manager.drains.drained_packets import DrainedPackets
from msmq.manager.events import EventLog
from msmq.manager.outbox import Outbox
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.queues.queue import Queue
from msmq.quoting import shown
from msmq.structures.identifier_digest import digest_text
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.status import MQError, Status
from msmq.transfer.kept_arrivals import KeptArrivals
from msmq.wire.guid import guid_from_bytes

MOST_DRAINS: Final = 1_000
"""Limit on queues that are drained at the same time."""

MOST_IDENTIFIERS: Final = 1_000
"""Limit on identifiers of one answer."""


@implementer(IDrains)
class QueueDrains:
    """See L{IDrains}."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        destinations: Destinations,
        transactions: Transactions,
        opener: QueueOpener,
        events: EventLog,
        source_journal: SourceJournal,
        kept: KeptArrivals,
        new_identifier: Callable[[], UUID],
        suspicion: Callable[[], str],
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._destinations = destinations
        self._transactions = transactions
        self._opener = opener
        self._events = events
        self._source_journal = source_journal
        self._kept = kept
        self._new_identifier = new_identifier
        self._suspicion = suspicion
        self._drains: dict[UUID, QueueDrain] = {}
        self._loaded: list[DrainRecord] = []
        self._damaged: dict[str, DamagedDrain] = {}
        # One begins or ends at a time: a queue never has two, and none that ends is the answer to a begin.
        self._changing = DeferredLock()

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore the drains from the store."""
        self._loaded, damaged = stored_drains(state)
        self._damaged = {each.queue: each for each in damaged}

    def start(self) -> None:
        """Continue the drains of before."""
        model = self._performer.model
        for record in self._loaded:
            queue = model.collection.of_identifier(record.queue)
            try:
                if queue is None:
                    raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, "the queue was deleted")
                self._start(record, queue, self._name(record.destination))
            except MQError as error:
                self.log.error(
                    "the drain of a queue to {destination} has ended: {error}",
                    destination=shown(record.destination),
                    error=error,
                )
                self._performer.commit_later(record.removed(), "the end of a drain")
        self._loaded = []
        self._report_damaged()
        if self._kept.is_used and not self._keeps_any():
            self._performer.commit_later(as_changes(self._kept.release()), "the end of a drain")

    def _report_damaged(self) -> None:
        """Log the drains that cannot be read; their values stay in the store until they are begun again, or
        their queue is deleted.
        """
        known = {str(queue.definition.identifier): queue for queue in self._performer.model.queues()}
        for damaged in list(self._damaged.values()):
            queue = known.get(damaged.queue)
            if queue is None:
                # Nothing can begin it again.
                del self._damaged[damaged.queue]
                self._performer.commit_later(damaged.removed(), "the end of a drain")
                continue
            self.log.error(
                "the drain of {queue} does not go on, since its record in the store is damaged: {reason};"
                " begin it again",
                queue=shown(queue_path(queue)),
                reason=shown(damaged.reason),
            )

    def _keeps_any(self) -> bool:
        """Whether there may be messages that are kept until their arrival is acknowledged."""
        if len(self._source_journal) or any(drain.record.acknowledge_to for drain in self._drains.values()):
            return True
        return any(queue.message_count for queue in self._performer.model.outgoing_queues())

    @checked
    async def begin(
        self, queue: str, destination: str, *, in_clear: bool = False, acknowledge_to: str | None = None
    ) -> DrainSummary:
        """See L{IDrains.begin}."""
        summary: DrainSummary = await undivided(
            self._in_turn(self._begin, queue, destination, in_clear, acknowledge_to)
        )
        return summary

    async def _in_turn(self, step: Callable[..., Any], *arguments: object) -> Any:
        return await self._changing.run(step, *arguments)

    async def _begin(
        self, queue: str, destination: str, in_clear: bool, acknowledge_to: str | None
    ) -> DrainSummary:
        performer = self._performer
        performer.check_running()
        source = own_queue(performer.model, queue)
        if source.is_system or source.parent is not None:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"{queue_path(source)} cannot be drained: it is a system queue, a journal or a subqueue",
            )
        name = self._name(destination)
        admin = "" if acknowledge_to is None else str(self._admin_name(acknowledge_to, source))
        owner = (await self._destinations.find(str(name)))[0].owner
        self._forget_deleted()
        drain = self._drains.get(source.definition.identifier)
        if drain is not None:
            begun = drain.record
            if (begun.destination, begun.in_clear, begun.acknowledge_to) != (str(name), in_clear, admin):
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_OPERATION,
                    f"{queue_path(source)} is drained to {begun.destination} already"
                    + (", with other options" if begun.destination == str(name) else "")
                    + "; end that first",
                )
            if drain.has_ended:
                # Its end was not stored, so a restart would continue it too.
                drain.start()
            return _summary(drain)
        if len(self._drains) >= MOST_DRAINS:
            raise MQError(Status.MQ_ERROR_INSUFFICIENT_RESOURCES, f"{MOST_DRAINS} queues are drained already")
        record = DrainRecord(
            queue=source.definition.identifier,
            destination=str(name),
            owner=owner,
            in_clear=in_clear,
            acknowledge_to=admin,
            began=performer.clock.now().wall,
        )
        used = as_changes(self._kept.use()) if admin else []
        damaged = self._damaged.get(str(record.queue))
        former = [] if damaged is None else damaged.removed()
        await performer.commit([*former, record.created(), *used])
        self._damaged.pop(str(record.queue), None)
        if admin:
            self._kept.used()
        return _summary(self._start(record, source, name))

    @checked
    async def end(self, queue: str) -> DrainSummary:
        """See L{IDrains.end}."""
        summary: DrainSummary = await undivided(self._in_turn(self._end, queue))
        return summary

    async def _end(self, queue: str) -> DrainSummary:
        drain = self._find(queue)
        await drain.end()
        summary = _summary(drain, "")
        await self._performer.commit(drain.record.removed())
        self._drop(drain)
        return summary

    def _drop(self, drain: QueueDrain) -> None:
        self._drains.pop(drain.record.queue, None)
        destination = drain.record.destination
        if all(each.record.destination != destination for each in self._drains.values()):
            self._kept.forget(destination)

    def summaries(self) -> Sequence[DrainSummary]:
        """See L{IDrains.summaries}."""
        self._forget_deleted()
        return [_summary(drain) for drain in self._drains.values()]

    @checked
    def summary(self, queue: str) -> DrainSummary:
        """See L{IDrains.summary}."""
        return _summary(self._find(queue))

    @checked
    def identifiers(self, queue: str, after: int = 0, count: int = MOST_IDENTIFIERS) -> Sequence[str]:
        """See L{IDrains.identifiers}."""
        found = self._find(queue).record.part(after, min(count, MOST_IDENTIFIERS))
        return [
            str(MessageIdentifier(guid_from_bytes(each[:16]), int.from_bytes(each[16:], "little")))
            for each in found
        ]

    def _find(self, queue: str) -> QueueDrain:
        self._performer.check_running()
        self._forget_deleted()
        drain = self._drains.get(own_queue(self._performer.model, queue).definition.identifier)
        if drain is None:
            raise not_drained(queue)
        return drain

    def _forget_deleted(self) -> None:
        for drain in list(self._drains.values()):
            if drain.queue.is_deleted:
                self._drop(drain)
                run_in_background(self._remove(drain), "removing a drain")

    async def _remove(self, drain: QueueDrain) -> None:
        """Remove a drain from the store once its present batch, which is counted there, is stored or not."""
        await drain.end()
        self._performer.commit_later(drain.record.removed(), "the end of a drain")

    def _name(self, text: str) -> FormatName:
        return name_of_outgoing(self._performer.model, text)

    def _admin_name(self, text: str, source: Queue) -> FormatName:
        """The name of the administration queue of a drain.

        @raise MQError: it cannot get the acknowledgements, or the drain needs none.
        """
        name = parse_format_name(text)
        if source.definition.transactional:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"{queue_path(source)} is transactional: its messages are kept until their FinalAcks in any"
                " case, and request no other acknowledgement",
            )
        queue = self._performer.model.find(name)
        if queue is None:
            raise MQError(
                Status.MQ_ERROR_QUEUE_NOT_FOUND,
                f"{text} is no queue of this queue manager, which has to get the acknowledgements",
            )
        if queue is source or queue.is_system or queue.parent is not None or queue.definition.transactional:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"{text} cannot get the acknowledgements: it is the queue itself, transactional, a system"
                " queue, a journal or a subqueue",
            )
        return name

    def _start(self, record: DrainRecord, queue: Queue, name: FormatName) -> QueueDrain:
        performer = self._performer
        model = performer.model
        admin = parse_format_name(record.acknowledge_to) if record.acknowledge_to else None
        arrivals = None
        if admin is not None:
            arrivals = DrainedArrivals(
                name,
                record.acknowledge_to,
                self._kept.watch(record.destination),
                self._source_journal,
                lambda: (found := model.find(admin)) is not None and not found.definition.transactional,
            )
        drain = QueueDrain(
            record,
            queue,
            name,
            DrainedPackets(
                model.identifier,
                name,
                record.owner,
                lambda: model.take_message_ids(1),
                model.names.direct_name,
                in_clear=record.in_clear,
                acknowledge_to=admin,
            ),
            performer,
            self._outbox,
            self._transactions,
            self._opener,
            self._events,
            arrivals,
            self._new_identifier,
            self._suspicion,
            self._forget_deleted,
        )
        self._drains[record.queue] = drain
        drain.start()
        return drain


_STOPPED: Final = "it has stopped, and its end is not stored; end it again, or begin it to go on"
"""The reason of a drain that moves nothing more and has not been dropped."""


def _summary(drain: QueueDrain, stopped: str = _STOPPED) -> DrainSummary:
    record, figures = drain.record, drain.record.figures
    reason = stopped if drain.has_ended else drain.reason
    is_known = bool(record.acknowledge_to) or drain.queue.definition.transactional
    return DrainSummary(
        queue=queue_path(drain.queue),
        destination=record.destination,
        condition="waiting" if reason else "running",
        reason=reason,
        began=record.began,
        remaining=drain.queue.message_count,
        in_transit=drain.in_transit,
        acknowledge_to=record.acknowledge_to,
        arrival=ARRIVAL_ACKNOWLEDGED if is_known else ARRIVAL_UNPROVEN,
        refused=drain.refused,
        moved=figures.moved,
        bytes=figures.size,
        digest=digest_text(figures.digest),
        first_identifier=figures.first,
    )
