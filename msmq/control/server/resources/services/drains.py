"""Resources about drains: list, show, begin, end, and the identifiers for the proof."""

from __future__ import annotations

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, number, text
from msmq.control.server.resources.context import ResourceContext, without_parameters

_PAGE = "1000"


class DrainResources:
    """Queues whose messages are moved to another queue manager."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._drains = context.manager.drains

    @app.route("/v1/drains", methods=["GET"])
    async def drains(self, request: ControlRequest) -> bytes | None:
        """All drains."""
        without_parameters(request)
        return await self._context.listed(request, self._drains.summaries())

    @app.route("/v1/drains/<path:path>", methods=["GET"])
    def drain(self, request: ControlRequest, path: str) -> bytes:
        """The drain of one queue."""
        without_parameters(request)
        return json_answer(request, json_record(self._drains.summary(path)))

    @app.route("/v1/drains/<path:path>", methods=["POST"])
    async def begin(self, request: ControlRequest, path: str) -> bytes:
        """Begin to drain one queue; no effect if it is drained to this destination already."""
        wanted = self._context.document(request)
        to = text("destination", wanted.pop("destination", None))
        in_clear = flag("in_clear", wanted.pop("in_clear", False))
        admin = wanted.pop("acknowledge_to", None)
        acknowledge_to = None if admin is None else text("acknowledge_to", admin)
        refuse_rest(wanted, "destination, in_clear and acknowledge_to")
        return await self._context.changed(
            request,
            AuditedOperation(
                "drain begin",
                path,
                {"destination": to, "in_clear": in_clear, "acknowledge_to": acknowledge_to},
            ),
            lambda: self._drains.begin(path, to, in_clear=in_clear, acknowledge_to=acknowledge_to),
        )

    @app.route("/v1/drains/<path:path>", methods=["DELETE"])
    async def end(self, request: ControlRequest, path: str) -> bytes:
        """End the drain of one queue; answers with its final figures."""
        without_parameters(request)
        return await self._context.changed(
            request, AuditedOperation("drain end", path), lambda: self._drains.end(path)
        )

    @app.route("/v1/drains/<path:path>/identifiers", methods=["GET"])
    def identifiers(self, request: ControlRequest, path: str) -> bytes:
        """The identifiers that moved messages have at the destination, without the first C{after}."""
        after, count = _page(request)
        return json_answer(request, {"identifiers": list(self._drains.identifiers(path, after, count))})


def _page(request: ControlRequest) -> tuple[int, int]:
    found = parameters(request)
    after, count = number("after", found.pop("after", "0")), number("count", found.pop("count", _PAGE))
    refuse_rest(found, "after and count")
    return after, count
