"""Resending a group of dead letters, after a preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import parameters, refuse_rest, take
from msmq.control.server.messages.properties import number
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.control.server.resources.message_search import PAGE
from msmq.interfaces.manager.message_administration import MessageChange
from msmq.quantities import count
from msmq.queues.available_positions import SEQUENTIAL_MASK
from msmq.structures.status import MQError, Status
from msmq.web.access.request import WebRequest
from msmq.web.console.change_outcomes import ChangeOutcome
from msmq.web.console.dead_letter_reasons import dead_letter_reason
from msmq.web.console.forms import ChangeForm
from msmq.web.console.pages.context import TURN, PageContext, page_parameters
from msmq.web.console.pages.dead_letters import destination_of

_PREVIEWED: Final = 20
"""Messages in the preview."""


@attrs.frozen
class DeadLetterSelection:
    """Dead letters with the same class and destination in one dead-letter queue.

    @ivar destination: the destination, as L{destination_of}; C{None} for those that have none.
    """

    queue: str
    message_class: int
    destination: str | None

    @classmethod
    def read(cls, found: dict[str, str]) -> DeadLetterSelection:
        """Take C{queue}, C{class} and C{destination} from query parameters; none may be left.

        @raise MQError: one is missing or malformed.
        """
        queue, message_class = take(found, "queue"), number("class", take(found, "class"))
        destination = found.pop("destination", "") or None
        refuse_rest(found, "queue, class and destination")
        return cls(queue, message_class, destination)

    def holds(self, described: dict[str, Any]) -> bool:
        """Whether a message of the queue, as JSON, belongs to it."""
        key: object = (described["class"], destination_of(described))
        return key == (self.message_class, self.destination)


@attrs.frozen
class SelectedMessages:
    """The messages of a selection.

    @ivar first: the oldest of them, as JSON.
    @ivar lookup_ids: all of them, the oldest first.
    """

    first: Sequence[dict[str, Any]]
    lookup_ids: Sequence[int]


class DeadLetterChanges:
    """Sends a group of dead letters again; its preview shows which."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._messages = context.manager.message_administration

    @app.route("/deadletters/requeue", methods=["GET"])
    async def preview(self, request: WebRequest) -> bytes:
        """The messages that would be sent again."""
        selection = DeadLetterSelection.read(page_parameters(request))
        last = self._messages.last_sequential
        found = await self._find(selection, last)
        return await self._context.page(
            request,
            "requeue",
            selection=selection,
            reason=dead_letter_reason(selection.message_class),
            found=found,
            last=last,
        )

    @app.route("/deadletters/requeue", methods=["POST"])
    async def requeue(self, request: WebRequest) -> bytes:
        """Send the messages of the preview again; later ones of the same kind stay."""
        selection = DeadLetterSelection.read(parameters(request))
        form = ChangeForm(request)
        last, to = form.number("last"), form.optional("to").strip() or None
        form.end()
        found = await self._find(selection, last)
        operation = AuditedOperation(
            "deadletter requeue",
            selection.queue,
            {
                "class": selection.message_class,
                "destination": selection.destination,
                **({} if to is None else {"to": to}),
            },
        )
        done = await self._context.change(
            request, operation, lambda: self._requeue(selection.queue, found.lookup_ids, to)
        )
        return self._context.redirect(
            request, ChangeOutcome("requeued", done, len(found.lookup_ids) - done).address("/deadletters")
        )

    async def _find(self, selection: DeadLetterSelection, last: int) -> SelectedMessages:
        """The messages of a selection that arrived with or before SequentialID C{last}."""
        first: list[dict[str, Any]] = []
        lookup_ids: list[int] = []
        clock = self._context.clock
        after, began = -1, clock.seconds()
        while True:
            page = await running(self._inspection.browse(selection.queue, after=after, count=PAGE))
            for message in page.messages:
                described = properties_of(message)
                if message.lookup_id & SEQUENTIAL_MASK <= last and selection.holds(described):
                    lookup_ids.append(message.lookup_id)
                    if len(first) < _PREVIEWED:
                        first.append(described)
                if clock.seconds() - began >= TURN:
                    await next_reactor_turn(clock)
                    began = clock.seconds()
            if page.is_end:
                return SelectedMessages(first, lookup_ids)
            after = page.last

    async def _requeue(self, queue: str, lookup_ids: Sequence[int], to: str | None) -> int:
        """Send messages again, slice by slice.

        @return: how many were there.
        @raise MQError: one was refused, which ends the change after its slice; the detail has the numbers.
        """
        done = 0
        for start in range(0, len(lookup_ids), PAGE):
            changes = await running(self._messages.requeue(queue, lookup_ids[start : start + PAGE], to=to))
            done += sum(change.error is None for change in changes)
            _check(changes, done, len(lookup_ids))
            await next_reactor_turn(self._context.clock)
        if lookup_ids and not done:
            raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, "none of these dead letters is there any more")
        return done


def _check(changes: Sequence[MessageChange], done: int, selected: int) -> None:
    refused = [change.error for change in changes if change.error is not None]
    if refused:
        raise MQError(
            refused[0].status,
            f"{refused[0].detail}; {count(done)} of {count(selected)} were sent again before that",
        )
