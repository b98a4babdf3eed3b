"""Resources about the dead-letter queues: list, requeue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer, json_stream
from msmq.control.server.messages.properties import number
from msmq.control.server.messages.queued_messages_json import dead_letter_of
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.structures.identifiers import MessageIdentifier

_LISTED: Final = 1000


class DeadLetterResources:
    """The messages in both dead-letter queues."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/v1/deadletters", methods=["GET"])
    async def dead_letters(self, request: ControlRequest) -> bytes | None:
        """The first messages of each dead-letter queue."""
        found = parameters(request)
        limit = number("limit", found.pop("limit", str(_LISTED)))
        refuse_rest(found, "limit")
        return await json_stream(request, self._messages(limit), self._context.clock)

    async def _messages(self, limit: int) -> AsyncIterator[dict[str, Any]]:
        async for place in self._manager.inspection.each_dead_letter(limit):
            yield dead_letter_of(place)

    @app.route("/v1/deadletters/<path:message>/requeue", methods=["POST"])
    async def requeue(self, request: ControlRequest, message: str) -> bytes:
        """Send one dead letter again."""
        without_parameters(request)
        dead = MessageIdentifier.parse(message)
        identifier = await self._context.change(
            request,
            AuditedOperation("deadletter requeue", str(dead), message=dead),
            lambda: self._manager.requeue(dead),
        )
        return json_answer(request, {"id": str(identifier)})
