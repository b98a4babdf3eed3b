"""Changes of selected messages: remove, move, copy, and resend of an edited message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import parameters, refuse_rest, take
from msmq.control.server.messages.properties import number, read_properties
from msmq.control.server.resources.dead_letter_groups import DEAD_LETTER_QUEUES
from msmq.control.server.resources.message_search import MessageDescriber
from msmq.interfaces.manager.message_administration import MessageChange
from msmq.structures.status import MQError, Status
from msmq.web.access.request import WebRequest
from msmq.web.console.change_outcomes import ChangeOutcome
from msmq.web.console.forms import ChangeForm
from msmq.web.console.pages.context import PageContext
from msmq.web.console.presentation import field_text, visible

EDITED: Final = 0x10000
"""Characters of the longest body that the form for resending has."""

_PAGE: Final = "/messages"
_SHOWN_IDS: Final = 5


@attrs.frozen
class SelectedChange:
    """A change of selected messages of a queue.

    @ivar name: as the audit log has it.
    @ivar done: the name of its L{ChangeOutcome}.
    @ivar listed: the parameters of the list in which they were selected.
    @ivar details: for the audit log.
    """

    queue: str
    lookup_ids: Sequence[int]
    name: str
    done: str
    listed: Mapping[str, str] = attrs.field(factory=dict)
    details: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def operation(self) -> AuditedOperation:
        """The change for the audit log, with the first of the messages."""
        named: list[object] = [*self.lookup_ids[:_SHOWN_IDS]]
        if len(self.lookup_ids) > _SHOWN_IDS:
            named.append(f"and {len(self.lookup_ids) - _SHOWN_IDS} more")
        return AuditedOperation(self.name, self.queue, {**self.details, "lookup_ids": named})


class MessageChanges:
    """Changes of messages of one queue, which the query parameter C{queue} names.

    The parameters C{where}, C{body} and C{after} are those of the list, to which the browser returns.
    """

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._messages = context.manager.message_administration
        self._describer = MessageDescriber()

    @app.route("/messages/remove", methods=["POST"])
    async def remove(self, request: WebRequest) -> bytes:
        """Remove the selected messages without receiving them."""
        change, form = _selected(request, "message remove", "removed")
        # The field of the other buttons of the form.
        form.optional("to")
        form.end()
        return await self._changed(
            request, change, lambda: self._messages.remove(change.queue, change.lookup_ids)
        )

    @app.route("/messages/move", methods=["POST"])
    async def move(self, request: WebRequest) -> bytes:
        """Move the selected messages to another local queue."""
        change, form = _selected(request, "message move", "moved")
        to = form.text("to")
        form.end()
        return await self._changed(
            request,
            attrs.evolve(change, details={"queue": to}),
            lambda: self._messages.move(change.queue, change.lookup_ids, to),
        )

    @app.route("/messages/copy", methods=["POST"])
    async def copy(self, request: WebRequest) -> bytes:
        """Send copies of the selected messages."""
        change, form = _selected(request, "message copy", "copied")
        to = form.text("to")
        form.end()
        return await self._changed(
            request,
            attrs.evolve(change, details={"destination": to}),
            lambda: self._messages.copy(change.queue, change.lookup_ids, to),
        )

    @app.route("/message/resend", methods=["GET"])
    async def edit(self, request: WebRequest) -> bytes:
        """A form with the label and the text of a message, to send it again changed."""
        path, lookup_id = _message(request)
        described = await self._described(path, lookup_id)
        return await self._context.page(
            request,
            "resend",
            path=path,
            lookup_id=lookup_id,
            message=described,
            text=_editable(described),
            is_dead_letter=_has_dead_letters(path),
        )

    @app.route("/message/resend", methods=["POST"])
    async def resend(self, request: WebRequest) -> bytes:
        """Send a message again, with another label or body if they were edited; a dead letter is removed.

        A message of another queue stays, and a copy of it is sent: to its destination, without another one.
        """
        path, lookup_id = _message(request)
        form = ChangeForm(request)
        label, text, to = form.optional("label"), form.optional("body"), form.optional("to").strip() or None
        form.end()
        described = await self._described(path, lookup_id)
        edited: dict[str, Any] = {}
        if label != field_text(described["label"]):
            edited |= read_properties({"label": label})
        shown = _editable(described)
        if shown is not None and _lines(text) != _lines(shown):
            edited["body"] = _lines(text).encode("utf-8")
        details: dict[str, object] = {"edited": sorted(edited)} if edited else {}
        if _has_dead_letters(path):
            if to is not None:
                details["to"] = to
            change = SelectedChange(path, [lookup_id], "deadletter requeue", "requeued", details=details)
            return await self._changed(
                request,
                change,
                lambda: self._messages.requeue(path, [lookup_id], to=to, edited=edited or None),
            )
        destination = to or described["destination_queue"]
        if not destination:
            raise invalid("the field to is empty, and the message has no destination")
        details["destination"] = destination
        change = SelectedChange(path, [lookup_id], "message copy", "copied", details=details)
        return await self._changed(
            request,
            change,
            lambda: self._messages.copy(path, [lookup_id], destination, edited=edited or None),
        )

    async def _described(self, path: str, lookup_id: int) -> dict[str, Any]:
        message = await running(self._inspection.read_message(path, lookup_id))
        return self._describer.describe(message, with_body=True, is_decoded=False)

    async def _changed(
        self,
        request: WebRequest,
        change: SelectedChange,
        act: Callable[[], Awaitable[Sequence[MessageChange]]],
    ) -> bytes:
        changes = await self._context.change(request, change.operation, act)
        outcome = outcome_of(change.done, changes, len(change.lookup_ids))
        return self._context.redirect(request, outcome.address(_PAGE, queue=change.queue, **change.listed))


def outcome_of(done: str, changes: Sequence[MessageChange], selected: int) -> ChangeOutcome:
    """The outcome of a change of some messages.

    @raise MQError: one of them was refused, or none is there any more.
    """
    errors = [change.error for change in changes if change.error is not None]
    if errors:
        detail = f"{errors[0].detail}; {len(errors)} of {selected} selected messages were refused"
        raise MQError(errors[0].status, detail)
    if selected and not changes:
        raise MQError(
            Status.MQ_ERROR_MESSAGE_NOT_FOUND,
            "no selected message is there any more: it was received or removed, or a reader or a transaction"
            " holds it",
        )
    return ChangeOutcome(done, len(changes), selected - len(changes))


def _has_dead_letters(path: str) -> bool:
    return path.casefold() in DEAD_LETTER_QUEUES


def _editable(described: Mapping[str, Any]) -> str | None:
    """The body as a form can have it; C{None} for one that is binary, long, or has hidden characters."""
    text = described.get("body")
    if not isinstance(text, str) or len(text) > EDITED or visible(text) != text:
        return None
    return text


def _lines(text: str) -> str:
    """A text with line feeds alone; a browser sends carriage returns before them."""
    return text.replace("\r\n", "\n")


def _selected(request: WebRequest, name: str, done: str) -> tuple[SelectedChange, ChangeForm]:
    """The selected messages, and the form with the further fields."""
    found, form = parameters(request), ChangeForm(request)
    queue = take(found, "queue")
    listed = {key: found.pop(key, "") for key in ("where", "body", "after")}
    refuse_rest(found, "queue, where, body and after")
    return SelectedChange(queue, form.numbers("id"), name, done, listed), form


def _message(request: WebRequest) -> tuple[str, int]:
    found = parameters(request)
    path, lookup_id = take(found, "queue"), number("id", take(found, "id"))
    refuse_rest(found, "queue and id")
    return path, lookup_id
