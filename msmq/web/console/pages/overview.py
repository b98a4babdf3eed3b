"""The overview: state, alarms, figures, the fullest queues, and waiting outgoing queues."""

from __future__ import annotations

import heapq
from typing import Final

from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.requests import parameters, refuse_rest
from msmq.control.server.messages.json_records import json_record
from msmq.decoding.values import unix_time
from msmq.interfaces.summaries import OutgoingQueueSummary, QueueSummary
from msmq.web.console.pages.context import PageContext

_FULLEST: Final = 10


class OverviewPage:
    """The first page of the console."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection

    @app.route("/", methods=["GET"])
    async def overview(self, request: Request) -> bytes:
        """The overview."""
        refuse_rest(parameters(request), "none")
        queues: list[QueueSummary] = []
        outgoing: list[OutgoingQueueSummary] = []
        await self._context.each(self._inspection.each_queue(), queues.append)
        await self._context.each(self._inspection.each_outgoing(), outgoing.append)
        oldest = min(
            (queue.oldest_message_time for queue in queues if queue.oldest_message_time is not None),
            default=None,
        )
        waiting = [queue for queue in outgoing if queue.messages]
        return self._context.page(
            request,
            "overview",
            status=json_record(self._inspection.status()),
            readiness=self._context.readiness(),
            oldest=unix_time(oldest),
            fullest=heapq.nlargest(
                _FULLEST, (queue for queue in queues if queue.messages), lambda queue: queue.messages
            ),
            waiting=heapq.nlargest(_FULLEST, waiting, lambda queue: queue.messages),
            waiting_messages=sum(queue.messages for queue in waiting),
            sent=sum(queue.sent_total for queue in queues),
            received=sum(queue.received_total for queue in queues),
        )
