"""A queue manager with its control API, on a transport in memory, driven by one clock."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode
from uuid import UUID

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import Site

from msmq.bounded_evaluation import BoundedInterpreter
from msmq.control.protocol.records import CONTENT_TYPE, RecordDecoder, StreamRecord
from msmq.control.server.factory import make_site
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration, ServerConfiguration
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.storage import DamagedMessageKept, LogEntry, StorageError
from msmq.persistence.changes import Change
from msmq.queues.arriving.message import Message
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA
from tests.nodes.support import Node

T = TypeVar("T")

ORDERS = ".\\private$\\orders"
DEAD_LETTERS = ".\\system$;deadletter"


def resource(kind: str, name: str, action: str = "") -> str:
    """The path of one of several resources, C{queues} for example, or of what can be done with it."""
    return f"/v1/{kind}/{quote(name, safe='')}" + (f"/{action}" if action else "")


def slow_comparisons(test: SynchronousTestCase, clock: ManualClock) -> None:
    """Let each comparison of a message with an expression take 0.6 s."""
    evaluate = BoundedInterpreter.evaluate

    def slow(interpreter: BoundedInterpreter, parsed: Any, value: object) -> Any:
        clock.reactor.rightNow += 0.6
        return evaluate(interpreter, parsed, value)

    test.patch(BoundedInterpreter, "evaluate", slow)


class Answer:
    """One HTTP response, read by the standard library's client.

    @ivar is_whole: whether it has come to its end.
    """

    def __init__(self, data: bytes) -> None:
        response = http.client.HTTPResponse(cast(Any, _Socket(data)))
        response.begin()
        self.status = response.status
        self.headers = response.headers
        try:
            self.body = response.read()
            self.is_whole = True
        except http.client.IncompleteRead:
            self.body = _readable(data)
            self.is_whole = False

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        """The body as lines of JSON."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def records(self) -> list[StreamRecord]:
        """The body as records, as far as they are there."""
        return RecordDecoder().feed(self.body)


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _readable(data: bytes) -> bytes:
    """The body of an answer in chunks, whose last is not there yet."""
    body, rest = b"", data.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body


class Caller:
    """One connection to the control API."""

    def __init__(
        self,
        site: Site,
        clock: ManualClock,
        peer: IAddress | None = None,
        transport: StringTransport | None = None,
    ) -> None:
        self._clock = clock
        self.transport = StringTransport(peerAddress=peer) if transport is None else transport
        self.protocol: Any = site.buildProtocol(UNIXAddress(None))
        self.protocol.makeConnection(self.transport)

    def feed(self, data: bytes) -> None:
        """Deliver bytes, and perform everything that is due without time passing."""
        self.protocol.dataReceived(data)
        self._clock.advance(0)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> None:
        """Send a whole request."""
        target = path + ("?" + urlencode(parameters) if parameters else "")
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.feed("\r\n".join([*lines, "", ""]).encode("ascii") + (body or b""))

    def pause(self) -> None:
        """The caller stops reading."""
        self._channel.pauseProducing()

    def resume(self) -> None:
        """Let the caller continue to read, and perform everything that is due without time passing."""
        self._channel.resumeProducing()
        self._clock.advance(0)

    @property
    def _channel(self) -> Any:
        return self.transport.producer

    @property
    def is_answered(self) -> bool:
        """Whether any of an answer has come."""
        return bool(self.transport.value())

    @property
    def answer(self) -> Answer:
        """The answer, as far as it has come."""
        return Answer(self.transport.value())

    def hang_up(self) -> None:
        """The caller goes away."""
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self._clock.advance(0)


class Disk(MemoryMessageStore):
    """A store that is as slow, or as broken, as a test wants it.

    @ivar is_slow: commits wait for L{catch_up}.
    @ivar is_broken: commits fail.
    @ivar damaged: the LookupIdentifiers of messages that cannot be read.
    @ivar kept: those of damaged messages that wait for the quarantine.
    @ivar log_entries: the most entries of a message log in one answer, as if they were large.
    """

    is_slow = False
    is_broken = False
    log_entries = 1000

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.damaged: set[int] = set()
        self.kept: set[int] = set()
        self._waiting: list[tuple[Sequence[Change], Deferred[None]]] = []

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """As the store of memory, when it is neither slow nor broken."""
        if self.is_broken:
            return fail(StorageError("the disk is on fire"))
        if self.is_slow:
            waiting: Deferred[None] = Deferred()
            self._waiting.append((changes, waiting))
            return waiting
        return super().commit(changes)

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """As the store of memory, but for what is damaged."""
        if self.damaged.intersection(lookup_ids):
            return fail(StorageError("checksum of page 7"))
        for each in lookup_ids:
            if each in self.kept:
                return fail(DamagedMessageKept(queue, each, "segment 1, offset 0"))
        return super().read(queue, lookup_ids)

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """As the store of memory, but for the limit."""
        return super().read_log(queue, after, min(limit, self.log_entries))

    def fail_late(self, count: int = 1000) -> None:
        """Let pending operations fail, the first of them this number of commits."""
        waiting, self._waiting = self._waiting[:count], self._waiting[count:]
        for _, done in waiting:
            done.errback(StorageError("the disk is on fire"))

    def catch_up(self) -> None:
        """Do what was waited for."""
        waiting, self._waiting = self._waiting, []
        for changes, done in waiting:
            super().commit(changes).chainDeferred(done)


class ControlTestCase(SynchronousTestCase):
    """A queue manager with one empty queue, C{ORDERS}."""

    limits = ControlLimits()
    packet_memory: int | None = None

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.disk = Disk()
        self.node = Node(
            self.network,
            self.clock,
            "ALPHA",
            ALPHA,
            SessionSettings(),
            self.disk,
            options=self.options(),
            packet_memory=self.packet_memory,
        )
        self.node.start()
        self.service = self.node.service
        # Whatever still waits at the end of a test ends with it.
        self.addCleanup(self.service.stopService)
        self.site = make_site(
            self.service,
            configuration=self.server_configuration(),
            members=self.members(),
            limits=self.limits,
            clock=self.clock.reactor,
        )
        self.run_to_end(self.service.create_queue(ORDERS))

    def server_configuration(self) -> ServerConfiguration:
        """The configuration of its server."""
        return NoServerConfiguration()

    def members(self) -> EstateMembers:
        """The members that it knows."""
        return EstateMembers(("ALPHA", "alpha.example.com"), {}, None)

    def options(self) -> Mapping[str, Any]:
        """Options of the queue manager."""
        return {}

    def run_to_end(self, coroutine: Coroutine[Deferred[object], Any, T]) -> T:
        """The result of something that needs no time."""
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def caller(self, address: str = "192.0.2.1") -> Caller:
        """One more connection."""
        return Caller(self.site, self.clock, IPv4Address("TCP", address, 2103))

    def call(self, method: str, path: str, body: bytes | None = None, **parameters: Any) -> Answer:
        """One request, answered at once."""
        caller = self.caller()
        caller.ask(method, path, body, **parameters)
        return caller.answer

    def post(self, path: str, value: object) -> Answer:
        """One request with a JSON object, answered at once."""
        return self.call("POST", path, json.dumps(value).encode("ascii"))

    def make_queue(self, name: str = "tx", **options: Any) -> str:
        """Make one more private queue, and give its path."""
        path = f".\\private$\\{name}"
        self.run_to_end(self.service.create_queue(path, **options))
        return path

    def identifiers(self, queue: str = ORDERS) -> list[str]:
        """The identifiers of all messages that can be received now."""
        return [str(message.view.identifier) for message in self.seen(queue)]

    def take(self, queue: str = ORDERS, count: int = 1000) -> list[bytes]:
        """The bodies of the messages of a queue, received permanently."""
        if not self.seen(queue):
            return []
        reservation = self.run_to_end(self.service.reserve(queue, count=count, timeout=0))
        self.run_to_end(reservation.confirm())
        return [bytes(message.view.body) for message in reservation.messages]

    def send_records(self, *records: StreamRecord) -> Answer:
        """Send messages as one stream."""
        caller = self.caller()
        stream = b"".join(record.to_bytes() for record in records)
        caller.ask("POST", "/v1/send", stream, {"Content-Type": CONTENT_TYPE})
        return caller.answer

    def receive(self, **parameters: Any) -> Caller:
        """Begin to receive as a stream."""
        caller = self.caller()
        caller.ask("POST", "/v1/receive", b"", **{"queue": ORDERS, **parameters})
        return caller

    def confirm(self, record: StreamRecord) -> Answer:
        """Confirm a receipt."""
        return self.call("POST", f"/v1/receipts/{record.header['stream']}/{record.header['receipt']}")

    def put(self, *bodies: bytes, queue: str = ORDERS, **properties: Any) -> None:
        """Have messages in a queue."""
        messages = [Message(body=body, **properties) for body in bodies]
        self.run_to_end(self.service.send(queue, messages))

    def seen(self, queue: str = ORDERS) -> Sequence[ReceivedMessage]:
        """All messages that can be received now."""
        waiting = Deferred.fromCoroutine(
            self.service.reserve(queue, count=10000, timeout=0, peek=True)
        ).addErrback(lambda failure: failure.trap(MQError) and None)
        self.clock.advance(0)
        peek = self.successResultOf(waiting)
        return () if peek is None else peek.messages

    def bodies(self, queue: str = ORDERS) -> list[bytes]:
        """Their bodies."""
        return [bytes(message.view.body) for message in self.seen(queue)]

    def assert_refused(self, answer: Answer, status: int, error: str, *words: str) -> None:
        """The answer is a refusal that names itself and these things."""
        self.assertEqual((answer.status, answer.json["error"]), (status, error))
        for word in words:
            self.assertIn(word, answer.json["detail"])
