"""The resources of the control API that are about other queue managers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.control.auditing import Audit, Operation
from msmq.control.members import Members
from msmq.control.requests import ControlRequest, parameters, refuse_rest
from msmq.control.responses import json_answer, json_list
from msmq.control.waiting import shielded
from msmq.interfaces.queue_manager import IQueueManager

_T = TypeVar("_T")


async def at_once(work: Callable[[], _T]) -> _T:
    """Work that needs no time, as an awaitable."""
    return work()


class TransferAPI:
    """Outgoing queues, sessions, and the control APIs of other members; a part of the whole API."""

    app = Klein()

    def __init__(self, manager: IQueueManager, clock: IReactorTime, members: Members) -> None:
        self._manager = manager
        self._clock = clock
        self._members = members
        self._audit = Audit(manager)

    def _change(
        self, request: ControlRequest, operation: Operation, work: Callable[[], Awaitable[_T]]
    ) -> Deferred[_T]:
        """Do something whatever becomes of the caller, and log the caller."""
        return shielded(self._audit.change(request.caller, operation, work))

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
        return await json_list(request, self._manager.outgoing(), self._clock)

    @app.route("/v1/outgoing/<path:name>", methods=["GET"])
    def outgoing_queue(self, request: ControlRequest, name: str) -> bytes:
        """One outgoing queue."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, dict(self._manager.outgoing_queue(name)))

    @app.route("/v1/outgoing/<path:name>/pause", methods=["POST"])
    async def pause_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Send nothing more from one outgoing queue."""
        refuse_rest(parameters(request), "none")
        queue = await self._change(
            request,
            Operation("outgoing pause", name),
            lambda: at_once(lambda: self._manager.pause_outgoing(name)),
        )
        return json_answer(request, dict(queue))

    @app.route("/v1/outgoing/<path:name>/resume", methods=["POST"])
    async def resume_outgoing(self, request: ControlRequest, name: str) -> bytes:
        """Send again from one outgoing queue."""
        refuse_rest(parameters(request), "none")
        queue = await self._change(
            request,
            Operation("outgoing resume", name),
            lambda: at_once(lambda: self._manager.resume_outgoing(name)),
        )
        return json_answer(request, dict(queue))

    @app.route("/v1/sessions", methods=["GET"])
    async def sessions(self, request: ControlRequest) -> bytes | None:
        """Every session."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, self._manager.sessions(), self._clock)
