"""A next hop, with the outgoing queues that share it. [MS-MQQB] 3.1.1.3.1."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msmq.interfaces.session import IConnector, ISession, RoutedHop
from msmq.interfaces.sessions import ISessions
from msmq.queues.outgoing import OutgoingQueue
from msmq.transfer.decisions.next_hop_decision import Key
from msmq.transfer.decisions.outgoing_states import STILL

NO_QUEUE_MANAGER: Final = bytes(16)
"""The QueueManagerAddress of a message without a destination queue manager."""


class NextHop:
    """The next hop of some outgoing queues.

    @ivar queues: those queues, in the order in which they were first used.
    @ivar busy: the queues with pending messages, and some that are empty again; of thousands of queues a few
    may have messages.
    @ivar connector: dials; C{None} if only a session that the peer has opened can be used.
    @ivar identifier: the queue manager there: the one in the name, or the one that answered when dialled.
    @ivar missed_at: the addresses that failed since it was last reached.
    @ivar unanswered_since: time of the first failed attempt, in seconds since 1970-01-01 UTC; C{None} if the
    last one succeeded, or there was none.
    @ivar reported: by queue, the senders whose waiting acknowledgements were reported.
    @ivar routed: the queue managers from routing, of which the first reachable one is used; empty for a
    direct name.
    """

    def __init__(
        self, key: Key, sessions: ISessions, host: str | None, routed: tuple[RoutedHop, ...]
    ) -> None:
        """Create a next hop that dials a host or routed queue managers, or that only uses sessions of the
        peer.

        @param host: the address or computer name that is dialled for direct names.
        """
        self.key = key
        self.queues: dict[OutgoingQueue, None] = {}
        self.busy: dict[OutgoingQueue, None] = {}
        self.missed_at: tuple[str, ...] = ()
        self.unanswered_since: float | None = None
        self.reported: dict[OutgoingQueue, frozenset[UUID]] = {}
        self.identifier: UUID | None = key if isinstance(key, UUID) else None
        self.routed = routed
        self.connector: IConnector | None = None
        if host is not None:
            self.connector = sessions.connector(host, self.is_waited_for, self)
        elif routed:
            self.connector = sessions.routed_connector(lambda: self.routed, self.is_waited_for, self)

    @property
    def identifiers(self) -> tuple[UUID, ...]:
        """The queue managers that a session may lead to, the best first."""
        if self.routed:
            return tuple(hop.identifier for hop in self.routed)
        return () if self.identifier is None else (self.identifier,)

    def is_waited_for(self) -> bool:
        """Whether any message is pending, those in transit included."""
        return any(queue.positions and queue.state not in STILL for queue in self.busy)

    @property
    def dialled_session(self) -> ISession | None:
        """The session that its connector dialled last, if it is open."""
        session = None if self.connector is None else self.connector.session
        return session if session is not None and session.is_open else None

    def is_served_by(self, session: ISession) -> bool:
        """Whether this is the session that its connector dialled last."""
        return self.connector is not None and self.connector.session is session
