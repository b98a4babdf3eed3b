"""Twisted factory of sessions, with limits on connections of peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from msmq.errors import LocalProtocolError
from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.interfaces.session import ISession
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.line_limit import LineBudget
from msmq.net.accepted_connections import AcceptedConnections, last_activity
from msmq.net.clock import SystemClock
from msmq.net.factory_arguments import check_argument, check_broker
from msmq.net.policed_broker import GuardedSessionPolicy, PolicedBroker
from msmq.net.reactors import running_reactor
from msmq.net.receive_memory import ReceiveMemory
from msmq.net.session import SessionProtocol
from msmq.net.transports import LargeReads
from msmq.session.connection_limits import ConnectionLimits, ConnectionRefusal, RefusedPeer
from msmq.session.descriptor_shares import SMALL, DescriptorShares, DescriptorUse
from msmq.session.effects import CloseReason
from msmq.session.packet_counts import TrafficCounts
from msmq.session.session import Session
from msmq.settings import SessionSettings
from msmq.wire.addresses import AddressSet, unmapped

MakeSession: TypeAlias = "Callable[[SessionFactory, Session], SessionProtocol]"
"""L{SessionProtocol}, a subclass of it, or a callable that creates one."""


DEFAULT_SHARES: Final = DescriptorShares.of(SMALL)
"""Connections that a factory may have without C{shares}."""


class SessionFactory(ServerFactory):
    """Creates sessions: one for every accepted connection, and those that a connector dials.

    @param identifier: the queue manager identifier by which peers know this side.
    @param reactor: for timers; by default Twisted's global reactor.
    @param clock: the time; by default the machine's.
    @param policy: which peers may open sessions, and which messages they may send; C{None} for no policy.
    @param shares: how many descriptors its connections may have; by default those of a process that may open
        1,024.
    @param allowed: the addresses from which connections are accepted; C{None} for all.
    @ivar protocol: the class of the sessions; set it to a subclass of L{SessionProtocol}.
    @ivar broker: notified by the default hooks; may be C{None}.
    @ivar counts: the packets of all its sessions, by kind.
    @ivar receive_memory: the memory of packets that its sessions have not processed.
    @ivar large_reads: the sessions that are read more at a time, since large messages arrive on them.
    @ivar is_offline: whether connections are refused, and none are dialled.
    @raise LocalProtocolError: an argument has another type; the error names it.
    """

    log: ClassVar[Logger] = Logger()

    noisy = False
    protocol: MakeSession = SessionProtocol

    def __init__(
        self,
        identifier: UUID,
        *,
        reactor: IReactorTime | None = None,
        clock: IClock | None = None,
        shares: DescriptorShares = DEFAULT_SHARES,
        settings: SessionSettings | None = None,
        broker: IBroker | None = None,
        allowed: AddressSet | None = None,
        protocol: MakeSession | None = None,
        policy: ISessionPolicy | None = None,
    ) -> None:
        self._check(
            identifier=identifier,
            reactor=reactor,
            clock=clock,
            shares=shares,
            settings=settings,
            allowed=allowed,
            protocol=protocol,
            policy=policy,
        )
        if protocol is not None:
            self.protocol = protocol
        self.identifier = identifier
        self.reactor = running_reactor() if reactor is None else reactor
        self.clock = SystemClock() if clock is None else clock
        self.settings = settings if settings is not None else SessionSettings()
        self._policy = None if policy is None else GuardedSessionPolicy(policy, self.clock)
        self.broker: IBroker | None = None
        if broker is not None:
            check_broker(broker)
            self.broker = self._policed(broker)
        self.counts = TrafficCounts()
        self._lines = _lines_of(self.settings)
        self.is_offline = False
        self.receive_memory = ReceiveMemory(self.settings.receive_memory, self.reactor)
        self.large_reads = LargeReads()
        self._connection_limits = ConnectionLimits(
            self.settings.sessions_per_second, self.settings.max_connections_per_host, allowed
        )
        self._connections: dict[SessionProtocol, None] = {}
        # The oldest comes first.
        self._handshaking: dict[SessionProtocol, None] = {}
        self._accepted: dict[SessionProtocol, None] = {}
        self._shares = shares
        self._incoming = AcceptedConnections()
        self._outgoing: dict[SessionProtocol, None] = {}
        self._evicted = 0

    @staticmethod
    def _check(identifier: UUID, **optional: object) -> None:
        check_argument("identifier", identifier)
        for name, value in optional.items():
            if value is not None:
                check_argument(name, value)

    def configure(self, settings: SessionSettings, allowed: AddressSet | None) -> None:
        """Apply other settings: limits at once, everything else to sessions that begin from now on."""
        self.settings = settings
        self.receive_memory.configure(settings.receive_memory)
        self._lines = _lines_of(settings)
        self._connection_limits.configure(
            settings.sessions_per_second, settings.max_connections_per_host, allowed
        )

    def attach(self, broker: IBroker, *, is_offline: bool) -> None:
        """See L{ISessions.attach<msmq.interfaces.sessions.ISessions.attach>}."""
        if self.broker is not None:
            raise LocalProtocolError("these sessions already have a broker")
        check_broker(broker)
        self.broker = self._policed(broker)
        self.is_offline = is_offline

    def _policed(self, broker: IBroker) -> IBroker:
        return (
            broker if self._policy is None else PolicedBroker(broker, self._policy, self._refused_by_policy)
        )

    def _refused_by_policy(self, session: ISession, reason: str) -> None:
        self.refuse(ConnectionRefusal.POLICY, session.remote_address, reason)

    def take_offline(self) -> None:
        """See L{ISessions.take_offline<msmq.interfaces.sessions.ISessions.take_offline>}."""
        self.is_offline = True

    def bring_online(self) -> None:
        """See L{ISessions.bring_online<msmq.interfaces.sessions.ISessions.bring_online>}."""
        self.is_offline = False

    @property
    def connections(self) -> tuple[SessionProtocol, ...]:
        """Every session that has a connection, in any state; the oldest connection first."""
        return tuple(self._connections)

    @property
    def is_full(self) -> bool:
        """Whether C{max_sessions} accepted sessions are open."""
        return len(self._accepted) >= self.settings.max_sessions

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of refused connections, by the limit or setting that refused them."""
        return {refusal.value: count for refusal, count in self._connection_limits.refused.items()}

    @property
    def refused_peers(self) -> Sequence[RefusedPeer]:
        """The peers of refused connections, the latest first."""
        return self._connection_limits.refused_peers()

    @property
    def descriptors(self) -> DescriptorUse:
        """See L{ISessions.descriptors<msmq.interfaces.sessions.ISessions.descriptors>}."""
        return DescriptorUse(
            limit=self._shares.limit,
            incoming=len(self._incoming),
            incoming_limit=self._shares.incoming,
            outgoing=len(self._outgoing),
            outgoing_limit=self._shares.outgoing,
            evicted=self._evicted,
        )

    def buildProtocol(self, addr: IAddress | None) -> SessionProtocol | None:
        """A session for a connection that was accepted; C{None} closes it.

        Connections are refused offline, and by the L{ConnectionLimits}.
        """
        host = unmapped(str(getattr(addr, "host", "")))
        refusal = self._refusal(host)
        if refusal is not None:
            self.refuse(refusal, host, "")
            return None
        return self.build(is_initiator=False)

    def _refusal(self, host: str) -> ConnectionRefusal | None:
        if self.is_offline:
            return ConnectionRefusal.OFFLINE
        return self._connection_limits.check(host, self._incoming.of(host), self.clock.now())

    def would_refuse(self, host: str) -> bool:
        """Whether a connection from this host would not become a session now: it is not allowed to connect,
        C{max_sessions} is reached, or the queue manager is offline.
        """
        return self.is_offline or self.is_full or not self._connection_limits.admits(host)

    def refuse(self, refusal: ConnectionRefusal, host: str, detail: str) -> None:
        """Count a refused connection, and log it within the limit on log lines.

        @param detail: what else the log says of it; empty for nothing.
        """
        if not self.note_refusal(refusal, host):
            return
        if (others := self.peer_line("refused")) is not None:
            self.log.warn(
                "a connection with {host} is refused: {reason}{detail}{others}",
                others=others,
                host=host or "this machine",
                reason=refusal.value,
                detail=f" ({detail})" if detail else "",
            )

    def note_refusal(self, refusal: ConnectionRefusal, host: str) -> bool:
        """Count a connection that did not become a session.

        @return: whether the log may say so; of many that are alike it says one a minute.
        """
        return self._connection_limits.note(host, refusal, self.clock.now())

    def peer_line(self, kind: str) -> str | None:
        """Rate limit for a log line that peers cause: its suffix, or C{None} if it is omitted.

        @param kind: the kind of line, a fixed word.
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
        dial_again: Callable[[], object] | None = None,
    ) -> SessionProtocol:
        """Create a session without a connection; the other parameters are those of L{Session}.

        @param dial_again: called when its retry timer expires, if there is no broker that decides on that.
        """
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
        if dial_again is not None:
            protocol.redial_with(dial_again)
        return protocol

    def reconnect(self, connection: SessionProtocol) -> None:
        """The retry timer of a dialled session has expired: its broker decides, or it is dialled again."""
        if self.broker is not None:
            self.broker.reconnect(connection)
        else:
            connection.redial()

    def _accepts(self, protocol: SessionProtocol) -> bool:
        if self._policy is not None and (refusal := self._policy.session_refusal(protocol)):
            self._refused_by_policy(protocol, refusal.reason)
            return False
        accepted = protocol.decide_opening()
        if not accepted:
            self.refuse(ConnectionRefusal.SESSIONS, protocol.remote_address, "")
        return accepted

    def connection_made(self, connection: SessionProtocol) -> None:
        """A session is connected.

        If too many handshakes are pending, the oldest is closed: so idle connections cannot block peers that
        complete the handshake.
        If the descriptors for accepted connections are used up, the idlest connection of the host that has
        most is closed: no host keeps out others by the number of its connections.
        """
        self._connections[connection] = None
        if connection.is_initiator:
            return
        if len(self._incoming) >= self._shares.incoming:
            idlest = self._incoming.idlest_of_the_greatest()
            if idlest is not None:
                self._evict(idlest)
        self._incoming.add(connection)
        if len(self._handshaking) >= self.settings.max_handshakes:
            oldest = next(iter(self._handshaking))
            del self._handshaking[oldest]
            self.refuse(ConnectionRefusal.HANDSHAKES, oldest.remote_address, "")
            oldest.close(CloseReason.CROWDED_OUT)
        self._handshaking[connection] = None

    def reserve_descriptor(self, connection: SessionProtocol) -> bool:
        """Whether a session may be dialled: it has a descriptor from now on, until L{release_descriptor}.

        If all for dialling are used, the idlest open session with nothing in flight is closed; a new message
        for its next hop dials it again.
        """
        if connection not in self._outgoing and len(self._outgoing) >= self._shares.outgoing:
            idle = [each for each in self._outgoing if each.is_open and not each.statistics.unacknowledged]
            if not idle:
                return False
            self._evict(min(idle, key=last_activity))
        self._outgoing[connection] = None
        return True

    def release_descriptor(self, connection: SessionProtocol) -> None:
        """An attempt to dial has failed, or its connection has ended."""
        self._outgoing.pop(connection, None)

    def _evict(self, connection: SessionProtocol) -> None:
        """Close a session for lack of a descriptor, without waiting for what is still to be written."""
        self._evicted += 1
        self._incoming.discard(connection)
        self._outgoing.pop(connection, None)
        if (others := self.peer_line("evicted")) is not None:
            self.log.warn(
                "the session with {host} is closed for another: {shares} descriptors for {direction} sessions"
                " are in use, of {limit} of the process{others}",
                others=others,
                host=connection.remote_address or "this machine",
                direction="dialled" if connection.is_initiator else "accepted",
                shares=self._shares.outgoing if connection.is_initiator else self._shares.incoming,
                limit=self._shares.limit,
            )
        connection.cut(CloseReason.CROWDED_OUT)

    def handshake_done(self, connection: SessionProtocol) -> None:
        """A session is open."""
        if connection in self._handshaking:
            del self._handshaking[connection]
            self._accepted[connection] = None

    def connection_lost(self, connection: SessionProtocol) -> None:
        """A session has lost its connection."""
        self._connections.pop(connection, None)
        self._handshaking.pop(connection, None)
        self._accepted.pop(connection, None)
        self._incoming.discard(connection)
        self._outgoing.pop(connection, None)

    def close_all(self, reason: CloseReason = CloseReason.STOPPED) -> None:
        """End every session."""
        for connection in tuple(self._connections):
            connection.close(reason)


def _lines_of(settings: SessionSettings) -> LineBudget:
    return LineBudget(settings.log_lines // 4, settings.log_lines)
