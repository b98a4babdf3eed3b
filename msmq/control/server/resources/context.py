"""Context of the control API's resources, and their tree of paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

import attrs
from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.web.iweb import IRequest

from msmq.control.authentication.audit import Audit, AuditedOperation
from msmq.control.server.http.disconnection import shielded
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.requests import ControlRequest, json_body, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer, json_list
from msmq.control.server.messages.json_records import json_record
from msmq.interfaces.manager.queue_manager import IQueueManager

_T = TypeVar("_T")


async def at_once(work: Callable[[], _T]) -> _T:
    """Wrap a synchronous result as an awaitable."""
    return work()


@attrs.frozen
class ResourceContext:
    """Shared context of the resources: the queue manager, the limits and the audit log.

    @ivar audit: records administrative changes with their callers.
    """

    manager: IQueueManager
    limits: ControlLimits
    clock: IReactorTime
    audit: Audit

    def change(
        self, request: ControlRequest, operation: AuditedOperation, work: Callable[[], Awaitable[_T]]
    ) -> Deferred[_T]:
        """Perform a change, even if the client disconnects, and record its caller."""
        return shielded(self.audit.change(request.caller, operation, work))

    async def changed(
        self,
        request: ControlRequest,
        operation: AuditedOperation,
        work: Callable[[], Awaitable[object]],
        code: int = 200,
    ) -> bytes:
        """Perform a change, and answer with its result, an attrs value, as a JSON object."""
        return json_answer(request, json_record(await self.change(request, operation, work)), code)

    async def listed(self, request: ControlRequest, values: Iterable[object]) -> bytes | None:
        """Answer with a JSON array of attrs values, which are taken and converted slice by slice."""
        return await json_list(request, map(json_record, values), self.clock)

    def document(self, request: ControlRequest) -> dict[str, Any]:
        """The JSON object in the body of a request that has no query parameters.

        @raise MQError: there are parameters, or the body is not a JSON object within the limits.
        """
        refuse_rest(parameters(request), "those in the request body")
        return json_body(request, self.limits.document)


def without_parameters(request: ControlRequest) -> None:
    """Check that a request has no query parameters.

    @raise MQError: it has one.
    """
    refuse_rest(parameters(request), "none")


class ResourceFamily(Protocol):
    """A family of resources; its routes are methods of the class."""

    @property
    def app(self) -> Klein:
        """The routes, bound to this object."""


Admit = Callable[[IRequest, str], None]
"""Decides on a request for a route, given as it is declared; raises L{MQError} to refuse it."""


def add_resources(tree: Klein, families: Iterable[ResourceFamily], admit: Admit) -> None:
    """Add the routes of these objects to one tree, which has the only error handlers.

    @param admit: is asked before the handler of a route.
    """
    for family in families:
        app = family.app
        for rule in app.url_map.iter_rules():
            name = f"{type(family).__name__}.{rule.endpoint}"
            tree.route(rule.rule, methods=rule.methods, endpoint=name)(
                _handler(app, rule.endpoint, rule.rule, admit)
            )


def _handler(app: Klein, endpoint: str, route: str, admit: Admit) -> Callable[..., Any]:
    def handle(request: IRequest, **names: Any) -> Any:
        admit(request, route)
        return app.execute_endpoint(endpoint, request, **names)

    return handle
