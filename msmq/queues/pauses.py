"""Queues of this queue manager whose reading an operator has paused, persistently.

An extension of [MS-MQDMPR] 3.1.7.2.3, which pauses outgoing queues only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.status import MQError, Status

PAUSED: Final = "queue.paused."
"""The prefix of a value in the store; the identifier of the queue follows."""

_PAUSED: Final = b"1"


def check_pausable(queue: Queue) -> None:
    """Check that the reading of a queue can be paused.

    @raise MQError: MQ_ERROR_ILLEGAL_OPERATION for a journal, a subqueue, a system queue or an outgoing queue,
        MQ_ERROR_QUEUE_NOT_FOUND for a deleted queue.
    """
    path = queue.definition.path
    if queue.is_deleted:
        raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{path} is deleted")
    if isinstance(queue, OutgoingQueue):
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_OPERATION, f"{path} is an outgoing queue; use msmq outgoing pause"
        )
    if queue.is_subqueue:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_OPERATION, f"{path} is a subqueue; it is paused together with its queue"
        )
    if queue.is_system:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_OPERATION,
            f"{path} is a journal or a system queue, which cannot be paused",
        )


@attrs.define(eq=False)
class QueuePauses:
    """The stored pauses of local queues: one value in the store for each.

    A change is stored first and then takes effect, as with L{Holds<msmq.queues.holds.Holds>}.
    """

    _stored: set[UUID] = attrs.field(factory=set, init=False)
    _in_effect: set[UUID] = attrs.field(factory=set, init=False)

    @property
    def count(self) -> int:
        """The number of queues that are paused."""
        return len(self._in_effect)

    def restore(self, queue: Queue, state: Mapping[str, bytes]) -> None:
        """Pause a restored queue that was paused before."""
        identifier = queue.definition.identifier
        if _name(identifier) in state:
            self._stored.add(identifier)
            self.set(queue, True)

    def set(self, queue: Queue, paused: bool) -> None:
        """Pause the reading of a queue, or end that; no effect on a queue that was deleted meanwhile."""
        if queue.is_deleted:
            return
        queue.is_paused = paused
        if paused:
            self._in_effect.add(queue.definition.identifier)
        else:
            self._in_effect.discard(queue.definition.identifier)

    def change(self, queue: Queue, paused: bool) -> Change:
        """The change that pauses a queue, or ends that.

        @raise MQError: as L{check_pausable}.
        """
        check_pausable(queue)
        identifier = queue.definition.identifier
        if not paused:
            return RemoveState(_name(identifier))
        self._stored.add(identifier)
        return PutState(_name(identifier), _PAUSED)

    def forget(self, queue: Queue) -> list[Change]:
        """The changes that delete the pause of a deleted queue."""
        identifier = queue.definition.identifier
        self._in_effect.discard(identifier)
        if identifier not in self._stored:
            return []
        self._stored.discard(identifier)
        return [RemoveState(_name(identifier))]


def _name(identifier: UUID) -> str:
    return f"{PAUSED}{identifier}"
