"""Changes of outgoing queues, sessions and transactions: pause, retry, redirect, purge, close, abort."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.requests import parameters, refuse_rest, take
from msmq.control.server.messages.properties import guid
from msmq.control.server.resources.context import at_once
from msmq.control.server.resources.server import session_close
from msmq.web.access.request import WebRequest
from msmq.web.console.change_outcomes import ChangeOutcome
from msmq.web.console.forms import ChangeForm
from msmq.web.console.pages.context import PageContext
from msmq.web.console.pages.queue_changes import check_confirmed

_PAGE: Final = "/outgoing_queue"


class TransferChanges:
    """Changes of one outgoing queue, session or transaction, which a query parameter names."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/outgoing_queue/pause", methods=["POST"])
    async def pause(self, request: WebRequest) -> bytes:
        """Stop sending from the queue."""
        name = _plain(request)
        return await self._changed(
            request, "pause", name, "paused", lambda: self._manager.pause_outgoing(name)
        )

    @app.route("/outgoing_queue/resume", methods=["POST"])
    async def resume(self, request: WebRequest) -> bytes:
        """Send again from the queue."""
        name = _plain(request)
        return await self._changed(
            request, "resume", name, "resumed", lambda: self._manager.resume_outgoing(name)
        )

    @app.route("/outgoing_queue/retry", methods=["POST"])
    async def retry(self, request: WebRequest) -> bytes:
        """Connect to the next hop of the queue now."""
        name = _plain(request)
        return await self._changed(
            request, "retry-now", name, "retried", lambda: at_once(lambda: self._manager.retry_outgoing(name))
        )

    @app.route("/outgoing/retry", methods=["POST"])
    async def retry_all(self, request: WebRequest) -> bytes:
        """Connect to the next hops of all waiting queues now."""
        refuse_rest(parameters(request), "none")
        ChangeForm(request).end()
        await self._context.change(
            request,
            AuditedOperation("outgoing retry-now", "all"),
            lambda: at_once(self._manager.retry_all_outgoing),
        )
        return self._context.redirect(request, ChangeOutcome("retried").address("/outgoing"))

    @app.route("/outgoing_queue/redirect", methods=["POST"])
    async def redirect(self, request: WebRequest) -> bytes:
        """Send to another address than that in the name; an empty one ends the redirection."""
        name, form = _name(request), ChangeForm(request)
        to = form.optional("to").strip() or None
        form.end()
        await self._context.change(
            request,
            AuditedOperation("outgoing redirect", f"{name} to {to or 'the address in the name'}"),
            lambda: self._manager.redirect_outgoing(name, to),
        )
        outcome = ChangeOutcome("not-redirected" if to is None else "redirected")
        return self._context.redirect(request, outcome.address(_PAGE, name=name))

    @app.route("/outgoing_queue/purge", methods=["POST"])
    async def purge(self, request: WebRequest) -> bytes:
        """Remove the messages that were in the queue when its page was loaded, if the number that was typed
        in is that of the page, and there are not more now.
        """
        name, form = _name(request), ChangeForm(request)
        confirmed, listed, last = form.number("messages"), form.number("listed"), form.number("last")
        form.end()

        def purge() -> Awaitable[int]:
            check_confirmed(self._manager.inspection.outgoing_queue(name).messages, confirmed, listed)
            return self._manager.purge_outgoing(name, through=last)

        purged = await self._context.change(request, AuditedOperation("outgoing purge", name), purge)
        return self._context.redirect(request, ChangeOutcome("purged", purged).address(_PAGE, name=name))

    @app.route("/transaction/abort", methods=["POST"])
    async def abort(self, request: WebRequest) -> bytes:
        """Abort an open transaction."""
        found = parameters(request)
        identifier: UUID = guid("id", take(found, "id"))
        refuse_rest(found, "id")
        ChangeForm(request).end()
        await self._context.change(
            request,
            AuditedOperation("transaction abort", str(identifier)),
            lambda: self._manager.abort_transaction(identifier),
        )
        return self._context.redirect(request, ChangeOutcome("aborted").address("/transactions"))

    @app.route("/session/close", methods=["POST"])
    async def close_session(self, request: WebRequest) -> bytes:
        """End one session."""
        found = parameters(request)
        identifier: UUID = guid("id", take(found, "id"))
        refuse_rest(found, "id")
        ChangeForm(request).end()
        await self._context.change(
            request,
            session_close(self._manager, identifier),
            lambda: at_once(lambda: self._manager.close_session(identifier)),
        )
        return self._context.redirect(request, ChangeOutcome("closed").address("/sessions"))

    async def _changed(
        self, request: WebRequest, action: str, name: str, done: str, work: Callable[[], Awaitable[object]]
    ) -> bytes:
        await self._context.change(request, AuditedOperation(f"outgoing {action}", name), work)
        return self._context.redirect(request, ChangeOutcome(done).address(_PAGE, name=name))


def _plain(request: WebRequest) -> str:
    """The name of the queue, for a change without choices."""
    ChangeForm(request).end()
    return _name(request)


def _name(request: WebRequest) -> str:
    found = parameters(request)
    name = take(found, "name")
    refuse_rest(found, "name")
    return name
