"""Twisted factory of sessions, with limits on connections of peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias
from uuid import UUID

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from msmq.errors import LocalProtocolError
from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.line_limit import LineBudget
from msmq.net.receive_memory import ReceiveMemory
from msmq.net.session import SessionProtocol
from msmq.session.connection_limits import ConnectionLimits, ConnectionRefusal, RefusedPeer
from msmq.session.effects import CloseReason
from msmq.session.packet_counts import TrafficCounts
from msmq.session.session import Session
from msmq.settings import SessionSettings
from msmq.wire.addresses import AddressSet, counted_host

MakeSession: TypeAlias = "Callable[[SessionFactory, Session], SessionProtocol]"
"""L{SessionProtocol}, a subclass of it, or whatever makes one."""


class SessionFactory(ServerFactory):
    """Makes sessions: one for every connection that is accepted, and those that a connector dials.

    @param allowed: the addresses from which connections are accepted; C{None} for all.
    @ivar protocol: the class of the sessions; set it to a subclass of L{SessionProtocol}.
    @ivar broker: notified by the default hooks; may be C{None}.
    @ivar counts: the packets of all its sessions, by kind.
    @ivar receive_memory: what its sessions hold of packets that are not done with.
    @ivar is_offline: whether connections are refused, and none are dialled.
    """

    log: ClassVar[Logger] = Logger()

    noisy = False
    protocol: MakeSession = SessionProtocol

    def __init__(
        self,
        identifier: UUID,
        *,
        reactor: IReactorTime,
        clock: IClock,
        settings: SessionSettings | None = None,
        broker: IBroker | None = None,
        allowed: AddressSet | None = None,
        protocol: MakeSession | None = None,
    ) -> None:
        if protocol is not None:
            self.protocol = protocol
        self.identifier = identifier
        self.reactor = reactor
        self.clock = clock
        self.settings = settings if settings is not None else SessionSettings()
        self.broker = broker
        self.counts = TrafficCounts()
        self._lines = _lines_of(self.settings)
        self.is_offline = False
        self.receive_memory = ReceiveMemory(self.settings.receive_memory, reactor)
        self._doorkeeper = ConnectionLimits(
            self.settings.sessions_per_second, self.settings.max_connections_per_host, allowed
        )
        self._connections: set[SessionProtocol] = set()
        # The one that has waited the longest comes first.
        self._handshaking: dict[SessionProtocol, None] = {}
        self._accepted: set[SessionProtocol] = set()
        self._accepted_by_host: Counter[str] = Counter()

    def configure(self, settings: SessionSettings, allowed: AddressSet | None) -> None:
        """Apply other settings: limits at once, everything else to sessions that begin from now on."""
        self.settings = settings
        self.receive_memory.configure(settings.receive_memory)
        self._lines = _lines_of(settings)
        self._doorkeeper.configure(settings.sessions_per_second, settings.max_connections_per_host, allowed)

    def attach(self, broker: IBroker, *, is_offline: bool) -> None:
        """See L{ISessions.attach<msmq.interfaces.sessions.ISessions.attach>}."""
        if self.broker is not None:
            raise LocalProtocolError("these sessions have a broker already")
        self.broker = broker
        self.is_offline = is_offline

    def take_offline(self) -> None:
        """See L{ISessions.take_offline<msmq.interfaces.sessions.ISessions.take_offline>}."""
        self.is_offline = True

    def bring_online(self) -> None:
        """See L{ISessions.bring_online<msmq.interfaces.sessions.ISessions.bring_online>}."""
        self.is_offline = False

    @property
    def connections(self) -> frozenset[SessionProtocol]:
        """Every session that has a connection, in whatever state."""
        return frozenset(self._connections)

    @property
    def is_full(self) -> bool:
        """Whether as many accepted sessions are open as C{max_sessions} allows."""
        return len(self._accepted) >= self.settings.max_sessions

    @property
    def refused(self) -> Mapping[str, int]:
        """How many connections did not become sessions, by the limit or the setting that was the reason."""
        return {refusal.value: count for refusal, count in self._doorkeeper.refused.items()}

    @property
    def refused_peers(self) -> Sequence[RefusedPeer]:
        """Whose connections those were, the latest first."""
        return self._doorkeeper.refused_peers()

    def buildProtocol(self, addr: IAddress | None) -> SessionProtocol | None:
        """A session for a connection that was accepted; C{None} closes it.

        That is so offline, and where the L{ConnectionLimits} says so.
        """
        host = str(getattr(addr, "host", ""))
        refusal = self._refusal(host)
        if refusal is not None:
            self.refuse(refusal, host)
            return None
        return self.build(is_initiator=False)

    def _refusal(self, host: str) -> ConnectionRefusal | None:
        if self.is_offline:
            return ConnectionRefusal.OFFLINE
        return self._doorkeeper.judge(host, self._accepted_by_host[counted_host(host)], self.clock.now())

    def refuse(self, refusal: ConnectionRefusal, host: str, detail: str = "") -> None:
        """A connection did not become a session: count it, and say so in the log, though not every time.

        @param detail: what else the log says of it.
        """
        if not self._doorkeeper.note(host, refusal, self.clock.now()):
            return
        if (others := self.peer_line("refused")) is not None:
            self.log.warn(
                "a connection with {host} is refused: {reason}{detail}{others}",
                others=others,
                host=host or "this machine",
                reason=refusal.value,
                detail=f" ({detail})" if detail else "",
            )

    def peer_line(self, kind: str) -> str | None:
        """What to write behind a log line about something that peers cause; C{None} to leave the line out.

        @param kind: of the line, a word of the program's.
        """
        return self._lines.take(kind, self.clock.now())

    def build(
        self,
        *,
        is_initiator: bool,
        expected_identifier: UUID | None = None,
        was_pinged: bool = False,
        has_backlog: Callable[[], bool] | None = None,
        retry_time: float | None = None,
    ) -> SessionProtocol:
        """A session without a connection; its parameters are those of L{Session}."""
        session = Session(
            self.identifier,
            self.settings,
            is_initiator=is_initiator,
            expected_identifier=expected_identifier,
            was_pinged=was_pinged,
            accepts=lambda: self._accepts(protocol),
            has_backlog=has_backlog,
            counts=self.counts,
            retry_time=retry_time,
        )
        protocol = self.protocol(self, session)
        return protocol

    def _accepts(self, protocol: SessionProtocol) -> bool:
        accepted = protocol.may_open()
        if not accepted:
            self.refuse(ConnectionRefusal.SESSIONS, protocol.remote_address)
        return accepted

    def connection_made(self, connection: SessionProtocol) -> None:
        """A session has got its connection.

        If too many handshakes are pending, the oldest is closed: idle connections cannot keep out peers
        that complete the handshake.
        """
        self._connections.add(connection)
        if connection.is_initiator:
            return
        self._accepted_by_host[counted_host(connection.remote_address)] += 1
        if len(self._handshaking) >= self.settings.max_handshakes:
            oldest = next(iter(self._handshaking))
            del self._handshaking[oldest]
            self.refuse(ConnectionRefusal.HANDSHAKES, oldest.remote_address)
            oldest.close(CloseReason.CROWDED_OUT)
        self._handshaking[connection] = None

    def handshake_done(self, connection: SessionProtocol) -> None:
        """A session is open."""
        if connection in self._handshaking:
            del self._handshaking[connection]
            self._accepted.add(connection)

    def connection_lost(self, connection: SessionProtocol) -> None:
        """A session has lost its connection."""
        self._connections.discard(connection)
        self._handshaking.pop(connection, None)
        self._accepted.discard(connection)
        if not connection.is_initiator:
            host = counted_host(connection.remote_address)
            self._accepted_by_host[host] -= 1
            if self._accepted_by_host[host] <= 0:
                del self._accepted_by_host[host]

    def close_all(self, reason: CloseReason = CloseReason.STOPPED) -> None:
        """End every session."""
        for connection in tuple(self._connections):
            connection.close(reason)


def _lines_of(settings: SessionSettings) -> LineBudget:
    return LineBudget(settings.log_lines // 4, settings.log_lines)
