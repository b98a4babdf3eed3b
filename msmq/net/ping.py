"""Ping Messages over UDP, both sides; thin callers of the two cores in msmq.session. [MS-MQQB] 2.1.2.

[MS-MQQB] 2.1: a client may probe the availability of a server before it opens a session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import ClassVar, Final, Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, fail, gatherResults, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IDelayedCall, IListeningPort
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.line_limit import LineLimit
from msmq.quoting import quoted
from msmq.session.ping_initiator import PingEnded, PingInitiator, PingRequest, canonical_host
from msmq.session.ping_responder import Ignored, PingAnswer, PingResponder
from msmq.settings import SessionSettings

_LARGEST_PORT: Final = 65535

LINES: Final = 3
"""Lines of the log in a minute about datagrams of one kind; the counters of the core include all of them."""


class PingResponderProtocol(DatagramProtocol):
    """Answers Ping Requests; listen with it on C{settings.ping_port}. [MS-MQQB] 3.1.7.7.

    Other datagrams are ignored, and so are Ping Requests beyond the limit of the settings.
    To decide which sessions to refuse, or to observe pings, override the hooks
    L{would_refuse}, L{ping_answered} and L{ping_ignored}; what they raise is logged.

    @param identifier: QueueManager.Identifier.
    @param session_count: the current number of accepted sessions.
    @ivar responder: the core, with its counters C{answered} and C{ignored}.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        identifier: UUID,
        *,
        clock: IClock,
        settings: SessionSettings | None = None,
        session_count: Callable[[], int] = lambda: 0,
    ) -> None:
        self.settings = SessionSettings() if settings is None else settings
        self.clock = clock
        self.session_count = session_count
        self.responder = PingResponder(identifier, self.settings)
        self._lines = {kind: LineLimit.a_minute(LINES) for kind in ("ignored", "unanswered", "answered")}

    def configure(self, settings: SessionSettings) -> None:
        """Apply other limits."""
        self.settings = settings
        self.responder.configure(settings)

    def would_refuse(self, address: tuple[str, int]) -> bool:
        """Hook: whether a session from this initiator would be refused now.

        By default it is refused when the number of accepted sessions has reached MaxInSessions (note 70).

        @param address: the host and port that the request came from.
        """
        return self.session_count() >= self.settings.max_sessions

    def ping_answered(self, answer: PingAnswer, address: tuple[str, int]) -> None:
        """Hook: a request was answered."""

    def ping_ignored(self, reason: Ignored, address: tuple[str, int]) -> None:
        """Hook: a datagram was not answered; the reason is not sent."""

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        """Answer one request, to the address and port that it came from."""
        host, port = addr[0], addr[1]
        outcome = self.responder.answer(
            datagram, host, port, self.clock.now(), refuses=lambda: self.would_refuse((host, port))
        )
        if isinstance(outcome, Ignored):
            self._log_datagram(
                "ignored", "ignored a datagram from {host}:{port}: {why}", addr, why=outcome.value
            )
            self.ping_ignored(outcome, (host, port))
            return
        assert self.transport is not None, "there is a socket"
        try:
            self.transport.write(outcome.response.to_bytes(), (host, port))
        except OSError as error:
            # A forged source, or no route back to it: no peer waits for this answer.
            self._log_datagram("unanswered", "cannot answer {host}:{port}: {error}", addr, error=error)
            return
        is_refused = outcome.response.is_refused
        self._log_datagram(
            "answered", "answered a ping from {host}:{port}, refused: {refused}", addr, refused=is_refused
        )
        self.ping_answered(outcome, (host, port))

    def _log_datagram(self, kind: str, line: str, address: tuple[str, int], **values: object) -> None:
        """Log an event that any host can cause, within the limit on log lines."""
        omitted = self._lines[kind].take(self.clock.now())
        if omitted is not None:
            self.log.debug(line + "{omitted}", host=address[0], port=address[1], omitted=omitted, **values)


@attrs.frozen
class PingReply:
    """The result of one ping.

    @ivar address: the IP address that was pinged.
    @ivar will_accept: rStatus of [MS-MQQB] 3.1.7.6, whether a session would be accepted.
    @ivar identifier: the queue manager that answered; C{None} if none did in time.
    @ivar refused: it answered that it would refuse a session.
    @ivar seconds: from the request to the answer, or to the end of waiting.
    @ivar problem: why the request could not be sent; empty if it was.
    """

    address: str
    will_accept: bool
    identifier: UUID | None
    refused: bool
    seconds: float
    problem: str = ""


class PingReactor(Protocol):
    """The part of a reactor that a L{Pinger} uses, or of a host of L{msmq.testing.network}."""

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """As C{IReactorTime.callLater}."""

    def listenUDP(self, port: int, protocol: DatagramProtocol, interface: str) -> IListeningPort:
        """As C{IReactorUDP.listenUDP}."""


@attrs.define(eq=False)
class _Question:
    host: str
    port: int
    answer: Deferred[PingReply]


class Pinger:
    """Pings acceptors to learn whether they would accept a session; one per queue manager. [MS-MQQB] 3.1.7.6.

    A response counts only for the newest request (2.2.7), so concurrent pings are queued: each is sent, and
    its second begins, when the previous one has ended.

    Requests leave from a port that the system chooses, and are answered to it.  There is a socket for
    each family of addresses, opened when it is first needed, and closed by L{stop}.

    @param reactor: schedules time-outs and opens the sockets.
    @param interface: the IP address that requests to addresses of its family leave from; requests to the
        other family leave from any.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        identifier: UUID,
        *,
        reactor: PingReactor,
        clock: IClock,
        settings: SessionSettings | None = None,
        interface: str = "",
    ) -> None:
        self.settings = SessionSettings() if settings is None else settings
        self._reactor = reactor
        self._clock = clock
        self._interface = interface
        self._initiator = PingInitiator(identifier, self.settings)
        self._sockets: dict[int, tuple[DatagramProtocol, IListeningPort]] = {}
        self._line: deque[_Question] = deque()
        self._asked: tuple[_Question, PingRequest] | None = None
        self._timer: IDelayedCall | None = None
        self._is_stopped = False
        self._ignored = LineLimit.a_minute(LINES)

    def configure(self, settings: SessionSettings) -> None:
        """Apply other time-outs to later pings."""
        self.settings = settings
        self._initiator.configure(settings)

    def ask(self, address: str, port: int | None = None) -> Deferred[PingReply]:
        """Ping one acceptor.

        The Deferred fires within one second if no other ping is pending; it may be
        cancelled.  Silence and refusal are answers, not errors.

        @param address: an IP address; names are resolved by the caller.
        @param port: the UDP port to ping; by default C{settings.ping_port}.
        @raise LocalProtocolError: in the Deferred: C{address} is not an IP address, C{port} is not a UDP
            port, or L{stop} was called.
        """
        try:
            if self._is_stopped:
                raise LocalProtocolError("the pinger was stopped")
            if port is not None and (type(port) is not int or not 0 < port <= _LARGEST_PORT):
                # The socket would refuse it, while the request counts as sent.
                raise LocalProtocolError(f"a ping is sent to a port from 1 to 65535, not to {quoted(port)}")
            host = canonical_host(address)
        except LocalProtocolError as error:
            return fail(error)
        answer: Deferred[PingReply] = Deferred(self._cancelled)
        self._line.append(_Question(host, self.settings.ping_port if port is None else port, answer))
        self._next()
        return answer

    def would_accept(self, address: str) -> Deferred[bool]:
        """L{ask}, reduced to the decision whether to try a session ([MS-MQQB] 3.1.5.2.2)."""
        return self.ask(address).addCallback(lambda reply: reply.will_accept)

    def stop(self) -> Deferred[None]:
        """Close the sockets; pending callers get a C{CancelledError}."""
        self._is_stopped = True
        waiting = [question.answer for question in self._line]
        if self._asked is not None:
            waiting.insert(0, self._asked[0].answer)
        self._line.clear()
        for answer in waiting:
            answer.cancel()
        ports = [port for _, port in self._sockets.values()]
        self._sockets.clear()
        closing = gatherResults([maybeDeferred(port.stopListening) for port in ports])
        return closing.addCallback(lambda _: None)

    def datagram_received(self, datagram: bytes, host: str) -> None:
        """A datagram came to the port that requests leave from. [MS-MQQB] 3.1.7.8."""
        ended = self._initiator.receive(datagram, host, self._clock.now())
        if ended is None:
            omitted = self._ignored.take(self._clock.now())
            if omitted is not None:
                self.log.debug(
                    "ignored a datagram from {host}, which answers no pending ping{omitted}",
                    host=host,
                    omitted=omitted,
                )
        else:
            self._end(ended)

    def _cancelled(self, answer: Deferred[PingReply]) -> None:
        if self._asked is not None and self._asked[0].answer is answer:
            self._initiator.abandon(self._asked[1].cookie)
            self._asked = None
            self._next()
        else:
            self._line = deque(question for question in self._line if question.answer is not answer)

    def _next(self) -> None:
        """Send the next request, if none is pending."""
        while self._asked is None and self._line:
            question = self._line.popleft()
            request = self._initiator.ask(question.host, self._clock.now())
            try:
                self._send(request.datagram, question.host, question.port)
            except (OSError, CannotListenError) as error:
                self._initiator.abandon(request.cookie)
                question.answer.callback(
                    PingReply(question.host, False, None, False, 0.0, problem=str(error))
                )
            else:
                self._asked = question, request
        self._schedule()

    def _send(self, datagram: bytes, host: str, port: int) -> None:
        version = ip_address(host).version
        if version not in self._sockets:
            interface = self._interface
            if not interface or ip_address(interface).version != version:
                interface = "0.0.0.0" if version == 4 else "::"
            socket = _PingerProtocol(self)
            self._sockets[version] = socket, self._reactor.listenUDP(0, socket, interface)
        transport = self._sockets[version][0].transport
        assert transport is not None, "the socket is open"
        transport.write(datagram, (host, port))

    def _schedule(self) -> None:
        """Keep one scheduled call, for the pending request."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._initiator.deadline()
        if deadline is not None:
            delay = max(0.0, deadline - self._clock.now().monotonic)
            self._timer = self._reactor.callLater(delay, self._expired)

    def _expired(self) -> None:
        self._timer = None
        ends = self._initiator.expire(self._clock.now())
        for ended in ends:
            self._end(ended)
        if not ends:
            # The reactor's clock may be ahead of ours.
            self._schedule()

    def _end(self, ended: PingEnded) -> None:
        assert self._asked is not None, "a request ends that was sent"
        question, self._asked = self._asked[0], None
        self._next()
        response = ended.response
        question.answer.callback(
            PingReply(
                address=ended.host,
                will_accept=ended.status,
                identifier=None if response is None else response.qm_guid,
                refused=response is not None and response.is_refused,
                seconds=ended.seconds,
            )
        )


class _PingerProtocol(DatagramProtocol):
    """One socket of a L{Pinger}."""

    noisy = False

    def __init__(self, pinger: Pinger) -> None:
        self._pinger = pinger

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        self._pinger.datagram_received(datagram, addr[0])
