"""[MS-MQQB] 3.1.7.12 and 3.1.7.1: outgoing queues and the sessions that empty them.

Every outgoing queue belongs to one next hop.
All queues of a next hop share its connector, hence its session.
Dispatch is level-triggered: whenever a queue gets messages, a session opens, a window widens or a
connection catches up, everything that may go is sent (reading 25).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import IBroker
from msmq.interfaces.session import ISession
from msmq.interfaces.sessions import ISessions
from msmq.manager.membership.public_names import PublicNames
from msmq.manager.peers.ack_sessions import AckSessions
from msmq.manager.peers.arrivals import Arrivals
from msmq.manager.peers.handovers import Handovers
from msmq.manager.peers.introductions import Introductions
from msmq.manager.peers.peer_table import Peers
from msmq.manager.peers.sequences import Sequences
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.performer import Performer
from msmq.manager.routes.moved_senders import MovedSenders
from msmq.manager.routes.next_hop import STILL
from msmq.manager.routes.next_hops import NextHops
from msmq.manager.routes.route_table import RouteTable
from msmq.manager.routes.sender_search import SenderSearch
from msmq.manager.securing.encryption import Encryption, Failure, plain
from msmq.manager.trace_reports import Reports
from msmq.moment import Moment
from msmq.queues.effects import OutgoingReady
from msmq.queues.holds import Holds
from msmq.queues.leaving.departure_kinds import Removal
from msmq.queues.outgoing import ConnectionHistoryEntry, OutgoingQueue, OutgoingState
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.queues.redirects import Redirects
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.management import ConnectionStatus
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError

BATCH_BYTES = 1 << 20
"""Roughly how much is handed to a connection before asking whether the peer keeps up."""

LOADED_AT_ONCE = 64
"""Messages that are read from the store together, to be sent."""

READ_RETRY = 5.0
"""Seconds after which messages that could not be read are asked for again; their session waits for it."""


_MISSED = (
    ConnectionProgress.DNS_FAILURE,
    ConnectionProgress.PING_FAILURE,
    ConnectionProgress.SOCKET_CONNECT_FAILURE,
    ConnectionProgress.UNKNOWN_FAILURE,
)


@implementer(IBroker)
class MessageTransfer:
    """Stands behind the sessions: sends what waits, takes what arrives."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        sessions: ISessions,
        arrivals: Arrivals,
        sequences: Sequences,
        peers: Peers,
        acks: AckSessions,
        moved: MovedSenders,
        ways: RouteTable,
        names: PublicNames | None,
        encryption: Encryption,
        handovers: Handovers,
        source_journal: SourceJournal,
        introductions: Introductions,
        reports: Reports | None,
        holds: Holds,
        redirects: Redirects,
    ) -> None:
        self._handovers = handovers
        self._source_journal = source_journal
        self._introductions = introductions
        self.arrivals = arrivals
        self._sequences = sequences
        self._performer = performer
        self._sessions = sessions
        self._peers = peers
        self.hops = NextHops(sessions, peers, acks, moved, ways, names, holds, redirects)
        self._search = SenderSearch(self.hops, acks, performer, self.ready)
        self._ways = ways
        self._encryption = encryption
        self._loading: set[ISession] = set()
        self._carried: dict[ISession, dict[OutgoingQueue, None]] = {}
        self._left: dict[ISession, list[OutgoingQueue]] = {}
        self._is_stopped = False
        self._reports = reports
        sessions.attach(self, is_offline=performer.model.is_hardened)

    def stop(self) -> None:
        """End all sessions, and stop dialling."""
        self._is_stopped = True
        self._ways.stop()
        for hop in self.hops:
            if hop.connector is not None:
                hop.connector.stop()
        self._sessions.close_all()

    # Connection

    def take_offline(self) -> None:
        """[MS-MQDMPR] 3.1.4.12 Take Offline: end the sessions, and take part in no others."""
        self._sessions.take_offline()
        self._sessions.close_all()

    def bring_online(self) -> None:
        """[MS-MQDMPR] 3.1.4.13 Bring Online: take part in sessions, and send what waits.

        A hardened queue manager transfers nothing over sessions.
        """
        model = self._performer.model
        if not model.is_hardened:
            self._sessions.bring_online()
        for queue in list(model.outgoing_queues()):
            self.ready(queue)

    # Outgoing queues

    def ready(self, queue: OutgoingQueue) -> None:
        """[MS-MQQB] 3.1.7.12 Message Position Available Event."""
        self.hops.note(queue)
        if not self._is_stopped and self.hops.held_by(queue):
            self.pause(queue)
        if queue.state in STILL or self._is_stopped or not queue.has_available:
            return
        if self._sessions.is_offline:
            return
        hop = self.hops.of(queue)
        sessions = self.hops.leading_to(queue)
        for session in sessions:
            queue.state = OutgoingState.CONNECTED
            self._dispatch(session, self.hops.busy(hop))
        if self.hops.is_reached(queue):
            return
        if hop.connector is not None:
            hop.connector.connect()
            if queue.state in (OutgoingState.INACTIVE, OutgoingState.DISCONNECTED):
                queue.state = OutgoingState.WAITING
        elif queue.state is OutgoingState.INACTIVE:
            queue.state = OutgoingState.NEED_VALIDATION

    def pause(self, queue: OutgoingQueue) -> None:
        """[MS-MQDMPR] 3.1.7.2.3 Pause Queue: nothing more is sent from it."""
        if queue.state is OutgoingState.ON_HOLD:
            return
        queue.state = OutgoingState.ON_HOLD
        for session in self.hops.leading_to(queue):
            session.pause()

    def resume(self, queue: OutgoingQueue) -> None:
        """[MS-MQDMPR] 3.1.7.2.4 Resume Queue: what waits is sent; of a hardened queue manager, nothing is.

        Nothing happens to a queue that is not paused (reading 53); one that a session leads to is connected
        again (reading 26).
        """
        if queue.state is not OutgoingState.ON_HOLD:
            return
        sessions = self.hops.leading_to(queue)
        for session in sessions:
            session.resume()
        queue.state = self._performer.model.collection.idle_state(queue.destination)
        if sessions and queue.state is OutgoingState.INACTIVE:
            queue.state = OutgoingState.CONNECTED
        self.ready(queue)

    def route_changed(self, destination: UUID) -> None:
        """[MS-MQQB] 3.1.7.5: there may be another route to a queue manager, or one at last."""
        for queue in self.hops.reroute(destination):
            self.ready(queue)

    def owner_found(self, identifier: UUID) -> None:
        """[MS-MQQB] 3.1.7.4: the queue manager of a public queue is known now."""
        queue = self.hops.owner_found(identifier)
        if queue is not None:
            self.ready(queue)

    def redirected(self, queue: OutgoingQueue) -> None:
        """Another host is dialled for an outgoing queue: its pending messages are sent there."""
        self.hops.redirected(queue)
        self.ready(queue)

    def forget(self, queue: OutgoingQueue) -> None:
        """An outgoing queue is about to go."""
        self._sequences.removed(queue)
        self.hops.forget(queue)

    def _dispatch(self, session: ISession, queues: Iterable[OutgoingQueue]) -> None:
        """[MS-MQQB] 3.1.7.1, 3.1.7.16 and [MS-MQDMPR] 3.1.7.1.29, 3.1.7.3.9 Dispatch Send Message.

        The highest sum of BasePriority and priority comes first, then what is oldest; each session is a
        dispatcher of its own, and what is paused or locked takes no part (reading 52).
        """
        if session in self._loading:
            return
        if session.capacity <= 0:
            return
        # There may be thousands, so the next one is not looked for among all of them each time.
        waiting = [
            (_turn(queue), number, queue)
            for number, queue in enumerate(queues)
            if queue.has_available and queue.state not in STILL and self.hops.has_part(session, queue)
        ]
        heapq.heapify(waiting)
        now = self._performer.clock.now()
        while waiting and session.capacity > 0 and session not in self._loading:
            turn, number, queue = waiting[0]
            if not queue.has_available:
                heapq.heappop(waiting)
                continue
            if _turn(queue) != turn:
                heapq.heapreplace(waiting, (_turn(queue), number, queue))
                continue
            count = 1
            if len(waiting) == 1:
                count = session.capacity
                if queue.peek(1)[0].view is None:
                    count = min(count, LOADED_AT_ONCE)
            positions, effects = self._performer.model.take(queue, count, session, now)
            is_held = self._send(session, queue, positions, now)
            if effects:
                self._performer.perform(effects)
            if is_held or not queue.has_available:
                heapq.heappop(waiting)

    def _send(
        self, session: ISession, queue: OutgoingQueue, positions: list[MessagePosition], now: Moment
    ) -> bool:
        """Send locked messages in portions; what the peer is too slow for goes back.

        @return: whether some of them may not be sent before others are acknowledged.
        """
        self.hops.address(queue, positions)
        is_private = not queue.is_transit and self._encryption.concerns(positions)
        if (
            any(position.view is None for position in positions)
            or self._introductions.are_due(queue, session, positions)
            or (is_private and self._encryption.has_to_ask(positions))
        ):
            self._loading.add(session)
            Deferred.fromCoroutine(self._load(session, queue, positions)).addErrback(
                lambda failure: self.log.failure("outgoing messages could not be read", failure)
            )
            return False
        positions, others = self.hops.part(session, queue, positions)
        if others:
            self._give_back(others, now)
        # What passes through is sent as it came; its places are those of its sender.
        stream = None if queue.is_transit else self._sequences.find(queue)
        sealed = None
        if is_private:
            sealed = self._encryption.seal(positions)
            positions = list(sealed.positions)
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
                if sealed is not None:
                    outgoing = sealed.outgoing(outgoing)
                session.send(outgoing)
            else:
                transmission = self._sequences.transmit(queue, stream, positions[start:end], now, session)
                outgoing = transmission.outgoing
                if sealed is not None:
                    outgoing = sealed.outgoing(outgoing)
                if outgoing:
                    self._carried.setdefault(session, {})[queue] = None
                    session.send(outgoing)
                if transmission.held:
                    is_held = True
                    self._give_back(transmission.held, now)
            sent += () if self._reports is None else [message.packet for message in outgoing]
            start = end
        if start < len(positions):
            self._give_back(positions[start:], now)
        if sent and self._reports is not None:
            # It may send others meanwhile.
            self._reports.departed(session, sent)
        if sealed is not None and sealed.failed:
            self._cannot_encrypt(session, queue, sealed.failed, now)
        return is_held or bool(others)

    def _cannot_encrypt(
        self,
        session: ISession,
        queue: OutgoingQueue,
        failed: Mapping[Failure, Sequence[MessagePosition]],
        now: Moment,
    ) -> None:
        """[MS-MQQB] 3.1.7.1.5.1 Handling Encryption Errors: these messages leave, and are not sent."""
        for failure, positions in failed.items():
            entry = ConnectionHistoryEntry(
                ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE,
                now.unix_seconds,
                int(failure.status),
                (session.remote_address,),
            )
            queue.history.append(entry)
            self._performer.perform(
                self._performer.model.reject(positions, MessageClass.NACK_COULD_NOT_ENCRYPT, failure.reason)
            )

    def _give_back(self, positions: Iterable[MessagePosition], now: Moment) -> None:
        """Return messages that were not sent; the next free window dispatches them."""
        effects = self._performer.model.release(positions, now)
        self._performer.perform(effect for effect in effects if not isinstance(effect, OutgoingReady))

    async def _load(self, session: ISession, queue: OutgoingQueue, positions: list[MessagePosition]) -> None:
        """Read stored messages, then send them; the session sends nothing else meanwhile."""
        performer = self._performer
        try:
            await performer.load(positions)
            if not queue.is_transit:
                await self._encryption.ask(positions)
            await self._introductions.introduce(queue, session, positions)
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
        locked, others = self.hops.part(session, queue, locked)
        if others:
            self._give_back(others, performer.clock.now())
        if not self._send(session, queue, locked, performer.clock.now()):
            self._dispatch(session, self.hops.busy_of(session))
        if others:
            # Now that they were read it is known where they belong.
            self.ready(queue)

    # What sessions tell

    def session_opened(self, session: ISession) -> None:
        """[MS-MQQB] 3.1.5.4.2: the queues of this next hop are connected, and what waits is sent."""
        self._peers.opened(session)
        self.hops.opened(session)
        if session.remote_identifier is not None:
            self._ways.reached(session.remote_identifier)
        queues = self.hops.queues_of(session)
        now = self._performer.clock.now()
        for queue in queues:
            self._sequences.connected(queue, now)
            if queue.state not in STILL:
                queue.state = OutgoingState.CONNECTED
        self._dispatch(session, queues)

    def session_progress(self, session: ISession, progress: ConnectionProgress) -> None:
        """[MS-MQQB] 3.1.5.2: an entry for the connection history, and the state that goes with it."""
        now = self._performer.clock.now()
        for hop in self.hops.of_session(session):
            addresses = tuple(hop.connector.addresses) if hop.connector is not None else ()
            entry = ConnectionHistoryEntry(
                ConnectionStatus.named(progress.value), now.unix_seconds, 0, addresses
            )
            for queue in hop.queues:
                queue.history.append(entry)
                queue.next_hops = addresses
                if queue.state in STILL:
                    continue
                if progress is ConnectionProgress.DNS_FAILURE:
                    queue.state = OutgoingState.NEED_VALIDATION
                elif progress is not ConnectionProgress.ESTABLISHED:
                    queue.state = OutgoingState.WAITING
            if hop.routed and progress in _MISSED:
                self._ways.missed(hop.identifiers)

    def messages_arrived(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """Messages of the peer."""
        now = self._performer.clock.now()
        peer = self._peers.arrived(session, messages, now)
        return self.arrivals.take(session, messages, first_recoverable, peer, now)

    def messages_acknowledged(self, session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        """[MS-MQQB] 3.1.5.5.2: what the peer has is forgotten, unless its receiver has to say so."""
        performer = self._performer
        self._handovers.note(session, plain(messages), performer.clock.now())
        self._sequences.kept(plain(messages))
        positions = [message for message in plain(messages) if isinstance(message, MessagePosition)]
        removal = performer.model.remove(self._source_journal.keep_aside(positions))
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
        self._dispatch(session, self.hops.busy_of(session))

    def session_closed(
        self,
        session: ISession,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """[MS-MQQB] 3.1.5.9: what was not acknowledged goes back to its queue, in its place."""
        hops = self.hops.of_session(session) if session.is_initiator else ()
        queues = self.hops.queues_of(session)
        if self._peers.closed(session):
            # What came over the last session with an address draws no OrderAck any more.
            self.arrivals.disconnected(session.remote_address)
        for hop in hops:
            self.hops.missed(hop, session, self._performer.clock.now().wall)
        left = [
            queue
            for queue in queues
            if queue.state is OutgoingState.CONNECTED and not self.hops.leading_to(queue)
        ]
        for queue in left:
            queue.state = OutgoingState.DISCONNECTING
        if left:
            self._left[session] = left
        effects = self._performer.model.release(
            (message for message in plain(unacknowledged) if isinstance(message, MessagePosition)),
            self._performer.clock.now(),
        )
        if not self._is_stopped:
            self._performer.perform(effects)
            for queue in self._carried.pop(session, ()):
                self._sequences.disconnected(queue, self._performer.clock.now())
            for queue in queues:
                self.ready(queue)
            for hop in hops:
                self._search.begin(hop)

    def connection_lost(self, session: ISession) -> None:
        """The connection is gone as well; other sessions may lead there still."""
        for queue in self._left.pop(session, ()):
            if queue.state is OutgoingState.DISCONNECTING:
                queue.state = OutgoingState.DISCONNECTED

    def reconnect(self, session: ISession) -> None:
        """[MS-MQQB] 3.1.6.1 Session Retry Connect Timer Event."""
        for hop in self.hops.of_session(session):
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
