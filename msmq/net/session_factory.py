"""Makes sessions, and bounds what peers may open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory

from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.net.receive_memory import ReceiveMemory
from msmq.net.session import SessionProtocol
from msmq.session.counting import PacketCounts
from msmq.session.effects import CloseReason
from msmq.session.session import Session
from msmq.session.settings import SessionSettings

MakeSession: TypeAlias = "Callable[[SessionFactory, Session], SessionProtocol]"
"""L{SessionProtocol}, a subclass of it, or whatever makes one."""


class SessionFactory(ServerFactory):
    """Makes sessions: one for every connection that is accepted, and those that a connector dials.

    @ivar protocol: the class of the sessions; set it to a subclass of L{SessionProtocol}.
    @ivar broker: told of everything by the default hooks; may be C{None}.
    @ivar counts: the packets of all its sessions, by kind.
    @ivar receive_memory: what its sessions hold of packets that are not done with.
    @ivar is_offline: whether connections are refused, and nobody is dialled.
    """

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
    ) -> None:
        self.identifier = identifier
        self.reactor = reactor
        self.clock = clock
        self.settings = settings if settings is not None else SessionSettings()
        self.broker = broker
        self.counts = PacketCounts()
        self.is_offline = False
        self.receive_memory = ReceiveMemory(self.settings.receive_memory, reactor)
        self._connections: set[SessionProtocol] = set()
        # The one that has waited the longest comes first.
        self._handshaking: dict[SessionProtocol, None] = {}
        self._accepted: set[SessionProtocol] = set()
        self._accepted_by_host: Counter[str] = Counter()

    @property
    def connections(self) -> frozenset[SessionProtocol]:
        """Every session that has a connection, in whatever state."""
        return frozenset(self._connections)

    @property
    def is_full(self) -> bool:
        """Whether as many accepted sessions are open as C{max_sessions} allows."""
        return len(self._accepted) >= self.settings.max_sessions

    def buildProtocol(self, addr: IAddress | None) -> SessionProtocol | None:
        """A session for a connection that was accepted; C{None} closes it.

        That is so offline, and beyond the limit of its host.
        """
        if self.is_offline:
            return None
        host = str(getattr(addr, "host", ""))
        if self._accepted_by_host[host] >= self.settings.max_connections_per_host:
            return None
        return self.build(is_initiator=False)

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
            accepts=lambda: protocol.may_open(),
            has_backlog=has_backlog,
            counts=self.counts,
            retry_time=retry_time,
        )
        protocol = self.protocol(self, session)
        return protocol

    def connection_made(self, connection: SessionProtocol) -> None:
        """A session has got its connection.

        If too many handshakes are under way, the oldest gives way: who connects and says nothing keeps
        nobody out who has something to say.
        """
        self._connections.add(connection)
        if connection.is_initiator:
            return
        self._accepted_by_host[connection.remote_address] += 1
        if len(self._handshaking) >= self.settings.max_handshakes:
            oldest = next(iter(self._handshaking))
            del self._handshaking[oldest]
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
            self._accepted_by_host[connection.remote_address] -= 1
            if self._accepted_by_host[connection.remote_address] <= 0:
                del self._accepted_by_host[connection.remote_address]

    def close_all(self, reason: CloseReason = CloseReason.STOPPED) -> None:
        """End every session."""
        for connection in tuple(self._connections):
            connection.close(reason)
