"""[MS-MQQB] 3.1.1.3.1: one next hop, with the outgoing queues that share it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msmq.interfaces.session import IConnector, ISession, RoutedHop
from msmq.interfaces.sessions import ISessions
from msmq.queues.outgoing import OutgoingQueue
from msmq.transfer.decisions.next_hop_decision import Key
from msmq.transfer.decisions.outgoing_states import STILL

NOBODY: Final = bytes(16)
"""The QueueManagerAddress of a message that does not say whose queue it is for."""


class NextHop:
    """Where the messages of some outgoing queues go next.

    @ivar queues: those queues, in the order in which they were first used.
    @ivar busy: those in which anything waits, and some in which nothing does any more; there may be thousands
        of queues, of which a few have messages.
    @ivar connector: dials; C{None} where only a session that the other side opened will do.
    @ivar identifier: the queue manager there: the one that the name says, or that answered when it was
        dialled.
    @ivar missed_at: the addresses at which it was not reached, since it was reached last.
    @ivar unanswered_since: when dialling it failed first, in seconds since 1970-01-01 UTC; C{None} if it
        answered last, or was never dialled.
    @ivar reported: by queue, the senders of which it was reported that acknowledgements for them wait here.
    @ivar routed: the queue managers that routing named, of which the first that can be reached will do; none
        for a name that says itself where to connect.
    """

    def __init__(
        self, key: Key, sessions: ISessions, host: str | None, routed: tuple[RoutedHop, ...]
    ) -> None:
        """Dial a host, or what routing named; neither where only a session of the other side will do.

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
        """The queue managers to which a session has to lead, the best first."""
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
