"""Resources about individual messages: explain, move."""

from __future__ import annotations

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, refuse_rest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.properties import text
from msmq.control.server.messages.queued_messages_json import explanation_of
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.structures.identifiers import MessageIdentifier


class MessageResources:
    """Messages by identifier, in any queue."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/v1/messages/<path:message>", methods=["GET"])
    async def explain(self, request: ControlRequest, message: str) -> bytes:
        """Everything known about one message."""
        without_parameters(request)
        explanation = await running(self._manager.inspection.explain(MessageIdentifier.parse(message)))
        return json_answer(request, explanation_of(explanation))

    @app.route("/v1/messages/<path:message>/move", methods=["POST"])
    async def move(self, request: ControlRequest, message: str) -> bytes:
        """Move one message to another queue."""
        wanted = self._context.document(request)
        queue = text("queue", wanted.pop("queue", None))
        refuse_rest(wanted, "queue")
        identifier = MessageIdentifier.parse(message)
        await self._context.change(
            request,
            AuditedOperation("move", str(identifier), {"queue": queue}, identifier),
            lambda: self._manager.move(identifier, queue),
        )
        return json_answer(request, {"id": str(identifier), "queue": queue})
