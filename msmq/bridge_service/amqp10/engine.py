"""The engine of proton on a transport of Twisted.

proton's reactor would need a thread, and its handlers there could not use the queue manager.  Its engine has
no input or output of its own: bytes go in, events and bytes come out, and so it runs in the reactor's thread
as every other protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

from proton import Collector, Connection, ProtonException, Transport
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from msmq.bridge_service.amqp10.errors import broker_error, condition_error
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.disconnection import Disconnection

CLOSE_TIME: Final = 2.0
"""Seconds that a broker gets to answer when a connection is closed."""

_CLOSED: Final = "the broker has closed the connection"


class LinkEvents(Protocol):
    """What is reported to a link; each link has a session of its own, which the broker may end with it."""

    def link_opened(self) -> None:
        """The broker has answered."""

    def link_flow(self) -> None:
        """The credit has changed."""

    def link_delivery(self, delivery: Any) -> None:
        """A delivery has arrived, or its state has changed."""

    def link_ended(self, error: BrokerError) -> None:
        """The broker has closed the link, its session, or the connection."""

    def link_abandoned(self) -> None:
        """The connection is being closed here: nothing is reported any more, and nothing may be left."""


class EngineProtocol(TwistedProtocol):
    """The protocol of one connection to a broker.

    @ivar opened: fires when the broker has accepted the connection, or fails with a L{BrokerError}.
    @ivar ended: fires with the reason when the connection has ended, after its links.
    """

    transport: Any

    def __init__(self, settings: Amqp10Settings, host: str, reactor: IReactorTime) -> None:
        self.opened: Deferred[None] = Deferred()
        self.ended: Deferred[BrokerError] = Deferred()
        self._settings = settings
        self._reactor = reactor
        self._collector = Collector()
        self._connection = Connection()
        self._connection.collect(self._collector)
        self._connection.container = settings.container
        self._connection.hostname = settings.hostname or host
        self._engine = Transport()
        self._engine.idle_timeout = settings.heartbeat
        self._links: dict[str, LinkEvents] = {}
        self._sessions: dict[str, Any] = {}
        self._names = count(1)
        self._tick: IDelayedCall | None = None
        self._error: BrokerError | None = None
        self._is_disconnected = False
        self._disconnection = Disconnection(reactor)
        self._is_processing = False
        self._has_received = False

    @property
    def has_ended(self) -> bool:
        """Whether the connection cannot be used any more."""
        return self._error is not None or self._is_disconnected

    # Links.

    def attach(self, make: Callable[[Any, str], Any], events: LinkEvents) -> Any:
        """Open a link in a session of its own.

        @param make: called with the session and the name of the link; returns the link with its settings.
        @raise BrokerError: the connection is closed.
        """
        if self.has_ended:
            raise self._error or BrokerError(_CLOSED)
        session = self._connection.session()
        session.open()
        link = make(session, f"{self._settings.container}-{next(self._names)}")
        self._links[link.name] = events
        self._sessions[link.name] = session
        link.open()
        self.flush()
        return link

    def detach(self, link: Any) -> None:
        """Close a link and its session."""
        self._sessions.pop(link.name, None)
        if self._links.pop(link.name, None) is not None:
            link.close()
            link.session.close()
            self.flush()

    # Twisted.

    def connectionMade(self) -> None:
        """The transport is connected: begin the handshake."""
        settings = self._settings
        sasl = self._engine.sasl()
        # TLS is Twisted's here, of which the engine does not know.
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs(settings.mechanism)
        if settings.user:
            self._connection.user = settings.user
            self._connection.password = settings.password
        self._engine.bind(self._connection)
        self._connection.open()
        self.flush()

    def dataReceived(self, data: bytes) -> None:
        """Process bytes of the broker."""
        self._has_received = True
        try:
            while data:
                capacity = self._engine.capacity()
                if capacity <= 0:
                    # The engine has ended: it reads nothing more.
                    break
                self._engine.push(data[:capacity])
                data = data[capacity:]
                self._process()
        except Exception as error:
            # Not AMQP, or what no handler expects.
            self._end(broker_error(error))
        self.flush()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The transport is closed."""
        self._is_disconnected = True
        if not self._has_received and reason.value is not None and not reason.check(ConnectionDone):
            # TLS has failed; the engine would only miss the handshake.
            self._end(broker_error(reason.value))
        try:
            self._engine.close_tail()
        except ProtonException:
            pass
        # The engine may know more: a login that was refused, a frame that was wrong.
        try:
            self._process()
        except Exception as error:
            # Whatever the last bytes were, the connection has ended.
            self._end(broker_error(error))
        if reason.value is None or reason.check(ConnectionDone):
            self._end(BrokerError(_CLOSED))
        else:
            self._end(broker_error(reason.value))
        if self._tick is not None and self._tick.active():
            self._tick.cancel()
        self._disconnection.come()

    async def close(self) -> None:
        """Close the connection, if there is one; done when it is closed."""
        if self.transport is None:
            return
        links, self._links = self._links, {}
        for events in links.values():
            events.link_abandoned()
        if self._error is None and self.opened.called and not self._is_disconnected:
            self._connection.close()
            self.flush()
        else:
            self.transport.abortConnection()
        await self._disconnection.within(CLOSE_TIME, self.transport.abortConnection)

    # The engine.

    def flush(self) -> None:
        """Process events, and send what the engine has to send."""
        self._process()
        if self._is_disconnected or self.transport is None:
            return
        self._write()
        self._keep_time()

    def _write(self) -> None:
        """Send what the engine has to send."""
        pending = self._engine.pending()
        while pending > 0:
            data = self._engine.peek(pending)
            if not data:
                break
            self.transport.write(bytes(data))
            self._engine.pop(len(data))
            self._process()
            pending = self._engine.pending()
        if pending < 0:
            self.transport.loseConnection()

    def _keep_time(self) -> None:
        if self._tick is not None and self._tick.active():
            self._tick.cancel()
        if self._is_disconnected:
            return
        now = self._reactor.seconds()
        deadline = self._engine.tick(now)
        if self._engine.pending() > 0:
            # A frame that keeps the connection alive: the next tick would be too late for it.
            self._write()
        if deadline:
            self._tick = self._reactor.callLater(max(0.0, deadline - now), self.flush)

    def _process(self) -> None:
        """Dispatch the events of the engine."""
        if self._is_processing:
            # The loop below gets what was added meanwhile.
            return
        self._is_processing = True
        try:
            while (event := self._collector.peek()) is not None:
                handle = getattr(self, f"_on_{event.type.name.removeprefix('PN_').lower()}", None)
                try:
                    if handle is not None:
                        handle(event)
                finally:
                    # An event that fails would fail again with the end of the connection.
                    self._collector.pop()
        finally:
            self._is_processing = False

    def _on_connection_remote_open(self, event: Any) -> None:
        if self._connection.remote_condition is None and not self.opened.called:
            self.opened.callback(None)

    def _on_connection_remote_close(self, event: Any) -> None:
        error = condition_error(self._connection.remote_condition, _CLOSED)
        self._connection.close()
        self._end(error)

    def _on_session_remote_close(self, event: Any) -> None:
        error = condition_error(event.session.remote_condition, "the broker has closed the session")
        ended = [name for name, session in self._sessions.items() if session == event.session]
        event.session.close()
        for name in ended:
            self._link_ended(name, error)
        # proton keeps what is closed for as long as the connection.
        event.session.free()

    def _on_link_remote_open(self, event: Any) -> None:
        events = self._links.get(event.link.name)
        if events is not None:
            events.link_opened()

    def _on_link_remote_close(self, event: Any) -> None:
        error = condition_error(event.link.remote_condition, "the broker has closed the link")
        event.link.close()
        event.link.session.close()
        self._link_ended(event.link.name, error)

    def _link_ended(self, name: str, error: BrokerError) -> None:
        self._sessions.pop(name, None)
        events = self._links.pop(name, None)
        if events is not None:
            events.link_ended(error)

    _on_link_remote_detach = _on_link_remote_close

    def _on_link_flow(self, event: Any) -> None:
        events = self._links.get(event.link.name)
        if events is not None:
            events.link_flow()

    def _on_delivery(self, event: Any) -> None:
        events = self._links.get(event.link.name)
        if events is not None:
            events.link_delivery(event.delivery)

    def _on_transport_error(self, event: Any) -> None:
        condition = self._engine.condition
        if condition is not None and condition.name == "amqp:unauthorized-access":
            self._end(BrokerError(f"the broker refuses the login ({self._settings.mechanism})"))
        else:
            self._end(condition_error(condition, _CLOSED))

    def _end(self, error: BrokerError) -> None:
        """Report the end, and close the transport."""
        if self._error is None:
            self._error = error
            if not self.opened.called:
                self.opened.errback(Failure(error))
            for name in list(self._links):
                self._link_ended(name, error)
            self.ended.callback(error)
        if self.transport is not None and not self._is_disconnected:
            self._reactor.callLater(0, self.transport.loseConnection)
