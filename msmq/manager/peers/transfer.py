"""Connects outgoing queues with the sessions that send their messages. [MS-MQQB] 3.1.7.12 and 3.1.7.1.

Every outgoing queue belongs to one next hop.
All queues of a next hop share its connector, hence its session.
Dispatch is level-triggered: whenever a queue gets messages, a session opens, a window widens or a
connection catches up, all eligible messages are sent (reading 25).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import IRefusingBroker
from msmq.interfaces.session import ISession
from msmq.interfaces.session_policy import MessageRefusal
from msmq.interfaces.sessions import ISessions
from msmq.manager.peers.arrivals import Arrivals
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.dispatcher import Dispatcher
from msmq.manager.peers.peer_table import Peers
from msmq.manager.peers.sequences import Sequences
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.performer import Performer
from msmq.manager.routes.next_hops import NextHops
from msmq.manager.routes.route_table import RouteTable
from msmq.manager.routes.sender_search import SenderSearch
from msmq.manager.securing.encryption import plain
from msmq.queues.leaving.departure_kinds import Removal
from msmq.queues.outgoing import ConnectionHistoryEntry, OutgoingQueue
from msmq.queues.queue import MessagePosition
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.management import ConnectionStatus, OutgoingState
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.dispatch_decision import QueueReadiness, decide_readiness
from msmq.transfer.decisions.outgoing_states import (
    after_attempt,
    after_connection,
    after_opening,
    after_pause,
    after_rerouting,
    after_session,
    is_missed,
    while_waiting,
)


@implementer(IRefusingBroker)
class MessageTransfer:
    """Broker of the sessions: sends pending messages, and accepts arriving ones.

    [MS-MQQB] 3.1.7: it gets the events of the queue manager that concern the protocol, such as Message
    Position Available, Pause Queue and Resume Queue.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        sessions: ISessions,
        arrivals: Arrivals,
        sequences: Sequences,
        peers: Peers,
        hops: NextHops,
        search: SenderSearch,
        routes: RouteTable,
        dispatcher: Dispatcher,
        deliveries: DeliveryLog,
        source_journal: SourceJournal,
    ) -> None:
        self._performer = performer
        self._sessions = sessions
        self.arrivals = arrivals
        self._sequences = sequences
        self._peers = peers
        self.hops = hops
        self._search = search
        self._routes = routes
        self._dispatcher = dispatcher
        self._deliveries = deliveries
        self._source_journal = source_journal
        self._left: dict[ISession, list[OutgoingQueue]] = {}
        # The sessions that paused queues have paused, in both directions; a queue may leave its next hop
        # before it is resumed.
        self._pausing: dict[ISession, dict[OutgoingQueue, None]] = {}
        self._paused: dict[OutgoingQueue, list[ISession]] = {}
        sessions.attach(self, is_offline=performer.model.is_hardened)

    def stop(self) -> None:
        """End all sessions, and stop dialling."""
        self._dispatcher.stop()
        self._routes.stop()
        for hop in self.hops:
            if hop.connector is not None:
                hop.connector.stop()
        self._sessions.close_all()

    # Connection

    def take_offline(self) -> None:
        """Take Offline: end the sessions, and refuse new ones. [MS-MQDMPR] 3.1.4.12."""
        self._sessions.take_offline()
        self._sessions.close_all()

    def bring_online(self) -> None:
        """Bring Online: accept and dial sessions, and send pending messages. [MS-MQDMPR] 3.1.4.13.

        What waits for its next attempt from the time before is dialled at once.
        A hardened queue manager transfers nothing over sessions.
        """
        model = self._performer.model
        if not model.is_hardened:
            self._sessions.bring_online()
            for hop in self.hops:
                if hop.connector is not None and hop.is_waited_for():
                    hop.connector.retry_now()
        for queue in list(model.outgoing_queues()):
            self.ready(queue)

    # Outgoing queues

    def ready(self, queue: OutgoingQueue) -> None:
        """Message Position Available Event. [MS-MQQB] 3.1.7.12."""
        self.hops.note(queue)
        readiness = decide_readiness(
            queue.state,
            is_paused=bool(self.hops.held_by(queue)),
            has_messages=queue.has_available,
            is_stopped=self._dispatcher.is_stopped,
            is_offline=self._sessions.is_offline,
        )
        if readiness is QueueReadiness.PAUSED:
            self.pause(queue)
        if readiness is QueueReadiness.RESUMES:
            self.resume(queue)
        if readiness is not QueueReadiness.SENDS:
            return
        hop = self.hops.of(queue)
        sessions = self.hops.leading_to(queue)
        self.hops.dispatched(queue)
        for session in sessions:
            queue.state = OutgoingState.CONNECTED
            self._dispatcher.dispatch(session, self.hops.busy(hop))
        if self.hops.is_reached(queue):
            return
        if hop.connector is not None:
            hop.connector.connect()
        queue.state = while_waiting(queue.state, can_dial=hop.connector is not None)

    def pause(self, queue: OutgoingQueue) -> None:
        """Pause Queue: stop sending from it. [MS-MQDMPR] 3.1.7.2.3."""
        if queue.state is OutgoingState.ON_HOLD:
            return
        queue.state = OutgoingState.ON_HOLD
        for session in self.hops.leading_to(queue):
            self._pausing.setdefault(session, {})[queue] = None
            self._paused.setdefault(queue, []).append(session)
            session.pause()

    def resume(self, queue: OutgoingQueue) -> None:
        """[MS-MQDMPR] 3.1.7.2.4 Resume Queue: send its pending messages, unless the queue manager is
        hardened.

        Nothing happens to a queue that is not paused (reading 53); one that a session leads to is connected
        again (reading 26).
        """
        if queue.state is not OutgoingState.ON_HOLD:
            return
        self._end_pause(queue)
        sessions = self.hops.leading_to(queue)
        for session in sessions:
            if session not in self._pausing:
                session.resume()
        idle = self._performer.model.collection.idle_state(queue.destination)
        queue.state = after_pause(idle, is_served=bool(sessions))
        self.ready(queue)

    def _end_pause(self, queue: OutgoingQueue) -> None:
        """Resume the sessions that this queue has paused, and no other one."""
        for session in self._paused.pop(queue, ()):
            queues = self._pausing[session]
            del queues[queue]
            if not queues:
                del self._pausing[session]
                session.resume()

    def next_attempt(self, queue: OutgoingQueue) -> float | None:
        """When the next hop of a queue is dialled again, in seconds since 1970-01-01 UTC; C{None} unless a
        retry is pending, and offline.
        """
        hop = None if self._sessions.is_offline else self.hops.find(queue)
        if hop is None or hop.connector is None or (due := hop.connector.next_attempt) is None:
            return None
        now = self._performer.clock.now()
        return now.wall + max(0.0, due - now.monotonic)

    def retry_now(self, queue: OutgoingQueue) -> None:
        """Dial the next hop of a queue now, if a retry is pending, for all queues that share it."""
        hop = self.hops.find(queue)
        if hop is not None and hop.connector is not None:
            hop.connector.retry_now()
        self.ready(queue)

    def route_changed(self, destination: UUID) -> None:
        """The routes to a queue manager may have changed. [MS-MQQB] 3.1.7.5."""
        for queue in self.hops.reroute(destination):
            self.rerouted(queue)

    def owner_found(self, identifier: UUID) -> None:
        """The owner of a public queue was found. [MS-MQQB] 3.1.7.4."""
        queue = self.hops.owner_found(identifier)
        if queue is not None:
            self.rerouted(queue)

    def redirected(self, queue: OutgoingQueue) -> None:
        """Another host is dialled for an outgoing queue: its pending messages are sent there, unless it is
        paused.
        """
        self.hops.redirected(queue)
        self.rerouted(queue)

    def rerouted(self, queue: OutgoingQueue) -> None:
        """A queue has another next hop, to which perhaps no session leads; a pause of the queue ends on the
        sessions of the former one.
        """
        self._end_pause(queue)
        connector = self.hops.of(queue).connector
        queue.next_hops = () if connector is None else tuple(connector.addresses)
        queue.state = after_rerouting(queue.state, is_served=bool(self.hops.leading_to(queue)))
        self.ready(queue)

    def forget(self, queue: OutgoingQueue) -> None:
        """An outgoing queue is about to be deleted."""
        self._end_pause(queue)
        self._sequences.removed(queue)
        self.hops.forget(queue)

    @property
    def unreached(self) -> frozenset[UUID]:
        """The queue managers that were not reached when they were last tried."""
        missed = {
            identifier
            for hop in self.hops
            if hop.unanswered_since is not None
            for identifier in hop.identifiers
        }
        return self._routes.avoided | missed

    # Events of sessions

    def session_opened(self, session: ISession) -> None:
        """The queues of this next hop are connected, and their messages are sent, unless it is paused.
        [MS-MQQB] 3.1.5.4.2.
        """
        self._peers.opened(session)
        self.hops.opened(session)
        if session.remote_identifier is not None:
            self._routes.reached(session.remote_identifier)
        queues = self.hops.queues_of(session)
        now = self._performer.clock.now()
        for queue in queues:
            self._sequences.connected(queue, now)
            if self.hops.held_by(queue):
                # Only now it is known that its name leads to a paused next hop.
                self.pause(queue)
            queue.state = after_opening(queue.state)
        self._dispatcher.dispatch(session, queues)

    def session_progress(self, session: ISession, progress: ConnectionProgress) -> None:
        """Add an entry to the connection history, and set its state. [MS-MQQB] 3.1.5.2."""
        now = self._performer.clock.now()
        for hop in self.hops.of_session(session):
            addresses = tuple(hop.connector.addresses) if hop.connector is not None else ()
            status = ConnectionStatus.named(progress.value)
            entry = ConnectionHistoryEntry(status, now.unix_seconds, 0, addresses)
            for queue in hop.queues:
                queue.history.append(entry)
                queue.next_hops = addresses
                queue.state = after_attempt(queue.state, status)
            if hop.routed and is_missed(status):
                self._routes.missed(hop.identifiers)

    def messages_arrived(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """Accept messages of the peer."""
        return self.messages_arrived_with_refusals(session, messages, first_recoverable, {})

    def messages_arrived_with_refusals(
        self,
        session: ISession,
        messages: Sequence[UserMessageView],
        first_recoverable: int,
        refused: Mapping[UserMessageView, MessageRefusal],
    ) -> Deferred[None] | None:
        """Accept messages of the peer, except those that the session policy refuses."""
        now = self._performer.clock.now()
        peer = self._peers.arrived(session, messages, now)
        return self.arrivals.take(session, messages, first_recoverable, peer, now, refused)

    def messages_acknowledged(self, session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        """[MS-MQQB] 3.1.5.5.2: acknowledged messages are removed, unless they wait for an acknowledgement of
        their receiver.
        """
        performer = self._performer
        self._deliveries.acknowledged(session, messages, performer.clock.now())
        positions = [message for message in messages if isinstance(message, MessagePosition)]
        if len(positions) != len(messages):
            # Some are encrypted, or have their number in a sequence.
            self._sequences.kept(plain(messages))
            positions = [message for message in plain(messages) if isinstance(message, MessagePosition)]
        removal = performer.model.remove(self._source_journal.keep_aside(positions))
        if not removal.changes:
            performer.perform(performer.model.removed(removal, performer.clock.now()))
            return
        Deferred.fromCoroutine(self._remove(removal)).addErrback(
            lambda failure: self.log.failure("acknowledged messages could not be removed", failure)
        )

    async def _remove(self, removal: Removal) -> None:
        """Remove acknowledged messages, with retries, so that none is sent twice."""
        performer = self._performer
        if await self._deliveries.insist(removal.changes, "the delivery of messages"):
            performer.perform(performer.model.removed(removal, performer.clock.now()))

    def room_for_messages(self, session: ISession) -> None:
        """The window has widened, or the transport's buffer has been written."""
        self._dispatcher.dispatch(session, self.hops.busy_of(session))

    def session_closed(
        self,
        session: ISession,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """Unacknowledged messages return to their positions in their queues. [MS-MQQB] 3.1.5.9."""
        hops = self.hops.of_session(session) if session.is_initiator else ()
        queues = self.hops.queues_of(session)
        self._deliveries.closed(session)
        if self._peers.closed(session):
            # Messages that came over the last session with an address no longer cause OrderAcks.
            self.arrivals.disconnected(session.remote_address)
        for hop in hops:
            self.hops.missed(hop, session, self._performer.clock.now().wall)
        for queue in self._pausing.pop(session, ()):
            self._paused[queue].remove(session)
        left = []
        for queue in queues:
            state = after_session(queue.state, is_served=bool(self.hops.leading_to(queue)))
            if state is not queue.state:
                queue.state = state
                left.append(queue)
        if left:
            self._left[session] = left
        effects = self._performer.model.release(
            (message for message in plain(unacknowledged) if isinstance(message, MessagePosition)),
            self._performer.clock.now(),
        )
        if not self._dispatcher.is_stopped:
            self._performer.perform(effects)
            for queue in self._dispatcher.take_carried(session):
                self._sequences.disconnected(queue, self._performer.clock.now())
            for queue in queues:
                self.ready(queue)
            for hop in hops:
                self._search.begin(hop)

    def connection_lost(self, session: ISession) -> None:
        """The connection is lost as well; other sessions may still lead there."""
        for queue in self._left.pop(session, ()):
            queue.state = after_connection(queue.state)

    def reconnect(self, session: ISession) -> None:
        """Session Retry Connect Timer Event. [MS-MQQB] 3.1.6.1."""
        for hop in self.hops.of_session(session):
            if hop.connector is not None:
                hop.connector.connect(is_retry=True)
