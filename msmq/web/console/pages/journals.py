"""Journals of queues, and message logs with the entries that can be replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import refuse_rest, take
from msmq.control.server.messages.properties import number
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.web.console.pages.context import PageContext, page_parameters
from msmq.web.console.rows import TableRows, read_query

LISTED: Final = 50
"""Entries of a log on one page."""

COLUMNS: Final[Mapping[str, Callable[[QueueSummary], Any]]] = {
    "path": lambda queue: queue.path.casefold(),
    "messages": lambda queue: queue.journal_messages,
    "bytes": lambda queue: queue.journal_bytes,
}
"""The columns by which the table can be sorted."""


class JournalPages:
    """The queues with a journal or a message log, and the entries of one log."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection

    @app.route("/journals", methods=["GET"])
    async def journals(self, request: Request) -> bytes:
        """One page of the table."""
        found = page_parameters(request)
        query = read_query(found, COLUMNS, "path")
        refuse_rest(found, "filter, sort, order and page")
        rows = TableRows(query, COLUMNS, lambda queue: f"{queue.path}\n{queue.label}")

        def add(queue: QueueSummary) -> None:
            if queue.journal or queue.log or queue.journal_messages:
                rows.add(queue)

        await self._context.each(self._inspection.each_queue(), add)
        await self._context.pause()
        table = rows.page()
        await self._context.pause()
        return await self._context.page(request, "journals", table=table)

    @app.route("/log", methods=["GET"])
    async def log(self, request: Request) -> bytes:
        """Entries of the message log of the queue C{path} after C{after}.

        C{from} and C{to} are the bounds with which the form for a replay is filled in.
        """
        found = page_parameters(request)
        path = take(found, "path")
        after = number("after", found.pop("after")) if found.get("after") else 0
        first, last = found.pop("from", ""), found.pop("to", "")
        found.pop("after", None)
        refuse_rest(found, "path, after, from and to")
        entries = await running(self._inspection.logged(path, after, LISTED))
        extent = await running(self._inspection.log_extent(path))
        # Of large messages a page has fewer than the limit.
        last_shown = entries[-1].sequence if entries else extent.last
        return await self._context.page(
            request,
            "log",
            path=path,
            extent=extent,
            entries=entries,
            after=after,
            next=last_shown if last_shown < extent.last else None,
            first=first,
            last=last,
        )
