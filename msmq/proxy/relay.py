"""Relay of sessions: two connections, between which each byte is passed on unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from typing import Protocol as Interface

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IProtocol, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, ServerFactory
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.decoding.packet_stream import PacketStream
from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.proxy.capture_file import CaptureAddress, CapturedConnection, CaptureFile
from msmq.proxy.relayed_packet import RelayedPacket
from msmq.quoting import kind_of, quoted

MOST_SESSIONS: Final = 100
"""Default limit on the sessions that are relayed at the same time."""


class RelaySide(Protocol):
    """The connection to one of the two queue managers.

    The transports pause each other: of what one queue manager sends and the other does not read, no more is
    buffered than the transport of the other buffers.
    """

    def __init__(self, session: RelayedSession, is_initiator: bool) -> None:
        self._session = session
        self._is_initiator = is_initiator

    def dataReceived(self, data: bytes) -> None:
        """Pass bytes on."""
        self._session.relay(self._is_initiator, data)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """End the other connection."""
        self._session.ended(self._is_initiator, reason)


class InitiatorSide(RelaySide):
    """The connection that a proxy has accepted."""

    def connectionMade(self) -> None:
        """Connect to the target."""
        self._session.connect()


class RelayedSession:
    """One session through a proxy.

    @ivar number: from 1.
    @ivar is_over: whether a side has ended; the other may still have to receive something.
    """

    def __init__(self, factory: RelayFactory, number: int) -> None:
        self.number = number
        self._factory = factory
        self.initiator = InitiatorSide(self, True)
        self._acceptor: RelaySide | None = None
        self._connecting: Deferred[IProtocol] | None = None
        self._captured: CapturedConnection | None = None
        self._streams = {True: PacketStream(), False: PacketStream()}
        # The connections that have not ended, by whether they are that of the initiator.
        self._connected_sides = {True}
        self.is_over = False

    def connect(self) -> None:
        """Connect to the target; until then nothing is read."""
        self.initiator.transport.pauseProducing()  # type: ignore[union-attr]
        acceptor = RelaySide(self, False)
        connecting = self._connecting = self._factory.target.connect(Factory.forProtocol(lambda: acceptor))
        connecting.addCallbacks(lambda _: self._connected(acceptor), self._refused)

    def relay(self, is_initiator: bool, data: bytes) -> None:
        """Pass on what one side sent, record it, and report its packets.

        What a side sends after the other has ended reaches no one, and is dropped.
        """
        other = self._acceptor if is_initiator else self.initiator
        if self.is_over or other is None or other.transport is None:
            return
        other.transport.write(data)
        now = self._factory.clock.now().wall
        if self._captured is not None:
            self._factory.record(self, lambda captured: captured.sent(is_initiator, data, now))
        for fields in self._streams[is_initiator].feed(data):
            self._factory.report(RelayedPacket(self.number, "packet", now, is_initiator, fields))

    def ended(self, is_initiator: bool, reason: Failure | None) -> None:
        """One side has ended: end the other after what is still to be written, or at once after an error."""
        self._connected_sides.discard(is_initiator)
        if not self.is_over:
            self._end(is_initiator, reason)
        if not self._connected_sides:
            self._factory.forget(self)

    def _end(self, is_initiator: bool, reason: Failure | None) -> None:
        self.is_over = True
        is_clean = reason is None or reason.check(ConnectionDone) is not None
        if self._connecting is not None:
            self._connecting.cancel()
        other = self._acceptor if is_initiator else self.initiator
        transport: Any = None if other is None else other.transport
        if transport is not None:
            transport.unregisterProducer()
            (transport.loseConnection if is_clean else transport.abortConnection)()
        now = self._factory.clock.now().wall
        for side, stream in self._streams.items():
            for fields in stream.end():
                self._factory.report(RelayedPacket(self.number, "packet", now, side, fields))
        if self._captured is not None:
            self._factory.record(self, lambda captured: captured.end(is_initiator, now))
        detail = "" if reason is None else reason.getErrorMessage()
        self._factory.report(RelayedPacket(self.number, "closed", now, is_initiator, detail=detail))

    def refuse(self, reason: str) -> None:
        """Close a connection that is not relayed."""
        self.is_over = True
        now = self._factory.clock.now().wall
        self.initiator.transport.abortConnection()  # type: ignore[union-attr]
        self._factory.forget(self)
        self._factory.report(RelayedPacket(self.number, "refused", now, detail=reason))

    def captured(self) -> CapturedConnection | None:
        """Its connection in the capture; C{None} without one."""
        return self._captured

    def stop_capture(self) -> None:
        """Record no more of it."""
        self._captured = None

    def close(self) -> None:
        """Close both connections."""
        for side in (self.initiator, self._acceptor):
            if side is not None and side.transport is not None:
                side.transport.abortConnection()  # type: ignore[attr-defined]

    def _connected(self, acceptor: RelaySide) -> None:
        self._connecting = None
        if self.is_over:
            acceptor.transport.abortConnection()  # type: ignore[union-attr]
            return
        self._acceptor = acceptor
        self._connected_sides.add(False)
        incoming: Any = self.initiator.transport
        outgoing: Any = acceptor.transport
        now = self._factory.clock.now().wall
        self._captured = self._factory.begin_capture(self, incoming.getPeer(), outgoing.getPeer(), now)
        self._factory.report(RelayedPacket(self.number, "opened", now))
        outgoing.registerProducer(incoming, True)
        incoming.registerProducer(outgoing, True)
        incoming.resumeProducing()

    def _refused(self, reason: Failure) -> None:
        self._connecting = None
        if not self.is_over:
            self.refuse(reason.getErrorMessage())


class PacketListener(Interface):
    """Whom a relay reports to."""

    def __call__(self, packet: RelayedPacket, /) -> object:
        """A packet was relayed, or a session changed."""


class RelayFactory(ServerFactory):
    """Accepts sessions, and relays each to the target over a connection of its own.

    The bytes are passed on unchanged, whether a session is encrypted or breaks every rule.

    @param target: where the sessions are relayed to.
    @param clock: the time of what is reported.
    @param listener: called with each packet and each change of a session; what it raises is logged.
    @param capture: where the bytes are recorded; C{None} to record nothing.
    @param most_sessions: further connections are closed. A session of which one connection has ended counts
        until the other has received what was still to be written, unless a new one would exceed the limit.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    """

    log = Logger()
    noisy = False

    def __init__(
        self,
        target: IStreamClientEndpoint,
        *,
        clock: IClock,
        listener: PacketListener,
        capture: CaptureFile | None = None,
        most_sessions: int = MOST_SESSIONS,
    ) -> None:
        if not IStreamClientEndpoint.providedBy(target):
            raise LocalProtocolError(
                f"RelayFactory: target is {kind_of(target)}; it has to provide IStreamClientEndpoint"
            )
        given: object = listener
        if not callable(given):
            raise LocalProtocolError(f"RelayFactory: listener is {kind_of(given)}; it has to be a callable")
        count: object = most_sessions
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise LocalProtocolError(
                f"RelayFactory: most_sessions is {quoted(count)}; it has to be a number, at least 1"
            )
        self.target = target
        self.clock = clock
        self._listener = listener
        self._capture = capture
        self._most_sessions = most_sessions
        self._sessions: list[RelayedSession] = []
        self._count = 0

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """A new session."""
        self._count += 1
        session = RelayedSession(self, self._count)
        self._sessions.append(session)
        if len(self._sessions) > self._most_sessions:
            self._end_oldest()
        if len(self._sessions) > self._most_sessions:
            session.initiator = RefusedSide(session, f"{self._most_sessions} sessions are relayed already")
        return session.initiator

    def close(self) -> None:
        """Close all sessions."""
        for session in tuple(self._sessions):
            session.close()

    def _end_oldest(self) -> None:
        """Close the oldest session of which one side has ended: a peer that reads nothing more keeps no new
        session out.
        """
        ended = next((session for session in self._sessions if session.is_over), None)
        if ended is not None:
            self._sessions.remove(ended)
            ended.close()

    # Called by sessions

    def report(self, packet: RelayedPacket) -> None:
        """Report a packet, or a change of a session."""
        try:
            self._listener(packet)
        except Exception:
            self.log.failure("the listener of a relay failed")

    def forget(self, session: RelayedSession) -> None:
        """Both connections of a session have ended, or it is refused."""
        if session in self._sessions:
            self._sessions.remove(session)

    def begin_capture(
        self, session: RelayedSession, initiator: IAddress, acceptor: IAddress, time: float
    ) -> CapturedConnection | None:
        """Begin to record a session; C{None} without a capture."""
        capture = self._capture
        if capture is None:
            return None
        try:
            return capture.connection(_address(initiator), _address(acceptor), time)
        except OSError as error:
            self._failed(session, capture, error)
            return None

    def record(self, session: RelayedSession, step: Callable[[CapturedConnection], object]) -> None:
        """Record something of a session; a file that cannot be written ends the capture, and no session."""
        captured, capture = session.captured(), self._capture
        if captured is None or capture is None:
            return
        try:
            step(captured)
        except OSError as error:
            self._failed(session, capture, error)

    def _failed(self, session: RelayedSession, capture: CaptureFile, error: OSError) -> None:
        self._capture = None
        for each in self._sessions:
            each.stop_capture()
        text = f"{capture.path}: {error.strerror or error}"
        self.log.error("the capture has ended: {reason}", reason=text)
        self.report(RelayedPacket(session.number, "capture_failed", self.clock.now().wall, detail=text))


class RefusedSide(InitiatorSide):
    """A connection beyond the limit."""

    def __init__(self, session: RelayedSession, reason: str) -> None:
        super().__init__(session, True)
        self._reason = reason

    def connectionMade(self) -> None:
        """Close it."""
        self._session.refuse(self._reason)


def _address(address: IAddress) -> CaptureAddress:
    host, port = getattr(address, "host", ""), getattr(address, "port", 0)
    try:
        return CaptureAddress(str(host), int(port)) if host else CaptureAddress("0.0.0.0", 0)
    except ValueError:
        return CaptureAddress("0.0.0.0", 0)
