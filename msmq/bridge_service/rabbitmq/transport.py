"""pika's connection on a transport of Twisted, which reports why a connection could not be opened."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from pika.connection import Connection, ConnectionParameters
from pika.exceptions import AMQPError, StreamLostError
from pika.frame import Header
from pika.heartbeat import HeartbeatChecker
from pika.spec import FRAME_END_SIZE, FRAME_HEADER, BasicProperties
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from msmq.bridge_service.disconnection import Disconnection
from msmq.interfaces.bridge_messages import DECODE_ERROR

# pika logs what is reported here, bodies of returned messages included.
logging.getLogger("pika").addHandler(logging.NullHandler())
logging.getLogger("pika").setLevel(logging.CRITICAL)

CLOSED_BY_US: Final = 200
"""Reply code of a connection or channel that is closed normally."""

CLOSE_TIME: Final = 2.0
"""Seconds that a broker gets to answer when a connection is closed."""


_FRAME: Final = struct.Struct(">BHL")
"""Kind, channel and size of a frame. AMQP 0-9-1 4.2.3."""

_BODY_SIZE: Final = struct.Struct(">4xQ")
"""The size of the body, in a header frame. AMQP 0-9-1 4.2.6.1."""


class _Timer:
    """A timer of the reactor as pika cancels it."""

    def __init__(self, reactor: IReactorTime, delay: float, callback: Callable[[], object]) -> None:
        self._call = reactor.callLater(delay, callback)

    def cancel(self) -> None:
        """Cancel it; no effect if it has fired."""
        if self._call.active():
            self._call.cancel()


class _Heartbeats(HeartbeatChecker):  # type: ignore[misc]
    """Sends heartbeats, and misses none of the broker while nothing is read."""

    @property
    def connection_is_idle(self) -> bool:
        """Whether the broker has sent nothing for too long."""
        return super().connection_is_idle and not self._connection.is_reading_paused


class _Transport(Protocol):
    """The part of a transport that pika uses."""

    def write(self, data: bytes) -> None:
        """Write data."""


class _PikaConnection(Connection):  # type: ignore[misc]
    """pika's connection; its methods that begin with C{_adapter} are those that an adapter has to have."""

    def __init__(
        self,
        parameters: ConnectionParameters,
        reactor: IReactorTime,
        transport: _Transport,
        disconnect: Callable[[], None],
        opened: Callable[..., None],
        failed: Callable[..., None],
        closed: Callable[..., None],
    ) -> None:
        self._reactor = reactor
        self._transport = transport
        self._disconnect = disconnect
        self.is_reading_paused = False
        super().__init__(
            parameters=parameters,
            on_open_callback=opened,
            on_open_error_callback=failed,
            on_close_callback=closed,
            internal_connection_workflow=False,
        )
        self._on_stream_connected()

    def _adapter_connect_stream(self) -> None:
        # pika calls it only with a connection workflow of its own, and here there is a transport already.
        raise AssertionError("the transport is connected before pika's connection is made")

    def _adapter_disconnect_stream(self) -> None:
        self._disconnect()

    def _adapter_emit_data(self, data: bytes) -> None:
        self._transport.write(data)

    def _adapter_call_later(self, delay: float, callback: Callable[[], object]) -> _Timer:
        return _Timer(self._reactor, delay, callback)

    def _adapter_remove_timeout(self, timeout_id: _Timer) -> None:
        timeout_id.cancel()

    def _adapter_add_callback_threadsafe(self, callback: Callable[[], object]) -> None:
        self._reactor.callLater(0, callback)

    def _create_heartbeat_checker(self) -> _Heartbeats | None:
        return _Heartbeats(self, self.params.heartbeat) if self.params.heartbeat else None

    def received(self, data: bytes) -> None:
        """Process bytes of the broker."""
        self._on_data_available(data)

    def _read_frame(self) -> tuple[int, Any]:
        """The next frame; a header whose properties pika cannot decode has the reason in their place.

        The connection would end otherwise, and the broker would deliver the message again on the next one.
        """
        try:
            found: tuple[int, Any] = super()._read_frame()
            return found
        except (RecursionError, ValueError, struct.error, AMQPError) as error:
            kind, channel, size = _FRAME.unpack_from(self._frame_buffer)
            if kind != FRAME_HEADER:
                raise
            (body_size,) = _BODY_SIZE.unpack_from(self._frame_buffer, _FRAME.size)
            reason = "its headers are nested too deeply" if isinstance(error, RecursionError) else str(error)
            properties = BasicProperties(headers={DECODE_ERROR: reason or type(error).__name__})
            return _FRAME.size + size + FRAME_END_SIZE, Header(channel, body_size, properties)

    def lost(self, error: BaseException) -> None:
        """The transport is closed; an error that pika has found before is the reason."""
        if self.is_closed:
            return
        self._on_stream_terminated(None if self._error is not None else error)


class PikaProtocol(TwistedProtocol):
    """The protocol of one connection to a broker.

    @ivar opened: fires when the broker has accepted the connection, or fails with the error of pika, of the
        transport, or of TLS.
    @ivar closed: fires with the reason, an exception, when an open connection is closed.
    """

    transport: Any

    def __init__(self, parameters: ConnectionParameters, reactor: IReactorTime) -> None:
        self._parameters = parameters
        self._reactor = reactor
        self._pika: _PikaConnection | None = None
        self.opened: Deferred[None] = Deferred()
        self.closed: Deferred[BaseException] = Deferred()
        self._disconnection = Disconnection(reactor)
        self._late: IDelayedCall | None = None
        self._is_lost = False

    @property
    def connection(self) -> Any:
        """Pika's connection."""
        assert self._pika is not None
        return self._pika

    def connectionMade(self) -> None:
        """The transport is connected: begin the handshake of AMQP."""
        self._pika = _PikaConnection(
            self._parameters,
            self._reactor,
            self.transport,
            self._disconnect,
            self._opened,
            self._failed,
            self._closed,
        )

    def dataReceived(self, data: bytes) -> None:
        """Process bytes of the broker."""
        assert self._pika is not None
        try:
            self._pika.received(data)
        except Exception as error:
            # Not AMQP, or a frame that pika cannot read.
            self._end(error)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The transport is closed."""
        self._is_lost = True
        if self._late is not None and self._late.active():
            self._late.cancel()
        error = ConnectionDone() if reason.value is None else reason.value
        if self._pika is not None:
            self._pika.lost(
                StreamLostError("the broker has closed the connection")
                if reason.check(ConnectionDone)
                else error
            )
        self._end(error)
        self._disconnection.come()

    def pause_reading(self) -> None:
        """Read nothing more until L{resume_reading}: the broker waits, and what it has sent stays in buffers
        of the system.
        """
        self.connection.is_reading_paused = True
        self.transport.pauseProducing()

    def resume_reading(self) -> None:
        """Read again; no effect on a connection that is closed."""
        # What has come meanwhile counts as a sign of life before it is read.
        self.connection.bytes_received += 1
        self.connection.is_reading_paused = False
        self.transport.resumeProducing()

    async def close(self) -> None:
        """Close the connection, if there is one; done when it is closed."""
        if self.transport is None:
            return
        if self._pika is not None and self._pika.is_reading_paused:
            # The broker answers behind what it has sent.
            self.resume_reading()
        if self._pika is not None and self._pika.is_open:
            self._pika.close(CLOSED_BY_US, "closed by the bridge")
        else:
            self.transport.abortConnection()
        await self._disconnection.within(CLOSE_TIME, self.transport.abortConnection)

    def _opened(self, connection: object) -> None:
        if not self.opened.called:
            self.opened.callback(None)

    def _failed(self, connection: object, error: BaseException | str | None = None) -> None:
        self._end(error if isinstance(error, BaseException) else ConnectionError(str(error)))

    def _closed(self, connection: object, error: BaseException) -> None:
        self._end(error)

    def _end(self, error: BaseException) -> None:
        """Report the end, and close the transport."""
        if not self.opened.called:
            self.opened.errback(Failure(error))
        elif not self.closed.called:
            self.closed.callback(error)
        self._disconnect()

    def _disconnect(self) -> None:
        """Close the transport; abort it if what is written is not read, as by a broker that hangs."""
        if self.transport is None or self._is_lost:
            return
        self.transport.loseConnection()
        if self._late is None:
            self._late = self._reactor.callLater(CLOSE_TIME, self.transport.abortConnection)
