"""Outgoing transactional messages, until their FinalAck. [MS-MQQB] 3.1.1.5 and 3.1.1.6.2."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, TypeAlias
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.session import ISession
from msmq.manager.events import EventLog
from msmq.manager.peers.acknowledging_peers import peer_of
from msmq.manager.peers.awaited_destinations import AwaitedDestinations
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.foreign_sites import ForeignSites
from msmq.manager.peers.settlements import Settlements
from msmq.manager.performer import Performer, PerformerListener
from msmq.manager.states import as_changes
from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent, Change
from msmq.persistence.state_records import StateChange
from msmq.queues.available_positions import PRIORITIES
from msmq.queues.leaving.acknowledged import lock_acknowledged
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition, Queue
from msmq.settings import SessionSettings
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.transfer.awaiting_final_acks import AwaitingFinalAcks
from msmq.transfer.decisions.acknowledgement_decision import (
    SequenceFacts,
    disputed_event,
    passed_event,
)
from msmq.transfer.outgoing_stream import OutgoingStream
from msmq.transfer.outgoing_streams import OutgoingStreams
from msmq.transfer.receivers import Receiver, Receivers, direct_destination, receivers_of
from msmq.transfer.stream_changes import (
    AckOutcome,
    Assignment,
    SettledMessage,
    Transmission,
    Transmitted,
    UnorderedMessage,
)
from msmq.transfer.transfer_info import OutgoingTransferInfo

Stream: TypeAlias = OutgoingStream[MessagePosition]


class Sequences:
    """The streams of all outgoing queues, and the processing of their acknowledgements.

    @param listener: is notified of an outgoing queue from which more may be sent.
    @param foreign_sites: decides which queue managers others may acknowledge for.
    @param receivers: records the queue managers to which sequences are sent.
    @param deliveries: records received acknowledgements.
    @ivar awaited: the messages that wait for FinalAcks, by destination.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        events: EventLog,
        settings: SessionSettings,
        reactor: IReactorTime,
        listener: PerformerListener,
        foreign_sites: ForeignSites,
        receivers: Receivers,
        deliveries: DeliveryLog,
    ) -> None:
        self._performer = performer
        self._deliveries = deliveries
        self._events = events
        self._settings = settings
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)
        identifier = performer.model.identifier
        self._streams: OutgoingStreams[MessagePosition] = OutgoingStreams(
            identifier, settings, {}, performer.clock.now()
        )
        self._awaiting = AwaitingFinalAcks(identifier, settings.awaiting_final_acks)
        self.awaited = AwaitedDestinations(performer, self._awaiting)
        self._settlements = Settlements(performer, events, self._awaiting, deliveries)
        self._receivers = receivers
        self._stale: list[StateChange] = []
        self._moves: dict[object, list[Deferred[None]]] = {}
        self._results: dict[tuple[int, int, int, UUID], list[Deferred[None]]] = {}
        self._is_stopped = False
        self._listener = listener
        self._foreign_sites = foreign_sites

    # Lifecycle

    def configure(self, settings: SessionSettings) -> None:
        """Apply other limits, and other resend times to streams that begin from now on."""
        self._settings = settings
        self._streams.configure(settings)
        self._awaiting.configure(settings.awaiting_final_acks)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Before anything else: take back what the store keeps.

        @raise StateError: a value is damaged.
        """
        performer = self._performer
        model = performer.model
        self._streams = OutgoingStreams(model.identifier, self._settings, state, performer.clock.now())
        for queue in model.outgoing_queues():
            if queue.positions and not queue.is_transit:
                # Transactional messages have the priority 0, so that all others are left out.
                self._streams.stream(queue).restore(
                    queue.page((PRIORITIES - 1 << 56) - 1, queue.message_count)
                )
        self._streams.restored()
        self._stale = [*self._streams.take_early_changes(), *self._streams.take_disputed_changes()]
        self._stale += self._awaiting.load(state, model.collection.awaiting.positions)
        self._stale += self._receivers.load(state, self._awaiting)

    def start(self) -> None:
        """Begin to resend messages that were not acknowledged before the last stop."""
        stale, self._stale = self._stale, []
        self._performer.commit_later(as_changes(stale), "the end of waits for final acknowledgements")
        self._timer.set(self._streams.deadline)
        self.awaited.start()

    def stop(self) -> None:
        """Stop resending."""
        self._is_stopped = True
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        """Transactional Ack Wait Timer Event: unacknowledged messages are sent again. [MS-MQQB] 3.1.6.5."""
        for key, messages in self._streams.expire(now):
            self._return_to_queue(key, messages, now)
        self._timer.set(self._streams.deadline)

    def info(self, queue: OutgoingQueue) -> OutgoingTransferInfo | None:
        """The state of a queue's sequence for management; C{None} if none was sent. [MS-MQDMPR] 3.1.1.4."""
        stream = self._streams.find(queue)
        if stream is None or stream.sequence is None:
            return None
        return stream.info(self._awaiting.in_sequence(stream.sequence))

    # Sequence numbers

    def assign(self, queue: OutgoingQueue, count: int) -> tuple[Stream, Assignment[MessagePosition]]:
        """Assign the next sequence numbers to this number of messages, which are stored together."""
        stream = self._streams.stream(queue)
        return stream, stream.assign(count)

    def reservation(self) -> list[Change]:
        """The changes to store together with messages that have sequence numbers."""
        reservation = self._streams.reservation()
        return [] if reservation is None else as_changes([reservation])

    def reserved(self) -> None:
        """The changes of L{reservation} are stored."""
        reservation = self._streams.reservation()
        if reservation is not None:
            self._streams.reserved(reservation)

    # Sending and removal

    def find(self, queue: OutgoingQueue) -> Stream | None:
        """The stream of an outgoing queue, if any of its messages has a sequence number or may have one."""
        stream = self._streams.find(queue)
        return None if stream is None or stream.is_empty else stream

    def transmit(
        self,
        queue: OutgoingQueue,
        stream: Stream,
        positions: Sequence[MessagePosition],
        now: Moment,
        session: ISession,
    ) -> Transmission[MessagePosition]:
        """The messages that a session sends now. [MS-MQQB] 3.1.7.1.3.

        The receiver of a queue with a direct name was stored before.
        """
        views = (position.view for position in positions)
        receivers = receivers_of(queue.destination, peer_of(session), views)
        if (sequence := stream.sequence) is not None and self._receivers.are_others(sequence, receivers):
            stream.is_moved = True
        transmission = stream.transmit(positions, now)
        if stream.sequence is not None:
            for receiver in receivers:
                self._receivers.sent(stream.sequence, receiver)
        done = self._act(queue, transmission.outcome)
        if done is not None:
            done.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self._timer.set(self._streams.deadline)
        return transmission

    def connected(self, queue: OutgoingQueue, now: Moment) -> None:
        """A session leads to the destination of a queue. [MS-MQQB] 3.1.3.2."""
        stream = self._streams.find(queue)
        if stream is not None:
            stream.connected(now)

    def disconnected(self, queue: OutgoingQueue, now: Moment) -> None:
        """The session of this queue's messages was lost."""
        stream = self._streams.find(queue)
        if stream is not None:
            self._return_to_queue(queue, stream.disconnected(), now)

    def left(self, queue: Queue, positions: Iterable[MessagePosition]) -> None:
        """These messages were removed from an outgoing queue without an acknowledgement, by expiry or
        removal.
        """
        stream = self._streams.find(queue)
        if stream is not None:
            left = list(positions)
            stream.left(left)
            stream.removed(left)
            self._store_disputed()
            self._timer.set(self._streams.deadline)
            if isinstance(queue, OutgoingQueue):
                self._listener.outgoing_ready(queue)

    def is_awaiting(self, queue: OutgoingQueue) -> bool:
        """Whether an acknowledgement is expected for messages that were sent from a queue."""
        return self.find(queue) is not None or self.awaited.count(queue.destination) > 0

    def removed(self, queue: OutgoingQueue) -> None:
        """An outgoing queue is deleted."""
        self._streams.remove(queue)
        self._store_disputed()

    # Acknowledgements

    def facts(self, sequence: int) -> SequenceFacts:
        """The facts about the sequence of an acknowledgement."""
        queue = self._streams.key_of(sequence)
        return SequenceFacts(
            destination=queue.destination if isinstance(queue, OutgoingQueue) else None,
            was_begun=self._streams.was_begun(sequence),
            is_awaited=sequence in self._awaiting,
            is_answered_for=self._foreign_sites.is_answered_for,
            sends_to_names=self._sends_to_names,
        )

    def _sends_to_names(self) -> bool:
        return any(
            queue.positions and direct_destination(queue.destination) is None
            for queue in self._performer.model.outgoing_queues()
        )

    async def acknowledged(self, ack: OrderAck | FinalAck, address: str, *, is_verified: bool = True) -> bool:
        """Done when its results are stored. [MS-MQQB] 3.1.5.6 and 3.1.5.7.

        @param address: the address of the session on which it came.
        @param is_verified: whether its sender is verified; an unverified OrderAck releases fewer messages.
        @return: false if the queue manager stops before that, so that it has to be sent again.
        """
        try:
            if isinstance(ack, OrderAck):
                await self._acknowledged(ack, address, is_verified)
            else:
                await self._once(ack, address, is_verified)
        except CancelledError:
            return False
        return True

    async def _once(self, ack: FinalAck, address: str, is_verified: bool) -> None:
        """Process a FinalAck; a copy of one whose result is being stored only waits for that.

        Its sender forgets it once it is acknowledged, and may send it again on another session before.
        """
        key = ack.tx_sequence_id.value, ack.tx_sequence_number, ack.message_id, ack.source_guid
        if (waiting := self._results.get(key)) is not None:
            done: Deferred[None] = Deferred()
            waiting.append(done)
            await done
            if self._is_stopped:
                raise CancelledError
            return
        waiting = self._results[key] = []
        try:
            await self._acknowledged(ack, address, is_verified)
        finally:
            del self._results[key]
            for done in waiting:
                done.callback(None)

    async def _acknowledged(self, ack: OrderAck | FinalAck, address: str, is_verified: bool) -> None:
        now = self._performer.clock.now()
        if isinstance(ack, OrderAck):
            if is_verified:
                self._report_disputed(ack, now)
            result = self._streams.order_acknowledged(ack, now, is_verified=is_verified)
            self._store_disputed()
            if result is not None:
                outcome = result[1]
                self._deliveries.ordered(
                    [*outcome.delivered, *(transfer.message for transfer in outcome.awaiting)],
                    ack.tx_sequence_id.value,
                    ack.envelope.source_queue_manager.bytes_le,
                    address,
                    now,
                )
            else:
                self._report_passed(ack, address, now)
        else:
            settlements = self._awaiting.final_acknowledged(ack)
            if settlements is not None:
                self._deliveries.settled(ack, address, now)
                if not settlements:
                    # Its message is not yet in the queue in which the FinalAck is looked up.
                    await self._moved()
                await self._settlements.settle_awaiting(settlements)
                return
            result = self._streams.final_acknowledged(ack)
            if result is not None:
                self._deliveries.settled(ack, address, now)
            elif changes := self._streams.take_early_changes():
                # It is kept for a message that was not read yet.
                await self._settlements.persist(as_changes(changes))
        self._timer.set(self._streams.deadline)
        if result is not None:
            key, outcome = result
            done = self._act(key, outcome)
            if isinstance(key, OutgoingQueue):
                self._listener.outgoing_ready(key)
            if done is not None:
                await done

    def _report_passed(self, ack: OrderAck, address: str, now: Moment) -> None:
        """Report messages that their receiver refuses for ever, since it has a later sequence of this queue
        manager: its store was restored from a backup, or a copy of it is running.
        """
        peer = Receiver(ack.envelope.source_queue_manager, address)
        for key, stream in self._streams.passed_by(ack.tx_sequence_id.value):
            if not isinstance(key, OutgoingQueue) or stream.sequence is None or not stream.unacknowledged:
                continue
            is_receiver = peer.identifier in self._receivers.named(
                stream.sequence
            ) or self._receivers.may_acknowledge(stream.sequence, direct_destination(key.destination), peer)
            if is_receiver and stream.later_acknowledged():
                event = passed_event(
                    key.destination,
                    stream.sequence,
                    stream.unacknowledged,
                    now,
                    is_former=stream.is_former,
                )
                self._report(event)

    def _report_disputed(self, ack: OrderAck, now: Moment) -> None:
        """Report messages that their receiver drops, since another process has used their numbers."""
        sequence = ack.tx_sequence_id.value
        queue = self._streams.key_of(sequence)
        stream = self._streams.find(queue)
        if stream is None or not isinstance(queue, OutgoingQueue):
            return
        disputed = stream.disputed(ack.tx_sequence_number)
        self._store_disputed()
        if disputed is not None:
            source = self._performer.model.identifier
            first, last = ((each.number, MessageIdentifier(source, each.message_id)) for each in disputed)
            self._report(
                disputed_event(queue.destination, first, last, sequence, ack.tx_sequence_number, now)
            )

    def _store_disputed(self) -> None:
        """Store the sequences that are held: a restart sends nothing of them either."""
        if changes := as_changes(self._streams.take_disputed_changes()):
            self._performer.insist_later(changes, "the hold of messages whose numbers their receiver has")

    def _report(self, event: AppendEvent) -> None:
        self.log.warn("messages that a receiver refuses hold up others: {reason}", reason=event.reason)
        self._events.record(event)

    def kept(self, messages: Iterable[OutgoingMessage]) -> None:
        """The next hop has stored these messages. [MS-MQQB] 3.1.5.5.2."""
        by_queue: dict[Queue, list[MessagePosition]] = {}
        for message in messages:
            if isinstance(message, Transmitted):
                by_queue.setdefault(message.message.queue, []).append(message.message)
        for queue, positions in by_queue.items():
            stream = self._streams.find(queue)
            if stream is not None:
                self._begin(queue, stream.kept(positions, self._performer.clock.now()))

    def _begin(self, queue: Queue, outcome: AckOutcome[MessagePosition]) -> None:
        done = self._act(queue, outcome)
        if done is not None:
            done.addErrback(lambda failure: failure.trap(CancelledError) and None)
            self._timer.set(self._streams.deadline)
            if isinstance(queue, OutgoingQueue):
                self._listener.outgoing_ready(queue)

    def _act(self, key: Hashable, outcome: AckOutcome[MessagePosition]) -> Deferred[None] | None:
        """Begin to remove acknowledged messages from their outgoing queue; C{None} if there are none."""
        if not outcome:
            return None
        # A message that was purged or has expired meanwhile is being removed already.
        delivered = [position for position in outcome.delivered if lock_acknowledged(position)]
        awaiting = [transfer for transfer in outcome.awaiting if lock_acknowledged(transfer.message)]
        settled = [settlement for settlement in outcome.settled if lock_acknowledged(settlement.message)]
        return Deferred.fromCoroutine(self._leave(key, delivered, awaiting, settled))

    async def _leave(
        self,
        key: Hashable,
        delivered: Sequence[MessagePosition],
        awaiting: Sequence[UnorderedMessage[MessagePosition]],
        settled: Sequence[SettledMessage[MessagePosition]],
    ) -> None:
        if delivered or awaiting:
            await self._depart(key, delivered, awaiting)
        for settlement in settled:
            await self._settlements.dispose(settlement.message, settlement.message_class, settlement.disposal)
            self._removed(key, [settlement.message])
        self._performer.commit_later(
            as_changes(self._streams.take_early_changes()), "the end of early final acknowledgements"
        )

    async def _depart(
        self,
        key: Hashable,
        delivered: Sequence[MessagePosition],
        awaiting: Sequence[UnorderedMessage[MessagePosition]],
    ) -> None:
        """Remove messages, or store them until their FinalAcks; early FinalAcks are applied at once.

        [MS-MQQB] 3.1.1.3.1 AwaitingFinalACKTable.
        """
        performer = self._performer
        model = performer.model
        removal = model.remove(delivered)
        positions = [transfer.message for transfer in awaiting]
        relocation = model.move_locked(positions, model.collection.awaiting)
        page = None
        changes = [*removal.changes, *relocation.changes]
        if awaiting:
            page = self._awaiting.add(awaiting, [place.lookup_id for _, place in relocation.moves])
            sequences = {transfer.sequence for transfer in awaiting}
            changes += as_changes([page.change, *self._receivers.arrived(sequences, self._awaiting)])
            self.awaited.add(sequences, key)
        move = object()
        self._moves[move] = []
        try:
            await self._settlements.persist(changes)
            now = performer.clock.now()
            performer.perform(model.removed(removal, now))
            performer.perform(model.moved(relocation, now))
            self._removed(key, [*delivered, *positions])
            if page is not None:
                await self._settlements.settle_awaiting([*self._awaiting.stored(page), *page.evicted])
        finally:
            for done in self._moves.pop(move):
                done.callback(None)

    async def _moved(self) -> None:
        """Messages are stored to wait for their FinalAcks, and early FinalAcks were processed."""
        moves: list[Deferred[None]] = []
        for waiting in self._moves.values():
            moves.append(Deferred())
            waiting.append(moves[-1])
        for move in moves:
            await move
        if self._is_stopped:
            raise CancelledError

    def _removed(self, key: Hashable, messages: Iterable[MessagePosition]) -> None:
        """The store has removed these messages from their outgoing queue."""
        stream = self._streams.find(key)
        if stream is not None:
            stream.removed(messages)
            if isinstance(key, OutgoingQueue):
                self._listener.outgoing_ready(key)

    def _return_to_queue(self, key: Hashable, messages: Sequence[MessagePosition], now: Moment) -> None:
        performer = self._performer
        self._timer.set(self._streams.deadline)
        if messages:
            performer.perform(performer.model.release(messages, now))
        if isinstance(key, OutgoingQueue):
            self._listener.outgoing_ready(key)
