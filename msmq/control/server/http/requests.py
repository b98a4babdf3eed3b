"""Request bodies within their limits: kept in memory, or taken in as they arrive."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote_to_bytes

from twisted.web.server import Request

from msmq.control.authentication.callers import Caller, caller_of
from msmq.control.protocol.records import CONTENT_TYPE, json_problem
from msmq.control.protocol.refusals import http_status, invalid, refusal, too_large, wrong_content
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.responses import json_answer
from msmq.control.server.sending.pipeline import PausableSource
from msmq.control.server.sending.request_body import SendBody
from msmq.quoting import quoted

_STREAM: Final = b"/v1/send"


class BoundedContent(io.BytesIO):
    """A request body up to a limit; all of a longer one is dropped.

    @ivar is_over: whether it was longer.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self.is_over = False

    def write(self, data: Any, /) -> int:
        """Keep the next bytes."""
        if self.is_over or super().tell() + len(data) > self._limit:
            self.is_over = True
            self.seek(0)
            self.truncate()
            return len(data)
        return super().write(data)

    def tell(self) -> int:
        """0, so that the HTTP server looks for no form in it: curl calls every body one."""
        return 0


class Connection(PausableSource, Protocol):
    """What a request needs of the transport that it came over; sockets of every kind have it."""

    def abortConnection(self) -> None:
        """Close without writing what is still to be written."""


class RequestSite(Protocol):
    """What a request needs of the factory of its connection.

    @ivar limits: how much one request may carry.
    """

    limits: ControlLimits

    def send_body(self, source: PausableSource) -> SendBody:
        """Where the stream of records goes that begins to arrive from a connection."""


class ControlRequest(Request):
    """A request to send a stream of records goes to the queue manager while it arrives.

    @ivar token_name: what the token is called that it has shown, where one is wanted.
    """

    content: BoundedContent | SendBody
    token_name = ""

    @property
    def connection(self) -> Connection:
        """The transport that the request came over."""
        return cast(Connection, self.transport)

    @property
    def caller(self) -> Caller:
        """The caller."""
        return caller_of(self.transport, self.token_name)

    def gotLength(self, length: int | None) -> None:
        """The headers are in: choose where the body goes."""
        site: RequestSite = vars(self.channel)["site"]
        if _content_type(self) == CONTENT_TYPE and self._is_for_stream():
            self.content = site.send_body(self.connection)
        else:
            self.content = BoundedContent(site.limits.request_body)

    def _is_for_stream(self) -> bool:
        """Whether it goes to the one resource that takes what arrives before it has answered.

        The request says that itself only once it is whole; until then its channel knows.
        """
        head = vars(self.channel)
        path = unquote_to_bytes(head["_path"].partition(b"?")[0])
        return (head["_command"], path) == (b"POST", _STREAM)

    def process(self) -> None:
        """The request is whole: answer it."""
        try:
            unquote_to_bytes(self.path).decode("utf-8")
        except UnicodeDecodeError:
            # What finds the resource would answer that in words of its own, and log a traceback.
            error = invalid("the path is not UTF-8")
            self.write(json_answer(self, refusal(error), http_status(error)))  # type: ignore[no-untyped-call]
            self.finish()  # type: ignore[no-untyped-call]
        else:
            super().process()  # type: ignore[no-untyped-call]

    def getRequestHostname(self) -> bytes:
        """The same for everybody: no resource depends on it, and some that callers write are no names."""
        return b"localhost"

    def handleContentChunk(self, data: bytes) -> None:
        """Some of the body is in."""
        self.content.write(data)
        # Being slow to take the body in is no idleness of the client.
        self.channel.resetTimeout()


def _content_type(request: Request) -> str:
    header = request.requestHeaders.getRawHeaders("content-type", [""])[0]
    return header.split(";")[0].strip().lower()


def raw_body(request: ControlRequest, limit: int) -> bytes:
    """The whole body.

    @raise ControlError: it is over the limit, or a stream of records.
    """
    content = request.content
    if isinstance(content, SendBody) or _content_type(request) == CONTENT_TYPE:
        raise wrong_content(CONTENT_TYPE, "one message; POST /v1/send takes many")
    body = content.getvalue()
    if content.is_over or len(body) > limit:
        raise too_large("the request body", limit)
    return body


def json_body(request: ControlRequest, limit: int) -> dict[str, Any]:
    """The object that the body holds; an empty body is an empty object.

    @raise MQError: it is over the limit or no object.
    """
    body = raw_body(request, limit)
    try:
        value = json.loads(body.decode("utf-8")) if body else {}
    except (ValueError, RecursionError) as error:
        raise invalid(f"the request body is not JSON: {json_problem(error)}") from None
    if not isinstance(value, dict):
        raise invalid("the request body is not a JSON object")
    return value


def record_body(request: ControlRequest) -> SendBody:
    """The stream of records that the body is.

    @raise ControlError: its type says something else.
    """
    if not isinstance(request.content, SendBody):
        raise wrong_content(_content_type(request), CONTENT_TYPE)
    return request.content


def parameters(request: Request) -> dict[str, str]:
    """The query parameters.

    @raise MQError: one is there twice, or not UTF-8.
    """
    found = {}
    arguments: Mapping[bytes, list[bytes]] = request.args
    for name, values in arguments.items():
        try:
            key, value = name.decode("utf-8"), values[-1].decode("utf-8")
        except UnicodeDecodeError:
            raise invalid(f"the query parameter {quoted(name)} is not UTF-8") from None
        if len(values) > 1:
            raise invalid(f"the query parameter {key} is there {len(values)} times")
        found[key] = value
    return found


def take(found: dict[str, str], name: str) -> str:
    """Remove a parameter that must be there.

    @raise MQError: it is not.
    """
    if not found.get(name):
        raise invalid(f"the query parameter {name} is missing")
    return found.pop(name)


def refuse_rest(found: Mapping[str, object], known: str) -> None:
    """Refuse unknown parameters.

    @raise MQError: something is left.
    """
    for name in found:
        raise invalid(f"there is no parameter {quoted(name)} here, only {known}")


def wants_json(request: Request) -> bool:
    """Whether the caller explicitly requests JSON."""
    return "application/json" in str(request.getHeader("accept") or "").lower()
