"""Sends the messages of outgoing queues on the sessions that lead to their next hops. [MS-MQQB] 3.1.7.1."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.interfaces.session import ISession
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.introductions import Introductions
from msmq.manager.peers.sequences import Sequences, Stream
from msmq.manager.performer import Performer, PerformerListener
from msmq.manager.routes.next_hops import NextHops
from msmq.manager.securing.encryption import EncryptedMessages, Encryption, Failure
from msmq.manager.trace_reports import Reports
from msmq.moment import Moment
from msmq.queues.effects import OutgoingReady
from msmq.queues.outgoing import ConnectionHistoryEntry, OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.management import ConnectionStatus
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.status import MQError
from msmq.transfer.decisions.dispatch_decision import (
    SendFacts,
    decide_sending,
    dispatch_count,
    dispatch_order,
    portion_end,
)
from msmq.transfer.decisions.outgoing_states import STILL

READ_RETRY = 5.0
"""Seconds after which reading messages is retried; their session waits for it."""


class Dispatcher:
    """Sends eligible messages on a session, in the order of the decision. [MS-MQDMPR] 3.1.1.18.

    Each session is dispatched separately; paused and locked queues are skipped (reading 52).

    @param deliveries: records sent messages.
    @param listener: is notified of queues from which more may be sent.
    @param reports: reports of traced messages; C{None} if none are sent.
    @ivar is_stopped: sending has stopped.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        hops: NextHops,
        sequences: Sequences,
        encryption: Encryption,
        introductions: Introductions,
        deliveries: DeliveryLog,
        reports: Reports | None,
        listener: PerformerListener,
    ) -> None:
        self._performer = performer
        self._hops = hops
        self._sequences = sequences
        self._encryption = encryption
        self._introductions = introductions
        self._deliveries = deliveries
        self._reports = reports
        self._listener = listener
        # Sessions that wait until messages are read, and the queues that have nothing to send until then.
        self._loading: dict[ISession, set[OutgoingQueue]] = {}
        self._carried: dict[ISession, dict[OutgoingQueue, None]] = {}
        self.is_stopped = False

    def stop(self) -> None:
        """Stop sending."""
        self.is_stopped = True

    def take_carried(self, session: ISession) -> Iterable[OutgoingQueue]:
        """The queues whose transactional messages an ended session carried."""
        return self._carried.pop(session, ())

    def dispatch(self, session: ISession, queues: Iterable[OutgoingQueue]) -> None:
        """Dispatch Send Message. [MS-MQQB] 3.1.7.1, 3.1.7.16 and [MS-MQDMPR] 3.1.7.1.29, 3.1.7.3.9."""
        if (held := self._loading.get(session)) is not None:
            # What is held may have become free, and is tried again once the messages are read.
            held.clear()
            return
        self._dispatch(session, queues, set())

    def _dispatch(self, session: ISession, queues: Iterable[OutgoingQueue], held: set[OutgoingQueue]) -> None:
        """Send what the session takes.

        @param held: queues whose messages have to wait for acknowledgements; extended.
        """
        if session in self._loading or (room := session.capacity) <= 0:
            return
        found = [
            queue
            for queue in queues
            if queue not in held
            and queue.has_available
            and queue.state not in STILL
            and self._hops.carried(session, queue) != []
        ]
        # There may be thousands, so the next one is not searched among all of them each time.
        waiting = [
            (_order(queue) if len(found) > 1 else 0, number, queue) for number, queue in enumerate(found)
        ]
        heapq.heapify(waiting)
        now = self._performer.clock.now()
        while waiting and room > 0 and session not in self._loading:
            order, number, queue = waiting[0]
            if not queue.has_available:
                heapq.heappop(waiting)
                continue
            is_alone = len(waiting) == 1
            if not is_alone and (present := _order(queue)) != order:
                heapq.heapreplace(waiting, (present, number, queue))
                continue
            # The first message may be for another session: it would be taken, read and released without end.
            chosen = self._hops.carried(session, queue)
            if chosen == []:
                heapq.heappop(waiting)
                continue
            is_in_memory = (chosen or queue.peek(1))[0].view is not None
            count = dispatch_count(room, is_alone=is_alone, is_in_memory=is_in_memory)
            positions, effects = self._performer.model.take(queue, count, session, now, chosen)
            self._send(session, queue, positions, held, now)
            if effects:
                self._performer.perform(effects)
            if queue in held or not queue.has_available:
                heapq.heappop(waiting)
            if waiting:
                room = session.capacity

    def _send(
        self,
        session: ISession,
        queue: OutgoingQueue,
        positions: list[MessagePosition],
        held: set[OutgoingQueue],
        now: Moment,
    ) -> None:
        """Send locked messages in portions, and release the rest when the window is full.

        @param held: the queue is added if some of them have to wait for the acknowledgement of others.
        """
        self._hops.address(queue, positions)
        stream = self._sequences.find(queue)
        is_in_memory = not [position for position in positions if position.view is None]
        asks_for_privacy = self._encryption.concerns(positions)
        decision = decide_sending(
            SendFacts(
                is_transit=queue.is_transit,
                is_in_memory=is_in_memory,
                asks_for_privacy=asks_for_privacy,
                lacks_keys=is_in_memory and asks_for_privacy and self._encryption.has_to_ask(positions),
                lacks_receiver=self._introductions.are_due(
                    queue, session, positions, is_ordered=stream is not None
                ),
            )
        )
        if decision.waits:
            self._loading[session] = held
            Deferred.fromCoroutine(self._load(session, queue, positions)).addErrback(
                lambda failure: self.log.failure("outgoing messages could not be read", failure)
            )
            return
        positions, others = self._hops.part(session, queue, positions)
        if others:
            self._release(others, now)
        sealed = None
        if decision.is_encrypted:
            sealed = self._encryption.seal(positions)
            positions = list(sealed.positions)
        stream = stream if decision.is_ordered else None
        is_held = self._send_portions(session, queue, stream, positions, sealed, now)
        if sealed is not None and sealed.failed:
            self._cannot_encrypt(session, queue, sealed.failed, now)
        if is_held or others:
            held.add(queue)

    def _send_portions(
        self,
        session: ISession,
        queue: OutgoingQueue,
        stream: Stream | None,
        positions: Sequence[MessagePosition],
        sealed: EncryptedMessages | None,
        now: Moment,
    ) -> bool:
        sizes = [position.size for position in positions]
        sent: list[bytes] = []
        start = 0
        held: Sequence[MessagePosition] = ()
        while start < len(positions) and not held and (room := session.capacity) > 0:
            end = portion_end(sizes, start, room)
            outgoing: Sequence[OutgoingMessage] = positions[start:end]
            if stream is not None:
                transmission = self._sequences.transmit(queue, stream, positions[start:end], now, session)
                outgoing = transmission.outgoing
                held = transmission.held
                if outgoing:
                    self._carried.setdefault(session, {})[queue] = None
            if sealed is not None:
                outgoing = sealed.outgoing(outgoing)
            if outgoing:
                self._deliveries.sent(session, outgoing, now)
                session.send(outgoing)
            if held:
                self._release(held, now)
            sent += () if self._reports is None else [message.packet for message in outgoing]
            start = end
        if start < len(positions):
            self._release(positions[start:], now)
        if sent and self._reports is not None:
            # It may send others meanwhile.
            self._reports.departed(session, sent, is_transit=queue.is_transit)
        return bool(held)

    def _cannot_encrypt(
        self,
        session: ISession,
        queue: OutgoingQueue,
        failed: Mapping[Failure, Sequence[MessagePosition]],
        now: Moment,
    ) -> None:
        """Handling Encryption Errors: these messages are removed unsent. [MS-MQQB] 3.1.7.1.5.1."""
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

    def _release(self, positions: Iterable[MessagePosition], now: Moment) -> None:
        """Return messages that were not sent; they are dispatched when the window has space."""
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
            self._release(_held_by(session, positions), performer.clock.now())
            await performer.pause(READ_RETRY)
            positions = []
        finally:
            held = self._loading.pop(session, set())
        if not positions:
            self._listener.outgoing_ready(queue)
            return
        # Messages that were removed meanwhile, for example expired ones, are not sent.
        locked = _held_by(session, positions)
        if self.is_stopped or not session.is_open:
            performer.perform(performer.model.release(locked, performer.clock.now()))
            return
        locked, others = self._hops.part(session, queue, locked)
        if queue.state in STILL or not self._hops.may_carry(session, queue):
            # It was paused while they were read, or has another next hop.
            locked, others = [], [*others, *locked]
            held.add(queue)
        if others:
            self._release(others, performer.clock.now())
        if locked:
            self._send(session, queue, locked, held, performer.clock.now())
        # The other queues too if this one is held: among their messages may be the acknowledgements for which
        # the peer holds those that this one waits for.
        self._dispatch(session, self._hops.busy_of(session), held)
        if others:
            # The next hop of each is known only after reading.
            self._listener.outgoing_ready(queue)


def _held_by(session: ISession, positions: Iterable[MessagePosition]) -> list[MessagePosition]:
    """Those of these messages that are still locked for a session."""
    return [
        position
        for position in positions
        if position.owner is session
        and position.state in (PositionState.LOCKED_READER, PositionState.PURGE_PENDING)
    ]


def _order(queue: OutgoingQueue) -> int:
    return dispatch_order(queue.definition.base_priority, queue.peek(1)[0].lookup_id)
