"""The control API, on connections that send requests which are valid but for a part."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport

from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, WITH_RUNS, StreamRecord
from msmq.control.server.description.operation import ApiOperation
from msmq.control.server.description.operations import OPERATIONS
from msmq.control.server.factory import make_site
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.queues.arriving.message import Message
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA
from tests.control.support import ORDERS, Answer, Caller
from tests.fuzz.changing import changed
from tests.fuzz.finding import expect
from tests.fuzz.observed_log import without_failures
from tests.nodes.support import Node

ROUTES: Final = sorted(OPERATIONS)
PRACTICE: Final = ".\\private$\\practice"
NAMES: Final = (
    ORDERS,
    PRACTICE,
    ".\\system$;deadletter",
    f"{ORDERS};journal",
    f"DIRECT=TCP:127.0.0.2{ORDERS[1:]}",
    "DIRECT=OS:nowhere\\private$\\q",
    f"{{{ALPHA}}}\\1",
    "ALPHA",
    "1",
    "default",
    str(ALPHA),
    "S-1-1-0",
)
"""What a path, and a text, may name; the last ones are no queues."""
WAITS: Final = (0.1, 1.0, 15.0, 70.0)
MOST_STEPS: Final = 12
_PART: Final = re.compile(r"<(?:\w+:)?\w+>")


class _Input:
    """The bytes of an input, one after the other; zeros at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_over(self) -> bool:
        return self._position >= len(self._data)

    def byte(self) -> int:
        """The next one."""
        return (self.take(1) or b"\0")[0]

    def take(self, count: int) -> bytes:
        """The next ones, as far as there are any."""
        self._position += count
        return self._data[self._position - count : self._position]

    def change(self) -> bytes:
        """Of a request, if it has one."""
        return self.take(4) if self.byte() & 1 else b""


def _value(schema: Any, data: _Input, depth: int = 0) -> Any:
    """A value of a schema, or now and then of another."""
    number = data.byte()
    if number >= 0xF0:
        return (None, True, -1, 0xFFFFFFFF, 1 << 70, 0.5, "", "x" * 70_000, [], {}, ["\ud800"], {"a": 1})[
            number % 12
        ]
    if "anyOf" in schema or "oneOf" in schema:
        options = schema.get("anyOf") or schema["oneOf"]
        return _value(options[number % len(options)], data, depth + 1)
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = kind[number % len(kind)]
    match kind:
        case "integer":
            return number
        case "number":
            return number / 8
        case "boolean":
            return bool(number & 1)
        case "null":
            return None
        case "array":
            return (
                [_value(schema.get("items", {}), data, depth + 1) for _ in range(number % 3)]
                if depth < 6
                else []
            )
        case "object":
            return _object(schema, data, depth)
        case _:
            return NAMES[number % len(NAMES)]


def _object(schema: Any, data: _Input, depth: int) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        name: _value(of, data, depth + 1)
        for name, of in schema.get("properties", {}).items()
        if depth < 6 and (name in required or data.byte() & 1)
    }


def _request(data: _Input) -> bytes:
    """One request of the description, with parameters and a body that suit it."""
    method, rule = ROUTES[data.byte() % len(ROUTES)]
    operation: ApiOperation = OPERATIONS[method, rule]
    target = _PART.sub(lambda _: quote(NAMES[data.byte() % len(NAMES)], safe=""), rule)
    query = {
        name: _value(schema, data)
        for name, schema in operation.query.items()
        if name in operation.required or data.byte() & 1
    }
    if query:
        pairs = {
            name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()
        }
        target += "?" + urlencode(
            {name: str(value).encode("utf-8", "replace") for name, value in pairs.items()}
        )
    body, kind = b"", ""
    if operation.body is not None:
        body, kind = json.dumps(_value(operation.body, data)).encode("ascii"), "application/json"
    elif operation.raw_body == CONTENT_TYPE:
        body, kind = _records(data), CONTENT_TYPE
    elif operation.raw_body:
        body, kind = data.take(data.byte()), operation.raw_body
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    if kind:
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _records(data: _Input) -> bytes:
    """Messages of a stream, one of which may be wrong."""
    records = []
    for _ in range(data.byte() % 4):
        header: dict[str, Any] = {"destination": f"DIRECT=OS:.{NAMES[data.byte() % 2][1:]}"}
        if data.byte() & 1:
            header["label"] = "label"
        records.append(changed(StreamRecord(header, data.take(data.byte() & 15)).to_bytes(), data.change()))
    return b"".join(records)


class _Transport(StringTransport):
    """As one of the reactor, which has no objection to C{unregisterProducer} without a producer."""

    def unregisterProducer(self) -> None:
        self.producer = None


class _Api:
    """A queue manager with two queues, one of which has messages, and its control API."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        node = Node(
            Network(self.clock.reactor),
            self.clock,
            "ALPHA",
            ALPHA,
            SessionSettings(),
            MemoryMessageStore(durable=True),
        )
        node.start()
        self.service = node.service
        self.site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=EstateMembers(("ALPHA", "alpha.example.com"), {}, None),
            clock=self.clock.reactor,
        )
        for path in (ORDERS, PRACTICE):
            Deferred.fromCoroutine(self.service.create_queue(path, transactional=path == PRACTICE))
        Deferred.fromCoroutine(
            self.service.send(ORDERS, [Message(body=b"%d" % number) for number in range(3)])
        )
        self.clock.advance(0)

    def caller(self) -> Caller:
        """One more connection."""
        return Caller(self.site, self.clock, transport=_Transport())


def control_requests(data: bytes) -> None:
    """Each request has an answer that is not an internal error, and others are served.

    The first byte of a step says whether a new connection is used, and what is done on it.
    """
    read = _Input(data)
    with without_failures():
        api = _Api()
        callers = [api.caller()]
        for _ in range(MOST_STEPS):
            if read.is_over:
                break
            kind = read.byte()
            if kind & 0x80 or callers[-1].transport.disconnecting:
                callers.append(api.caller())
            _take_step(api, callers, kind & 0x7F, read)
        for caller in callers:
            _check_answers(caller.transport.value())
            caller.hang_up()
        api.clock.advance(120)
        honest = api.caller()
        honest.ask("GET", "/v1/status")
        expect(honest.answer.status == 200, "the next caller is answered")
        honest.hang_up()
        api.service.stopService()
        api.clock.advance(0)


def _take_step(api: _Api, callers: list[Caller], kind: int, read: _Input) -> None:
    caller = callers[-1]
    steps: tuple[Callable[[], object], ...] = (
        lambda: caller.feed(changed(_request(read), read.change())),
        lambda: caller.feed(_request(read)),
        lambda: caller.feed(_request(read)[: read.byte() * 2]),
        lambda: caller.feed(read.take(read.byte() & 63)),
        lambda: caller.feed(_upgrade(read) + changed(_records(read), read.change())),
        lambda: caller.feed(changed(_records(read), read.change())),
        lambda: api.clock.advance(WAITS[read.byte() % len(WAITS)]),
        lambda: callers.append(api.caller()),
    )
    steps[kind % len(steps)]()


def _upgrade(read: _Input) -> bytes:
    """A request for a connection of records in both directions."""
    way = ("send", "receive")[read.byte() & 1]
    query = (
        ""
        if way == "send"
        else "?" + urlencode({"queue": NAMES[read.byte() % 3], "timeout": read.byte() / 16})
    )
    return (
        f"GET /v1/{way}{query} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        f"Upgrade: {WITH_RUNS}, {PROTOCOL}\r\n\r\n"
    ).encode("ascii")


def _check_answers(data: bytes) -> None:
    """The answers begin as HTTP has it, and the first is no internal error."""
    if not data:
        return
    try:
        answer = Answer(data)
    except (http.client.HTTPException, ValueError) as error:
        expect(False, f"an answer can be read: {error!r}")
    else:
        expect(answer.status != http.client.INTERNAL_SERVER_ERROR, "no request causes an internal error")
