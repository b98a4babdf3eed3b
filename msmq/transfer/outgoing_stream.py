"""The transactional messages of one outgoing queue. [MS-MQQB] 3.1.1.5, 3.1.5.6, 3.1.6.5 and 3.1.7.1.3.

This is the sender of transactional messages (3.1.1.1.1.7).

A message goes through four states, always in the order of its number:

  - assigned: it has its number and is being stored;
  - waiting: it is stored, and was not sent since this process began;
  - flying: it was sent on the present connection;
  - again: it was sent, and has to be sent again before any waiting one.

An OrderAck takes messages from the front of all of them, expiry and FinalAcks from anywhere; an entry that is
removed from the middle stays in its list as a tombstone until the front has passed it, or until there are too
many.

Only one sequence is ever active: the first message of the next one is held until no message of the previous
sequence is left, not even in the store.
A receiver that has seen a later sequence refuses messages of an earlier one, so a message that was restored
after a crash would never arrive, and would block all that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.structures.identifiers import SequenceInfo
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.stream_changes import (
    AckOutcome,
    AckOutcomeBuilder,
    Assignment,
    M,
    Transmission,
    Transmitted,
    UnorderedMessage,
    packet_at,
    sequence_fields,
    wanted_of,
)
from msmq.transfer.stream_context import StreamContext
from msmq.transfer.transfer_info import NO_SEQUENCE, OutgoingTransferInfo, sequence_info
from msmq.transfer.transfer_sequence import OutgoingTransferSequence

_LARGEST = 0xFFFFFFFF
_SLACK = 64


@attrs.define(eq=False)
class OutgoingStream(Generic[M]):
    """The sequences of one outgoing queue; made by L{OutgoingStreams}.

    Messages of other senders, and messages that are not transactional, are not changed.

    @ivar is_moved: the active sequence goes on at another queue manager, as after a redirect; that one has no
        earlier message of it, and would refuse what names one as the previous message.
    """

    _shared: StreamContext[OutgoingStream[M]]
    is_moved: bool = attrs.field(default=False, init=False)
    _numbering: int | None = attrs.field(default=None, init=False)
    _next_number: int = attrs.field(default=1, init=False)
    _assigned: deque[Assignment[M]] = attrs.field(factory=deque, init=False)
    _waiting: deque[M] = attrs.field(factory=deque, init=False)
    _unsent: set[M] = attrs.field(factory=set, init=False)
    """Waiting messages, and those after an assignment that is not stored yet."""
    _restored: set[M] = attrs.field(factory=set, init=False)
    """Messages that wait since the start; whether they are transactional is known when they are read."""
    _flying: deque[UnorderedMessage[M]] = attrs.field(factory=deque, init=False)
    _again: deque[UnorderedMessage[M]] = attrs.field(factory=deque, init=False)
    _by_message: dict[M, UnorderedMessage[M]] = attrs.field(factory=dict, init=False)
    _by_number: dict[int, UnorderedMessage[M]] = attrs.field(factory=dict, init=False)
    _leaving: set[M] = attrs.field(factory=set, init=False)
    """Removed messages that are still in the store."""
    _active: int | None = attrs.field(default=None, init=False)
    """The active sequence, or the last one."""
    _highest: int = attrs.field(default=0, init=False)
    _acknowledged: int = attrs.field(default=0, init=False)
    _claimed: int = attrs.field(default=0, init=False)
    """The number of an unverified OrderAck, of which less was applied."""
    _is_barred: bool = attrs.field(default=False, init=False)
    _is_disputed: bool = attrs.field(default=False, init=False)
    """The receiver has acknowledged numbers of the active sequence that were not sent."""
    _was_disputed: bool = attrs.field(default=False, init=False)
    _transfer: OutgoingTransferSequence = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._transfer = OutgoingTransferSequence(self._shared.resend_timer_table)

    # State

    @property
    def is_empty(self) -> bool:
        """Whether every numbered message was acknowledged, or otherwise removed, durably."""
        return not (self._assigned or self._unsent or self._restored or self._by_message or self._leaving)

    @property
    def sequence(self) -> int | None:
        """The active sequence, or the last one, as a number; C{None} if there was none."""
        return self._active

    @property
    def is_former(self) -> bool:
        """Whether the active sequence was begun before the start."""
        return self in self._shared.former

    @property
    def unacknowledged(self) -> int:
        """The number of messages that were sent and are not order-acknowledged."""
        return len(self._by_message)

    @property
    def capacity(self) -> int:
        """The number of messages that may be sent for the first time before more are acknowledged."""
        if self._is_barred:
            return 0
        return max(0, self._shared.settings.unacknowledged_messages - len(self._by_message))

    def due(self, limit: int) -> list[M]:
        """The messages to be sent next, in order, at most C{limit}.

        They are due until they are transmitted; those whose packets are not in memory have to be read first.
        """
        found: list[M] = []
        for transfer in self._again:
            if len(found) == limit:
                return found
            if not transfer.is_gone:
                found.append(transfer.message)
        limit = min(limit, len(found) + self.capacity)
        for message in self._waiting:
            if len(found) >= limit:
                break
            if self._is_waiting(message):
                found.append(message)
        return found

    def info(self, awaiting: int = 0) -> OutgoingTransferInfo:
        """The state for management.

        @param awaiting: how many messages of the sequence wait for their FinalAck.
        """
        numbers = self._by_number
        transfer = self._transfer
        sequence, number = self._shared.identifiers.next, 1
        if self._numbering is not None and not self.is_empty:
            sequence, number = self._numbering, self._next_number
        return OutgoingTransferInfo(
            eod_first_non_ack=self._info_of(min(numbers, default=0)),
            eod_last_non_ack=self._info_of(max(numbers, default=0)),
            eod_last_ack=transfer.last_ack,
            eod_next_seq=sequence_info(sequence, number, number - 1),
            eod_no_ack_count=len(numbers),
            eod_no_read_count=awaiting,
            eod_resend_count=transfer.resend_interval_index,
            eod_resend_interval=transfer.resend_interval,
            eod_resend_time=transfer.resend_time,
            eod_last_ack_time=transfer.time_of_last_ack,
            eod_last_ack_count=transfer.last_ack_count,
        )

    def _info_of(self, number: int) -> SequenceInfo:
        if not number or self._active is None:
            return NO_SEQUENCE
        return sequence_info(self._active, number, number - 1)

    # Assignment

    def restore(self, messages: Iterable[M]) -> None:
        """Restore the stored messages of this queue, in the order of the queue; call this first.

        That has to be the order in which the messages were numbered; messages without a sequence number of
        this queue manager are ignored.
        """
        self._waiting.extend(messages)
        self._restored.update(self._waiting)
        if self._restored:
            self._shared.restoring.add(self)

    def assign(self, count: int) -> Assignment[M]:
        """Reserve sequence numbers for a batch of messages, after all earlier ones. [MS-MQQB] 3.1.1.5.

        A new sequence begins when nothing of the one before is left, after a restart, and when its numbers
        are used up.

        @raise LocalProtocolError: more than a sequence can hold, or no sequence identifiers are left.
        """
        if not 1 <= count <= _LARGEST:
            raise LocalProtocolError(f"TxSequenceNumber: a sequence cannot have {count} messages")
        if self._numbering is None or self.is_empty or self._next_number + count - 1 > _LARGEST:
            self._numbering = self._shared.identifiers.take()
            self._next_number = 1
        assignment: Assignment[M] = Assignment(self._numbering, self._next_number, count)
        self._next_number += count
        self._assigned.append(assignment)
        return assignment

    def committed(self, assignment: Assignment[M], messages: Sequence[M]) -> None:
        """The messages that were stamped, in their order, are stored.

        They may be sent once every earlier assignment has ended.

        @raise LocalProtocolError: they are more or fewer than was said.
        """
        if len(messages) != assignment.count:
            raise LocalProtocolError(f"{len(messages)} messages for {assignment.count} sequence numbers")
        assignment.messages = messages
        self._unsent.update(messages)
        self._line_up()

    def withdrawn(self, assignment: Assignment[M]) -> None:
        """The messages could not be stored; their numbers stay unused."""
        assignment.messages = ()
        self._line_up()

    def _line_up(self) -> None:
        while self._assigned and (messages := self._assigned[0].messages) is not None:
            self._assigned.popleft()
            self._waiting.extend(messages)

    def left(self, messages: Iterable[M]) -> None:
        """These messages were removed from the queue by others: expired, purged or deleted.

        Their gaps are bridged; unknown messages are ignored.
        """
        for message in messages:
            transfer = self._by_message.get(message)
            if transfer is not None:
                self._remove(transfer)
            elif self._is_waiting(message):
                self._unsent.discard(message)
                self._discard_restored(message)
                self._leaving.add(message)
        self._drop_removed()
        self._rest()

    def removed(self, messages: Iterable[M]) -> None:
        """The removal of messages from this queue is stored, whatever the reason of their removal."""
        if early := self._shared.early:
            messages = list(messages)
            for message in messages:
                early.removed(message)
        self._leaving.difference_update(messages)
        if self._is_disputed and self._active is not None and self.is_empty:
            self._shared.disputed.discard(self._active)
        self._rest()

    # Sending

    def transmit(self, messages: Iterable[M], now: Moment) -> Transmission[M]:
        """These messages of the queue are about to be sent on its connection. [MS-MQQB] 3.1.7.1.3.

        A message that has to wait for another is held, regardless of the order of the argument.

        @param messages: locked for the session, with their packets in memory; no more than it takes now.
        @raise LocalProtocolError: a packet is not in memory, or a message was never committed.
        """
        outgoing: list[OutgoingMessage] = []
        held: list[M] = []
        leaving: AckOutcomeBuilder[M] = AckOutcomeBuilder()
        source = self._shared.source
        for message in messages:
            view = message.view
            if view is None:
                raise LocalProtocolError("a message that was not read from the store cannot be sent")
            shape = view.shape
            if not shape.is_transactional or shape.source_queue_manager != source:
                if self._restored:
                    self._discard_restored(message)
                outgoing.append(message)
                continue
            if self._head() is not message:
                if message not in self._by_message and not self._is_waiting(message):
                    raise LocalProtocolError(f"message {view.identifier} was never committed")
                held.append(message)
                continue
            packet = self._resend(view) if self._again else self._send(message, view, leaving)
            if packet is not None:
                outgoing.append(Transmitted(message, packet_of(packet)))
            elif self._head() is message:
                held.append(message)
        if self._by_message and self._shared.deadlines.get(self) is None:
            self._start_timer(now)
        return Transmission(outgoing, held, leaving.outcome())

    def _head(self) -> M | None:
        """The only message that may be sent now."""
        again, waiting = self._again, self._waiting
        if not again and waiting and waiting[0] in self._unsent:
            # As it nearly always is.
            return waiting[0]
        while again and again[0].is_gone:
            again.popleft()
        if again:
            return again[0].message
        while waiting and not self._is_waiting(waiting[0]):
            waiting.popleft()
        return waiting[0] if waiting else None

    def _resend(self, view: UserMessageView) -> bytes:
        transfer = self._again.popleft()
        previous = self._previous()
        self._flying.append(transfer)
        if previous == view.previous_tx_sequence_number:
            return view.packet
        return packet_at(view, transfer.sequence, transfer.number, previous)

    def _send(self, message: M, view: UserMessageView, leaving: AckOutcomeBuilder[M]) -> bytes | None:
        """Send a waiting message for the first time in this process; C{None} if it is not to be sent."""
        flags, sequence, number, stated = sequence_fields(view)
        if sequence != self._active:
            if self._by_message or self._leaving:
                self._is_barred = True
                return None
            self._activate(sequence)
        if self._is_disputed:
            self._is_barred = True
            return None
        is_restored = bool(self._restored) and message in self._restored
        transfer = UnorderedMessage(message, sequence, number, view.message_id, wanted_of(view, flags))
        if is_restored:
            message_class = self._shared.early.take(sequence, number, transfer.message_id, message)
            if message_class is not None:
                self._take_from_waiting(message)
                self._leaving.add(message)
                leaving.settle(transfer, message_class)
                return None
        if number <= self._acknowledged:
            self._take_from_waiting(message)
            self._leaving.add(message)
            leaving.acknowledge(transfer)
            return None
        if len(self._by_message) >= self._shared.settings.unacknowledged_messages:
            return None
        self._take_from_waiting(message)
        # The predecessors of a restored message are not all known; gaps are bridged once everything was sent.
        previous = stated if is_restored else self._previous()
        if number > self._highest:
            self._highest = number
        self._by_message[message] = self._by_number[number] = transfer
        self._flying.append(transfer)
        return view.packet if previous == stated else packet_at(view, sequence, number, previous)

    def _previous(self) -> int:
        """PreviousTxSequenceNumber of what is sent next (reading 56)."""
        flying = self._flying
        while flying and flying[-1].is_gone:
            flying.pop()
        if flying:
            return flying[-1].number
        # A receiver that never had what was acknowledged, or has lost it, would refuse everything after that;
        # nothing before it is left.
        return 0 if self.is_moved or self._transfer.is_stuck else self._acknowledged

    def _activate(self, sequence: int) -> None:
        by_sequence = self._shared.by_sequence
        if self._active is not None:
            by_sequence.pop(self._active, None)
            self._shared.disputed.discard(self._active)
        self._active = sequence
        self._acknowledged = self._highest = self._claimed = 0
        self.is_moved = False
        self._is_disputed = self._was_disputed = sequence in self._shared.disputed
        self._flying.clear()
        by_sequence[sequence] = self
        self._shared.former.discard(self)
        if not self._shared.identifiers.is_ours(sequence):
            self._shared.former.add(self)

    # Acknowledgements

    def order_acknowledged(self, number: int, now: Moment, *, is_verified: bool = True) -> AckOutcome[M]:
        """An OrderAck of the active sequence, up to C{number}. [MS-MQQB] 3.1.5.6.

        It implies the session's acknowledgement (reading 53), unless it is unverified: then
        no message is released that the receiver has not stored.
        """
        self._transfer.order_ack_received(now)
        if self._active is None or number <= self._acknowledged:
            return AckOutcome()
        if self._is_disputed:
            if number > self._highest or not is_verified:
                return AckOutcome()
            # A receiver that has a number that was not sent never acknowledges less: that was wrong.
            self._is_disputed = self._is_barred = False
            self._shared.disputed.discard(self._active)
        if number > self._highest and self._shared.identifiers.is_ours(self._active):
            self._shared.ignored["acknowledges messages that were not sent"] += 1
            return AckOutcome()
        if not is_verified:
            self._claimed = max(self._claimed, number)
            number = self._kept_through(number)
        return self._acknowledge(number, now)

    def disputed(self, number: int) -> tuple[UnorderedMessage[M], UnorderedMessage[M]] | None:
        """A verified OrderAck of the active sequence, up to C{number}, is about to be processed.

        If that number was not sent although the sequence began since the start, another process has used the
        numbers: this one was resumed from a snapshot, or a copy of it is running. The receiver drops what is
        sent with them as duplicates. Until it acknowledges a number that was sent, no more messages of the
        sequence are sent, also after a restart, and new ones get another sequence.

        @return: the first and the last message that is not acknowledged; C{None} if there is none, if the
            acknowledgement is an ordinary one, and after the first time in a sequence.
        """
        if self._is_disputed or not self._by_number or self._active is None or number <= self._highest:
            return None
        if not self._shared.identifiers.is_ours(self._active):
            # More may have been sent before the start.
            return None
        self._is_disputed = True
        self._shared.disputed.add(self._active, number)
        if self._numbering == self._active:
            self._numbering = None
        if self._was_disputed:
            return None
        self._was_disputed = True
        return self._by_number[min(self._by_number)], self._by_number[max(self._by_number)]

    def later_acknowledged(self) -> bool:
        """The receiver has acknowledged a later sequence; true once it has often done so.

        That may be of another queue, so it counts only if the next hop has stored the first message: if not,
        the receiver has a reason to acknowledge nothing of this queue.
        """
        first = next(iter(self._by_message.values()), None)
        return first is not None and first.is_kept and self._transfer.later_acknowledged()

    def kept(self, messages: Iterable[M], now: Moment) -> AckOutcome[M]:
        """The receiver has stored these messages; returns the released ones. [MS-MQQB] 3.1.5.5.2."""
        for message in messages:
            transfer = self._by_message.get(message)
            if transfer is not None:
                transfer.is_kept = True
        if self._is_disputed or self._claimed <= self._acknowledged:
            return AckOutcome()
        return self._acknowledge(self._kept_through(self._claimed), now)

    def _kept_through(self, number: int) -> int:
        """The number, C{number} at most, up to which the receiver has stored all messages."""
        number = min(number, self._highest)
        for transfers in (self._flying, self._again):
            for transfer in transfers:
                if transfer.number > number:
                    break
                if not transfer.is_gone and not transfer.is_kept:
                    number = transfer.number - 1
                    break
        return number

    def _acknowledge(self, number: int, now: Moment) -> AckOutcome[M]:
        if self._active is None or number <= self._acknowledged:
            return AckOutcome()
        self._acknowledged = number
        self._transfer.progress(self._active, number)
        leaving: AckOutcomeBuilder[M] = AckOutcomeBuilder()
        for transfers in (self._flying, self._again):
            while transfers and (transfers[0].is_gone or transfers[0].number <= number):
                transfer = transfers.popleft()
                if not transfer.is_gone:
                    self._remove(transfer)
                    leaving.acknowledge(transfer)
        if self._by_message:
            self._start_timer(now)
        else:
            self._rest()
        return leaving.outcome()

    def final_acknowledged(self, number: int, message_id: int, message_class: int) -> AckOutcome[M] | None:
        """A FinalAck of the active sequence; C{None} if it matches no message. [MS-MQQB] 3.1.5.7."""
        transfer = self._by_number.get(number)
        if transfer is None or transfer.message_id != message_id or self._is_disputed:
            return None
        self._remove(transfer)
        leaving: AckOutcomeBuilder[M] = AckOutcomeBuilder()
        leaving.settle(transfer, message_class)
        self._drop_removed()
        self._rest()
        return leaving.outcome()

    # Connections and time

    def connected(self, now: Moment) -> None:
        """A session leads to the destination; the first wait is the shortest again. [MS-MQQB] 3.1.3.2."""
        self._transfer.connected(now)

    def disconnected(self) -> list[M]:
        """The session was lost; these messages return to their queue, and are due again with their
        numbers.
        """
        self._shared.deadlines.clear(self)
        self._transfer.rest()
        return self._rewind()

    def expired(self, now: Moment) -> list[M]:
        """Transactional Ack Wait Timer Event: these messages are due again. [MS-MQQB] 3.1.6.5."""
        self._transfer.grow()
        self._start_timer(now)
        return self._rewind()

    def _start_timer(self, now: Moment) -> None:
        self._shared.deadlines.set(self, self._transfer.wait(now))

    def _rewind(self) -> list[M]:
        flying = [transfer for transfer in self._flying if not transfer.is_gone]
        self._flying.clear()
        if flying:
            again = [*flying, *(transfer for transfer in self._again if not transfer.is_gone)]
            # Restored messages may have been sent in another order than that of their numbers.
            again.sort(key=_number)
            self._again = deque(again)
            self._transfer.attempts += 1
        return [transfer.message for transfer in flying]

    # Housekeeping

    def close(self) -> None:
        """The outgoing queue was deleted: remove all references to its stream."""
        shared = self._shared
        shared.deadlines.clear(self)
        shared.forget_restoring(self)
        shared.former.discard(self)
        if self._active is not None:
            shared.disputed.discard(self._active)
        if self._active is not None and shared.by_sequence.get(self._active) is self:
            del shared.by_sequence[self._active]

    def _is_waiting(self, message: M) -> bool:
        return message in self._unsent or message in self._restored

    def _take_from_waiting(self, message: M) -> None:
        self._waiting.popleft()
        self._unsent.discard(message)
        if self._restored:
            self._discard_restored(message)

    def _discard_restored(self, message: M) -> None:
        if message in self._restored:
            self._restored.discard(message)
            if not self._restored:
                self._shared.forget_restoring(self)

    def _remove(self, transfer: UnorderedMessage[M]) -> None:
        transfer.is_gone = True
        self._leaving.add(transfer.message)
        del self._by_message[transfer.message]
        del self._by_number[transfer.number]

    def _rest(self) -> None:
        """If no message is pending, end the waits, and let the next sequence begin."""
        if not self._by_message:
            self._is_barred = bool(self._is_barred and self._leaving)
            self._transfer.rest()
            self._transfer.begin_again()
            self._shared.deadlines.clear(self)

    def _drop_removed(self) -> None:
        if len(self._flying) + len(self._again) > 2 * len(self._by_message) + _SLACK:
            self._flying = deque(transfer for transfer in self._flying if not transfer.is_gone)
            self._again = deque(transfer for transfer in self._again if not transfer.is_gone)
        if len(self._waiting) > 2 * (len(self._unsent) + len(self._restored)) + _SLACK:
            self._waiting = deque(message for message in self._waiting if self._is_waiting(message))


def _number(transfer: UnorderedMessage[M]) -> int:
    return transfer.number
