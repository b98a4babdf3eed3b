"""Dead letters, grouped by reason and destination, with the reason in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.disconnection import next_reactor_turn
from msmq.control.server.http.requests import refuse_rest
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.control.server.resources.dead_letter_groups import DEAD_LETTER_QUEUES
from msmq.web.console.dead_letter_reasons import DeadLetterReason, dead_letter_reason
from msmq.web.console.pages.context import TURN, PageContext, page_parameters

LISTED: Final = 1000
"""Limit on dead letters of each queue that the page groups."""


@attrs.define
class DeadLetterGroup:
    """Dead letters with the same queue, class and destination.

    @ivar queue: the dead-letter queue that holds them.
    @ivar lookup_id: of the oldest one, in C{queue}.
    @ivar oldest: when that one arrived there, in ISO 8601.
    """

    queue: str
    message_class: int
    destination: str | None
    class_name: str
    reason: DeadLetterReason
    label: str
    lookup_id: int
    oldest: str
    newest: str
    messages: int = 0
    bytes: int = 0


def destination_of(described: Mapping[str, Any]) -> str | None:
    r"""The destination of a dead letter as an address of a page can have it; C{None} if there is none.

    A peer may send an invalid name, whose lone surrogates are written as C{\ud800}.
    """
    destination: str | None = described["destination_queue"]
    return None if destination is None else destination.encode("utf-8", "backslashreplace").decode()


class DeadLetterPage:
    """The messages in both dead-letter queues."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection

    @app.route("/deadletters", methods=["GET"])
    async def dead_letters(self, request: Request) -> bytes:
        """The groups, the largest first."""
        refuse_rest(page_parameters(request), "none")
        groups: dict[tuple[str, int, str | None], DeadLetterGroup] = {}
        looked_at = 0
        clock = self._context.clock
        began = clock.seconds()
        async for place in self._inspection.each_dead_letter(LISTED):
            looked_at += 1
            value = properties_of(place.message)
            key = (place.queue, value["class"], destination_of(value))
            group = groups.get(key)
            arrived = value["arrived_time"]
            if group is None:
                reason = dead_letter_reason(value["class"])
                label, lookup_id = value["label"], value["lookup_id"]
                group = groups[key] = DeadLetterGroup(
                    *key, value["class_name"], reason, label, lookup_id, arrived, arrived
                )
            group.messages += 1
            group.bytes += value["body_size"]
            group.newest = max(group.newest, arrived)
            if clock.seconds() - began >= TURN:
                await next_reactor_turn(clock)
                began = clock.seconds()
        await self._context.pause()
        system = self._inspection.system_queues()
        return await self._context.page(
            request,
            "deadletters",
            groups=sorted(groups.values(), key=lambda group: -group.messages),
            looked_at=looked_at,
            total=sum(each.messages for each in system if each.path.casefold() in DEAD_LETTER_QUEUES),
        )
