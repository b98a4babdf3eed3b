"""Assigns sequence numbers to transactional messages that are sent by this queue manager."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msmq.interfaces.clock import IClock
from msmq.manager.peers.sequences import Sequences, Stream
from msmq.persistence.changes import Change
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.user_message_patches import patch_sequence
from msmq.structures.packet.user_message_rewrites import patch_transaction
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.stream_changes import Assignment


class SequenceNumbers:
    """Sequence numbers of messages that transactions send. [MS-MQMQ] 2.2.20.5."""

    def __init__(self, model: QueueManagerModel, clock: IClock, sequences: Sequences) -> None:
        self.model = model
        self.clock = clock
        self.sequences = sequences
        # 20 bits, which only distinguish transactions shortly after each other.
        self._transactions = itertools.count(clock.now().unix_seconds)

    def begin(self) -> SequenceNumbering:
        """Begin the numbering of one transaction."""
        return SequenceNumbering(self, next(self._transactions) & 0xFFFFF)


class SequenceNumbering:
    """The sequence numbers of the messages of one transaction, for each queue.

    For a local queue each transaction is a separate sequence; for a remote queue it is the sequence of the
    outgoing queue.
    """

    def __init__(self, numbers: SequenceNumbers, transaction_id: int) -> None:
        self._numbers = numbers
        self._transaction_id = transaction_id
        self._assigned: list[tuple[Stream, Assignment[MessagePosition], Sequence[MessagePosition]]] = []

    def give(self, queue: Queue, positions: Sequence[MessagePosition]) -> Sequence[Change]:
        """Patch the packets of these messages; returns the changes to store."""
        numbers = self._numbers
        if isinstance(queue, OutgoingQueue):
            stream, assignment = numbers.sequences.assign(queue, positions)
            self._assigned.append((stream, assignment, positions))
            changes = numbers.sequences.reservation()
        else:
            sequence = TxSequenceID(numbers.model.take_message_ids(1), numbers.clock.now().unix_seconds)
            for number, position in enumerate(positions, 1):
                position.view = UserMessageView(patch_sequence(position.record, sequence, number, number - 1))
            changes = numbers.model.reservations()
        last = len(positions) - 1
        for index, position in enumerate(positions):
            if position.view is not None:
                position.view = UserMessageView(
                    patch_transaction(
                        position.view,
                        is_first=index == 0,
                        is_last=index == last,
                        transaction_id=self._transaction_id,
                    )
                )
        return changes

    def stored(self) -> None:
        """The messages are stored, and may be sent in order."""
        for stream, assignment, positions in self._assigned:
            stream.committed(assignment, positions)
        if self._assigned:
            self._numbers.sequences.reserved()

    def withdrawn(self) -> None:
        """The messages were not stored; their numbers stay unused."""
        for stream, assignment, _ in self._assigned:
            stream.withdrawn(assignment)
