"""HTTP connections that a request can upgrade to records in both directions (RFC 9110, 7.8 Upgrade)."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as HTTPRequest

from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, WITH_RUNS, StreamRecord
from msmq.control.protocol.refusals import ControlError, refusal
from msmq.control.server.http.headers import header_values
from msmq.control.server.http.responses import JSON, ResponseStream, to_json
from msmq.direct_write import LARGE_SEND, write_now
from msmq.structures.status import Status

if TYPE_CHECKING:
    from msmq.control.server.http.requests import ControlRequest

_SWITCHING: Final = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"


_READ: Final = 0x100000
"""Read buffer of a connection with much input, in bytes."""


def _too_long(limit: int) -> bytes:
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    detail = f"the request line or a header is longer than {limit} bytes"
    body = to_json(refusal(ControlError(Status.MQ_ERROR_INVALID_PARAMETER, detail, status))) + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {JSON}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


class ChannelList(Protocol):
    """Registry of the connections of a site."""

    def connected(self, channel: ControlChannel) -> None:
        """Register a connection."""

    def answered(self, channel: ControlChannel) -> None:
        """Register that a connection is idle."""

    def disconnected(self, channel: ControlChannel) -> None:
        """Unregister a connection."""


class ControlChannel(HTTPChannel):
    """HTTP connection, until a request upgrades it to a stream of records in both directions."""

    def __init__(self) -> None:
        HTTPChannel.__init__(self)
        self._take: Callable[[bytes], None] | None = None
        self._is_lost = False

    @property
    def _connections(self) -> ChannelList:
        return cast(ChannelList, vars(self)["site"])

    def connectionMade(self) -> None:
        """Register the connection, which is idle."""
        self._connections.connected(self)
        HTTPChannel.connectionMade(self)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Unregister the connection."""
        self._is_lost = True
        self._connections.disconnected(self)
        HTTPChannel.connectionLost(self, reason)

    def requestDone(self, request: HTTPRequest) -> None:
        """A response is complete: the connection is idle from now on.

        A request that was received before is handled in the next iteration of the reactor, as if it came
        then: a client may send any number at once.
        """
        self._connections.answered(self)
        waiting, self._dataBuffer = self._dataBuffer, []
        HTTPChannel.requestDone(self, request)
        if (waiting or self._buffer) and self.persistent and not self._is_lost:
            # What follows in the buffer of lines is collected too.
            self._dataBuffer = waiting
            self._handlingRequest = True
            untyped: Any = self
            untyped.setRawMode()
            untyped.callLater(0, self._next_request)

    def _next_request(self) -> None:
        if not self._is_lost:
            data = b"".join(self._dataBuffer)
            self._dataBuffer = []
            self._handlingRequest = False
            untyped: Any = self
            untyped.setLineMode(data)

    def cut(self) -> None:
        """Close at once and discard unwritten bytes."""
        cast(Any, self.transport).abortConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a request line or a header that is longer than the limit, and close the connection."""
        HTTPChannel.write(self, _too_long(self.MAX_LENGTH))
        HTTPChannel.loseConnection(self)

    def switch(self, protocol: str, take: Callable[[bytes], None]) -> None:
        """Accept the upgrade; all further input goes to the consumer and is no longer HTTP.

        The request lasts until the connection ends, and is notified of it.
        """
        self._take = take
        cast(Any, self.transport).SEND_LIMIT = LARGE_SEND
        HTTPChannel.write(self, _SWITCHING % protocol.encode("ascii"))

    def rawDataReceived(self, data: bytes) -> None:
        """Receive bytes of a request body, of a later request, or of records."""
        if self._take is None:
            super().rawDataReceived(data)
            return
        transport: Any = self.transport
        if len(data) == getattr(transport, "bufferSize", 0) < _READ:
            # A read filled the small buffer, as a message of 64 KiB with its header does; slow senders keep
            # the small buffer.
            transport.bufferSize = _READ
        self._take(data)


def wanted_protocol(request: ControlRequest) -> str | None:
    """The record protocol that a request wants to upgrade to, if any.

    Among several the one with runs is chosen.
    """
    asked = header_values(request, "upgrade")
    words = {word.strip().lower() for line in asked for word in line.split(",")}
    return next((protocol for protocol in (WITH_RUNS, PROTOCOL) if protocol in words), None)


class RecordConnection(ResponseStream):
    """Upgraded connection of a request: a stream of records in both directions, from L{open} on.

    @param take: called with received bytes.
    @param caught_up: called when the reader has caught up after L{is_behind}.
    """

    def __init__(
        self,
        request: ControlRequest,
        take: Callable[[bytes], None],
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(request, CONTENT_TYPE)
        self._channel = cast(ControlChannel, request.channel)
        self._protocol = wanted_protocol(request) or PROTOCOL
        self._connection = request.connection
        self._take = take
        self._caught_up = caught_up

    @property
    def has_runs(self) -> bool:
        """Whether the reader accepts runs."""
        return self._protocol == WITH_RUNS

    def resumeProducing(self) -> None:
        """The reader has caught up."""
        super().resumeProducing()
        self._caught_up()

    def open(self) -> None:
        """Accept the upgrade; a refusal can only be a record from now on."""
        if not self.is_open:
            self.is_open = True
            self._request.startedWriting = 1
            self._request.registerProducer(self, True)
            self._channel.switch(self._protocol, self._take)

    def write(self, data: bytes, *, is_awaited: bool = False) -> None:
        """Write the next records.

        @param is_awaited: see L{ResponseStream.write}.
        """
        if not self._is_broken:
            if not self.is_open:
                self.open()
            if is_awaited and self.is_open:
                write_now(self._connection, data)
            else:
                HTTPChannel.write(self._channel, data)

    def send_header(self, *, is_awaited: bool = False, **header: object) -> None:
        """Write a record without a body."""
        self.write(StreamRecord(header).to_bytes(), is_awaited=is_awaited)

    def abort(self) -> None:
        """Abort the connection after a protocol violation of the peer."""
        self._connection.abortConnection()

    def end(self) -> None:
        """Close the connection after the written bytes are sent."""
        self.close()
        if not self._is_broken:
            self._is_broken = True
            HTTPChannel.loseConnection(self._channel)
