"""What happened: the event log, everything known about one message, and open transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import attrs
from klein import Klein
from twisted.web.server import Request

from msmq.control.protocol.joined_explanations import ServerExplanation, join_explanations
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import refuse_rest, take
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, guid, number
from msmq.control.server.messages.queued_messages_json import explanation_of
from msmq.control.server.resources.event_filter import EventFilter
from msmq.control.server.resources.events import described_event, last_sequence
from msmq.interfaces.manager.summaries import TransactionSummary
from msmq.interfaces.storage import StoredEvent
from msmq.persistence.changes import ADMINISTERED
from msmq.structures.identifiers import MessageIdentifier
from msmq.web.access.request import WebRequest
from msmq.web.console.member_explanations import MemberExplanations
from msmq.web.console.message_timeline import message_timeline
from msmq.web.console.pages.context import TURN, PageContext, check_caller, page_parameters

LISTED: Final = 100
"""Events on one page."""

LOOKED_AT: Final = 10_000
"""Events that one request searches; the page offers to continue after them."""

_READ: Final = 200
_KINDS: Final = 100


@attrs.define
class _EventScan:
    """The entries of one page of the event log.

    @ivar after: the number of the last entry that was looked at.
    @ivar is_latest: whether the page has the last matching entries, and not the first.
    @ivar kinds: those of the entries that were looked at.
    @ivar is_end: whether there is no entry after these.
    """

    wanted: EventFilter
    after: int
    is_latest: bool
    entries: deque[dict[str, Any]] = attrs.field(factory=lambda: deque(maxlen=LISTED))
    kinds: set[str] = attrs.field(factory=set)
    looked_at: int = 0
    is_end: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be read."""
        if self.is_end or self.looked_at >= 2 * LOOKED_AT:
            return True
        return not self.is_latest and (len(self.entries) == LISTED or self.looked_at >= LOOKED_AT)

    async def take(self, entry: StoredEvent) -> None:
        """Look at an entry."""
        self.after = entry.sequence
        self.looked_at += 1
        value = described_event(entry)
        if len(self.kinds) < _KINDS:
            self.kinds.add(entry.event.event)
        if await self.wanted.matches(value):
            self.entries.append(value)


class HistoryPages:
    """Events, explanations and transactions.

    @param members: the other servers of the estate.
    """

    app = Klein()

    def __init__(self, context: PageContext, members: MemberExplanations) -> None:
        self._context = context
        self._members = members
        self._inspection = context.manager.inspection

    @app.route("/events", methods=["GET"])
    async def events(self, request: WebRequest) -> bytes:
        """Entries after C{after} that match, the oldest first; without it the last ones."""
        found = page_parameters(request)
        chosen = {name: found.get(name, "") for name in ("event", "queue", "text", "where")}
        after = number("after", found.pop("after")) if found.get("after") else None
        found.pop("after", None)
        wanted = EventFilter.taken(found, self._context.evaluations.of(request.account))
        refuse_rest(found, "after, event, queue, text and where")
        is_latest = after is None
        if after is None:
            looked_at = LISTED if wanted.is_empty else LOOKED_AT
            after = max(0, await last_sequence(self._inspection) - looked_at)
        first = after
        scan = _EventScan(wanted, after, is_latest)
        while not scan.is_over:
            began = self._context.clock.seconds()
            page = await running(self._inspection.events(scan.after, _READ))
            scan.is_end = not page
            for entry in page:
                await scan.take(entry)
                if scan.is_over:
                    break
                if self._context.clock.seconds() - began >= TURN:
                    await next_reactor_turn(self._context.clock)
                    check_caller(request)
                    began = self._context.clock.seconds()
            await next_reactor_turn(self._context.clock)
        return await self._context.page(
            request,
            "events",
            entries=list(scan.entries),
            looked_at=scan.looked_at,
            first=first,
            after=None if scan.is_end else scan.after,
            last=scan.after,
            failures=wanted.failures(),
            kinds=sorted(scan.kinds | {ADMINISTERED} | ({chosen["event"]} - {""})),
            chosen=chosen,
            query={name: value for name, value in chosen.items() if value},
        )

    @app.route("/explain", methods=["GET"])
    async def explain(self, request: Request) -> bytes:
        """Everything known about C{message}; with C{others} also at the other servers of the estate."""
        found = page_parameters(request)
        wanted, is_joined = found.pop("message", "").strip(), flag("others", found.pop("others", "false"))
        refuse_rest(found, "message and others")
        explanation: dict[str, Any] | None = None
        if wanted:
            identifier = MessageIdentifier.parse(wanted)
            explanation = explanation_of(await running(self._inspection.explain(identifier)))
            if is_joined:
                name = self._inspection.status().name
                own = ServerExplanation(name, explanation, None)
                answers = [own, *(await self._members.ask(str(identifier)))]
                explanation = {**explanation, **join_explanations(str(identifier), answers)}
        return await self._context.page(
            request,
            "explain",
            wanted=wanted,
            explanation=explanation,
            timeline=() if explanation is None else message_timeline(explanation),
            members=self._members.names,
            is_joined=is_joined,
        )

    @app.route("/transactions", methods=["GET"])
    async def transactions(self, request: Request) -> bytes:
        """All open transactions, up to a page's number."""
        refuse_rest(page_parameters(request), "none")
        listed: Sequence[TransactionSummary] = self._inspection.transactions()
        return await self._context.page(
            request,
            "transactions",
            transactions=[json_record(each) for each in listed[:LISTED]],
            total=len(listed),
        )

    @app.route("/transaction", methods=["GET"])
    async def transaction(self, request: Request) -> bytes:
        """One transaction, with its messages."""
        found = page_parameters(request)
        identifier = guid("the transaction", take(found, "id"))
        refuse_rest(found, "id")
        details = json_record(self._inspection.transaction(identifier))
        return await self._context.page(request, "transaction", transaction=details)
