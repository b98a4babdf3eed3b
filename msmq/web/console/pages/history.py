"""What happened: the event log, everything known about one message, and open transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import refuse_rest, take
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, guid, number
from msmq.control.server.messages.queued_messages_json import event_of, explanation_of
from msmq.control.server.resources.events import last_sequence
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.interfaces.summaries import TransactionSummary
from msmq.structures.identifiers import MessageIdentifier
from msmq.web.console.pages.context import PageContext, page_parameters

LISTED: Final = 100
"""Events on one page."""

LOOKED_AT: Final = 10_000
"""Events that one request searches; the page offers to continue after them."""

_READ: Final = 200
_KEYS: Final = frozenset("sequence time event message reason class class_name queue".split())


class HistoryPages:
    """Events, explanations and transactions."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection

    @app.route("/events", methods=["GET"])
    async def events(self, request: Request) -> bytes:
        """Entries after C{after} that match C{where}, the oldest first; with C{latest} the last ones."""
        found = page_parameters(request)
        after = number("after", found.pop("after")) if found.get("after") else 0
        if flag("latest", found.pop("latest", "false")):
            after = max(0, await last_sequence(self._inspection) - LISTED)
        where = found.pop("where", "")
        found.pop("after", None)
        refuse_rest(found, "after, latest and where")
        wanted = MessageFilter(where or None, None, _KEYS, "an event")
        entries: list[dict[str, Any]] = []
        looked_at, first = 0, after
        is_end = False
        while len(entries) < LISTED and looked_at < LOOKED_AT and not is_end:
            page = await running(self._inspection.events(after, _READ))
            is_end = not page
            for entry in page:
                after = entry.sequence
                looked_at += 1
                value = {"sequence": entry.sequence, **event_of(entry.event)}
                if wanted.matches(value):
                    entries.append(value)
                    if len(entries) == LISTED:
                        break
            await next_reactor_turn(self._context.clock)
        return self._context.page(
            request,
            "events",
            entries=entries,
            looked_at=looked_at,
            first=first,
            after=None if is_end else after,
            last=after,
            where=where,
        )

    @app.route("/explain", methods=["GET"])
    async def explain(self, request: Request) -> bytes:
        """Everything known about C{message}."""
        found = page_parameters(request)
        wanted = found.pop("message", "").strip()
        refuse_rest(found, "message")
        explanation = None
        if wanted:
            identifier = MessageIdentifier.parse(wanted)
            explanation = explanation_of(await running(self._inspection.explain(identifier)))
        return self._context.page(request, "explain", wanted=wanted, explanation=explanation)

    @app.route("/transactions", methods=["GET"])
    async def transactions(self, request: Request) -> bytes:
        """All open transactions, up to a page's number."""
        refuse_rest(page_parameters(request), "none")
        listed: Sequence[TransactionSummary] = self._inspection.transactions()
        return self._context.page(
            request,
            "transactions",
            transactions=[json_record(each) for each in listed[:LISTED]],
            total=len(listed),
        )

    @app.route("/transaction", methods=["GET"])
    def transaction(self, request: Request) -> bytes:
        """One transaction, with its messages."""
        found = page_parameters(request)
        identifier = guid("the transaction", take(found, "id"))
        refuse_rest(found, "id")
        details = json_record(self._inspection.transaction(identifier))
        return self._context.page(request, "transaction", transaction=details)
