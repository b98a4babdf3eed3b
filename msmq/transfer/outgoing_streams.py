"""The streams of all outgoing queues of a queue manager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic
from uuid import UUID

from msmq.moment import Moment
from msmq.persistence.state_records import StateChange
from msmq.settings import SessionSettings
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.transfer.outgoing_stream import OutgoingStream
from msmq.transfer.sequence_identifiers import SequenceIdentifiers
from msmq.transfer.stream_changes import AckOutcome, M
from msmq.transfer.stream_context import StreamContext
from msmq.transfer.transfer_sequence import resend_timer_table


class OutgoingStreams(Generic[M]):
    """Keeps a stream for each outgoing queue that has transactional messages.

    @param identifier: QueueManager.Identifier.
    @param state: the stored state.
    @raise StateError: (by the constructor) a stored value is damaged.
    """

    def __init__(
        self, identifier: UUID, settings: SessionSettings, state: Mapping[str, bytes], now: Moment
    ) -> None:
        self._identifier = identifier
        self._shared: StreamContext[OutgoingStream[M]] = StreamContext(
            identifier.bytes_le,
            settings,
            SequenceIdentifiers.resume(state, now),
            resend_timer_table(settings),
        )
        self._shared.early.load(state)
        self._shared.disputed.load(state)
        self._streams: dict[Hashable, OutgoingStream[M]] = {}
        self._keys: dict[OutgoingStream[M], Hashable] = {}

    def configure(self, settings: SessionSettings) -> None:
        """Apply another limit, and other resend times to streams that begin from now on."""
        self._shared.settings = settings
        self._shared.resend_timer_table = resend_timer_table(settings)

    @property
    def ignored(self) -> Counter[str]:
        """Acknowledgements that changed nothing, by the reason."""
        return self._shared.ignored

    def stream(self, key: Hashable) -> OutgoingStream[M]:
        """The stream of an outgoing queue, created if necessary.

        @param key: the outgoing queue.
        """
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = OutgoingStream(self._shared)
            self._keys[stream] = key
        return stream

    def find(self, key: Hashable) -> OutgoingStream[M] | None:
        """The stream of an outgoing queue, if it has one."""
        return self._streams.get(key)

    def key_of(self, sequence: int) -> Hashable | None:
        """The outgoing queue with this active sequence."""
        stream = self._shared.by_sequence.get(sequence)
        return None if stream is None else self._keys.get(stream)

    def was_begun(self, sequence: int) -> bool:
        """Whether this sequence is active, or was and began since the start."""
        return sequence in self._shared.by_sequence or self._shared.identifiers.was_given(sequence)

    def passed_by(self, sequence: int) -> list[tuple[Hashable, OutgoingStream[M]]]:
        """The queues whose active sequences are earlier than this one.

        None if this one was begun since the start: it is that of another queue.
        """
        identifiers = self._shared.identifiers
        if identifiers.was_given(sequence):
            return []
        # An unknown one that is later than the start is later than every sequence since.
        streams = self._shared.by_sequence.values() if identifiers.is_ours(sequence) else self._shared.former
        return [(self._keys[stream], stream) for stream in streams if (stream.sequence or 0) < sequence]

    def remove(self, key: Hashable) -> None:
        """An outgoing queue is deleted, with all its messages."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            del self._keys[stream]
            stream.close()

    def reservation(self) -> StateChange | None:
        """The change to store with stamped messages; C{None} once it is stored."""
        return self._shared.identifiers.reservation()

    def reserved(self, change: StateChange) -> None:
        """The change of L{reservation} is stored."""
        self._shared.identifiers.stored(change)

    def order_acknowledged(
        self, ack: OrderAck, now: Moment, *, is_verified: bool = True
    ) -> tuple[Hashable, AckOutcome[M]] | None:
        """Process an OrderAck; returns its queue and the released messages. [MS-MQQB] 3.1.5.6.

        C{None} if its sequence is not active (reading 54).

        @param is_verified: as for L{OutgoingStream.order_acknowledged}.
        """
        stream = self._shared.by_sequence.get(ack.tx_sequence_id.value)
        if stream is None or ack.tx_sequence_number == 0:
            self._shared.ignored["order acknowledgement of an unknown sequence"] += 1
            return None
        outcome = stream.order_acknowledged(ack.tx_sequence_number, now, is_verified=is_verified)
        return self._keys[stream], outcome

    def final_acknowledged(self, ack: FinalAck) -> tuple[Hashable, AckOutcome[M]] | None:
        """Process a FinalAck that matches no order-acknowledged message. [MS-MQQB] 3.1.5.7.

        C{None} if it matches no sent message (reading 59).
        One that came between a restart and the reading of its message is kept until then: it may be
        acknowledged when L{take_early_changes} is stored.
        """
        shared = self._shared
        sequence, number = ack.tx_sequence_id.value, ack.tx_sequence_number
        if ack.source_guid != self._identifier:
            shared.ignored["final acknowledgement of another's message"] += 1
            return None
        stream = shared.by_sequence.get(sequence)
        if stream is not None:
            outcome = stream.final_acknowledged(number, ack.message_id, ack.message_class)
            if outcome is not None:
                return self._keys[stream], outcome
        if shared.restoring and not shared.identifiers.is_ours(sequence):
            if shared.early.add(sequence, number, ack.message_id, ack.message_class):
                return None
        shared.ignored["final acknowledgement of an unknown message"] += 1
        return None

    def restored(self) -> None:
        """The streams of all stored messages are restored; without any, early FinalAcks and holds are
        obsolete.
        """
        if not self._shared.restoring:
            self._shared.early.clear()
            self._shared.disputed.clear()

    def take_early_changes(self) -> list[StateChange]:
        """The changes of early FinalAcks to store."""
        return self._shared.early.take_changes()

    def take_disputed_changes(self) -> list[StateChange]:
        """The changes of sequences that are held, or no longer held, to store."""
        return self._shared.disputed.take_changes()

    @property
    def deadline(self) -> float | None:
        """The monotonic second at which L{expire} is due; C{None} without pending waits."""
        return self._shared.deadlines.earliest

    def expire(self, now: Moment) -> list[tuple[Hashable, list[M]]]:
        """[MS-MQQB] 3.1.6.5: the queues with messages that are due again, and the messages that return to
        them.
        """
        return [
            (self._keys[stream], stream.expired(now))
            for stream in self._shared.deadlines.take_expired(now.monotonic)
        ]

    def __iter__(self) -> Iterator[tuple[Hashable, OutgoingStream[M]]]:
        return iter(list(self._streams.items()))
