"""Resources about outgoing queues: list, show, pause, resume, redirect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer, json_progress
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, text
from msmq.control.server.resources.context import ResourceContext, at_once, without_parameters


class OutgoingResources:
    """The queues of messages for other queue managers."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/v1/outgoing", methods=["GET"])
    async def outgoing(self, request: ControlRequest) -> bytes | None:
        """Every outgoing queue."""
        without_parameters(request)
        return await self._context.listed(request, self._manager.inspection.each_outgoing())

    @app.route("/v1/outgoing/<path:name>", methods=["GET"])
    def outgoing_queue(self, request: ControlRequest, name: str) -> bytes:
        """One outgoing queue."""
        without_parameters(request)
        return json_answer(request, json_record(self._manager.inspection.outgoing_queue(name)))

    @app.route("/v1/outgoing/<path:name>/pause", methods=["POST"])
    async def pause_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Stop sending from one outgoing queue."""
        return await self._hold(request, "pause", name, self._manager.pause_outgoing)

    @app.route("/v1/outgoing/<path:name>/resume", methods=["POST"])
    async def resume_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Send again from one outgoing queue."""
        return await self._hold(request, "resume", name, self._manager.resume_outgoing)

    @app.route("/v1/outgoing/<path:name>/retry", methods=["POST"])
    async def retry_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Connect to the next hop of one outgoing queue now."""
        without_parameters(request)
        return await self._context.changed(
            request,
            AuditedOperation("outgoing retry-now", name),
            lambda: at_once(lambda: self._manager.retry_outgoing(name)),
        )

    @app.route("/v1/outgoing/retry", methods=["POST"])
    async def retry_all(self, request: ControlRequest) -> bytes | None:
        """Connect to the next hops of all waiting outgoing queues now."""
        without_parameters(request)
        queues = await self._context.change(
            request,
            AuditedOperation("outgoing retry-now", "all"),
            lambda: at_once(self._manager.retry_all_outgoing),
        )
        return await self._context.listed(request, queues)

    @app.route("/v1/outgoing/<path:name>/purge", methods=["POST"])
    async def purge_outgoing(self, request: ControlRequest, name: str) -> bytes | None:
        """Remove all messages from one outgoing queue; C{progress} as for a queue."""
        found = parameters(request)
        with_progress = flag("progress", found.pop("progress", "false"))
        refuse_rest(found, "progress")
        purging = self._context.change(
            request, AuditedOperation("outgoing purge", name), lambda: self._manager.purge_outgoing(name)
        )
        if not with_progress:
            return json_answer(request, {"purged": await purging})

        def left() -> dict[str, Any]:
            return {"messages": self._manager.inspection.outgoing_queue(name).messages}

        return await json_progress(
            request, purging, left, lambda count: {"purged": count}, self._context.clock
        )

    @app.route("/v1/outgoing/<path:name>/redirect", methods=["POST"])
    async def redirect_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Redirect a direct format name to another address, or, with null, end the redirection."""
        wanted = self._context.document(request)
        if "to" not in wanted:
            raise invalid("the key to is missing: an address, or null to end the redirect")
        value = wanted.pop("to")
        to = None if value is None else text("to", value)
        refuse_rest(wanted, "to")
        return await self._context.changed(
            request,
            AuditedOperation("outgoing redirect", f"{name} to {to or 'the address in the name'}"),
            lambda: self._manager.redirect_outgoing(name, to),
        )

    @app.route("/v1/outgoing/pause", methods=["POST"])
    async def pause_several(self, request: ControlRequest) -> bytes | None:
        """Stop sending to one next hop, or to all other queue managers."""
        manager = self._manager
        return await self._hold_several(request, "pause", manager.pause_all_outgoing, manager.pause_next_hop)

    @app.route("/v1/outgoing/resume", methods=["POST"])
    async def resume_several(self, request: ControlRequest) -> bytes | None:
        """Send again to one next hop, or to all other queue managers."""
        manager = self._manager
        return await self._hold_several(
            request, "resume", manager.resume_all_outgoing, manager.resume_next_hop
        )

    async def _hold(
        self, request: ControlRequest, action: str, name: str, work: Callable[[str], Awaitable[object]]
    ) -> bytes:
        without_parameters(request)
        operation = AuditedOperation(f"outgoing {action}", name)
        return await self._context.changed(request, operation, lambda: work(name))

    async def _hold_several(
        self,
        request: ControlRequest,
        action: str,
        all_queues: Callable[[], Awaitable[Sequence[object]]],
        one_hop: Callable[[str], Awaitable[Sequence[object]]],
    ) -> bytes | None:
        host = self._next_hop(request)
        operation = AuditedOperation(f"outgoing {action}", "all" if host is None else f"next hop {host}")
        queues = await self._context.change(
            request, operation, lambda: all_queues() if host is None else one_hop(host)
        )
        return await self._context.listed(request, queues)

    def _next_hop(self, request: ControlRequest) -> str | None:
        """The next hop in the body; C{None} for all."""
        wanted = self._context.document(request)
        if "next_hop" in wanted:
            host = text("next_hop", wanted.pop("next_hop"))
            refuse_rest(wanted, "next_hop, or all")
            return host
        if flag("all", wanted.pop("all", False)) is not True:
            raise invalid("give a next_hop, or all: true")
        refuse_rest(wanted, "next_hop, or all")
        return None
