"""Interface between a session and its factory."""

from __future__ import annotations

from typing import Protocol, TypeVar

from twisted.internet.interfaces import IReactorTime

from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.net.receive_memory import ReceiveMemory
from msmq.net.transports import LargeReads
from msmq.session.connection_limits import ConnectionRefusal
from msmq.session.packet_counts import TrafficCounts

S = TypeVar("S", contravariant=True)
"""The class of the sessions."""


class SessionOwner(Protocol[S]):
    """The part of its factory that a session uses; see the L{session factory<msmq.net.session_factory>}.

    @ivar broker: notified by the default hooks; C{None} for no broker.
    @ivar receive_memory: the limit on unprocessed packets of all sessions.
    @ivar large_reads: the sessions that are read more at a time.
    @ivar counts: the packets and bytes of all its sessions.
    """

    reactor: IReactorTime
    clock: IClock
    broker: IBroker | None
    receive_memory: ReceiveMemory
    large_reads: LargeReads
    counts: TrafficCounts

    @property
    def is_full(self) -> bool:
        """Whether the limit on sessions is reached."""

    def connection_made(self, connection: S) -> None:
        """A connection was established."""

    def note_refusal(self, refusal: ConnectionRefusal, host: str) -> bool:
        """Count a connection that did not become a session; whether the log may say so."""

    def peer_line(self, kind: str) -> str | None:
        """Rate limit for a log line that peers cause: its suffix, or C{None} if it is omitted."""

    def handshake_done(self, connection: S) -> None:
        """The handshake of a session is complete."""

    def connection_lost(self, connection: S) -> None:
        """A connection was lost."""

    def reconnect(self, connection: S) -> None:
        """The retry timer of a dialled session has expired."""
