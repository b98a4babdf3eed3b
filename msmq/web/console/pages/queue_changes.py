"""Changes of queues: create, set, pause, resume, purge, delete, and replay of the message log."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.requests import parameters, refuse_rest, take
from msmq.control.server.messages.properties import guid
from msmq.control.server.resources.queue_properties import read_log_range, read_properties
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.quantities import count
from msmq.structures.status import DeletionPending, MQError, Status
from msmq.web.access.request import WebRequest
from msmq.web.console.change_outcomes import ChangeOutcome
from msmq.web.console.forms import ChangeForm
from msmq.web.console.pages.context import PageContext
from msmq.web.console.presentation import field_text, fingerprint

_PAGE: Final = "/queue"
_TEXTS: Final = ("label", "privacy")
_LIMITS: Final = ("quota", "journal_quota")
_FLAGS: Final = ("journal", "log", "authenticate")


class QueueChanges:
    """Changes of one queue, which the query parameter C{path} names."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/queue/create", methods=["POST"])
    async def create(self, request: WebRequest) -> bytes:
        """Create a queue."""
        form = ChangeForm(request)
        path = form.text("path")
        options: dict[str, Any] = {
            "label": form.optional("label"),
            "transactional": form.flag("transactional"),
            "journal": form.flag("journal"),
            "quota": form.limit("quota"),
        }
        form.end()
        # A quota of 0 is one, and equal to False.
        options = {
            name: value
            for name, value in options.items()
            if value is not None and value is not False and value != ""
        }
        await self._context.change(
            request,
            AuditedOperation("queue create", path, options),
            lambda: self._manager.create_queue(path, **options),
        )
        return self._context.redirect(request, ChangeOutcome("created").address(_PAGE, path=path))

    @app.route("/queue/set", methods=["POST"])
    async def set(self, request: WebRequest) -> bytes:
        """Set the properties that differ from those that the queue has, if it still has those of the page."""
        path, form = _path(request), ChangeForm(request)
        wanted: dict[str, Any] = {
            **{name: form.optional(name) for name in _TEXTS},
            **{name: form.limit(name) for name in _LIMITS},
            **{name: form.flag(name) for name in _FLAGS},
        }
        shown = form.optional("shown")
        form.end()
        queue = self._manager.inspection.queue(path)
        if shown != shown_properties(queue):
            raise _refused(
                "the properties have changed since the page was loaded, and nothing is set;"
                " load the page again"
            )
        if wanted["label"] == field_text(queue.label):
            wanted["label"] = queue.label
        changed = {name: value for name, value in wanted.items() if value != getattr(queue, name)}
        if not changed:
            return self._context.redirect(request, ChangeOutcome("unchanged").address(_PAGE, path=path))
        properties = read_properties(changed)
        await self._context.change(
            request,
            AuditedOperation("queue set", path, properties),
            lambda: self._manager.set_queue(path, properties),
        )
        return self._context.redirect(request, ChangeOutcome("set").address(_PAGE, path=path))

    @app.route("/queue/pause", methods=["POST"])
    async def pause(self, request: WebRequest) -> bytes:
        """Pause delivery to readers of the queue."""
        path = _path(request)
        ChangeForm(request).end()
        operation = AuditedOperation("queue pause", path)
        await self._context.change(request, operation, lambda: self._manager.pause_queue(path))
        return self._context.redirect(request, ChangeOutcome("paused").address(_PAGE, path=path))

    @app.route("/queue/resume", methods=["POST"])
    async def resume(self, request: WebRequest) -> bytes:
        """Let the receives from the queue go on."""
        path = _path(request)
        ChangeForm(request).end()
        operation = AuditedOperation("queue resume", path)
        await self._context.change(request, operation, lambda: self._manager.resume_queue(path))
        return self._context.redirect(request, ChangeOutcome("resumed").address(_PAGE, path=path))

    @app.route("/queue/purge", methods=["POST"])
    async def purge(self, request: WebRequest) -> bytes:
        """Remove the messages that were in the queue when its page was loaded, if the number that was typed
        in is that of the page, and there are not more now.
        """
        path, form = _path(request), ChangeForm(request)
        confirmed, listed, last = form.number("messages"), form.number("listed"), form.number("last")
        form.end()

        def purge() -> Awaitable[int]:
            check_confirmed(self._manager.inspection.queue(path).messages, confirmed, listed)
            return self._manager.purge_queue(path, through=last)

        purged = await self._context.change(request, AuditedOperation("queue purge", path), purge)
        return self._context.redirect(request, ChangeOutcome("purged", purged).address(_PAGE, path=path))

    @app.route("/queue/delete", methods=["POST"])
    async def delete(self, request: WebRequest) -> bytes:
        """Delete the queue of the page, if its path was typed in, and no message has arrived since."""
        path, form = _path(request), ChangeForm(request)
        typed, listed, arrived = form.text("confirmed"), form.number("listed"), form.number("arrived")
        identifier = guid("identifier", form.text("identifier"))
        form.end()

        async def delete() -> ChangeOutcome:
            queue = self._manager.inspection.queue(path)
            if typed.casefold() != queue.path.casefold():
                raise _refused(f"the path that was typed in is not {queue.path}: nothing is deleted")
            if identifier != queue.identifier:
                raise _refused(
                    "the queue of the page was deleted, and another one has its path: nothing is deleted;"
                    " load the page again"
                )
            check_not_more(held(queue), listed, "deleted")
            # As many others may have left the queue meanwhile; a restart counts from 0 again.
            if queue.sent_total != arrived:
                raise _refused(
                    "messages have arrived since the page was loaded: nothing is deleted; load the page again"
                )
            try:
                await self._manager.delete_queue(path)
            except DeletionPending:
                return ChangeOutcome("deletion-pending")
            return ChangeOutcome("deleted")

        outcome = await self._context.change(request, AuditedOperation("queue delete", path), delete)
        return self._context.redirect(request, outcome.address("/queues"))

    @app.route("/queue/replay", methods=["POST"])
    async def replay(self, request: WebRequest) -> bytes:
        """Send copies of entries of the message log to a destination."""
        path, form = _path(request), ChangeForm(request)
        into = form.text("into")
        part = read_log_range(form.optional("from") or None, form.optional("to") or None)
        options = {**attrs.asdict(part), "in_clear": form.flag("in_clear")}
        form.end()
        replayed = await self._context.change(
            request,
            AuditedOperation("queue replay", path, {"into": into, **options}),
            lambda: self._manager.replay(path, into, **options),
        )
        return self._context.redirect(request, ChangeOutcome("replayed", replayed).address(_PAGE, path=path))


def shown_properties(queue: QueueSummary) -> str:
    """A fingerprint of the properties that the form of a queue sets, which would otherwise undo a change that
    was made after its page was loaded.
    """
    return fingerprint([getattr(queue, name) for name in (*_TEXTS, *_LIMITS, *_FLAGS)])


def held(queue: QueueSummary) -> int:
    """All messages of a queue: in subqueues, its journal and open transactions too."""
    aside = sum(subqueue.messages for subqueue in queue.subqueues)
    return queue.messages + queue.uncommitted + queue.journal_messages + aside


def check_confirmed(messages: int, confirmed: int, listed: int) -> None:
    """Check that an operator means the messages that would be removed.

    @param messages: the number there is now.
    @param confirmed: the number that was typed in.
    @param listed: the number on the page.
    @raise MQError: they differ, or there are more than on the page.
    """
    if confirmed != listed:
        raise _refused(
            f"{count(confirmed)} was typed in, and the page has {count(listed)}: nothing is purged"
        )
    check_not_more(messages, listed, "purged")


def check_not_more(messages: int, listed: int, done: str) -> None:
    """Check that there are no more messages than on the page that was acted on.

    @param done: the participle of the change.
    @raise MQError: messages have arrived since.
    """
    if messages > listed:
        raise _refused(
            f"there are {count(messages)} messages now, and {count(listed)} on the page: nothing is {done};"
            " load the page again"
        )


def _refused(reason: str) -> MQError:
    return MQError(Status.MQ_ERROR_ILLEGAL_OPERATION, reason)


def _path(request: WebRequest) -> str:
    found = parameters(request)
    path = take(found, "path")
    refuse_rest(found, "path")
    return path
