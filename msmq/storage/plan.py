"""Plan of a group of batches: their net changes, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError, UnknownQueue
from msmq.persistence.changes import (
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
    RestoreLog,
    RestoreNumbers,
    SingleChange,
    TrimEvents,
    TrimLog,
    single_changes,
)
from msmq.quoting import is_unicode, quoted
from msmq.storage.part_plan import Messages, PartPlan
from msmq.storage.records import (
    LAST_LOOKUP_ID,
    SIGN,
    definition_record,
    outside,
    stored_lookup_id,
)

Other: TypeAlias = (
    PutQueue
    | RemoveQueue
    | MoveMessage
    | PutAborts
    | PutState
    | RemoveState
    | AppendLog
    | TrimLog
    | AppendEvent
    | TrimEvents
    | RestoreLog
    | RestoreNumbers
)
"""The infrequent changes."""

LogStep: TypeAlias = tuple[int, AppendLog | TrimLog | RestoreLog]
"""A change to the message log of the queue that has this row."""

EventStep: TypeAlias = AppendEvent | TrimEvents | RestoreNumbers
"""A change to the event log; L{RestoreNumbers} changes the next number of the message logs too."""


@attrs.define
class TransactionPlan:
    """Net effect of a group of batches, which one transaction then writes.

    Of two changes to one object only the later counts: a message that a group stores and removes is never
    written, and all its messages are written with few statements.

    @ivar known: the row of each stored queue, by its identifier as a number, for fast look-ups.
    @ivar next_queue: the row of the next new queue.
    @ivar changed: the rows as they are after the plan, where they differ; C{None} for a removed queue.
    @ivar queues: by row, identifier and definition of queues that are put.
    @ivar removed: the rows of queues that are removed.
    @ivar durable: the messages.
    @ivar express: the express messages, if any change.
    @ivar state: the values that are put; C{None} for one that is removed.
    @ivar logs: the changes to message logs, in order.
    @ivar events: the changes to the event log, in order.
    """

    known: Mapping[int, int]
    next_queue: int
    changed: dict[int, int | None] = attrs.field(factory=dict)
    queues: dict[int, tuple[bytes, bytes]] = attrs.field(factory=dict)
    removed: list[int] = attrs.field(factory=list)
    durable: PartPlan = attrs.field(factory=PartPlan)
    express: PartPlan | None = None
    state: dict[str, bytes | None] = attrs.field(factory=dict)
    logs: list[LogStep] = attrs.field(factory=list)
    events: list[EventStep] = attrs.field(factory=list)

    def add_all(self, batches: Sequence[Sequence[Change]]) -> dict[int, Exception]:
        """Add batches; failures are returned by the index of their batch.

        Fast path for the usual case: batches of one message for one queue.
        """
        failed: dict[int, Exception] = {}
        queue: UUID | None = None
        planned: Messages = {}
        for place, changes in enumerate(batches):
            change = changes[0] if len(changes) == 1 else None
            if isinstance(change, PutMessage) and not change.is_express:
                if change.queue is not queue and (row := self.row_of(change.queue)) is not None:
                    queue, planned = change.queue, self.durable.messages_of(row)
                if change.queue is queue and 0 <= change.lookup_id <= LAST_LOOKUP_ID:
                    planned[change.lookup_id + SIGN] = change
                    continue
            queue = None
            try:
                self.add(changes)
            except Exception as error:
                failed[place] = error
        return failed

    def add(self, changes: Sequence[Change]) -> None:
        """Add a batch, all or nothing.

        @raise StorageError: it cannot be done.
        """
        singles = list(single_changes(changes))
        self._check(singles)
        for change in singles:
            # Most changes are of these two kinds, and a match statement is slower.
            if isinstance(change, PutMessage):
                row = self.row_of(change.queue)
                assert row is not None
                part = self._part(True) if change.is_express else self.durable
                part.messages_of(row)[change.lookup_id + SIGN] = change
            elif isinstance(change, RemoveMessages):
                row = self.row_of(change.queue)
                if row is not None:
                    planned = self._part(change.is_express).messages_of(row)
                    for lookup_id in change.lookup_ids:
                        planned[lookup_id + SIGN] = None
            else:
                self._add_other(change)

    def row_of(self, queue: UUID) -> int | None:
        """The row of a queue, if it exists after the plan."""
        number = queue.int
        return self.changed[number] if number in self.changed else self.known.get(number)

    @property
    def is_durable(self) -> bool:
        """Whether it changes anything except express messages."""
        return bool(
            self.durable.is_changed or self.queues or self.removed or self.state or self.logs or self.events
        )

    @property
    def puts(self) -> bool:
        """Whether it puts or moves a message."""
        parts = [self.durable] if self.express is None else [self.durable, self.express]
        stages = [stage for part in parts for stage in part.stages]
        put = (some.values() for stage in stages for some in stage.messages.values())
        return any(stage.moves for stage in stages) or any(
            message is not None for messages in put for message in messages
        )

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.is_durable and (self.express is None or not self.express.is_changed)

    def apply_to(self, known: dict[int, int]) -> None:
        """Update these rows with the plan, once it is written."""
        for identifier, row in self.changed.items():
            if row is None:
                known.pop(identifier, None)
            else:
                known[identifier] = row

    def _add_other(self, change: Other) -> None:
        match change:
            case MoveMessage(queue, lookup_id, target, new_lookup_id, is_express=is_express):
                row, target_row = self.row_of(queue), self.row_of(target)
                if row is not None and target_row is not None:
                    source, place = (row, lookup_id + SIGN), (target_row, new_lookup_id + SIGN)
                    self._part(is_express).move(source, place, change)
            case PutAborts(queue, lookup_id, aborts, is_express):
                if (row := self.row_of(queue)) is not None:
                    self._part(is_express).put_aborts((row, lookup_id + SIGN), aborts)
            case PutQueue(definition):
                self._put_queue(definition.identifier, definition_record(definition))
            case RemoveQueue(identifier):
                self._remove_queue(identifier)
            case PutState(name, value):
                self.state[name] = value
            case RemoveState(name):
                self.state[name] = None
            case AppendLog(queue) | TrimLog(queue) | RestoreLog(queue):
                if (row := self.row_of(queue)) is not None:
                    self.logs.append((row, change))
            case AppendEvent() | TrimEvents() | RestoreNumbers():
                self.events.append(change)
            case _:
                assert_never(change)

    def _part(self, is_express: bool) -> PartPlan:
        if not is_express:
            return self.durable
        if self.express is None:
            self.express = PartPlan()
        return self.express

    def _put_queue(self, identifier: UUID, record: bytes) -> None:
        row = self.row_of(identifier)
        if row is None:
            row = self.changed[identifier.int] = self.next_queue
            self.next_queue += 1
        self.queues[row] = identifier.bytes, record

    def _remove_queue(self, identifier: UUID) -> None:
        row = self.row_of(identifier)
        if row is None:
            return
        self.changed[identifier.int] = None
        self.queues.pop(row, None)
        self.durable.forget_queue(row)
        if self.express is not None:
            self.express.forget_queue(row)
        self.logs = [step for step in self.logs if step[0] != row]
        self.removed.append(row)

    def _check(self, changes: Sequence[SingleChange]) -> None:
        """Check a batch before anything of it is planned."""
        # Whether a queue exists, where the batch changes that relative to the plan.
        is_kept: dict[int, bool] = {}
        for change in changes:
            if isinstance(change, PutMessage):
                self._check_queue(change.queue, is_kept)
                if not 0 <= change.lookup_id <= LAST_LOOKUP_ID:
                    raise outside(change.lookup_id)
            elif isinstance(change, RemoveMessages):
                for lookup_id in change.lookup_ids:
                    if not 0 <= lookup_id <= LAST_LOOKUP_ID:
                        raise outside(lookup_id)
            else:
                self._check_other(change, is_kept)

    def _check_other(self, change: Other, is_kept: dict[int, bool]) -> None:
        match change:
            case MoveMessage(_, lookup_id, target, new_lookup_id):
                self._check_queue(target, is_kept)
                stored_lookup_id(lookup_id)
                stored_lookup_id(new_lookup_id)
            case AppendLog(queue, lookup_id):
                self._check_queue(queue, is_kept)
                stored_lookup_id(lookup_id)
            case RestoreLog(queue, entries=entries):
                self._check_queue(queue, is_kept)
                for entry in entries:
                    stored_lookup_id(entry.lookup_id)
            case PutAborts(_, lookup_id):
                stored_lookup_id(lookup_id)
            case PutQueue(definition):
                is_kept[definition.identifier.int] = True
            case RemoveQueue(identifier):
                is_kept[identifier.int] = False
            case PutState(name) | RemoveState(name):
                if not is_unicode(name):
                    raise StorageError(f"the name of a state is not Unicode text: {quoted(name)}")

    def _check_queue(self, queue: UUID, is_kept: Mapping[int, bool]) -> None:
        if not (is_kept[queue.int] if queue.int in is_kept else self.row_of(queue) is not None):
            raise UnknownQueue(queue)
