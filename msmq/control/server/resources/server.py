"""Resources about the queue manager itself, its sessions, the enterprise and the other control APIs."""

from __future__ import annotations

from uuid import UUID

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer, json_list, json_lists
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import guid, number, text
from msmq.control.server.resources.context import ResourceContext, at_once, without_parameters
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.interfaces.archive import IArchive
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.persistence.definition import UNLIMITED
from msmq.queues.machine_quota import QuotaKind
from msmq.routing.topology_description import describe_parts, describe_route
from msmq.structures.status import MQError
from msmq.wire.guid import format_guid


def session_close(manager: IQueueManager, identifier: UUID) -> AuditedOperation:
    """The closing of a session, with its peer if it has not ended yet."""
    try:
        session = manager.inspection.session(identifier)
    except MQError:
        return AuditedOperation("session close", format_guid(identifier))
    details = {"peer": session.remote_address, "direction": session.direction}
    return AuditedOperation("session close", format_guid(identifier), details)


class ServerResources:
    """The status and the quotas of the queue manager, its sessions, and the enterprise."""

    app = Klein()

    def __init__(
        self,
        context: ResourceContext,
        members: EstateMembers,
        archive: IArchive,
        configuration: ServerConfiguration,
    ) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._members = members
        self._archive = archive
        self._configuration = configuration

    @app.route("/v1/status", methods=["GET"])
    def status(self, request: ControlRequest) -> bytes:
        """The identity and the state of the queue manager."""
        without_parameters(request)
        record = json_record(self._inspection.status())
        if (archive := self._archive.summary()) is not None:
            record["archive"] = json_record(archive)
        if certificates := self._configuration.certificates():
            record["certificates"] = [json_record(each) for each in certificates]
        if tokens := self._configuration.tokens():
            record["tokens"] = [json_record(each) for each in tokens]
        return json_answer(request, record)

    @app.route("/v1/identity/keep", methods=["POST"])
    async def keep_identity(self, request: ControlRequest) -> bytes:
        """Decide that a queue manager that may be a clone is the original; answers with its status."""
        without_parameters(request)
        manager = self._context.manager
        operation = AuditedOperation("identity keep", str(self._inspection.status().identifier))
        return await self._context.changed(request, operation, lambda: at_once(manager.keep_identity))

    @app.route("/v1/quotas", methods=["GET"])
    def quotas(self, request: ControlRequest) -> bytes:
        """The quotas of all queues together, and their use."""
        without_parameters(request)
        return json_answer(request, json_record(self._inspection.status().quotas))

    @app.route("/v1/quotas", methods=["PATCH"])
    async def set_quotas(self, request: ControlRequest) -> bytes:
        """Set C{quota}, C{journal_quota} or both: kilobytes, null for no limit, or C{configuration}."""
        wanted = self._context.document(request)
        changes: dict[QuotaKind, int | None] = {}
        for kind in QuotaKind:
            if kind.value in wanted:
                value = wanted.pop(kind.value)
                changes[kind] = UNLIMITED if value is None else None
                if value is not None and value != "configuration":
                    changes[kind] = number(kind.value, value)
        refuse_rest(wanted, "quota and journal_quota")
        if not changes:
            raise invalid("name quota, journal_quota or both")
        shown = {kind.value: value for kind, value in changes.items()}
        return await self._context.changed(
            request,
            AuditedOperation("quota set", ".", shown),
            lambda: self._context.manager.set_quotas(changes),
        )

    @app.route("/v1/sessions", methods=["GET"])
    async def sessions(self, request: ControlRequest) -> bytes | None:
        """The sessions with other queue managers."""
        without_parameters(request)
        return await self._context.listed(request, self._inspection.each_session())

    @app.route("/v1/sessions/<identifier>", methods=["GET"])
    def session(self, request: ControlRequest, identifier: str) -> bytes:
        """One session."""
        without_parameters(request)
        return json_answer(request, json_record(self._inspection.session(guid("the session", identifier))))

    @app.route("/v1/sessions/<identifier>/close", methods=["POST"])
    async def close_session(self, request: ControlRequest, identifier: str) -> bytes:
        """End one session, and answer with its last state."""
        without_parameters(request)
        manager, session = self._context.manager, guid("the session", identifier)
        return await self._context.changed(
            request,
            session_close(manager, session),
            lambda: at_once(lambda: manager.close_session(session)),
        )

    @app.route("/v1/route", methods=["GET"])
    async def route(self, request: ControlRequest) -> bytes:
        """The route of a message between two queue managers."""
        found = parameters(request)
        source = text("source", found.pop("source", None))
        destination = text("destination", found.pop("destination", None))
        down = [name for name in text("down", found.pop("down", "")).split(",") if name]
        refuse_rest(found, "source, destination and down")
        found_route = await running(self._inspection.route(source, destination, down))
        return json_answer(request, describe_route(found_route.topology, found_route.route))

    @app.route("/v1/topology", methods=["GET"])
    async def topology(self, request: ControlRequest) -> None:
        """The enterprise, as routing sees it."""
        without_parameters(request)
        topology = await running(self._inspection.topology())
        await json_lists(request, describe_parts(topology), self._context.clock)

    @app.route("/v1/control_servers", methods=["GET"])
    async def control_servers(self, request: ControlRequest) -> bytes | None:
        """The control endpoints of other members, from the configuration and the directory."""
        without_parameters(request)
        members = [attrs.asdict(member) for member in self._members.all()]
        return await json_list(request, members, self._context.clock)

    @app.route("/v1/control_servers/<name>", methods=["GET"])
    def control_server(self, request: ControlRequest, name: str) -> bytes:
        """The control endpoint of one member; null is this queue manager itself."""
        without_parameters(request)
        return json_answer(request, attrs.asdict(self._members.find(name)))
