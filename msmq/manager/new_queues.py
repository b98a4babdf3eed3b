"""Queues whose creation is being stored: each batch with messages for one of them creates it, too.

Which of two batches is committed, and whether both are, is known only afterwards. Without the queue the
second one would fail with the first, although its sender has nothing to do with that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from msmq.persistence.changes import Change, MoveMessage, PutMessage, PutMessages, PutQueue
from msmq.persistence.definition import QueueDefinition, QueueType


class NewQueues:
    """Counts the batches that create each queue and have no result yet."""

    def __init__(self) -> None:
        self._creations: dict[UUID, PutQueue] = {}
        self._batches: dict[UUID, int] = {}

    def begin(self, changes: Sequence[Change]) -> tuple[Sequence[Change], Collection[UUID]]:
        """A batch is about to be stored.

        @return: the changes to store, and the queues that they create, for L{end}.
        """
        own: dict[UUID, PutQueue] = {}
        for change in changes:
            if type(change) is PutQueue and _is_made_by_messages(change.definition):
                own[change.definition.identifier] = change
        if self._creations:
            missing = [queue for queue in dict.fromkeys(_queues_of(changes)) if queue not in own]
            further = {queue: found for queue in missing if (found := self._creations.get(queue)) is not None}
            if further:
                own |= further
                changes = [*further.values(), *changes]
        for queue, creation in own.items():
            self._creations[queue] = creation
            self._batches[queue] = self._batches.get(queue, 0) + 1
        return changes, own.keys()

    def end(self, queues: Collection[UUID]) -> None:
        """The batch has a result."""
        for queue in queues:
            self._batches[queue] -= 1
            if not self._batches[queue]:
                del self._batches[queue], self._creations[queue]


def _is_made_by_messages(definition: QueueDefinition) -> bool:
    """Whether a queue is stored with its first message: outgoing and system queues, journals, subqueues.

    The definition of any other one may be that of an alteration, which must not take effect if it fails.
    """
    return definition.parent is not None or definition.type in (QueueType.OUTGOING, QueueType.SYSTEM)


def _queues_of(changes: Sequence[Change]) -> Iterator[UUID]:
    """The queues in which these changes store messages."""
    for change in changes:
        match change:
            case PutMessage() | PutMessages():
                yield change.queue
            case MoveMessage():
                yield change.target
