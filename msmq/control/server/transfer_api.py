"""The resources of the control API that are about other queue managers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import attrs
from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.control.authentication.audit import Audit, AuditedOperation
from msmq.control.server.disconnection import shielded
from msmq.control.server.estate_members import EstateMembers
from msmq.control.server.json_records import json_record, json_records
from msmq.control.server.limits import ControlLimits
from msmq.control.server.properties import flag, text
from msmq.control.server.requests import ControlRequest, json_body, parameters, refuse_rest
from msmq.control.server.responses import json_answer, json_list
from msmq.interfaces.queue_manager import IQueueManager
from msmq.structures.status import MQError, Status

_T = TypeVar("_T")


async def at_once(work: Callable[[], _T]) -> _T:
    """Work that needs no time, as an awaitable."""
    return work()


Reload = Callable[[], Mapping[str, Any]]
"""Reads the configuration again, and returns what changed; raises L{MQError} if it cannot be used."""


class TransferAPI:
    """Outgoing queues, sessions, and the control APIs of other members; a part of the whole API."""

    app = Klein()

    def __init__(
        self,
        manager: IQueueManager,
        limits: ControlLimits,
        clock: IReactorTime,
        members: EstateMembers,
        reload: Reload,
    ) -> None:
        self._reload = reload
        self._manager = manager
        self._limits = limits
        self._clock = clock
        self._members = members
        self._audit = Audit(manager)

    def _change(
        self, request: ControlRequest, operation: AuditedOperation, work: Callable[[], Awaitable[_T]]
    ) -> Deferred[_T]:
        """Do something whatever becomes of the caller, and log the caller."""
        return shielded(self._audit.change(request.caller, operation, work))

    @app.route("/v1/reload", methods=["POST"])
    async def reload(self, request: ControlRequest) -> bytes:
        """Read the configuration again; an error changes nothing."""
        refuse_rest(parameters(request), "none")

        async def work() -> Mapping[str, Any]:
            return self._reload()

        result = await self._change(request, AuditedOperation("config reload", "configuration"), work)
        return json_answer(request, dict(result))

    @app.route("/v1/control_servers", methods=["GET"])
    async def control_servers(self, request: ControlRequest) -> bytes | None:
        """The control endpoints of other members, as the configuration and the directory have them."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, [attrs.asdict(member) for member in self._members.all()], self._clock)

    @app.route("/v1/control_servers/<name>", methods=["GET"])
    def control_server(self, request: ControlRequest, name: str) -> bytes:
        """The control endpoint of one member; null is this queue manager itself."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, attrs.asdict(self._members.find(name)))

    @app.route("/v1/outgoing", methods=["GET"])
    async def outgoing(self, request: ControlRequest) -> bytes | None:
        """Every outgoing queue."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, json_records(self._manager.inspection.outgoing()), self._clock)

    @app.route("/v1/outgoing/<path:name>", methods=["GET"])
    def outgoing_queue(self, request: ControlRequest, name: str) -> bytes:
        """One outgoing queue."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, json_record(self._manager.inspection.outgoing_queue(name)))

    @app.route("/v1/outgoing/<path:name>/pause", methods=["POST"])
    async def pause_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Send nothing more from one outgoing queue."""
        refuse_rest(parameters(request), "none")
        queue = await self._change(
            request,
            AuditedOperation("outgoing pause", name),
            lambda: self._manager.pause_outgoing(name),
        )
        return json_answer(request, json_record(queue))

    @app.route("/v1/outgoing/<path:name>/resume", methods=["POST"])
    async def resume_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Send again from one outgoing queue."""
        refuse_rest(parameters(request), "none")
        queue = await self._change(
            request,
            AuditedOperation("outgoing resume", name),
            lambda: self._manager.resume_outgoing(name),
        )
        return json_answer(request, json_record(queue))

    @app.route("/v1/outgoing/<path:name>/redirect", methods=["POST"])
    async def redirect_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Send to another address than the one in the name, or, with null, end that."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        if "to" not in wanted:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER, "the key to is missing: an address, or null to end it"
            )
        value = wanted.pop("to")
        to = None if value is None else text("to", value)
        refuse_rest(wanted, "to")
        queue = await self._change(
            request,
            AuditedOperation("outgoing redirect", f"{name} to {to or 'the address in the name'}"),
            lambda: self._manager.redirect_outgoing(name, to),
        )
        return json_answer(request, json_record(queue))

    @app.route("/v1/outgoing/pause", methods=["POST"])
    async def pause_several(self, request: ControlRequest) -> bytes | None:
        """Send nothing more to one next hop, or to any other queue manager."""
        host = self._several(request)
        if host is None:
            queues = await self._change(
                request, AuditedOperation("outgoing pause", "all"), self._manager.pause_all_outgoing
            )
        else:
            queues = await self._change(
                request,
                AuditedOperation("outgoing pause", f"next hop {host}"),
                lambda: self._manager.pause_next_hop(host),
            )
        return await json_list(request, json_records(queues), self._clock)

    @app.route("/v1/outgoing/resume", methods=["POST"])
    async def resume_several(self, request: ControlRequest) -> bytes | None:
        """End that."""
        host = self._several(request)
        if host is None:
            queues = await self._change(
                request, AuditedOperation("outgoing resume", "all"), self._manager.resume_all_outgoing
            )
        else:
            queues = await self._change(
                request,
                AuditedOperation("outgoing resume", f"next hop {host}"),
                lambda: self._manager.resume_next_hop(host),
            )
        return await json_list(request, json_records(queues), self._clock)

    def _several(self, request: ControlRequest) -> str | None:
        """The next hop that the body names; C{None} for all."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        if "next_hop" in wanted:
            host = text("next_hop", wanted.pop("next_hop"))
            refuse_rest(wanted, "next_hop, or all")
            return host
        if flag("all", wanted.pop("all", False)) is not True:
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, "name a next_hop, or say all: true")
        refuse_rest(wanted, "next_hop, or all")
        return None

    @app.route("/v1/sessions", methods=["GET"])
    async def sessions(self, request: ControlRequest) -> bytes | None:
        """Every session."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, json_records(self._manager.inspection.sessions()), self._clock)
