"""Queues: the table of all, and one with its properties and access list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final

from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import refuse_rest, take
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag
from msmq.interfaces.manager.access_summaries import AccessList
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.structures.status import MQError
from msmq.web.console.pages.context import PageContext, page_parameters
from msmq.web.console.pages.queue_changes import held, shown_properties
from msmq.web.console.rows import TableRows, read_query

COLUMNS: Final[Mapping[str, Callable[[QueueSummary], Any]]] = {
    "path": lambda queue: queue.path.casefold(),
    "messages": lambda queue: queue.messages,
    "bytes": lambda queue: queue.bytes,
    "oldest": lambda queue: queue.oldest_message_time or float("inf"),
    "journal": lambda queue: queue.journal_messages,
    "in": lambda queue: queue.sent_total,
    "out": lambda queue: queue.received_total,
}
"""The columns by which the table can be sorted."""


class QueuePages:
    """The queues of the queue manager."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/queues", methods=["GET"])
    async def queues(self, request: Request) -> bytes:
        """One page of the table; with C{system} those of the system too."""
        found = page_parameters(request)
        query = read_query(found, COLUMNS, "path")
        with_system = flag("system", found.pop("system", "false"))
        refuse_rest(found, "filter, sort, order, page and system")
        inspection = self._manager.inspection
        rows = TableRows(query, COLUMNS, lambda queue: f"{queue.path}\n{queue.label}")
        system = inspection.system_queues() if with_system else []
        table = await self._context.table(chain(inspection.each_queue(), system), rows)
        return await self._context.page(
            request,
            "queues",
            table=table,
            with_system=with_system,
        )

    @app.route("/queue", methods=["GET"])
    async def queue(self, request: Request) -> bytes:
        """One queue; with C{principal} and C{right} also why that access is granted or denied."""
        found = page_parameters(request)
        path = take(found, "path")
        principal, right = found.pop("principal", ""), found.pop("right", "")
        refuse_rest(found, "path, principal and right")
        inspection, access = self._manager.inspection, self._manager.access
        queue, last = inspection.queue(path), self._manager.message_administration.last_sequential
        extent = await running(inspection.log_extent(path))
        acl: AccessList | None = None
        verdict, problem = None, ""
        try:
            acl = await running(access.acl(path))
            if principal and right:
                verdict = await running(access.why(path, principal, right))
        except MQError as error:
            problem = error.detail or error.status.name
        return await self._context.page(
            request,
            "queue",
            queue=json_record(queue),
            held=held(queue),
            last=last,
            shown=shown_properties(queue),
            extent=extent,
            acl=acl,
            verdict=verdict,
            problem=problem,
            principal=principal,
            right=right,
        )
