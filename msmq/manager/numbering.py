"""Places in sequences for the transactional messages that are sent here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msmq.interfaces.clock import IClock
from msmq.queues.changes import Change
from msmq.queues.model import QueueManagerModel
from msmq.queues.position import MessagePosition
from msmq.queues.queue import Queue
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.user_message_patches import patch_sequence, patch_transaction
from msmq.structures.user_message_view import UserMessageView


class Numbers:
    """[MS-MQMQ] 2.2.20.5 numbers the messages that one transaction sends to one queue.

    To a queue of this queue manager each transaction is a sequence of its own.
    """

    def __init__(self, model: QueueManagerModel, clock: IClock) -> None:
        self._model = model
        self._clock = clock
        # 20 bits, and only to tell transactions apart that follow each other closely.
        self._transactions = itertools.count(clock.now().unix_seconds)

    def give(self, queue: Queue, positions: Sequence[MessagePosition]) -> Sequence[Change]:
        """Patch the packets of these messages; answers with what has to be stored for it."""
        sequence = TxSequenceID(self._model.take_message_ids(1), self._clock.now().unix_seconds)
        transaction_id = next(self._transactions)
        last = len(positions)
        for number, position in enumerate(positions, 1):
            if position.view is None:
                continue
            packet = patch_sequence(position.view.packet, sequence, number, number - 1)
            position.view = UserMessageView(
                patch_transaction(
                    UserMessageView(packet),
                    is_first=number == 1,
                    is_last=number == last,
                    transaction_id=transaction_id & 0xFFFFF,
                )
            )
        return self._model.reservations()
