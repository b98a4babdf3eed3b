"""[MS-MQQB] 3.1.7.12 and 3.1.7.1: outgoing queues and the sessions that empty them.

Every outgoing queue belongs to one next hop.
All queues of a next hop share its connector, hence its session.
Dispatch is level-triggered: whenever a queue gets messages, a session opens, a window widens or a
connection catches up, everything that may go is sent (reading 25).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import IBroker
from msmq.interfaces.session import IConnector, ISession, ISessions
from msmq.manager.arriving import Arrivals
from msmq.manager.outbox import Outbox
from msmq.manager.performing import Performer
from msmq.manager.sequences import Sequences
from msmq.moment import Moment
from msmq.queues.effects import OutgoingReady
from msmq.queues.leaving import Removal
from msmq.queues.outgoing import ConnectionHistoryEntry, OutgoingQueue, OutgoingState
from msmq.queues.position import MessagePosition, PositionState
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.session.packets.order_queue import ORDER_QUEUE_PATH
from msmq.session.state import OutgoingMessage
from msmq.structures.direct_format_name import DirectFormatName
from msmq.structures.format_name import PrivateFormatName
from msmq.structures.management import ConnectionStatus
from msmq.structures.status import MQError
from msmq.structures.user_message_view import UserMessageView

BATCH_BYTES = 1 << 20
"""Roughly how much is handed to a connection before asking whether the peer keeps up."""

LOADED_AT_ONCE = 64
"""Messages that are read from the store together, to be sent."""

READ_RETRY = 5.0
"""Seconds after which messages that could not be read are asked for again; their session waits for it."""

MOST_OUTGOING_QUEUES = 10_000
"""Outgoing queues that may exist before one more is made for the name of an administration queue."""

_ORDER_QUEUE = ORDER_QUEUE_PATH.lower()

_STILL = (OutgoingState.ON_HOLD, OutgoingState.LOCKED)


class NextHop:
    """Where the messages of some outgoing queues go next.

    @ivar queues: those queues, in the order in which they were first used.
    @ivar connector: dials; C{None} where only a session that the other side opened will do.
    """

    def __init__(self) -> None:
        self.queues: list[OutgoingQueue] = []
        self.connector: IConnector | None = None

    def is_waited_for(self) -> bool:
        """Whether any message waits, one that is on its way included."""
        return any(queue.positions and queue.state not in _STILL for queue in self.queues)

    def is_served_by(self, session: ISession) -> bool:
        """Whether this is the session that its connector dialled last."""
        return self.connector is not None and self.connector.session is session


@implementer(IBroker)
class Transfer:
    """Stands behind the sessions: sends what waits, takes what arrives."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        sessions: ISessions,
        outbox: Outbox,
        arrivals: Arrivals,
        sequences: Sequences,
    ) -> None:
        self.arrivals = arrivals
        self._sequences = sequences
        self._performer = performer
        self._sessions = sessions
        self._hops: dict[str | UUID, NextHop] = {}
        self._hop_by_queue: dict[OutgoingQueue, NextHop] = {}
        self._open: dict[UUID, list[ISession]] = {}
        self._open_by_address: Counter[str] = Counter()
        self._loading: set[ISession] = set()
        self._carried: dict[ISession, dict[OutgoingQueue, None]] = {}
        self._is_stopped = False
        self.on_sent: Callable[[ISession, Sequence[bytes]], None] | None = None
        """Told of packets that a session has sent; it may send others meanwhile."""
        performer.on_outgoing = self.ready
        outbox.make_room = self.make_room
        sequences.on_room = self.ready
        sessions.broker = self
        sessions.is_offline = performer.model.is_hardened

    def stop(self) -> None:
        """End all sessions and dial no more."""
        self._is_stopped = True
        for hop in self._hops.values():
            if hop.connector is not None:
                hop.connector.stop()
        self._sessions.close_all()

    # Connection

    def take_offline(self) -> None:
        """[MS-MQDMPR] 3.1.4.12 Take Offline: end the sessions, and take part in no others."""
        self._sessions.is_offline = True
        self._sessions.close_all()

    def bring_online(self) -> None:
        """[MS-MQDMPR] 3.1.4.13 Bring Online: take part in sessions, and send what waits.

        A hardened queue manager transfers nothing over sessions.
        """
        model = self._performer.model
        self._sessions.is_offline = model.is_hardened
        for queue in list(model.outgoing_queues()):
            self.ready(queue)

    # Outgoing queues

    def ready(self, queue: OutgoingQueue) -> None:
        """[MS-MQQB] 3.1.7.12 Message Position Available Event."""
        if queue.state in _STILL or self._is_stopped or not queue.has_available:
            return
        if self._sessions.is_offline:
            return
        hop = self._hop_by_queue.get(queue) or self._assign(queue)
        session = self._session_for(hop, queue)
        if session is not None:
            queue.state = OutgoingState.CONNECTED
            self._dispatch(session, hop.queues)
        elif hop.connector is not None:
            hop.connector.connect()
            if queue.state in (OutgoingState.INACTIVE, OutgoingState.DISCONNECTED):
                queue.state = OutgoingState.WAITING
        elif queue.state is OutgoingState.INACTIVE:
            queue.state = OutgoingState.NEED_VALIDATION

    def pause(self, queue: OutgoingQueue) -> None:
        """[MS-MQDMPR] 3.1.7.2.3 Pause Queue: nothing more is sent from it."""
        queue.state = OutgoingState.ON_HOLD

    def resume(self, queue: OutgoingQueue) -> None:
        """[MS-MQDMPR] 3.1.7.2.4 Resume Queue: what waits is sent; of a hardened queue manager, nothing is.

        Nothing happens to a queue that is not paused (reading 53).
        """
        if queue.state is not OutgoingState.ON_HOLD:
            return
        queue.state = self._performer.model.collection.idle_state(queue.destination)
        self.ready(queue)

    def make_room(self) -> bool:
        """See that one more outgoing queue may be made for a name that a peer chose.

        Names for acknowledgements come from outside, so there is an end to them: beyond it the oldest
        queues in which nothing waits and that nobody has open are forgotten, with their history.
        """
        model = self._performer.model
        excess = sum(1 for _ in model.outgoing_queues()) + 1 - MOST_OUTGOING_QUEUES
        if excess <= 0:
            return True
        idle = [queue for queue in model.outgoing_queues() if not queue.positions and not queue.users]
        del idle[excess:]
        for queue in idle:
            self._forget(queue)
            self._performer.perform(model.delete_queue(queue).effects)
        return len(idle) == excess

    def _forget(self, queue: OutgoingQueue) -> None:
        self._sequences.removed(queue)
        hop = self._hop_by_queue.pop(queue, None)
        if hop is None:
            return
        hop.queues.remove(queue)
        if not hop.queues:
            self._hops = {key: other for key, other in self._hops.items() if other is not hop}
            if hop.connector is not None:
                hop.connector.stop()

    def _assign(self, queue: OutgoingQueue) -> NextHop:
        """Find, or make, the next hop of a queue.

        A direct name says where to connect; any other names a queue manager, whose own session will
        do ([MS-MQQB] 3.1.1.3.1, reading 28).
        """
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
            hop = self._hops[key] = NextHop()
            if isinstance(name, DirectFormatName):
                hop.connector = self._sessions.connector(name.address, hop.is_waited_for, hop)
        hop.queues.append(queue)
        self._hop_by_queue[queue] = hop
        return hop

    def _session_for(self, hop: NextHop, queue: OutgoingQueue) -> ISession | None:
        """An open session that leads to this next hop."""
        if hop.connector is not None:
            session = hop.connector.session
            if session is not None and session.is_open:
                return session
            return self._session_for_acknowledgements(queue)
        if isinstance(queue.destination, PrivateFormatName):
            return self._open_session(queue.destination.queue_manager)
        return None

    def _session_for_acknowledgements(self, queue: OutgoingQueue) -> ISession | None:
        """Who brought a transactional message is told of it on the session that brought it.

        A session from the same address will do, and only without one a connection is made.
        """
        name = queue.destination
        if isinstance(name, DirectFormatName) and name.queue_path.lower() == _ORDER_QUEUE:
            for sessions in self._open.values():
                for session in sessions:
                    if session.remote_address.lower() == name.address.lower():
                        return session
        return None

    def _open_session(self, identifier: UUID | None) -> ISession | None:
        """The session with this queue manager that has been open longest."""
        sessions = self._open.get(identifier) if identifier is not None else None
        return sessions[0] if sessions else None

    def _hops_of(self, session: ISession) -> list[NextHop]:
        """The next hops to which a session leads: the one that dialled it, and its peer by identifier."""
        hops = []
        dialled_for = session.dialled_for
        if isinstance(dialled_for, NextHop) and dialled_for.is_served_by(session):
            hops.append(dialled_for)
        identifier = session.remote_identifier
        if identifier in self._hops and self._open_session(identifier) is session:
            hops.append(self._hops[identifier])
        return hops

    def _queues_of(self, session: ISession) -> list[OutgoingQueue]:
        hops = self._hops_of(session)
        queues = [queue for hop in hops for queue in hop.queues]
        same_address = self._hops.get(session.remote_address.lower())
        if same_address is not None and same_address not in hops:
            queues += [
                queue for queue in same_address.queues if self._session_for(same_address, queue) is session
            ]
        return queues

    def _dispatch(self, session: ISession, queues: Iterable[OutgoingQueue]) -> None:
        """[MS-MQQB] 3.1.7.1, [MS-MQDMPR] 3.1.7.3.9 Dispatch Send Message: send what may go.

        The highest sum of BasePriority and priority comes first, then what is oldest; each session is a
        dispatcher of its own, and what is paused or locked takes no part (reading 52).
        """
        if session in self._loading:
            return
        waiting = [queue for queue in queues if queue.has_available and queue.state not in _STILL]
        now = self._performer.clock.now()
        while waiting and session.capacity > 0 and session not in self._loading:
            if len(waiting) == 1:
                queue, count = waiting[0], session.capacity
                if queue.peek(1)[0].view is None:
                    count = min(count, LOADED_AT_ONCE)
            else:
                queue, count = min(waiting, key=_turn), 1
            positions, effects = self._performer.model.take(queue, count, session, now)
            is_held = self._send(session, queue, positions, now)
            if effects:
                self._performer.perform(effects)
            waiting = [other for other in waiting if other.has_available and not (is_held and other is queue)]

    def _send(
        self, session: ISession, queue: OutgoingQueue, positions: list[MessagePosition], now: Moment
    ) -> bool:
        """Send locked messages in portions; what the peer is too slow for goes back.

        @return: whether some of them may not be sent before others are acknowledged.
        """
        if any(position.view is None for position in positions):
            self._loading.add(session)
            Deferred.fromCoroutine(self._load(session, queue, positions)).addErrback(
                lambda failure: self.log.failure("outgoing messages could not be read", failure)
            )
            return False
        stream = self._sequences.find(queue)
        sent: list[bytes] = []
        start = 0
        is_held = False
        while start < len(positions) and (room := session.capacity) > 0 and not is_held:
            end = start
            last = min(len(positions), start + room)
            size = 0
            while end < last and size < BATCH_BYTES:
                size += positions[end].size
                end += 1
            if stream is None:
                outgoing: Sequence[OutgoingMessage] = positions[start:end]
                session.send(outgoing)
            else:
                transmission = self._sequences.transmit(
                    queue, stream, positions[start:end], now, session.remote_identifier
                )
                outgoing = transmission.outgoing
                if outgoing:
                    self._carried.setdefault(session, {})[queue] = None
                    session.send(outgoing)
                if transmission.held:
                    is_held = True
                    self._give_back(transmission.held, now)
            sent += () if self.on_sent is None else [message.packet for message in outgoing]
            start = end
        if start < len(positions):
            self._give_back(positions[start:], now)
        if sent and self.on_sent is not None:
            self.on_sent(session, sent)
        return is_held

    def _give_back(self, positions: Iterable[MessagePosition], now: Moment) -> None:
        """Put messages back that did not go; nobody is told, for whoever sees room again dispatches."""
        effects = self._performer.model.release(positions, now)
        self._performer.perform(effect for effect in effects if not isinstance(effect, OutgoingReady))

    async def _load(self, session: ISession, queue: OutgoingQueue, positions: list[MessagePosition]) -> None:
        """Read stored messages, then send them; the session sends nothing else meanwhile."""
        performer = self._performer
        try:
            await performer.load(positions)
        except MQError as error:
            self.log.error("outgoing messages could not be read: {error}", error=error)
            self._give_back(_held_by(session, positions), performer.clock.now())
            await performer.pause(READ_RETRY)
            positions = []
        finally:
            self._loading.discard(session)
        if not positions:
            self.ready(queue)
            return
        # Those that left meanwhile, because they had arrived long ago for example, are not ours any more.
        locked = _held_by(session, positions)
        if self._is_stopped or not session.is_open:
            performer.perform(performer.model.release(locked, performer.clock.now()))
            return
        if not self._send(session, queue, locked, performer.clock.now()):
            self._dispatch(session, self._queues_of(session))

    # What sessions tell

    def session_opened(self, session: ISession) -> None:
        """[MS-MQQB] 3.1.5.4.2: the queues of this next hop are connected, and what waits is sent."""
        identifier = session.remote_identifier
        if identifier is not None:
            self._open.setdefault(identifier, []).append(session)
            self._open_by_address[session.remote_address] += 1
        queues = self._queues_of(session)
        now = self._performer.clock.now()
        for queue in queues:
            self._sequences.connected(queue, now)
            if queue.state not in _STILL:
                queue.state = OutgoingState.CONNECTED
        self._dispatch(session, queues)

    def session_progress(self, session: ISession, progress: ConnectionProgress) -> None:
        """[MS-MQQB] 3.1.5.2: an entry for the connection history, and the state that goes with it."""
        now = self._performer.clock.now()
        for hop in self._hops_of(session):
            addresses = tuple(hop.connector.addresses) if hop.connector is not None else ()
            entry = ConnectionHistoryEntry(
                ConnectionStatus.named(progress.value), now.unix_seconds, 0, addresses
            )
            for queue in hop.queues:
                queue.history.append(entry)
                queue.next_hops = addresses
                if queue.state in _STILL:
                    continue
                if progress is ConnectionProgress.DNS_FAILURE:
                    queue.state = OutgoingState.NEED_VALIDATION
                elif progress is not ConnectionProgress.ESTABLISHED:
                    queue.state = OutgoingState.WAITING

    def messages_arrived(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """Messages of the peer."""
        return self.arrivals.take(session, messages, first_recoverable)

    def messages_acknowledged(self, session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        """[MS-MQQB] 3.1.5.5.2: what the peer has is forgotten."""
        performer = self._performer
        removal = performer.model.remove(
            message for message in messages if isinstance(message, MessagePosition)
        )
        performer.perform(removal.departures)
        if not removal.changes:
            performer.perform(performer.model.removed(removal, performer.clock.now()))
            return
        Deferred.fromCoroutine(self._remove(removal)).addErrback(
            lambda failure: self.log.failure("acknowledged messages could not be removed", failure)
        )

    async def _remove(self, removal: Removal) -> None:
        """Forget messages that the peer has, however often the store has to be asked: it gets none twice."""
        performer = self._performer
        if await performer.insist(removal.changes, "that messages were delivered"):
            performer.perform(performer.model.removed(removal, performer.clock.now()))

    def room_for_messages(self, session: ISession) -> None:
        """The window is wider than it was, or the peer has caught up."""
        self._dispatch(session, self._queues_of(session))

    def session_closed(
        self,
        session: ISession,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """[MS-MQQB] 3.1.5.9: what was not acknowledged goes back to its queue, in its place."""
        identifier = session.remote_identifier
        queues = self._queues_of(session)
        if identifier is not None and session in self._open.get(identifier, ()):
            self._open[identifier].remove(session)
            self._left(session.remote_address)
            if not self._open[identifier]:
                del self._open[identifier]
        for queue in queues:
            if (
                queue.state is OutgoingState.CONNECTED
                and self._session_for(self._hop_by_queue[queue], queue) is None
            ):
                queue.state = OutgoingState.DISCONNECTING
        effects = self._performer.model.release(
            (message for message in unacknowledged if isinstance(message, MessagePosition)),
            self._performer.clock.now(),
        )
        if not self._is_stopped:
            self._performer.perform(effects)
            for queue in self._carried.pop(session, ()):
                self._sequences.disconnected(queue, self._performer.clock.now())

    def _left(self, address: str) -> None:
        """One session less with this address; what came over the last draws no OrderAck any more."""
        self._open_by_address[address] -= 1
        if not self._open_by_address[address]:
            del self._open_by_address[address]
            self.arrivals.disconnected(address)

    def connection_lost(self, session: ISession) -> None:
        """The connection is gone as well; other sessions may lead there still."""
        for queue in self._queues_of(session):
            if queue.state is OutgoingState.DISCONNECTING:
                queue.state = OutgoingState.DISCONNECTED
        identifier = session.remote_identifier
        hop = None if identifier is None else self._hops.get(identifier)
        if hop is not None and identifier not in self._open:
            for queue in hop.queues:
                if queue.state in (OutgoingState.CONNECTED, OutgoingState.DISCONNECTING):
                    queue.state = OutgoingState.DISCONNECTED

    def reconnect(self, session: ISession) -> None:
        """[MS-MQQB] 3.1.6.1 Session Retry Connect Timer Event."""
        for hop in self._hops_of(session):
            if hop.connector is not None:
                hop.connector.connect(is_retry=True)


def _held_by(session: ISession, positions: Iterable[MessagePosition]) -> list[MessagePosition]:
    """Those of these messages that are still locked for a session."""
    return [
        position
        for position in positions
        if position.owner is session
        and position.state in (PositionState.LOCKED_READER, PositionState.PURGE_PENDING)
    ]


def _turn(queue: OutgoingQueue) -> int:
    """[MS-MQDMPR] 3.1.7.1.28 smaller for a higher Priority of a DispatchEntry, then for an older message."""
    return queue.peek(1)[0].lookup_id - (queue.definition.base_priority << 56)
