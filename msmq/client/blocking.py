"""Client: sends and receives through a running queue manager, for programs that block."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import attrs

from msmq.client.arguments import check_count, check_path, check_seconds, check_text
from msmq.client.consumer import Consumer
from msmq.client.outgoing import MessageProperties, MessageToSend, message_to
from msmq.client.reconnection import Reconnection
from msmq.client.withdrawal import WithdrawableClient
from msmq.control.client.locations import LocationError, UnixLocation, parse_location
from msmq.control.client.streams import Delivered
from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.client.tracing import MessageTracing

RECONNECT: Final = 60.0
"""Seconds for which the queue manager may be unreachable by default."""


@attrs.frozen
class _LocalServer:
    """A data directory with a control socket, or such a socket; which of both is seen at each connection, as
    a server may still create them.
    """

    path: Path

    def __str__(self) -> str:
        return os.fspath(self.path)

    def connection(self) -> http.client.HTTPConnection:
        """See L{Location.connection<msmq.control.client.locations.Location>}."""
        return UnixLocation(self.path / "control.sock" if self.path.is_dir() else self.path).connection()

    def headers(self) -> Mapping[str, str]:
        """See L{Location.headers<msmq.control.client.locations.Location>}."""
        return {}


class Client:
    """Client of one queue manager, on this computer or another one, by its control API.

    While the queue manager cannot be reached, or restarts, requests are repeated; none takes effect twice.
    Its methods may be called in several threads.
    """

    def __init__(
        self,
        server: str | Path | None = None,
        *,
        token_file: str | Path | None = None,
        reconnect: float = RECONNECT,
        tracing: MessageTracing | None = None,
    ) -> None:
        """Create a client; it connects at its first request.

        @param server: the data directory of the queue manager, its control socket, or a location such as
            C{ssl:HOST:PORT}; by default C{$MSMQ_CONTROL}, or C{msmq-data}.
        @param token_file: the file with the token for a location on another computer.
        @param reconnect: seconds for which a request is repeated while the queue manager is unreachable.
        @param tracing: makes a span of OpenTelemetry for each send, and writes its context into the messages.
        @raise LocalProtocolError: an argument is invalid.
        """
        for argument, value in ("server", server), ("token_file", token_file):
            if value is not None:
                check_path(argument, value)
        text = os.fspath(server) if server is not None else os.environ.get("MSMQ_CONTROL") or "msmq-data"
        try:
            where = parse_location(text, token_file=token_file)
        except LocationError as error:
            raise LocalProtocolError(f"server: {error}") from error
        if isinstance(where, UnixLocation):
            where = _LocalServer(where.path)
        self._control = WithdrawableClient(where)
        self._reconnection = Reconnection(reconnect)
        self._tracing = tracing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: each request has a connection of its own, and a consumer is closed by itself."""

    def status(self) -> dict[str, Any]:
        """The identity and the state of the queue manager: the keys of C{msmq status}.

        @raise MQError: refused, or unreachable.
        """
        return self._reconnection.run(self._control.status)

    def queue(self, path: str) -> dict[str, Any]:
        """The properties of one queue: the keys of C{msmq queue show}.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or unreachable.
        """
        check_text("path", path)
        return self._reconnection.run(lambda: self._control.queue(path))

    def create_queue(self, /, path: str, **options: object) -> dict[str, Any]:
        """Create a queue, unless it exists; returns its properties.

        The properties of a queue that exists stay as they are.

        @param options: C{transactional}, C{journal}, C{label} and the others of the control API.
        @raise LocalProtocolError: C{path} is not a text, or an option is nothing that JSON can say.
        @raise MQError: refused, or unreachable; with MQ_ERROR_QUEUE_EXISTS, the queue exists and is not
            C{transactional} as the option says, which nothing can change.
        """
        check_text("path", path)

        def create() -> dict[str, Any]:
            try:
                return self._control.create_queue(path, options)
            except MQError as error:
                if error.status != Status.MQ_ERROR_QUEUE_EXISTS:
                    raise
                found = self._control.queue(path)
                # It would refuse each message that the caller expects.
                if options.get("transactional", found["transactional"]) != found["transactional"]:
                    kind = "transactional" if found["transactional"] else "not transactional"
                    raise MQError(error.status, f"{found['path']} exists, and is {kind}") from None
                return found

        return self._reconnection.run(create)

    def send(self, destination: str, body: bytes | str = b"", **properties: Unpack[MessageProperties]) -> str:
        """Send a message; returns its identifier when the queue manager has accepted it.

        A recoverable message, which is the default, is on the disk of the queue manager then.

        @param destination: a format name, or the path of a queue of the queue manager.
        @param body: a text is encoded as UTF-8.
        @param properties: see L{MessageProperties<msmq.client.MessageProperties>}.
        @raise LocalProtocolError: an argument is of another type.
        @raise MQError: the message is refused, or the queue manager is unreachable.
        """
        [identifier] = self.send_all([message_to(destination, body, **properties)])
        return identifier

    def send_all(self, messages: Iterable[MessageToSend], *, transaction: bool = False) -> list[str]:
        """Send messages in this order over one connection; returns their identifiers.

        @param messages: created by L{message_to<msmq.client.message_to>}.
        @param transaction: send all of them or none; their queues have to be transactional. Otherwise the
            messages before a refused one are sent.
        @raise MQError: a message is refused, or the queue manager is unreachable.
        """
        if isinstance(messages, MessageToSend) or not isinstance(messages, Iterable):
            raise LocalProtocolError(f"messages is {kind_of(messages)}, it has to be a list of MessageToSend")
        sent = list(messages)
        for message in sent:
            if not isinstance(message, MessageToSend):
                raise LocalProtocolError("messages: each has to be a MessageToSend, which message_to creates")
            if transaction and not message.properties.get("transactional", True):
                raise LocalProtocolError("transactional is false for a message of a transaction")
        if not sent:
            return []
        if self._tracing is None:
            return self._send(sent, transaction)
        return self._tracing.send(sent, lambda traced: self._send(traced, transaction))

    def consume(
        self,
        queue: str,
        *,
        count: int | None = None,
        timeout: float | None = None,
        transactional: bool = False,
    ) -> Consumer:
        """A consumer of the messages of a queue; it connects when its first batch is requested.

        @param queue: a path or a format name.
        @param count: the most messages of a batch; by default what the server sends at once.
        @param timeout: seconds to wait for a message; C{None} for no limit.
        @param transactional: receive each batch in a transaction: exactly C{count} messages, or fewer if the
            next one does not arrive in time.
        @raise LocalProtocolError: an argument is out of range.
        """
        return Consumer(
            self._control,
            queue,
            count=count,
            timeout=timeout,
            transactional=transactional,
            reconnection=self._reconnection,
        )

    def peek(self, queue: str, *, count: int = 1, timeout: float | None = 0) -> Sequence[Delivered]:
        """The first messages of a queue, without removing or locking them.

        @param timeout: seconds to wait for the first one; C{None} for no limit.
        @return: empty if there are none.
        @raise LocalProtocolError: an argument is of another type, or out of range.
        @raise MQError: no such queue, or it is unreachable.
        """
        check_text("queue", queue)
        check_count("count", count)
        if timeout is not None:
            check_seconds("timeout", timeout)

        def look() -> list[Delivered]:
            try:
                with self._control.receive(queue, count=count, timeout=timeout, peek=True) as stream:
                    return [item for item in stream if isinstance(item, Delivered)]
            except MQError as error:
                if error.status != Status.MQ_ERROR_IO_TIMEOUT:
                    raise
                return []

        return self._reconnection.run(look)

    def search(
        self, queue: str, *, where: str | None = None, body: str | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Search a queue of any depth, without locks; returns messages with the keys of C{msmq receive}.

        Messages to which the expression cannot be applied, such as C{priority > '0'} with its text, and those
        that the store cannot read are left out; C{msmq queue browse} reports their number.

        @param where: a JMESPath expression over the keys of a message.
        @param body: a text that the body has to contain.
        @param limit: the most messages.
        @raise LocalProtocolError: an argument is of another type, or out of range.
        @raise MQError: no such queue, an invalid expression, or it is unreachable.
        """
        check_text("queue", queue)
        check_count("limit", limit)
        for argument, value in ("where", where), ("body", body):
            if value is not None:
                check_text(argument, value)

        def search() -> list[dict[str, Any]]:
            found = self._control.browse(queue, where=where, body=body, limit=limit)
            return [item for item in found if "id" in item]

        return self._reconnection.run(search)

    def _send(self, messages: Sequence[MessageToSend], transaction: bool) -> list[str]:
        more = {"transactional": True} if transaction else {}
        records = [message.record(**more) for message in messages]
        return self._reconnection.run(lambda: list(self._control.send(records, one_transaction=transaction)))
