"""Resource of the event log: its entries after a sequence number, filtered, and new ones as they come."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

from klein import Klein
from twisted.internet.task import deferLater

from msmq.control.protocol.refusals import invalid, refusal
from msmq.control.server.http.caller_shares import CallerShares
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import JSON_LINES, ResponseStream
from msmq.control.server.messages.properties import flag, number
from msmq.control.server.messages.queued_messages_json import event_of
from msmq.control.server.resources.context import ResourceContext
from msmq.control.server.resources.event_filter import EventFilter
from msmq.control.server.resources.message_search import TURN, json_line
from msmq.interfaces.manager.queue_manager import IInspection
from msmq.interfaces.storage import StoredEvent
from msmq.structures.status import MQError

FOLLOWERS: Final = 20
"""Limit on clients that follow the event log."""

_PAGE: Final = 200
_POLL: Final = 1.0


class EventResources:
    """The entries of the event log."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._inspection = context.manager.inspection
        self._clock = context.clock
        self._evaluations = context.evaluations
        self._followers = CallerShares("clients that follow the event log", FOLLOWERS)

    @app.route("/v1/events", methods=["GET"])
    async def events(self, request: ControlRequest) -> None:
        """Entries after C{after}, or the last C{tail} ones; with C{follow} also new ones."""
        found = parameters(request)
        tail = number("tail", found.pop("tail")) if "tail" in found else None
        after = number("after", found.pop("after")) if "after" in found else None
        follow = flag("follow", found.pop("follow", "false"))
        wanted = EventFilter.taken(found, self._evaluations.of(request.account))
        refuse_rest(found, "after, tail, follow, where, event, queue and text")
        if tail is not None and after is not None:
            raise invalid("after and tail exclude each other")
        first = 0 if after is None else after
        # Before anything is waited for: further clients come meanwhile.
        with self._followers.opened(request.account) if follow else nullcontext():
            if tail is not None:
                first = max(0, await last_sequence(self._inspection) - tail)
            await self._answer(request, wanted, first, follow=follow)

    async def _answer(
        self, request: ControlRequest, wanted: EventFilter, first: int, *, follow: bool
    ) -> None:
        stream = ResponseStream(request, JSON_LINES)
        try:
            stream.open()
            try:
                await self._write(stream, wanted, first, follow=follow)
            except MQError as error:
                stream.write(json_line(refusal(error)))
        finally:
            stream.close()

    async def _write(self, stream: ResponseStream, wanted: EventFilter, after: int, *, follow: bool) -> None:
        while True:
            page = await running(self._inspection.events(after, _PAGE))
            began = self._clock.seconds()
            for entry in page:
                after = entry.sequence
                value = described_event(entry)
                is_found = await wanted.matches(value)
                if self._clock.seconds() - began >= TURN:
                    await next_reactor_turn(self._clock)
                    # A page of slow comparisons takes minutes.
                    stream.check_caller()
                    began = self._clock.seconds()
                if is_found:
                    stream.write(json_line(value))
            await next_reactor_turn(self._clock)
            await stream.drained()
            if page:
                continue
            if not follow:
                stream.write(json_line({"end": "log", "after": after, **wanted.failures()}))
                return
            await deferLater(self._clock, _POLL)
            stream.check_caller()


async def last_sequence(inspection: IInspection) -> int:
    """The sequence number of the newest entry of the event log, found by bisection of reads."""
    low, high = 0, 1
    while await running(inspection.events(high, 1)):
        low, high = high, high * 2
    # There is an entry after low, unless low is 0, and none after high.
    while low < high:
        middle = (low + high) // 2
        found = await running(inspection.events(middle, 1))
        if found:
            low = found[0].sequence
        else:
            high = middle
    return low


def described_event(entry: StoredEvent) -> dict[str, Any]:
    """An entry of the event log as JSON."""
    return {"sequence": entry.sequence, **event_of(entry.event)}
