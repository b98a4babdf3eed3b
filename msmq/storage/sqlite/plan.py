"""What a group of batches comes to, before anything of it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError, UnknownQueue
from msmq.queues.changes import (
    AppendEvent,
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    TrimEvents,
    TrimLog,
)
from msmq.storage.sqlite.part_plan import PartPlan
from msmq.storage.sqlite.records import definition_record, is_text, stored_lookup_id

LogStep: TypeAlias = tuple[int, AppendLog | TrimLog]
"""A change to the message log of the queue that has this row."""


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
    @ivar durable: the messages.
    @ivar express: the express messages.
    @ivar state: the values that are put; C{None} for one that is removed.
    @ivar logs: the changes to message logs, in order.
    @ivar events: the changes to the event log, in order.
    """

    known: Mapping[UUID, int]
    next_queue: int
    changed: dict[UUID, int | None] = attrs.field(factory=dict)
    queues: dict[int, tuple[bytes, bytes]] = attrs.field(factory=dict)
    removed: list[int] = attrs.field(factory=list)
    durable: PartPlan = attrs.field(factory=PartPlan)
    express: PartPlan = attrs.field(factory=PartPlan)
    state: dict[str, bytes | None] = attrs.field(factory=dict)
    logs: list[LogStep] = attrs.field(factory=list)
    events: list[AppendEvent | TrimEvents] = attrs.field(factory=list)

    def add(self, changes: Sequence[Change]) -> None:
        """Add a batch, or nothing of it.

        @raise StorageError: it cannot be done.
        """
        self._check(changes)
        for change in changes:
            match change:
                case PutMessage(queue, lookup_id):
                    self._part(change.is_express).put(self._kept(queue), stored_lookup_id(lookup_id), change)
                case RemoveMessages(queue, lookup_ids):
                    if (row := self.row_of(queue)) is not None:
                        self._part(change.is_express).remove(row, map(stored_lookup_id, lookup_ids))
                case MoveMessage(queue, lookup_id, target, new_lookup_id):
                    if (row := self.row_of(queue)) is not None:
                        self._part(change.is_express).move(
                            (row, stored_lookup_id(lookup_id)),
                            (self._kept(target), stored_lookup_id(new_lookup_id)),
                            change,
                        )
                case PutAborts(queue, lookup_id, aborts):
                    if (row := self.row_of(queue)) is not None:
                        self._part(change.is_express).put_aborts((row, stored_lookup_id(lookup_id)), aborts)
                case PutQueue(definition):
                    self._put_queue(definition.identifier, definition_record(definition))
                case RemoveQueue(identifier):
                    self._remove_queue(identifier)
                case PutState(name, value):
                    self.state[name] = value
                case RemoveState(name):
                    self.state[name] = None
                case AppendLog(queue) | TrimLog(queue):
                    if (row := self.row_of(queue)) is not None:
                        self.logs.append((row, change))
                case AppendEvent() | TrimEvents():
                    self.events.append(change)
                case _:
                    assert_never(change)

    def row_of(self, queue: UUID) -> int | None:
        """The row of a queue, if there is one after all that the plan holds."""
        return self.changed[queue] if queue in self.changed else self.known.get(queue)

    def _kept(self, queue: UUID) -> int:
        row = self.row_of(queue)
        assert row is not None
        return row

    def _part(self, is_express: bool) -> PartPlan:
        return self.express if is_express else self.durable

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
        self.durable.forget_queue(row)
        self.express.forget_queue(row)
        self.logs = [step for step in self.logs if step[0] != row]
        self.removed.append(row)

    def _check(self, changes: Sequence[Change]) -> None:
        """Find what cannot be done before anything is planned."""
        is_kept: dict[UUID, bool] = {}
        for change in changes:
            match change:
                case PutMessage(queue, lookup_id) | AppendLog(queue, lookup_id):
                    self._check_queue(queue, is_kept)
                    stored_lookup_id(lookup_id)
                case RemoveMessages(_, lookup_ids):
                    for lookup_id in lookup_ids:
                        stored_lookup_id(lookup_id)
                case MoveMessage(_, lookup_id, target, new_lookup_id):
                    self._check_queue(target, is_kept)
                    stored_lookup_id(lookup_id)
                    stored_lookup_id(new_lookup_id)
                case PutAborts(_, lookup_id):
                    stored_lookup_id(lookup_id)
                case PutQueue(definition):
                    is_kept[definition.identifier] = True
                case RemoveQueue(identifier):
                    is_kept[identifier] = False
                case PutState(name) | RemoveState(name):
                    if not is_text(name):
                        raise StorageError(f"the name of a state is no Unicode text: {name!r}")

    def _check_queue(self, queue: UUID, is_kept: Mapping[UUID, bool]) -> None:
        if not is_kept.get(queue, self.row_of(queue) is not None):
            raise UnknownQueue(queue)
