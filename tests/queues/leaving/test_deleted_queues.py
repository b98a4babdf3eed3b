"""Changes of a commit whose queues are deleted before it is stored."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import (
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutMessages,
    PutQueue,
    PutState,
    RemoveMessages,
)
from msmq.persistence.definition import QueueDefinition
from msmq.queues.leaving.deleted_queues import without_deleted

GONE, THERE = UUID(int=1), UUID(int=2)


def changes_of(queue: UUID) -> list[Change]:
    """A change of each kind that stores something in a queue."""
    return [
        PutQueue(QueueDefinition(queue, "private$\\orders")),
        PutMessage(queue, 1, b"1", 0.0),
        PutMessages(queue, 2, [b"2", b"3"], 0.0),
        AppendLog(queue, 1, b"1", 0.0),
    ]


class DeletedTests(SynchronousTestCase):
    """L{without_deleted}."""

    def test_what_is_stored_in_a_queue(self) -> None:
        """Nothing is stored in a deleted queue, and everything in any other, in its order."""
        there = changes_of(THERE)
        mixed = [each for pair in zip(changes_of(GONE), there, strict=True) for each in pair]
        self.assertEqual(without_deleted(mixed, {GONE}), there)
        self.assertEqual(without_deleted(mixed, ()), mixed)

    def test_what_is_removed(self) -> None:
        """Removals and everything that is not stored in a queue stay."""
        others: list[Change] = [RemoveMessages(GONE, (1,)), PutAborts(GONE, 1, 1), PutState("x", b"1")]
        self.assertEqual(without_deleted(others, {GONE}), others)

    def test_moves(self) -> None:
        """A move from or into a deleted queue removes the message from where it was."""
        for is_express in (False, True):
            for source, target in ((GONE, THERE), (THERE, GONE), (GONE, GONE)):
                move = MoveMessage(source, 5, target, 6, is_express=is_express)
                self.assertEqual(without_deleted([move], {GONE}), [RemoveMessages(source, (5,), is_express)])
            kept = MoveMessage(THERE, 5, THERE, 6, is_express=is_express)
            self.assertEqual(without_deleted([kept], {GONE}), [kept])
