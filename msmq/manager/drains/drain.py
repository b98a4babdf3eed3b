"""QueueDrain: moves the messages of one queue to another queue manager, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import ClassVar, Final
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from msmq.background import undivided
from msmq.manager.administration.summaries import queue_path
from msmq.manager.applications.queue_opener import QueueOpener
from msmq.manager.applications.transactions import Transactions
from msmq.manager.drains.drain_record import DrainRecord
from msmq.manager.drains.drained_arrivals import DrainedArrivals
from msmq.manager.drains.drained_packets import DrainedPackets
from msmq.manager.events import EventLog
from msmq.manager.outbox import Outbox, refuse
from msmq.manager.performer import Performer
from msmq.persistence.changes import AppendEvent, Change
from msmq.queues.holdings import forget_queues
from msmq.queues.leaving.departure_kinds import Removal, removals
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.quoting import shown
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.kept_packet import is_kept_until_arrival
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_rewrites import without_acknowledgements
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.transfer.acknowledgements import wants_final_ack

BATCH: Final = 256
"""Limit on messages that are moved with one commit."""

BATCH_BYTES: Final = 1 << 20
"""Bytes of messages after which a batch ends."""

BACKLOG: Final = 4096
"""Messages to the destination beyond which no more are moved: what is not on its route can still be received
here."""

BACKLOG_CHECK: Final = 0.1
"""Seconds between two checks of the backlog."""

PATIENCE: Final = 5.0
"""Seconds after which a missing acknowledgement is the reason for which a drain waits."""

SILENT_RETRY: Final = 600.0
"""Seconds after which another message is sent to a destination that has not acknowledged the last one."""

REFUSED_RETRY: Final = 60.0
"""Seconds between a refusal of the destination and the next message to it."""

RETRY: Final = 5.0
"""Seconds between attempts when messages cannot be moved."""

DRAINED: Final = "drained"
"""The event of a message that a drain has sent with a new identifier."""


class QueueDrain:
    """One drain, from its start or the start of the queue manager to its end.

    A batch leaves the queue, enters the outgoing queue and is counted in one commit of the store, so a crash
    neither loses nor repeats a message, and the counts are exact.
    A message is not received by that: there is no journal copy, and the destination sends the acknowledgement
    of its receipt. Only the FinalAck of a transactional message is sent here, since its sequence ends here.

    If messages are kept until their arrival is acknowledged, one is moved alone, and the next when it has
    arrived; so it is after a refusal, too. A destination that takes no messages, or whose acknowledgements do
    not come here, gets one message and not all.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        record: DrainRecord,
        queue: Queue,
        name: FormatName,
        packets: DrainedPackets,
        performer: Performer,
        outbox: Outbox,
        transactions: Transactions,
        opener: QueueOpener,
        events: EventLog,
        arrivals: DrainedArrivals | None,
        new_identifier: Callable[[], UUID],
        suspicion: Callable[[], str],
        deleted: Callable[[], None],
    ) -> None:
        """Create a drain; L{start} begins it.

        @param deleted: called when it has ended because its queue was deleted.
        @param suspicion: why this may be a clone, which moves nothing; empty if it is not.
        @param arrivals: the results of messages that are kept until their arrival is acknowledged; C{None} if
            the drain keeps none.
        """
        self.record = record
        self.queue = queue
        self._name = name
        self._reason = ""
        # The reason is one of the arrivals, and ends when a message has arrived.
        self._is_unproven = False
        self._packets = packets
        self._performer = performer
        self._outbox = outbox
        self._transactions = transactions
        self._opener = opener
        self._events = events
        self._arrivals = arrivals
        self._new_identifier = new_identifier
        self._suspicion = suspicion
        self._deleted = deleted
        self._is_ending = False
        self._waiting: Deferred[object] | None = None
        self._ended: list[Deferred[None]] = []
        self._is_running = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing is moved any more: the queue was deleted, or the drain was ended."""
        return not self._is_running

    def start(self) -> None:
        """Begin to move messages, also after an end that was not stored."""
        self._is_running = True
        self._is_ending = False
        Deferred.fromCoroutine(self._run()).addErrback(
            lambda failure: self.log.failure("the drain of {queue} has failed", failure, queue=self._path)
        ).addBoth(self._stopped)

    async def end(self) -> None:
        """End it after the batch that is being moved."""
        self._is_ending = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._is_running:
            ended: Deferred[None] = Deferred()
            self._ended.append(ended)
            await ended

    def _stopped(self, result: object) -> None:
        self._is_running = False
        ended, self._ended = self._ended, []
        for each in ended:
            each.callback(None)
        if self.queue.is_deleted:
            self._deleted()

    @property
    def outgoing(self) -> OutgoingQueue:
        """The outgoing queue of the destination; an idle one may have been dropped meanwhile."""
        performer = self._performer
        return performer.model.collection.outgoing(self._name, performer.clock.now())

    @property
    def in_transit(self) -> int:
        """Messages to the destination that have not left the outgoing queue, or whose arrival is not
        acknowledged.
        """
        waiting = 0 if self._arrivals is None else self._arrivals.waiting
        return self.outgoing.message_count + waiting

    @property
    def reason(self) -> str:
        """Why it waits; empty while it moves messages."""
        has_ended = self._is_unproven and self._arrivals is not None and self._arrivals.is_proven
        return "" if has_ended else self._reason

    @property
    def refused(self) -> int:
        """Messages that the destination has refused, or not acknowledged in time, since the start."""
        return 0 if self._arrivals is None else self._arrivals.refused

    @property
    def _path(self) -> str:
        return shown(queue_path(self.queue))

    def _goes_on(self) -> bool:
        return not (self._is_ending or self._performer.is_stopped or self.queue.is_deleted)

    async def _run(self) -> None:
        try:
            while self._goes_on():
                await self._move_next()
        except CancelledError:
            # It was ended while it waited.
            return

    async def _move_next(self) -> None:
        """Wait for messages and for room, and move a batch; if that fails, wait before the next attempt."""
        try:
            await self._wait_for(self._has_messages())
            if suspicion := self._suspicion():
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_OPERATION,
                    f"this may be a clone: {suspicion}; decide with msmq identity keep (this is the original)"
                    " or msmq identity renew",
                )
            arrivals = self._arrivals
            is_probe = arrivals is not None and not arrivals.is_proven
            if arrivals is not None and (refusal := arrivals.take_refusal()):
                self._note(refusal, is_unproven=True)
                await self._wait_for(self._performer.pause(REFUSED_RETRY))
            elif arrivals is not None and is_probe and self._is_waiting_for(arrivals):
                await self._wait_for(self._performer.pause(BACKLOG_CHECK))
            elif self.in_transit >= BACKLOG:
                await self._wait_for(self._performer.pause(BACKLOG_CHECK))
            elif self._goes_on():
                await self._move(is_probe=is_probe)
                if arrivals is not None:
                    arrivals.sent(self._performer.clock.now())
                if not is_probe:
                    self._reason = ""
        except MQError as error:
            if self._goes_on():
                self._note(str(error))
                await self._wait_for(self._performer.pause(RETRY))

    def _is_waiting_for(self, arrivals: DrainedArrivals) -> bool:
        """Whether a message is on its way whose result decides about the others."""
        if self.outgoing.message_count:
            return True
        silence = arrivals.silence(self._performer.clock.now())
        if silence >= PATIENCE:
            self._note(arrivals.missing_reason, is_unproven=True)
        return bool(arrivals.waiting) and silence < SILENT_RETRY

    async def _wait_for(self, work: object) -> None:
        """Wait for something that L{end} cancels."""
        waiting: Deferred[object] = Deferred.fromCoroutine(work)  # type: ignore[arg-type]
        self._waiting = waiting
        try:
            await waiting
        finally:
            self._waiting = None

    async def _has_messages(self) -> None:
        await self._opener.reserve(queue_path(self.queue), 1, None, True, None)

    def _note(self, reason: str, *, is_unproven: bool = False) -> None:
        self._is_unproven = is_unproven
        if reason != self._reason:
            self._reason = reason
            self.log.warn(
                "the drain of {queue} to {destination} waits: {reason}",
                queue=self._path,
                destination=shown(self.record.destination),
                reason=reason,
            )

    async def _move(self, *, is_probe: bool) -> None:
        """Move the first messages of the queue.

        @param is_probe: move only one that is kept until its arrival is acknowledged, and those before it.
        """
        performer = self._performer
        sizes = 0

        def fits(position: MessagePosition) -> bool:
            nonlocal sizes
            sizes += position.size
            return sizes <= BATCH_BYTES or sizes == position.size

        found = list(takewhile(fits, self.queue.peek(BATCH)))
        views = await performer.load(found)
        # A reader may have been faster while they were read, and others were packed: a message that is left
        # out would be passed by those after it.
        batch = [
            (now, view)
            for position, view in zip(found, views, strict=True)
            if (now := position.current()) is not None
            and now.state is PositionState.AVAILABLE
            and not now.queue.is_deleted
        ]
        if not batch or not self._goes_on():
            return
        try:
            packets = [self._packets.packet(view) for _, view in batch]
        except MQError:
            # What is before the message that cannot be moved is moved first.
            packets = []
            for _, view in batch:
                try:
                    packets.append(self._packets.packet(view))
                except MQError:
                    break
            if not packets:
                raise
        if is_probe:
            kept = [is_kept_until_arrival(packet.packet) for packet in packets]
            packets = packets[: kept.index(True) + 1 if True in kept else None]
        batch = batch[: len(packets)]
        if self._arrivals is not None:
            self._arrivals.check()
        positions = [position for position, _ in batch]
        views = [view for _, view in batch]
        for position in positions:
            self.queue.remove_available(position)
            position.state = PositionState.REMOVING
        if views[0].is_transactional:
            await undivided(self._send_again(positions, views, packets))
        else:
            await undivided(self._forward(positions, views, packets))

    async def _forward(
        self,
        positions: Sequence[MessagePosition],
        views: Sequence[UserMessageView],
        packets: Sequence[UserMessageView],
    ) -> None:
        """Put messages that are not transactional into the outgoing queue."""
        performer, model = self._performer, self._performer.model
        removal = Removal(positions, removals(positions))
        identities = [packet.identity for packet in packets]
        figures, counted = self.record.after(identities, _size(packets))
        outgoing = self.outgoing
        arrivals = [(outgoing, packet) for packet in packets]
        # They replace those that leave: a queue manager that is full can be drained.
        admission = model.admit(arrivals, performer.clock.now(), spare=_size(packets))
        noted: Sequence[Change] = ()
        try:
            refuse(admission.refusals, len(packets), model.storage)
            noted = self._noted(views, packets)
            changes = [*admission.changes, *admission.overflow, *removal.changes, *counted]
            await performer.commit([*changes, *noted, *model.reservations()])
        except Exception:
            self._events.not_stored(noted)
            model.withdraw(admission)
            forget_queues(admission.overflow, admission.groups)
            performer.perform(model.release(positions, performer.clock.now()))
            raise
        self.record.moved(figures, identities)
        model.overflowed(admission, is_stored=True)
        performer.perform(model.removed(removal, performer.clock.now(), is_received=False))
        performer.perform(model.commit(admission, performer.clock.now()))

    async def _send_again(
        self,
        positions: Sequence[MessagePosition],
        views: Sequence[UserMessageView],
        packets: Sequence[UserMessageView],
    ) -> None:
        """Send transactional messages in a transaction of this queue manager."""
        performer, model = self._performer, self._performer.model
        removal = Removal(positions, removals(positions))
        identities = [packet.identity for packet in packets]
        figures, counted = self.record.after(identities, _size(packets))
        answers = self._outbox.answers()
        answers.add(
            (without_acknowledgements(view) for view in views if wants_final_ack(view)),
            MessageClass.ACK_RECEIVE,
        )
        core = self._transactions.begin(self._new_identifier()).core
        noted: Sequence[Change] = ()
        try:
            outgoing = self.outgoing
            arrivals = [(outgoing, packet) for packet in packets]
            refused = model.transacting.send(core, arrivals, performer.clock.now(), spare=_size(packets))
            refuse(refused, len(packets), model.storage)
            noted = self._noted(views, packets)
            changes = [*removal.changes, *counted, *noted]
            await self._transactions.commit(core, [*changes, *answers.prepare()])
        except Exception:
            self._events.not_stored(noted)
            answers.withdraw()
            if core.may_end:
                await self._transactions.abort(core)
            performer.perform(model.release(positions, performer.clock.now()))
            raise
        self.record.moved(figures, identities)
        performer.perform(model.removed(removal, performer.clock.now(), is_received=False))
        answers.show()

    def _noted(
        self, views: Sequence[UserMessageView], packets: Sequence[UserMessageView]
    ) -> Sequence[Change]:
        """The events that say which identifiers messages have now, of those that have others."""
        return self._events.trim(
            [
                self._event(view, packet)
                for view, packet in zip(views, packets, strict=True)
                if not self._packets.keeps_identifier(view)
            ]
        )

    def _event(self, view: UserMessageView, packet: UserMessageView) -> AppendEvent:
        reason = f"sent to {self.record.destination} as {packet.identifier}"
        path = self.queue.definition.path
        return AppendEvent(self._performer.clock.now().wall, view.identity, DRAINED, reason, queue=path)


def _size(packets: Sequence[UserMessageView]) -> int:
    return sum(packet.size for packet in packets)


def not_drained(queue: str) -> MQError:
    """The refusal of a queue that is not drained."""
    return MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"queue {queue} is not drained")
