"""Assigns sequence numbers to transactional messages that are sent by this queue manager."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from msmq.interfaces.clock import IClock
from msmq.manager.peers.sequences import Sequences, Stream
from msmq.persistence.changes import Change
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.user_message_rewrites import in_transaction
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.stream_changes import Assignment

_Assigned: TypeAlias = tuple[Stream, Assignment[MessagePosition], Sequence[MessagePosition]]


class SequenceNumbers:
    """Sequence numbers of messages that transactions send. [MS-MQMQ] 2.2.20.5."""

    def __init__(self, model: QueueManagerModel, clock: IClock, sequences: Sequences) -> None:
        self.model = model
        self.clock = clock
        self.sequences = sequences
        # 20 bits, which only distinguish transactions shortly after each other.
        self._transactions = itertools.count(clock.now().unix_seconds)

    def begin(self, transaction: Transaction) -> SequenceNumbering:
        """Begin the numbering of the messages that a transaction sends."""
        counts = {queue: sent.messages for queue, sent in transaction.uncommitted.items()}
        return SequenceNumbering(self, next(self._transactions) & 0xFFFFF, counts)


class SequenceNumbering:
    """The sequence numbers of the messages of one transaction, for each queue.

    For a local queue each transaction is a separate sequence; for a remote queue it is the sequence of the
    outgoing queue.
    """

    def __init__(self, numbers: SequenceNumbers, transaction_id: int, counts: Mapping[Queue, int]) -> None:
        self._numbers = numbers
        self._transaction_id = transaction_id
        self._counts = counts
        self._given: Counter[Queue] = Counter()
        self._local: dict[Queue, TxSequenceID] = {}
        self._assigned: list[_Assigned] = []

    def give(self, queue: Queue, positions: Sequence[MessagePosition]) -> Sequence[Change]:
        """Patch the packets of these messages, the next of their queue; returns the changes to store."""
        numbers = self._numbers
        before = self._given[queue]
        self._given[queue] = before + len(positions)
        if isinstance(queue, OutgoingQueue):
            stream, assignment = numbers.sequences.assign(queue, len(positions))
            self._assigned.append((stream, assignment, positions))
            sequence, first = assignment.sequence, assignment.first
            changes = numbers.sequences.reservation()
        else:
            identifier = self._local.get(queue)
            if identifier is None:
                identifier = TxSequenceID(numbers.model.take_message_ids(1), numbers.clock.now().unix_seconds)
                self._local[queue] = identifier
            sequence, first = identifier.value, before + 1
            changes = numbers.model.reservations()
        views = in_transaction(
            [_in_memory(position) for position in positions],
            sequence,
            first,
            self._transaction_id,
            has_first=before == 0,
            has_last=before + len(positions) == self._counts[queue],
        )
        for position, view in zip(positions, views, strict=True):
            position.view = view
        return changes

    def take(self) -> AssignedNumbers:
        """The numbers in outgoing sequences that were given since the last call."""
        assigned, self._assigned = self._assigned, []
        return AssignedNumbers(self._numbers.sequences, assigned)


@attrs.frozen(eq=False)
class AssignedNumbers:
    """Numbers in outgoing sequences, which are used once their messages are stored."""

    _sequences: Sequences
    _assigned: Sequence[_Assigned]

    def stored(self) -> None:
        """The messages are stored, and may be sent in order."""
        for stream, assignment, positions in self._assigned:
            stream.committed(assignment, positions)
        if self._assigned:
            self._sequences.reserved()

    def withdrawn(self) -> None:
        """The messages were not stored; their numbers stay unused."""
        for stream, assignment, _ in self._assigned:
            stream.withdrawn(assignment)


def _in_memory(position: MessagePosition) -> UserMessageView:
    assert position.view is not None, "messages that are not stored yet are in memory"
    return position.view
