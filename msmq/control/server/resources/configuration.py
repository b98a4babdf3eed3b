"""Resources about the configuration of the server: show, and reload."""

from __future__ import annotations

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.disconnection import next_reactor_turn
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.resources.context import ResourceContext, at_once, without_parameters
from msmq.control.server.server_configuration import ServerConfiguration

RELOAD = AuditedOperation("config reload", "configuration")


class ConfigurationResources:
    """The configuration of the server."""

    app = Klein()

    def __init__(self, context: ResourceContext, configuration: ServerConfiguration) -> None:
        self._context = context
        self._configuration = configuration

    @app.route("/v1/configuration", methods=["GET"])
    async def configuration(self, request: ControlRequest) -> bytes:
        """Every key with its value, where it is set, and what a reload would do now; secrets are left out."""
        without_parameters(request)
        following = await self._configuration.read_again()
        await next_reactor_turn(self._context.clock)
        return json_answer(request, json_record(self._configuration.report(following)))

    @app.route("/v1/reload", methods=["POST"])
    async def reload(self, request: ControlRequest) -> bytes:
        """Read the configuration again; an error changes nothing."""
        without_parameters(request)
        result = await self._context.change(request, RELOAD, lambda: at_once(self._configuration.reload))
        return json_answer(request, dict(result))
