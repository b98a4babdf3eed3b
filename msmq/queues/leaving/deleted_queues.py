"""Changes of a commit whose queues were deleted while it was prepared."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from msmq.persistence.changes import (
    AppendLog,
    Change,
    MoveMessage,
    PutMessage,
    PutMessages,
    PutQueue,
    RemoveMessages,
)


def without_deleted(changes: Iterable[Change], deleted: Collection[UUID]) -> list[Change]:
    """The changes without those that store messages in deleted queues; a move from or into one is a removal.

    @param deleted: the identifiers of queues whose deletion may be submitted to the store before the changes.
    """
    kept: list[Change] = []
    for change in changes:
        match change:
            case PutMessage() | PutMessages() | AppendLog() if change.queue in deleted:
                continue
            case PutQueue() if change.definition.identifier in deleted:
                continue
            case MoveMessage() if change.queue in deleted or change.target in deleted:
                kept.append(RemoveMessages(change.queue, (change.lookup_id,), change.is_express))
            case _:
                kept.append(change)
    return kept
