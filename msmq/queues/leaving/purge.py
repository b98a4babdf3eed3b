"""Purge Queue: removal of available messages, and later of locked ones. [MS-MQDMPR] 3.1.7.1.7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.changes import Change, PutState, RemoveMessages, RemoveState
from msmq.queues.available_positions import SEQUENTIAL_MASK
from msmq.queues.leaving.departure_kinds import Departure, by_queue, departure
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.message_class import MessageClass

_NAME: Final = "purge_pending/"
_LOOKUP_ID: Final = Struct("<Q")


@attrs.define(eq=False)
class PurgePending:
    """The messages that readers had locked when their queues were purged; they must not survive a crash.

    After a start there are no readers: the messages are removed then (reading 9).
    A list is kept until its queue is purged again, or deleted; removed messages in it are harmless.
    """

    _stored: set[UUID] = attrs.field(factory=set, init=False)

    def keep(self, queue: Queue) -> list[Change]:
        """The changes to store when a purge is done."""
        pending = [
            position.lookup_id
            for position in queue.positions.loaded()
            if position.state is PositionState.PURGE_PENDING and position.kept is PacketHolder.STORE
        ]
        if not pending:
            return self.forget(queue) or fence(queue)
        identifier = queue.definition.identifier
        self._stored.add(identifier)
        return [PutState(_name(identifier), b"".join(map(_LOOKUP_ID.pack, pending)))]

    def forget(self, queue: Queue) -> list[Change]:
        """The changes that delete the list of a queue."""
        identifier = queue.definition.identifier
        if identifier not in self._stored:
            return []
        self._stored.discard(identifier)
        return [RemoveState(_name(identifier))]

    def restore(self, queue: Queue, state: Mapping[str, bytes]) -> set[int]:
        """The LookupIdentifiers of messages to remove from a restored queue."""
        identifier = queue.definition.identifier
        value = state.get(_name(identifier))
        if value is None:
            return set()
        self._stored.add(identifier)
        return {lookup_id for (lookup_id,) in _LOOKUP_ID.iter_unpack(value)}


def fence(queue: Queue) -> list[Change]:
    """An empty change; when it is stored, all earlier removals are stored too."""
    under_way = (PositionState.REMOVING, PositionState.LEAVING)
    if any(position.is_stored and position.state in under_way for position in queue.positions.loaded()):
        return [RemoveMessages(queue.definition.identifier, ())]
    return []


def _name(identifier: UUID) -> str:
    return f"{_NAME}{identifier}"


def purge_available(queue: Queue, through: int, count: int) -> Departure | None:
    """Remove up to C{count} available messages; C{None} if none are left.

    @param through: the SequentialID of the youngest message to remove.
    """
    leaving = queue.take_through(through, count)
    return departure(leaving, _reason(queue)) if leaving else None


def purge_locked(queue: Queue, through: int) -> None:
    """Mark the messages that readers have locked: those that are not confirmed are removed as purged.

    Messages that are being stored are not affected and remain.
    """
    for position in queue.positions.loaded():
        if position.state is PositionState.LOCKED_READER and position.lookup_id & SEQUENTIAL_MASK <= through:
            position.state = PositionState.PURGE_PENDING


def finish_purge(purged: Sequence[MessagePosition]) -> list[Departure]:
    """The readers of these have not received them: they are removed."""
    for position in purged:
        position.state = PositionState.LEAVING
    return [departure(positions, _reason(queue)) for queue, positions in by_queue(purged).items()]


def _reason(queue: Queue) -> MessageClass:
    # Messages in an outgoing queue have not arrived.
    return MessageClass.NACK_DELETED if isinstance(queue, OutgoingQueue) else MessageClass.NACK_Q_PURGED
