"""The control API from the other side, for programs without a reactor; the command is one."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import attrs

from msmq.control.certificates import DEFAULT
from msmq.control.locations import Location, UnixLocation
from msmq.control.records import CONTENT_TYPE, PROTOCOL, Record, RecordDecoder, RecordLimits
from msmq.control.refusals import read_refusal
from msmq.control.tokens import TokenError
from msmq.errors import RemoteProtocolError
from msmq.structures.status import MQError, Status

_READ: Final = 0x40000
_LONGEST_REFUSAL: Final = 0x10000
_LONGEST_HEADER: Final = 0x1000000
_BATCH_MESSAGES: Final = 500
_BATCH_BYTES: Final = 0x100000
_PORTION: Final = 0x10000
_OUTSTANDING: Final = 1000
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@attrs.frozen
class Delivered:
    """One message of a stream; it stays the queue's until its receipt is confirmed.

    @ivar properties: the message in JSON, with C{extension_size} in place of its extension, and without
        its body.
    """

    properties: Mapping[str, Any]
    body: bytes = attrs.field(repr=False)
    extension: bytes = attrs.field(repr=False)


@attrs.frozen
class Receipt:
    """Stands for the messages since the receipt before it.

    @ivar count: how many they are.
    """

    count: int
    _confirm: Callable[[bool], None] = attrs.field(repr=False)

    def confirm(self, *, wait: bool = True) -> None:
        """Have them removed; they are gone for good once this returns.

        @param wait: without it this returns at once, and the messages of all receipts that were confirmed
            are gone for good when the stream has ended; it raises what would have been raised here.
        @raise MQError: they are not removed.
        """
        self._confirm(wait)


class ReceiveStream:
    """Messages on their way in, and a receipt after each batch of them.

    Leaving the context gives back whatever is not confirmed.
    """

    def __init__(self, client: ControlClient, connection: http.client.HTTPConnection, target: str) -> None:
        self._client = client
        self._connection = connection
        self._response = client.upgrade(connection, target)
        self._decoder = RecordDecoder(RecordLimits(header=_LONGEST_HEADER))
        self._waiting: deque[Record] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[Delivered | Receipt]:
        """What arrives, up to the end of the stream.

        @raise MQError: the server ended it for another reason than the count or the time.
        """
        while True:
            record = self._waiting.popleft() if self._waiting else self._next()
            header = record.header
            if "end" in header:
                return
            if "confirmed" not in header:
                yield self._item(record)

    def _next(self) -> Record:
        """The next record of the server; others that came with it wait."""
        records = self._read()
        self._waiting.extend(records[1:])
        return records[0]

    def _read(self) -> list[Record]:
        records: list[Record] = []
        while not records:
            with self._client.losing():
                data = self._response.fp.read1(_READ)
            if not data:
                raise self._client.lost("the stream ended early")
            try:
                records = self._decoder.feed(data)
            except RemoteProtocolError as error:
                raise self._client.lost(str(error)) from error
        return records

    def _item(self, record: Record) -> Delivered | Receipt:
        header = record.header
        try:
            if "receipt" in header and "error" not in header:
                receipt = int(header["receipt"])
                return Receipt(int(header["messages"]), lambda wait: self._confirm(receipt, wait))
            if "error" in header:
                raise _refused(header, "the stream broke")
            size = len(record.body) - int(header["extension_size"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._client.lost(f"not a record of this API: {error!r}") from error
        return Delivered(header, record.body[:size], record.body[size:])

    def _confirm(self, receipt: int, wait: bool) -> None:
        with self._client.losing():
            self._connection.sock.sendall(Record({"confirm": receipt}).to_bytes())
        while wait:
            for record in self._read():
                header = record.header
                if header.get("confirmed") == receipt:
                    wait = False
                elif "error" in header and header.get("receipt") == receipt:
                    raise _refused(header, "the messages were not removed")
                else:
                    self._waiting.append(record)


class ControlClient:
    """Asks one server; every call has a connection of its own.

    Every refusal is an L{MQError}; MQ_ERROR_SERVICE_NOT_AVAILABLE if the server cannot be reached or
    goes away.
    """

    def __init__(self, where: Path | Location) -> None:
        """Ask a server.

        @param where: its control socket, or what L{msmq.control.locations.parse_location} reads.
        """
        self._where = UnixLocation(where) if isinstance(where, Path) else where

    def status(self) -> dict[str, Any]:
        """What the queue manager is and how it does."""
        return self._object("GET", "/v1/status")

    def route(self, source: str, destination: str) -> dict[str, Any]:
        """The way of a message between two queue managers, by name or GUID."""
        query = urlencode({"source": source, "destination": destination})
        return self._object("GET", f"/v1/route?{query}")

    def topology(self) -> dict[str, Any]:
        """The sites, links and queue managers of the enterprise, as routing knows them."""
        return self._object("GET", "/v1/topology")

    def queues(self, *, system: bool = False) -> list[dict[str, Any]]:
        """Every queue; with C{system} those of the system too."""
        return self._list("/v1/queues?system=true" if system else "/v1/queues")

    def queue(self, path: str) -> dict[str, Any]:
        """One queue."""
        return self._object("GET", _queue_target(path))

    def create_queue(self, path: str, options: Mapping[str, object]) -> dict[str, Any]:
        """Make a queue; the options are those of L{msmq.interfaces.queue_manager.IQueueManager}."""
        return self._object("POST", "/v1/queues", _json({"path": path, **options}))

    def set_queue(self, path: str, properties: Mapping[str, object]) -> dict[str, Any]:
        """Give a queue other properties; a quota of C{None} sets no limit."""
        return self._object("PATCH", _queue_target(path), _json(properties))

    def purge_queue(self, path: str) -> dict[str, Any]:
        """Remove all messages in a queue; C{purged} says how many."""
        return self._object("POST", f"{_queue_target(path)}/purge")

    def replay(
        self, path: str, into: str, *, begin: int | str | None = None, end: int | str | None = None
    ) -> dict[str, Any]:
        """Send copies of what the message log of a queue holds; C{replayed} says how many.

        @param into: a destination, as of L{send}.
        @param begin: the first, as C{end} is the last: a sequence number, or a time of arrival in ISO 8601.
        """
        wanted = {"into": into, "from": begin, "to": end}
        return self._object("POST", f"{_queue_target(path)}/replay", _json(wanted))

    def delete_queue(self, path: str) -> dict[str, Any]:
        """Remove a queue and all that is in it."""
        return self._object("DELETE", _queue_target(path))

    def acl(self, path: str) -> dict[str, Any]:
        """Who may do what with one queue, or with the queue manager, which is named C{.}."""
        return self._object("GET", f"{_queue_target(path)}/acl")

    def change_acl(
        self, path: str, action: str, principal: str, rights: Sequence[str] = ()
    ) -> dict[str, Any]:
        """C{allow} or C{deny} somebody something, or C{revoke} all that is said of him."""
        wanted = {"action": action, "principal": principal, "rights": list(rights)}
        return self._object("POST", f"{_queue_target(path)}/acl", _json(wanted))

    def why(self, path: str, principal: str, right: str) -> dict[str, Any]:
        """Whether somebody may do something with one queue, and what decides it."""
        asked = urlencode({"principal": principal, "right": right})
        return self._object("GET", f"{_queue_target(path)}/why?{asked}")

    def outgoing(self) -> list[dict[str, Any]]:
        """Every outgoing queue."""
        return self._list("/v1/outgoing")

    def outgoing_queue(self, name: str) -> dict[str, Any]:
        """One outgoing queue, by its format name."""
        return self._object("GET", f"/v1/outgoing/{_segment(name)}")

    def pause_outgoing(self, name: str) -> dict[str, Any]:
        """Send nothing more from an outgoing queue until it is resumed."""
        return self._object("POST", f"/v1/outgoing/{_segment(name)}/pause")

    def resume_outgoing(self, name: str) -> dict[str, Any]:
        """Send again from an outgoing queue that was paused."""
        return self._object("POST", f"/v1/outgoing/{_segment(name)}/resume")

    def certificates(self) -> list[dict[str, Any]]:
        """Every certificate that messages can be signed with."""
        return self._list("/v1/certificates")

    def certificate(self, fingerprint: str = "") -> dict[str, Any]:
        """One of them; by default the one that is signed with."""
        return self._object("GET", f"/v1/certificates/{_segment(fingerprint or DEFAULT)}")

    def add_certificate(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Generate one (C{sid}, C{name}, C{days}, C{renew}), or import that of a file (C{file_base64})."""
        return self._object("POST", "/v1/certificates", _json(properties))

    def publish_certificate(self, fingerprint: str = "") -> dict[str, Any]:
        """Register one with its user in the directory."""
        return self._object("POST", f"/v1/certificates/{_segment(fingerprint or DEFAULT)}/publish")

    def delete_certificate(self, fingerprint: str) -> dict[str, Any]:
        """Forget one, and its key."""
        return self._object("DELETE", f"/v1/certificates/{_segment(fingerprint)}")

    def transactions(self) -> list[dict[str, Any]]:
        """Every transaction that has not ended."""
        return self._list("/v1/transactions")

    def transaction(self, identifier: str) -> dict[str, Any]:
        """One transaction, with what it does under C{messages}."""
        return self._object("GET", f"/v1/transactions/{_segment(identifier)}")

    def abort_transaction(self, identifier: str) -> dict[str, Any]:
        """Abort a transaction of whomever."""
        return self._object("POST", f"/v1/transactions/{_segment(identifier)}/abort")

    def explain(self, message: str) -> dict[str, Any]:
        """All that is known of a message: C{message}, C{events}, C{places}."""
        return self._object("GET", f"/v1/messages/{_segment(message)}")

    def move(self, message: str, queue: str) -> dict[str, Any]:
        """Move a message between a queue and its subqueues, or into a system queue."""
        target = f"/v1/messages/{_segment(message)}/move"
        return self._object("POST", target, _json({"queue": queue}))

    def dead_letters(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What lies in both dead-letter queues, the first so many of each."""
        return self._list("/v1/deadletters" if limit is None else f"/v1/deadletters?limit={limit}")

    def requeue(self, message: str) -> dict[str, Any]:
        """Send a dead letter again, and remove it; C{id} is that of the new message."""
        return self._object("POST", f"/v1/deadletters/{_segment(message)}/requeue")

    def sessions(self) -> list[dict[str, Any]]:
        """Every session."""
        return self._list("/v1/sessions")

    def send(self, messages: Iterable[Record], *, one_transaction: bool = False) -> Iterator[str]:
        """Send messages, one batch at a time, and give their identifiers as each batch is taken.

        @param messages: the header of each holds its properties, C{destination} among them, and
            C{extension_size} if its body ends with an extension.
        @param one_transaction: send all of them or none; they are transactional.
        """
        if one_transaction:
            yield from self._send(_batches(_marked(messages)))
        else:
            for batch in _batches(messages):
                yield from self._send(batch)

    def _send(self, stream: bytes | Iterator[bytes]) -> Iterator[str]:
        with contextlib.closing(self._connection()) as connection:
            response = self._ask(connection, "POST", "/v1/send", stream, {"Content-Type": CONTENT_TYPE})
            with self.losing(), response:
                refused: MQError | None = None
                for line in response:
                    answer = json.loads(line)
                    if "id" in answer:
                        yield answer["id"]
                    else:
                        refused = read_refusal(line, line.decode("utf-8", "replace"))
            if refused is not None:
                raise refused
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                raise self.lost(f"HTTP status {response.status}")

    def receive(
        self,
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transactional: bool = False,
    ) -> ReceiveStream:
        """Receive messages, or look at them; waits for the first.

        @param timeout: the longest wait for the next message in seconds; C{None} for no limit.
        @param transactional: receive all in one transaction; the one receipt comes behind the last message.
        @raise MQError: C{MQ_ERROR_IO_TIMEOUT} if none came.
        """
        parameters = {"queue": queue, "count": str(count)}
        if timeout is not None:
            parameters["timeout"] = repr(timeout)
        if peek:
            parameters["peek"] = "true"
        if transactional:
            parameters["transactional"] = "true"
        connection = self._connection()
        try:
            return ReceiveStream(self, connection, f"/v1/receive?{urlencode(parameters, errors='replace')}")
        except BaseException:
            connection.close()
            raise

    def send_steadily(self, messages: Iterable[Record], *, outstanding: int = _OUTSTANDING) -> Iterator[str]:
        """Send messages over one connection, and give their identifiers as each is taken.

        @param messages: as of L{send}; they are asked for one by one, as far as C{outstanding} allows.
        @param outstanding: messages that are sent and not taken yet, at most.
        @raise MQError: a message is refused; those behind it may have been sent, and then have no answer.
        """
        with contextlib.closing(self._connection()) as connection:
            self.upgrade(connection, "/v1/send")
            with self.losing():
                yield from _Sending(self, connection.sock, messages, outstanding)

    def upgrade(self, connection: http.client.HTTPConnection, target: str) -> http.client.HTTPResponse:
        """Make a connection one of records in both directions, and wait until the server agrees.

        @raise MQError: it refuses.
        """
        headers = {"Connection": "Upgrade", "Upgrade": PROTOCOL}
        response = self._ask(connection, "GET", target, b"", headers)
        if response.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            with self.losing():
                raise read_refusal(response.read(_LONGEST_REFUSAL), f"HTTP status {response.status}")
        return response

    def call(self, method: str, target: str, body: bytes = b"") -> Any:
        """One request that is answered with JSON."""
        with contextlib.closing(self._connection()) as connection:
            response = self.begin(connection, method, target, body)
            with self.losing():
                return json.loads(response.read())

    def begin(
        self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes = b""
    ) -> http.client.HTTPResponse:
        """Send a request, and wait for the beginning of its answer.

        @raise MQError: the answer is a refusal.
        """
        headers = {"Content-Type": "application/json"} if body else {}
        response = self._ask(connection, method, target, body, headers)
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            with self.losing():
                raise read_refusal(response.read(_LONGEST_REFUSAL), f"HTTP status {response.status}")
        return response

    @contextlib.contextmanager
    def losing(self) -> Iterator[None]:
        """Turn every way in which an answer breaks off into one refusal."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self.lost(str(error) or type(error).__name__) from error

    def lost(self, reason: str) -> MQError:
        """The refusal that stands for a server that went away, or is none."""
        return MQError(
            Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, f"the queue manager at {self._where} was lost: {reason}"
        )

    def _connection(self) -> http.client.HTTPConnection:
        try:
            return self._where.connection()
        except OSError as error:
            raise self._unreachable(error) from error

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | Iterator[bytes],
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        try:
            shown = self._where.headers()
            connection.connect()
        except TokenError as error:
            raise MQError(Status.MQ_ERROR_ACCESS_DENIED, str(error)) from error
        except OSError as error:
            raise self._unreachable(error) from error
        with self.losing():
            connection.request(method, target, body, {**headers, **shown})
            return connection.getresponse()

    def _unreachable(self, error: OSError) -> MQError:
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted: {error.verify_message}"
        else:
            reason = error.strerror or str(error)
        return MQError(
            Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, f"no queue manager answers at {self._where}: {reason}"
        )

    def _object(self, method: str, target: str, body: bytes = b"") -> dict[str, Any]:
        answer = self.call(method, target, body)
        if not isinstance(answer, dict):
            raise self.lost("it answered with something else than an object")
        return answer

    def _list(self, target: str) -> list[dict[str, Any]]:
        answer = self.call("GET", target)
        if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
            raise self.lost("it answered with something else than a list of objects")
        return answer


class _Sending:
    """Sends and reads at the same time, so that neither side waits for the other to read."""

    def __init__(
        self, client: ControlClient, sock: socket.socket, messages: Iterable[Record], outstanding: int
    ) -> None:
        self._client = client
        self._socket = sock
        self._messages = iter(messages)
        self._outstanding = max(1, outstanding)
        self._decoder = RecordDecoder()
        self._unsent = memoryview(b"")
        self._unanswered = 0
        self._is_complete = False

    def __iter__(self) -> Iterator[str]:
        self._socket.setblocking(False)
        while True:
            self._fill()
            if self._unsent:
                self._send()
            if not self._unanswered:
                return
            # While messages wait to be sent, answers are taken only as far as they are there.
            yield from self._answers()

    def _fill(self) -> None:
        if self._unsent or self._is_complete:
            return
        parts: list[bytes] = []
        size = 0
        while self._unanswered < self._outstanding and size < _PORTION:
            message = next(self._messages, None)
            if message is None:
                self._is_complete = True
                break
            parts.append(message.to_bytes())
            size += len(parts[-1])
            self._unanswered += 1
        self._unsent = memoryview(b"".join(parts))

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except _NOT_NOW:
            pass
        except (BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # The server says why it stopped before it closes.
            self._unsent = memoryview(b"")
            self._is_complete = True

    def _answers(self) -> Iterator[str]:
        has_more = bool(self._unsent) or (self._unanswered < self._outstanding and not self._is_complete)
        data = self._receive(has_more)
        if data is None:
            return
        if not data:
            raise self._client.lost("the connection ended early")
        try:
            records = self._decoder.feed(data)
        except RemoteProtocolError as error:
            raise self._client.lost(str(error)) from error
        for record in records:
            header = record.header
            if "first" not in header:
                raise _refused(header, "the stream broke")
            stem, _, number = header["first"].rpartition("\\")
            count = int(header["messages"])
            self._unanswered -= count
            for ordinal in range(int(number), int(number) + count):
                yield f"{stem}\\{ordinal}"

    def _receive(self, has_more: bool) -> bytes | None:
        """What has come; waits for it unless more is to be sent."""
        # What TLS has taken from the socket and not given out does not show there.
        if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            readable, _, _ = select.select([self._socket], [self._socket] if has_more else [], [])
            if not readable:
                return None
        try:
            return self._socket.recv(_READ)
        except _NOT_NOW:
            return None


def _refused(header: Mapping[str, Any], otherwise: str) -> MQError:
    return read_refusal(json.dumps(header).encode("ascii"), otherwise)


def _segment(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _queue_target(path: str) -> str:
    return f"/v1/queues/{_segment(path)}"


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(dict(value)).encode("ascii")


def _marked(messages: Iterable[Record]) -> Iterator[Record]:
    """The messages, the first of them saying that all are one transaction."""
    for number, record in enumerate(messages):
        yield record if number else attrs.evolve(record, header={**record.header, "one_transaction": True})


def _batches(messages: Iterable[Record]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for message in messages:
        parts.append(message.to_bytes())
        size += len(parts[-1])
        if len(parts) == _BATCH_MESSAGES or size >= _BATCH_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
