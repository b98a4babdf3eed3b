"""Resources about the routes to other brokers: list, show, pause, resume, test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import number
from msmq.control.server.resources.context import AnswerContext, at_once, without_parameters
from msmq.interfaces.bridges import BridgeRouteSummary, IBridges

MOST_TESTED: Final = 100
"""Limit on messages of one test."""

_TESTED: Final = 10


class BridgeResources:
    """The routes of the bridge."""

    app = Klein()

    def __init__(self, context: AnswerContext, bridges: IBridges) -> None:
        self._context = context
        self._bridges = bridges

    @app.route("/v1/bridges", methods=["GET"])
    async def bridges(self, request: ControlRequest) -> bytes | None:
        """All routes."""
        without_parameters(request)
        return await self._context.listed(request, self._bridges.summaries())

    @app.route("/v1/bridges/<name>", methods=["GET"])
    def bridge(self, request: ControlRequest, name: str) -> bytes:
        """One route."""
        without_parameters(request)
        return json_answer(request, json_record(self._bridges.summary(name)))

    @app.route("/v1/bridges/<name>/pause", methods=["POST"])
    async def pause(self, request: ControlRequest, name: str) -> bytes:
        """Pause a route until it is resumed, or the server restarts."""
        return await self._change(request, "bridge pause", name, self._bridges.pause)

    @app.route("/v1/bridges/<name>/resume", methods=["POST"])
    async def resume(self, request: ControlRequest, name: str) -> bytes:
        """Resume a route."""
        return await self._change(request, "bridge resume", name, self._bridges.resume)

    @app.route("/v1/bridges/<name>/test", methods=["POST"])
    async def test(self, request: ControlRequest, name: str) -> bytes:
        """Connect to the broker, and map the first C{count} messages without sending them."""
        found = parameters(request)
        count = number("count", found.pop("count", _TESTED))
        refuse_rest(found, "count")
        if count > MOST_TESTED:
            raise invalid(f"count is {count}; the limit is {MOST_TESTED}")
        return json_answer(request, list(await running(self._bridges.test(name, count))))

    async def _change(
        self, request: ControlRequest, operation: str, name: str, work: Callable[[str], BridgeRouteSummary]
    ) -> bytes:
        without_parameters(request)
        self._bridges.summary(name)
        return await self._context.changed(
            request, AuditedOperation(operation, name), lambda: at_once(lambda: work(name))
        )
