"""QueueDrains: the drains of a queue manager, across restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger
from zope.interface import implementer

from msmq.interfaces.drains import DrainSummary, IDrains
from msmq.manager.administration.summaries import queue_path
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.queue_opener import QueueOpener
from msmq.manager.applications.targets import name_of_outgoing, own_queue
from msmq.manager.applications.transactions import Transactions
from msmq.manager.atomic_steps import undivided
from msmq.manager.drains.drain import QueueDrain, not_drained
from msmq.manager.drains.drain_record import DrainRecord, stored_drains
from msmq.manager.drains.drained_packets import DrainedPackets
from msmq.manager.events import EventLog
from msmq.manager.outbox import Outbox
from msmq.manager.performer import Performer
from msmq.queues.queue import Queue
from msmq.quoting import shown
from msmq.structures.identifier_digest import digest_text
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName
from msmq.structures.status import MQError, Status
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
        new_identifier: Callable[[], UUID],
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._destinations = destinations
        self._transactions = transactions
        self._opener = opener
        self._events = events
        self._new_identifier = new_identifier
        self._drains: dict[UUID, QueueDrain] = {}
        self._loaded: list[DrainRecord] = []
        # One begins or ends at a time: a queue never has two, and none that ends is the answer to a begin.
        self._changing = DeferredLock()

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore the drains from the store."""
        self._loaded = stored_drains(state)

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

    async def begin(self, queue: str, destination: str, *, in_clear: bool = False) -> DrainSummary:
        """See L{IDrains.begin}."""
        summary: DrainSummary = await undivided(self._in_turn(self._begin, queue, destination, in_clear))
        return summary

    async def _in_turn(self, step: Callable[..., Any], *arguments: object) -> Any:
        return await self._changing.run(step, *arguments)

    async def _begin(self, queue: str, destination: str, in_clear: bool) -> DrainSummary:
        performer = self._performer
        performer.check_running()
        source = own_queue(performer.model, queue)
        if source.is_system or source.parent is not None:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"{queue_path(source)} cannot be drained: it is a system queue, a journal or a subqueue",
            )
        name = self._name(destination)
        owner = (await self._destinations.find(str(name)))[0].owner
        self._forget_deleted()
        drain = self._drains.get(source.definition.identifier)
        if drain is not None:
            if drain.record.destination != str(name) or drain.record.in_clear is not in_clear:
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_OPERATION,
                    f"{queue_path(source)} is drained to {drain.record.destination} already; end that first",
                )
            return _summary(drain)
        if len(self._drains) >= MOST_DRAINS:
            raise MQError(Status.MQ_ERROR_INSUFFICIENT_RESOURCES, f"{MOST_DRAINS} queues are drained already")
        record = DrainRecord(
            queue=source.definition.identifier,
            destination=str(name),
            owner=owner,
            in_clear=in_clear,
            began=performer.clock.now().wall,
        )
        await performer.commit([record.created()])
        return _summary(self._start(record, source, name))

    async def end(self, queue: str) -> DrainSummary:
        """See L{IDrains.end}."""
        summary: DrainSummary = await undivided(self._in_turn(self._end, queue))
        return summary

    async def _end(self, queue: str) -> DrainSummary:
        drain = self._find(queue)
        await drain.end()
        summary = _summary(drain)
        await self._performer.commit(drain.record.removed())
        self._drains.pop(drain.record.queue, None)
        return summary

    def summaries(self) -> Sequence[DrainSummary]:
        """See L{IDrains.summaries}."""
        self._forget_deleted()
        return [_summary(drain) for drain in self._drains.values()]

    def summary(self, queue: str) -> DrainSummary:
        """See L{IDrains.summary}."""
        return _summary(self._find(queue))

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
        for identifier, drain in list(self._drains.items()):
            if drain.queue.is_deleted:
                del self._drains[identifier]
                self._performer.commit_later(drain.record.removed(), "the end of a drain")

    def _name(self, text: str) -> FormatName:
        return name_of_outgoing(self._performer.model, text)

    def _start(self, record: DrainRecord, queue: Queue, name: FormatName) -> QueueDrain:
        performer = self._performer
        model = performer.model
        drain = QueueDrain(
            record,
            queue,
            name,
            DrainedPackets(
                model.identifier,
                name,
                record.owner,
                lambda: model.take_message_ids(1),
                in_clear=record.in_clear,
            ),
            performer,
            self._outbox,
            self._transactions,
            self._opener,
            self._events,
            self._new_identifier,
        )
        self._drains[record.queue] = drain
        drain.start()
        return drain


def _summary(drain: QueueDrain) -> DrainSummary:
    record, figures = drain.record, drain.record.figures
    return DrainSummary(
        queue=queue_path(drain.queue),
        destination=record.destination,
        condition="waiting" if drain.reason else "running",
        reason=drain.reason,
        began=record.began,
        remaining=drain.queue.message_count,
        in_transit=drain.outgoing.message_count,
        moved=figures.moved,
        bytes=figures.size,
        digest=digest_text(figures.digest),
        first_identifier=figures.first,
    )
