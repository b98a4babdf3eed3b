"""The overview: state, alarms, figures, the fullest queues, and waiting outgoing queues."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import attrs
from klein import Klein
from twisted.web.server import Request

from msmq.control.server.alarms.manager_alarms import QueueAlarms, server_alarms
from msmq.control.server.http.requests import refuse_rest
from msmq.control.server.messages.json_records import json_record
from msmq.decoding.values import unix_time
from msmq.interfaces.manager.summaries import OutgoingQueueSummary, QueueSummary
from msmq.web.console.pages.context import PageContext, page_parameters

FULLEST: Final = 10
"""Queues of each kind that the overview lists."""

ALARMS: Final = 20
"""Alarms about queues that the overview lists; the others are counted."""

_Q = TypeVar("_Q", QueueSummary, OutgoingQueueSummary)


@attrs.define
class FullestQueues(Generic[_Q]):
    """The queues with the most messages, of those that have any.

    @ivar messages: in all queues together.
    """

    messages: int = 0
    _heap: list[tuple[int, int, _Q]] = attrs.field(factory=list)
    _number: int = 0

    def add(self, queue: _Q) -> None:
        """Count a queue; of queues with equally many messages the first stays."""
        if not queue.messages:
            return
        self.messages += queue.messages
        self._number -= 1
        entry = (queue.messages, self._number, queue)
        if len(self._heap) < FULLEST:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    @property
    def queues(self) -> Sequence[_Q]:
        """The fullest first."""
        return [entry[2] for entry in sorted(self._heap, reverse=True)]


@attrs.define
class QueueTotals:
    """Figures of all queues together, added queue by queue.

    @ivar oldest: when the oldest message arrived that can be received; C{None} without one.
    """

    fullest: FullestQueues[QueueSummary] = attrs.field(factory=FullestQueues)
    sent: int = 0
    received: int = 0
    oldest: float | None = None

    def add(self, queue: QueueSummary) -> None:
        """Add a queue."""
        self.fullest.add(queue)
        self.sent += queue.sent_total
        self.received += queue.received_total
        if queue.oldest_message_time is not None:
            self.oldest = min(queue.oldest_message_time, self.oldest or queue.oldest_message_time)


class OverviewPage:
    """The first page of the console."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection

    @app.route("/", methods=["GET"])
    async def overview(self, request: Request) -> bytes:
        """The overview."""
        refuse_rest(page_parameters(request), "none")
        totals = QueueTotals()
        waiting: FullestQueues[OutgoingQueueSummary] = FullestQueues()
        alarms = QueueAlarms(self._context.now(), ALARMS)

        def add_queue(queue: QueueSummary) -> None:
            totals.add(queue)
            alarms.add_queue(queue)

        def add_outgoing(queue: OutgoingQueueSummary) -> None:
            waiting.add(queue)
            alarms.add_outgoing(queue)

        await self._context.each(self._inspection.each_queue(), add_queue)
        await self._context.each(self._inspection.each_outgoing(), add_outgoing)
        await self._context.pause()
        status, readiness = self._inspection.status(), self._context.readiness()
        await self._context.pause()
        return await self._context.page(
            request,
            "overview",
            status=json_record(status),
            readiness=readiness,
            report=alarms.report(
                server_alarms(
                    status,
                    self._context.bridges.summaries(),
                    self._context.archive.summary(),
                    self._context.configuration.certificates(),
                    self._context.configuration.tokens(),
                )
            ),
            oldest=unix_time(totals.oldest),
            fullest=totals.fullest.queues,
            waiting=waiting.queues,
            waiting_messages=waiting.messages,
            sent=totals.sent,
            received=totals.received,
        )
