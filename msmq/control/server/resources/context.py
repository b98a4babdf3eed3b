"""Context of the control API's resources, and their tree of paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

import attrs
from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule, RuleFactory

from msmq.control.authentication.audit import Audit, AuditedOperation
from msmq.control.server.http.answer_memory import AnswerMemory
from msmq.control.server.http.disconnection import shielded
from msmq.control.server.http.evaluation_shares import EvaluationShares
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
class AnswerContext:
    """Shared context of resources: the limits and the audit log.

    @ivar audit: records administrative changes with their callers.
    """

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

    def document(self, request: ControlRequest, limit: int | None = None) -> dict[str, Any]:
        """The JSON object in the body of a request that has no query parameters.

        @param limit: of the body in bytes; C{None} for that of all documents.
        @raise MQError: there are parameters, or the body is not a JSON object within the limits.
        """
        refuse_rest(parameters(request), "those in the request body")
        return json_body(request, self.limits.document if limit is None else limit)


@attrs.frozen
class ResourceContext(AnswerContext):
    """Shared context of the resources of a queue manager.

    @ivar memory: limits the packets in their answers.
    @ivar evaluations: limits the time for slow comparisons of messages.
    """

    manager: IQueueManager
    memory: AnswerMemory
    evaluations: EvaluationShares


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


ErrorHandler = Callable[[IRequest, Failure], Any]


class RouteTree:
    """The routes of several objects as one tree.

    The routes of these classes are compiled once in a process, and each tree is bound to its own objects.

    @ivar app: the routes, bound to this object.
    """

    app: Klein

    def __init__(
        self, families: Iterable[ResourceFamily], admit: Admit, unknown: ErrorHandler, failed: ErrorHandler
    ) -> None:
        self._apps = {type(family): family.app for family in families}
        self._admit = admit
        self._unknown = unknown
        self._failed = failed

    def answer(self, family: type, endpoint: str, route: str, request: IRequest, names: Any) -> Any:
        """Call the handler of a route if its caller is admitted."""
        self._admit(request, route)
        return self._apps[family].execute_endpoint(endpoint, request, **names)

    def refuse_unknown(self, request: IRequest, failure: Failure) -> Any:
        """Answer a request without a route."""
        return self._unknown(request, failure)

    def refuse(self, request: IRequest, failure: Failure) -> Any:
        """Answer a failed request."""
        return self._failed(request, failure)


def make_tree(
    families: Sequence[ResourceFamily], admit: Admit, unknown: ErrorHandler, failed: ErrorHandler
) -> Klein:
    """Join the routes of these objects in one tree, which has the only error handlers.

    @param admit: is asked before the handler of a route.
    @param unknown: answers a request for an unknown path, or with a method that its path does not have.
    @param failed: answers any other failure.
    """
    tree = _tree_of(tuple(type(family) for family in families))
    return tree(families, admit, unknown, failed).app


class _MatchedRule(Rule):
    """A route of which no URL is built.

    Werkzeug compiles code that builds URLs for each route, which takes longer than all else at the start of a
    server; no public setting omits it.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _no_url


def _no_url(*_: object, **__: object) -> tuple[str, str]:
    raise NotImplementedError("no URLs are built from the routes")


class _Routes(Map):
    """The map of a tree, which receives Klein's rules."""

    def add(self, rulefactory: RuleFactory) -> None:
        """See C{werkzeug.routing.Map.add}."""
        for rule in rulefactory.get_rules(self):
            super().add(_MatchedRule(rule.rule, endpoint=rule.endpoint, methods=rule.methods))


class _Tree(Klein):
    """An application with the map of a tree; Klein's constructor takes none."""

    def __init__(self) -> None:
        super().__init__()
        self._url_map = _Routes()


@cache
def _tree_of(families: tuple[type, ...]) -> type[RouteTree]:
    app = _Tree()
    for family in families:
        # Of the class, whose routes are bound to no object.
        for rule in family.app.url_map.iter_rules():  # type: ignore[attr-defined]
            name = f"{family.__name__}.{rule.endpoint}"
            app.route(rule.rule, methods=rule.methods, endpoint=name)(
                _handler(family, rule.endpoint, rule.rule)
            )
    app.handle_errors(HTTPException)(RouteTree.refuse_unknown)
    app.handle_errors(Exception)(RouteTree.refuse)
    return type("BoundRouteTree", (RouteTree,), {"app": app})


def _handler(family: type, endpoint: str, route: str) -> Callable[..., Any]:
    def handle(tree: RouteTree, request: IRequest, **names: Any) -> Any:
        return tree.answer(family, endpoint, route, request, names)

    return handle
