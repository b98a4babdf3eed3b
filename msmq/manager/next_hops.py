"""[MS-MQQB] 3.1.1.3.1: which outgoing queues share a next hop, and which sessions lead there."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from msmq.interfaces.session import IConnector, ISession, ISessions
from msmq.manager.ack_sessions import LOOKED_AT, AckSessions, is_for_acknowledgements
from msmq.manager.peers import Peers
from msmq.queues.outgoing import OutgoingQueue, OutgoingState
from msmq.queues.position import MessagePosition
from msmq.structures.direct_format_name import DirectFormatName
from msmq.structures.format_name import PrivateFormatName

STILL = (OutgoingState.ON_HOLD, OutgoingState.LOCKED)
"""The states in which nothing is sent from a queue."""


class NextHop:
    """Where the messages of some outgoing queues go next.

    @ivar queues: those queues, in the order in which they were first used.
    @ivar connector: dials; C{None} where only a session that the other side opened will do.
    @ivar identifier: the queue manager there: the one that the name says, or that answered when it was
        dialled.
    @ivar missed_at: the addresses at which it was not reached, since it was reached last.
    """

    def __init__(self, key: str | UUID) -> None:
        self.key = key
        self.queues: list[OutgoingQueue] = []
        self.connector: IConnector | None = None
        self.missed_at: tuple[str, ...] = ()
        self.identifier: UUID | None = key if isinstance(key, UUID) else None

    def is_waited_for(self) -> bool:
        """Whether any message waits, one that is on its way included."""
        return any(queue.positions and queue.state not in STILL for queue in self.queues)

    def is_served_by(self, session: ISession) -> bool:
        """Whether this is the session that its connector dialled last."""
        return self.connector is not None and self.connector.session is session


class NextHops:
    """Every next hop of a queue manager.

    A direct name says where to connect; any other names a queue manager, whose own session will do
    (reading 28).
    So does a session that the peer opened for a direct name, once it was dialled and has said who it is: the
    address of a peer alone tells nothing, since several queue managers may share one.
    """

    def __init__(self, sessions: ISessions, peers: Peers, acks: AckSessions) -> None:
        self._sessions = sessions
        self._peers = peers
        self._acks = acks
        self._hops: dict[str | UUID, NextHop] = {}
        self._by_queue: dict[OutgoingQueue, NextHop] = {}
        self._by_identifier: dict[UUID, dict[NextHop, None]] = {}
        self._divided: set[OutgoingQueue] = set()
        self._missed: dict[str, dict[NextHop, None]] = {}

    def __iter__(self) -> Iterator[NextHop]:
        return iter(list(self._hops.values()))

    def of(self, queue: OutgoingQueue) -> NextHop:
        """The next hop of a queue; it is made if there is none."""
        hop = self._by_queue.get(queue)
        return self._assign(queue) if hop is None else hop

    def _assign(self, queue: OutgoingQueue) -> NextHop:
        name = queue.destination
        match name:
            case DirectFormatName():
                key: str | UUID = name.address.lower().rstrip(".")
            case PrivateFormatName():
                key = name.queue_manager
            case _:
                key = str(name)
        hop = self._hops.get(key)
        if hop is None:
            hop = self._hops[key] = NextHop(key)
            if isinstance(name, DirectFormatName):
                hop.connector = self._sessions.connector(name.address, hop.is_waited_for, hop)
            if hop.identifier is not None:
                self._by_identifier.setdefault(hop.identifier, {})[hop] = None
        hop.queues.append(queue)
        self._by_queue[queue] = hop
        if is_for_acknowledgements(name):
            self._divided.add(queue)
        return hop

    def forget(self, queue: OutgoingQueue) -> None:
        """A queue is deleted; its next hop goes with the last one."""
        hop = self._by_queue.pop(queue, None)
        if queue in self._divided:
            self._divided.discard(queue)
            self._acks.forget(queue)
        if hop is None:
            return
        hop.queues.remove(queue)
        if not hop.queues:
            del self._hops[hop.key]
            self._unlearn(hop)
            self._found(hop)
            if hop.connector is not None:
                hop.connector.stop()

    # Sessions

    def leading_to(self, queue: OutgoingQueue) -> list[ISession]:
        """The open sessions on which something of what waits in a queue may leave."""
        hop = self.of(queue)
        if queue in self._divided:
            self._acks.note(queue)
            found = dict.fromkeys(self._ack_session(hop, position) for position in queue.peek(LOOKED_AT))
            return [session for session in found if session is not None]
        session = self._session(hop)
        return [] if session is None else [session]

    def is_reached(self, queue: OutgoingQueue) -> bool:
        """Whether all that waits in a queue may leave on sessions that are open."""
        hop = self.of(queue)
        if queue in self._divided:
            return all(self._ack_session(hop, position) for position in queue.peek(LOOKED_AT))
        return self._session(hop) is not None

    def part(
        self, session: ISession, queue: OutgoingQueue, positions: list[MessagePosition]
    ) -> tuple[list[MessagePosition], list[MessagePosition]]:
        """Those of these messages of a queue that may leave on a session, and the others."""
        if queue not in self._divided:
            return positions, []
        hop = self.of(queue)
        parts: tuple[list[MessagePosition], list[MessagePosition]] = [], []
        for position in positions:
            parts[not self._leads(session, hop, position)].append(position)
        return parts

    def has_part(self, session: ISession, queue: OutgoingQueue) -> bool:
        """Whether anything that waits in a queue may leave on a session, as far as can be seen."""
        if queue not in self._divided:
            return True
        hop = self.of(queue)
        return any(self._leads(session, hop, position) for position in queue.peek(LOOKED_AT))

    def _leads(self, session: ISession, hop: NextHop, position: MessagePosition) -> bool:
        return self._acks.leads(session, position) or self._ack_session(hop, position) is session

    def _ack_session(self, hop: NextHop, position: MessagePosition) -> ISession | None:
        return self._acks.session(position) or self._session(hop)

    def _session(self, hop: NextHop) -> ISession | None:
        if hop.connector is not None:
            session = hop.connector.session
            if session is not None and session.is_open:
                return session
        return self._peers.session(hop.identifier)

    def of_session(self, session: ISession) -> list[NextHop]:
        """The next hops to which a session leads: the one that dialled it, and those of its peer."""
        hops = []
        dialled_for = session.dialled_for
        if isinstance(dialled_for, NextHop) and dialled_for.is_served_by(session):
            hops.append(dialled_for)
        identifier = session.remote_identifier
        if identifier is not None:
            known = self._by_identifier.get(identifier, ())
            hops += [hop for hop in known if hop not in hops and self._session(hop) is session]
        return hops

    def queues_of(self, session: ISession) -> list[OutgoingQueue]:
        """The queues from which something may leave on a session."""
        queues = {queue: None for hop in self.of_session(session) for queue in hop.queues}
        for queue in self._acks.queues(session.remote_identifier):
            if queue not in queues and session in self.leading_to(queue):
                queues[queue] = None
        return list(queues)

    # What is learned of them

    def opened(self, session: ISession) -> None:
        """A session is open: who answers is known, and who waited to dial its peer does so at once."""
        hop = session.dialled_for
        if isinstance(hop, NextHop) and hop.is_served_by(session):
            self._found(hop)
            if hop.identifier != session.remote_identifier and session.remote_identifier is not None:
                self._unlearn(hop)
                hop.identifier = session.remote_identifier
                self._by_identifier.setdefault(hop.identifier, {})[hop] = None
        if not session.is_initiator:
            for missed in list(self._missed.get(session.remote_address, ())):
                if missed.connector is not None:
                    missed.connector.peer_is_there()

    def missed(self, hop: NextHop) -> None:
        """A next hop was not reached, or has lost its session."""
        if hop.connector is not None:
            self._found(hop)
            hop.missed_at = tuple(dict.fromkeys(hop.connector.addresses))
            for address in hop.missed_at:
                self._missed.setdefault(address, {})[hop] = None

    def _found(self, hop: NextHop) -> None:
        for address in hop.missed_at:
            hops = self._missed[address]
            del hops[hop]
            if not hops:
                del self._missed[address]
        hop.missed_at = ()

    def _unlearn(self, hop: NextHop) -> None:
        known = self._by_identifier.get(hop.identifier) if hop.identifier is not None else None
        if known is not None and hop.identifier is not None:
            known.pop(hop, None)
            if not known:
                del self._by_identifier[hop.identifier]
