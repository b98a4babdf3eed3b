"""HTTP requests of the control API, with limits on their bodies."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote_to_bytes

from twisted.python.failure import Failure
from twisted.web.server import Request

from msmq.control.authentication.callers import Caller, caller_of
from msmq.control.authentication.roles import Role, required_role
from msmq.control.protocol.records import CONTENT_TYPE, json_problem, parse_json
from msmq.control.protocol.refusals import (
    http_status,
    invalid,
    no_longer_admitted,
    refusal,
    too_large,
    wrong_content,
)
from msmq.control.server.http.headers import header_value, header_values
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.request_memory import RequestMemory
from msmq.control.server.http.responses import json_answer
from msmq.control.server.sending.pipeline import PausableSource
from msmq.control.server.sending.request_body import SendBody
from msmq.quoting import quoted
from msmq.structures.status import MQError

_STREAM: Final = "/v1/send"


class BoundedContent(io.BytesIO):
    """Buffer of a request body; a body over the limit is dropped as a whole.

    @ivar is_over: whether the body exceeded the limit.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self.is_over = False

    def write(self, data: Any, /) -> int:
        """Buffer the next bytes."""
        if self.is_over or super().tell() + len(data) > self._limit:
            self.is_over = True
            self.seek(0)
            self.truncate()
            return len(data)
        return super().write(data)

    def tell(self) -> int:
        """Return 0, so that the HTTP server does not parse a form: curl labels every body as one."""
        return 0


class Connection(PausableSource, Protocol):
    """Interface of the transport of a request, which all socket transports provide."""

    def abortConnection(self) -> None:
        """Close and discard unwritten bytes."""


class RequestSite(Protocol):
    """Interface of the factory of a request's connection.

    @ivar limits: limits on request bodies.
    @ivar request_memory: memory of all incomplete bodies together.
    @ivar reader_memory: the same for callers that may only read.
    @ivar role_without_token: the rights of a caller whose connection authenticates it, as a unix socket does.
    """

    @property
    def role_without_token(self) -> Role | None:
        """See above."""

    limits: ControlLimits
    request_memory: RequestMemory
    reader_memory: RequestMemory

    def send_body(self, source: PausableSource) -> SendBody | None:
        """Create the consumer of a stream of records in a request body; C{None} if there is none."""


class ControlRequest(Request):
    """Request to the control API; the body of a send stream goes to the queue manager while it arrives.

    @ivar token_name: the name of the request's token, where one is required.
    @ivar role: the rights of its caller; C{None} for none.
    """

    content: BoundedContent | SendBody
    token_name = ""
    role: Role | None = None
    _has_body = False

    @property
    def connection(self) -> Connection:
        """The transport of the request."""
        return cast(Connection, self.transport)

    @property
    def caller(self) -> Caller:
        """The caller."""
        return caller_of(self.transport, self.token_name)

    @property
    def account(self) -> Hashable:
        """The caller as limits count it: a user of the unix socket, a token from any address and with or
        without a browser's session, or an address without a token.
        """
        caller = self.caller
        return caller.address if caller.uid is None else caller.uid

    @property
    def _site(self) -> RequestSite:
        site: RequestSite = vars(self.channel)["site"]
        return site

    @property
    def role_of_body(self) -> Role | None:
        """The rights of the caller whose body this is."""
        return self.role

    @property
    def _memory(self) -> RequestMemory:
        """The memory of its body. A caller that may only read can hold up others of its kind alone."""
        role = self.role_of_body
        is_reader = role is None or role < Role.OPERATOR
        return self._site.reader_memory if is_reader else self._site.request_memory

    def gotLength(self, length: int | None) -> None:
        """Choose the consumer of the body when the headers are complete."""
        site = self._site
        if self.role is None:
            self.role = site.role_without_token
        # The messages of a stream are sent while it arrives.
        body = None
        if _content_type(self) == CONTENT_TYPE and self._is_for_stream() and self.may("POST", _STREAM):
            body = site.send_body(self.connection)
        self.content = BoundedContent(site.limits.request_body) if body is None else body

    def may(self, method: str, route: str) -> bool:
        """Whether the role of the caller suffices for a route of the API."""
        return self.role is not None and self.role >= required_role(method, route)

    def is_current(self) -> bool:
        """Whether the caller still has its role; for a response that lasts."""
        return self.role is not None

    def finish(self) -> None:
        """The response is complete: the body is no longer needed."""
        # A request that has lost its connection has no channel, and has released it then.
        if self.channel is not None:
            self._memory.release(self)
        super().finish()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure) -> None:
        """The connection is lost before the response is complete."""
        self._memory.release(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def _is_for_stream(self) -> bool:
        """Whether the request is for the resource that consumes a stream of records.

        The request has no path before it is complete; the channel has it.
        """
        head = vars(self.channel)
        path = unquote_to_bytes(head["_path"].partition(b"?")[0])
        return (head["_command"], path) == (b"POST", _STREAM.encode("ascii"))

    def process(self) -> None:
        """Answer the complete request."""
        error = self._problem()
        if error is None:
            super().process()  # type: ignore[no-untyped-call]
        else:
            self.write(json_answer(self, refusal(error), http_status(error)))  # type: ignore[no-untyped-call]
            self.finish()

    def _problem(self) -> MQError | None:
        """Why it is refused before its resource is looked up."""
        if self._has_body and self.role is not None and not self.is_current():
            # A body may arrive so slowly that the token is removed before its end.
            return no_longer_admitted()
        try:
            unquote_to_bytes(self.path).decode("utf-8")
        except UnicodeDecodeError:
            # Klein would answer this with its own text and log a traceback.
            return invalid("the path is not UTF-8")
        return None

    def getRequestHostname(self) -> bytes:
        """A constant: no resource depends on it, and the C{Host} header may be invalid."""
        return b"localhost"

    def handleContentChunk(self, data: bytes) -> None:
        """Receive a part of the body."""
        if isinstance(self.content, SendBody) and not self.is_current():
            self.content.refuse(no_longer_admitted())
        self.content.write(data)
        memory = self._memory
        if isinstance(self.content, BoundedContent):
            self._has_body = True
            if self.content.is_over:
                memory.release(self)
            else:
                memory.take(self, self.connection, len(data))
        # A slow consumer must not make the client's connection time out as idle.
        self.channel.resetTimeout()


def _content_type(request: Request) -> str:
    header = next(iter(header_values(request, "content-type")), "")
    return header.split(";")[0].strip().lower()


def raw_body(request: ControlRequest, limit: int) -> bytes:
    """The complete body.

    @raise ControlError: the body is over the limit, or a stream of records.
    """
    content = request.content
    if isinstance(content, SendBody) or _content_type(request) == CONTENT_TYPE:
        raise wrong_content(CONTENT_TYPE, "one message; POST /v1/send takes many")
    body = content.getvalue()
    if content.is_over or len(body) > limit:
        raise too_large("the request body", limit)
    return body


def json_body(request: ControlRequest, limit: int) -> dict[str, Any]:
    """Parse the body as a JSON object; an empty body is an empty object.

    @raise MQError: the body is over the limit, or not a JSON object.
    """
    body = raw_body(request, limit)
    try:
        value = parse_json(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise invalid(f"the request body is not JSON: {json_problem(error)}") from None
    if not isinstance(value, dict):
        raise invalid("the request body is not a JSON object")
    return value


def record_body(request: ControlRequest) -> SendBody:
    """The consumer of the body's stream of records.

    @raise ControlError: the body has another content type.
    """
    if not isinstance(request.content, SendBody):
        raise wrong_content(_content_type(request), CONTENT_TYPE)
    return request.content


def parameters(request: Request) -> dict[str, str]:
    """The query parameters.

    @raise MQError: a parameter is repeated, or not UTF-8.
    """
    found = {}
    arguments: Mapping[bytes, list[bytes]] = request.args
    for name, values in arguments.items():
        try:
            key, value = name.decode("utf-8"), values[-1].decode("utf-8")
        except UnicodeDecodeError:
            raise invalid(f"the query parameter {quoted(name)} is not UTF-8") from None
        if len(values) > 1:
            raise invalid(f"the query parameter {key} is given {len(values)} times")
        found[key] = value
    return found


def take(found: dict[str, str], name: str) -> str:
    """Remove and return a required parameter.

    @raise MQError: the parameter is missing.
    """
    if not found.get(name):
        raise invalid(f"the query parameter {name} is missing")
    return found.pop(name)


def refuse_rest(found: Mapping[str, object], known: str) -> None:
    """Refuse unknown parameters.

    @raise MQError: unknown parameters remain.
    """
    for name in found:
        raise invalid(f"there is no parameter {quoted(name)} here, only {known}")


def wants_json(request: Request) -> bool:
    """Whether the caller explicitly requests JSON."""
    return "application/json" in header_value(request, "accept").lower()
