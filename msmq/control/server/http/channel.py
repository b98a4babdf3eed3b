"""Connections that carry records in both directions once HTTP has agreed to it (RFC 9110, 7.8 Upgrade)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from twisted.internet.interfaces import IWriteDescriptor
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as HTTPRequest

from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, WITH_RUNS, StreamRecord
from msmq.control.server.http.responses import ResponseStream

if TYPE_CHECKING:
    from msmq.control.server.http.requests import ControlRequest

_SWITCHING: Final = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"


_READ: Final = 0x40000
"""Bytes that are read at once from a connection on which much arrives."""


class ChannelList(Protocol):
    """What counts the connections of a site."""

    def connected(self, channel: ControlChannel) -> None:
        """A connection was made."""

    def answered(self, channel: ControlChannel) -> None:
        """A request of a connection was answered."""

    def disconnected(self, channel: ControlChannel) -> None:
        """A connection has ended."""


class ControlChannel(HTTPChannel):
    """HTTP, until a request makes its connection a stream of records in both directions."""

    def __init__(self) -> None:
        HTTPChannel.__init__(self)
        self._take: Callable[[bytes], None] | None = None

    @property
    def _connections(self) -> ChannelList:
        return cast(ChannelList, vars(self)["site"])

    def connectionMade(self) -> None:
        """There is a connection, without a request yet."""
        self._connections.connected(self)
        HTTPChannel.connectionMade(self)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """The connection has ended."""
        self._connections.disconnected(self)
        HTTPChannel.connectionLost(self, reason)

    def requestDone(self, request: HTTPRequest) -> None:
        """A request was answered: the connection is idle from now on."""
        self._connections.answered(self)
        HTTPChannel.requestDone(self, request)

    def cut(self) -> None:
        """Close at once, without writing what is still to be written."""
        cast(Any, self.transport).abortConnection()

    def switch(self, protocol: str, take: Callable[[bytes], None]) -> None:
        """Agree to the upgrade; whatever arrives from now on is handed over, and nothing more is HTTP.

        The request lasts as long as the connection, and is notified of its end.
        """
        self._take = take
        HTTPChannel.write(self, _SWITCHING % protocol.encode("ascii"))

    def rawDataReceived(self, data: bytes) -> None:
        """More of a request body, of a later request, or of the records."""
        if self._take is None:
            super().rawDataReceived(data)
            return
        transport: Any = self.transport
        if len(data) == getattr(transport, "bufferSize", 0) < _READ:
            # There is more than is read at once, such as a message of 64 KiB, which does not fit in with its
            # header; who sends little goes on with a small buffer.
            transport.bufferSize = _READ
        self._take(data)


def wanted_protocol(request: ControlRequest) -> str | None:
    """The protocol of records in both directions that a request wants for its connection, if it wants one.

    Of several the one with runs is taken.
    """
    asked = request.requestHeaders.getRawHeaders("upgrade", [])
    words = {word.strip().lower() for line in asked for word in line.split(",")}
    return next((protocol for protocol in (WITH_RUNS, PROTOCOL) if protocol in words), None)


class RecordConnection(ResponseStream):
    """The connection of a request as a stream of records in both directions, from L{open} on.

    @param take: gets the bytes that arrive.
    @param caught_up: called when the reader has taken enough of what was written, after L{is_behind}.
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
        # A transport that is no descriptor of its own, such as that of TLS, writes when it will.
        self._descriptor: Any = request.connection
        self._is_descriptor = IWriteDescriptor.providedBy(request.connection)
        self._take = take
        self._caught_up = caught_up

    @property
    def has_runs(self) -> bool:
        """Whether the reader takes runs."""
        return self._protocol == WITH_RUNS

    @property
    def is_behind(self) -> bool:
        """Whether the reader has still to take much of what was written."""
        return self._paused

    def resumeProducing(self) -> None:
        """The reader has caught up."""
        super().resumeProducing()
        self._caught_up()

    def open(self) -> None:
        """Agree to the upgrade; a refusal can only be a record from now on."""
        if not self.is_open:
            self.is_open = True
            self._request.startedWriting = 1
            self._request.registerProducer(self, True)
            self._channel.switch(self._protocol, self._take)

    def write(self, data: bytes) -> None:
        """Hand over the next records."""
        if not self._is_broken:
            self.open()
            HTTPChannel.write(self._channel, data)

    def tell(self, **header: object) -> None:
        """Hand over a record that is nothing but a header."""
        self.write(StreamRecord(header).to_bytes())

    def flush(self) -> None:
        """See L{ResponseStream.flush}.

        An error of the socket is found by the reactor, which writes what is left.
        """
        if self._is_descriptor and self.is_open and self._descriptor.connected:
            self._descriptor.doWrite()

    def abort(self) -> None:
        """Close the connection here and now: the other side broke the rules."""
        self._connection.abortConnection()

    def end(self) -> None:
        """Close the connection behind what was written."""
        self.close()
        if not self._is_broken:
            self._is_broken = True
            HTTPChannel.loseConnection(self._channel)
