"""What a group of batches comes to, before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError, UnknownQueue
from msmq.queues.changes import Change, PutMessage, PutQueue, PutState, RemoveMessages, RemoveQueue
from msmq.storage.sqlite.records import definition_record, is_text, stored_lookup_id


@attrs.define
class Plan:
    """The difference that batches make together, which one transaction then writes.

    Of two changes to one thing only the later counts, so that what a group puts and removes again is
    never written, and all its messages go in with few statements.

    @ivar known: the row of each queue that is kept.
    @ivar next_queue: the row that the next new queue gets.
    @ivar changed: the rows as they are after the plan, where they differ; C{None} for a removed queue.
    @ivar queues: by row, identifier and definition of queues that are put.
    @ivar removed: the rows of queues that are removed.
    @ivar messages: by row of the queue and lookup_id as it is stored: the packet and when it arrived, or
        C{None} for a message that is removed.
    @ivar state: the values that are put.
    """

    known: Mapping[UUID, int]
    next_queue: int
    changed: dict[UUID, int | None] = attrs.field(factory=dict)
    queues: dict[int, tuple[bytes, bytes]] = attrs.field(factory=dict)
    removed: list[int] = attrs.field(factory=list)
    messages: dict[int, dict[int, tuple[bytes, float] | None]] = attrs.field(factory=dict)
    state: dict[str, bytes] = attrs.field(factory=dict)

    def add(self, changes: Sequence[Change]) -> None:
        """Add a batch, or nothing of it.

        @raise StorageError: it cannot be done.
        """
        _check(changes, self.row_of)
        for change in changes:
            match change:
                case PutMessage(queue, lookup_id, packet, arrived):
                    row = self.row_of(queue)
                    assert row is not None
                    self.messages.setdefault(row, {})[stored_lookup_id(lookup_id)] = packet, arrived
                case RemoveMessages(queue, lookup_ids):
                    row = self.row_of(queue)
                    if row is not None:
                        gone = dict.fromkeys(map(stored_lookup_id, lookup_ids))
                        self.messages.setdefault(row, {}).update(gone)
                case PutQueue(definition):
                    self._put_queue(definition.identifier, definition_record(definition))
                case RemoveQueue(identifier):
                    self._remove_queue(identifier)
                case PutState(name, value):
                    self.state[name] = value
                case _:
                    assert_never(change)

    def row_of(self, queue: UUID) -> int | None:
        """The row of a queue, if there is one after all that the plan holds."""
        return self.changed[queue] if queue in self.changed else self.known.get(queue)

    def _put_queue(self, identifier: UUID, record: bytes) -> None:
        row = self.row_of(identifier)
        if row is None:
            row = self.changed[identifier] = self.next_queue
            self.next_queue += 1
        self.queues[row] = identifier.bytes, record

    def _remove_queue(self, identifier: UUID) -> None:
        row = self.row_of(identifier)
        if row is None:
            return
        self.changed[identifier] = None
        self.queues.pop(row, None)
        self.messages.pop(row, None)
        if self.known.get(identifier) == row:
            self.removed.append(row)


def _check(changes: Sequence[Change], row_of: Callable[[UUID], int | None]) -> None:
    """Find what cannot be done before anything is planned."""
    is_kept: dict[UUID, bool] = {}
    for change in changes:
        match change:
            case PutQueue(definition):
                is_kept[definition.identifier] = True
            case RemoveQueue(identifier):
                is_kept[identifier] = False
            case PutMessage(queue, lookup_id):
                if not is_kept.get(queue, row_of(queue) is not None):
                    raise UnknownQueue(queue)
                stored_lookup_id(lookup_id)
            case RemoveMessages(_, lookup_ids):
                for lookup_id in lookup_ids:
                    stored_lookup_id(lookup_id)
            case PutState(name):
                if not is_text(name):
                    raise StorageError(f"the name of a state is no Unicode text: {name!r}")
