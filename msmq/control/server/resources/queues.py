"""Resources about queues: list, create, show, change, pause, purge, replay, delete."""

from __future__ import annotations

import http
from itertools import chain
from typing import Any

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer, json_progress
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, guid, text
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.control.server.resources.queue_properties import read_log_range, read_new_queue, read_properties
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.structures.status import DeletionPending, MQError, Status


def check_empty(queue: QueueSummary) -> None:
    """Check that a queue holds no messages, in its subqueues, its journal and open transactions neither.

    @raise MQError: MQ_ERROR_ILLEGAL_OPERATION, with their number.
    """
    aside = sum(subqueue.messages for subqueue in queue.subqueues)
    held = queue.messages + queue.uncommitted + queue.journal_messages + aside
    if held:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_OPERATION,
            f"{queue.path} holds {held} message(s), with its journal and its subqueues",
        )


class QueueResources:
    """The queues of the queue manager, and public queues of the enterprise."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager
        self._inspection = context.manager.inspection

    @app.route("/v1/queues", methods=["GET"])
    async def queues(self, request: ControlRequest) -> bytes | None:
        """Every queue; with C{system} those of the system too."""
        found = parameters(request)
        with_system = flag("system", found.pop("system", "false"))
        refuse_rest(found, "system")
        system = self._inspection.system_queues() if with_system else []
        return await self._context.listed(request, chain(self._inspection.each_queue(), system))

    @app.route("/v1/queues", methods=["POST"])
    async def create_queue(self, request: ControlRequest) -> bytes:
        """Create a queue with the properties in the body."""
        wanted = self._context.document(request)
        path = text("path", wanted.pop("path", None))
        options = read_new_queue(wanted)
        return await self._context.changed(
            request,
            AuditedOperation("queue create", path, options),
            lambda: self._manager.create_queue(path, **options),
            201,
        )

    @app.route("/v1/public_queues", methods=["GET"])
    async def public_queues(self, request: ControlRequest) -> bytes | None:
        """The public queues of the enterprise, by C{label}, C{type} and C{path}."""
        found = parameters(request)
        label, kind, path = (found.pop(name, None) for name in ("label", "type", "path"))
        refuse_rest(found, "label, type and path")
        queues = await running(
            self._inspection.public_queues(
                label=label, application_type=None if kind is None else guid("type", kind), path=path
            )
        )
        return await self._context.listed(request, queues)

    @app.route("/v1/queues/<path:path>", methods=["GET"])
    async def queue(self, request: ControlRequest, path: str) -> bytes:
        """One queue, with the extent of its message log."""
        without_parameters(request)
        queue = json_record(self._inspection.queue(path))
        extent = await running(self._inspection.log_extent(path))
        queue["log_extent"] = {
            "first": extent.first,
            "last": extent.last,
            "entries": extent.entries,
            "bytes": extent.size,
        }
        return json_answer(request, queue)

    @app.route("/v1/queues/<path:path>", methods=["PATCH"])
    async def set_queue(self, request: ControlRequest, path: str) -> bytes:
        """Change the properties in the body."""
        properties = read_properties(self._context.document(request))
        return await self._context.changed(
            request,
            AuditedOperation("queue set", path, properties),
            lambda: self._manager.set_queue(path, properties),
        )

    @app.route("/v1/queues/<path:path>/pause", methods=["POST"])
    async def pause_queue(self, request: ControlRequest, path: str) -> bytes:
        """Pause delivery to readers of one queue."""
        without_parameters(request)
        operation = AuditedOperation("queue pause", path)
        return await self._context.changed(request, operation, lambda: self._manager.pause_queue(path))

    @app.route("/v1/queues/<path:path>/resume", methods=["POST"])
    async def resume_queue(self, request: ControlRequest, path: str) -> bytes:
        """Let the receives from one paused queue go on."""
        without_parameters(request)
        operation = AuditedOperation("queue resume", path)
        return await self._context.changed(request, operation, lambda: self._manager.resume_queue(path))

    @app.route("/v1/queues/<path:path>/purge", methods=["POST"])
    async def purge_queue(self, request: ControlRequest, path: str) -> bytes | None:
        """Remove all messages in one queue; with C{progress} a line each second says how many are left."""
        found = parameters(request)
        with_progress = flag("progress", found.pop("progress", "false"))
        refuse_rest(found, "progress")
        purging = self._context.change(
            request, AuditedOperation("queue purge", path), lambda: self._manager.purge_queue(path)
        )
        if not with_progress:
            return json_answer(request, {"purged": await purging})

        def left() -> dict[str, Any]:
            return {"messages": self._inspection.queue(path).messages}

        return await json_progress(
            request, purging, left, lambda count: {"purged": count}, self._context.clock
        )

    @app.route("/v1/queues/<path:path>/replay", methods=["POST"])
    async def replay(self, request: ControlRequest, path: str) -> bytes:
        """Send copies of messages in the message log of one queue."""
        wanted = self._context.document(request)
        into = text("into", wanted.pop("into", None))
        part = read_log_range(wanted.pop("from", None), wanted.pop("to", None))
        options = {**attrs.asdict(part), "in_clear": flag("in_clear", wanted.pop("in_clear", False))}
        refuse_rest(wanted, "into, from, to and in_clear")
        count = await self._context.change(
            request,
            AuditedOperation("queue replay", path, {"into": into, **options}),
            lambda: self._manager.replay(path, into, **options),
        )
        return json_answer(request, {"replayed": count})

    @app.route("/v1/queues/<path:path>", methods=["DELETE"])
    async def delete_queue(self, request: ControlRequest, path: str) -> bytes:
        """Delete one queue and its messages; with C{if_empty} only a queue without messages.

        While the store fails the answer is 202 with C{pending}, the reason: the queue is deleted, and its
        removal from the store is retried.
        """
        found = parameters(request)
        if_empty = flag("if_empty", found.pop("if_empty", "false"))
        refuse_rest(found, "if_empty")

        async def delete() -> str | None:
            if if_empty:
                check_empty(self._inspection.queue(path))
            try:
                await self._manager.delete_queue(path)
            except DeletionPending as error:
                return error.detail
            return None

        pending = await self._context.change(request, AuditedOperation("queue delete", path), delete)
        if pending is None:
            return json_answer(request, {"deleted": path})
        return json_answer(request, {"deleted": path, "pending": pending}, http.HTTPStatus.ACCEPTED)
