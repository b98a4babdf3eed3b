"""State of the record log in memory: the index that its records assign; packets stay on disk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import MessageColumns, Snapshot
from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.message_rows import MessageRows
from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW
from msmq.storage.log.core.rows import EventRows, LogRows, log_sequences, rows_from
from msmq.storage.records import read_definition

ALL_LOGS: Final[Mapping[UUID, int]] = MappingProxyType({})
"""No message log is read in part."""


@attrs.define
class LivePackets:
    """Live packets of a segment: their number and bytes."""

    rows: int = 0
    size: int = 0


def count_live(live: dict[int, LivePackets], generations: array[int], sizes: array[int]) -> None:
    """Count packets, most of them in few segments."""
    for generation in set(generations):
        counted = live.setdefault(generation, LivePackets())
        rows = generations.count(generation)
        counted.rows += rows
        if rows == len(generations):
            counted.size += sum(sizes)
        else:
            counted.size += sum(
                size for one, size in zip(generations, sizes, strict=True) if one == generation
            )


@attrs.define(eq=False)
class KeptQueue:
    """Queue with its rows.

    @ivar number: the number of the queue, never reused.
    @ivar record: its definition in stored form.
    @ivar messages: the durable messages; C{express} has the express ones.
    """

    number: int
    identifier: UUID
    record: bytes
    messages: MessageRows = attrs.field(factory=MessageRows)
    express: MessageRows = attrs.field(factory=MessageRows)
    log: LogRows = attrs.field(factory=LogRows)

    @property
    def definition(self) -> QueueDefinition:
        """Its definition.

        @raise ValueError: the record cannot be read.
        """
        return read_definition(self.record)

    def index(self) -> MessageColumns:
        """Index of its messages for a start."""
        found, event_only = MessageColumns(), bytearray()
        for columns in self.messages.columns():
            found.lookup_ids.extend(columns.lookup_ids)
            found.sizes.extend(columns.sizes)
            found.arrived.extend(columns.arrived)
            found.due.extend(columns.due)
            found.aborts.extend(columns.aborts)
            found.moves.extend(columns.moves)
            event_only += columns.event_only
        found.event_only = event_only
        return found


@attrs.define(eq=False)
class State:
    """The index of a log: queues, rows and state values; a L{msmq.storage.log.core.records.RecordTarget}.

    Records are idempotent assignments, so replaying some twice, or on a state with later values of some keys,
    leads to the same final state.

    @ivar log_starts: of some queues, the first entry of the message log that anyone will read; of a record
        with older ones alone, the last one is kept.
    """

    queues: dict[UUID, KeptQueue] = attrs.field(factory=dict)
    by_number: dict[int, KeptQueue] = attrs.field(factory=dict)
    values: dict[str, bytes] = attrs.field(factory=dict)
    events: EventRows = attrs.field(factory=EventRows)
    next_queue: int = 1
    last_entry: int = 0
    last_event: int = 0
    log_starts: Mapping[UUID, int] = ALL_LOGS

    def put_queue(self, number: int, identifier: UUID, definition: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        kept = self.by_number.get(number)
        if kept is None:
            kept = self.by_number[number] = KeptQueue(number, identifier, definition)
        kept.record = definition
        self.queues[identifier] = kept
        self.next_queue = max(self.next_queue, number + 1)

    def remove_queue(self, number: int) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        kept = self.by_number.pop(number, None)
        if kept is not None and self.queues.get(kept.identifier) is kept:
            del self.queues[kept.identifier]
        self.next_queue = max(self.next_queue, number + 1)

    def put_message(self, number: int, lookup_id: int, row: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        # The checkpoint may lack the queue that a later record removes.
        if (kept := self.by_number.get(number)) is not None:
            kept.messages[lookup_id] = row

    def remove_messages(self, number: int, lookup_ids: array[int]) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if (kept := self.by_number.get(number)) is not None:
            kept.messages.remove(lookup_ids)

    def put_state(self, name: str, value: bytes | None) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def put_log(self, number: int, row: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        self.last_entry = max(self.last_entry, LOG_ROW.unpack(row)[0])
        if (kept := self.by_number.get(number)) is not None:
            kept.log.put(row)

    def trim_log(self, number: int, first: int) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if (kept := self.by_number.get(number)) is not None:
            count = kept.log.after(first - 1)
            kept.log.forget(count, sum(LOG_ROW.unpack(kept.log.row(entry))[3] for entry in range(count)))
            kept.log.first = max(kept.log.first, first)
            kept.log.settle()

    def put_event(self, sequence: int, row: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if sequence > self.events.end:
            # A checkpoint lacks events that were trimmed while it was written; the trim follows in the log.
            self.trim_events(sequence)
        self.last_event = max(self.last_event, sequence)
        self.events.put(sequence, row)

    def trim_events(self, first: int) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if first > self.events.end:
            self.events = EventRows()
            self.events.first = first
        else:
            self.events.forget(max(0, first - self.events.first))
            self.events.settle()
        self.last_event = max(self.last_event, first - 1)

    def put_messages(self, number: int, lookup_ids: array[int], rows: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if (kept := self.by_number.get(number)) is not None:
            kept.messages.extend(lookup_ids, rows)

    def put_logs(self, number: int, rows: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        kept = self.by_number.get(number)
        if kept is not None and (start := self.log_starts.get(kept.identifier)) is not None:
            rows = rows_from(rows, start)
        sequences = log_sequences(rows)
        self.last_entry = max(self.last_entry, max(sequences, default=0))
        if kept is not None:
            kept.log.put_all(sequences, rows)

    def put_events(self, first: int, rows: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        for entry, at in enumerate(range(0, len(rows), EVENT_ROW.size)):
            self.put_event(first + entry, rows[at : at + EVENT_ROW.size])

    def snapshot_queues(self) -> tuple[QueueDefinition, ...]:
        """The definitions of the queues, in the order of their creation.

        @raise Malformed: one of them cannot be read.
        """
        try:
            return tuple(self.by_number[number].definition for number in sorted(self.by_number))
        except ValueError as error:
            raise Malformed(str(error)) from error

    def snapshot(self) -> Snapshot:
        """Snapshot of the state for a start.

        @raise Malformed: the definition of a queue cannot be read.
        """
        ordered = [self.by_number[number] for number in sorted(self.by_number)]
        return Snapshot(
            queues=self.snapshot_queues(),
            messages={kept.identifier: kept.index() for kept in ordered if kept.messages},
            state=dict(self.values),
        )

    def live(self) -> dict[int, LivePackets]:
        """Live packets by generation; a packet with two references counts twice."""
        found: dict[int, LivePackets] = {}
        for kept in self.by_number.values():
            for columns in kept.messages.columns():
                count_live(found, columns.generations, columns.sizes)
        for location, size in self._other_places():
            live = found.setdefault(location >> 32, LivePackets())
            live.rows += 1
            live.size += size
        return found

    def _other_places(self) -> Iterable[tuple[int, int]]:
        for kept in self.by_number.values():
            for entry in range(len(kept.log)):
                _, _, location, size, *_ = LOG_ROW.unpack(kept.log.row(entry))
                yield location, size
        for sequence in range(self.events.first, self.events.end):
            row_of = self.events.row(sequence)
            assert row_of is not None
            location, size, *_ = EVENT_ROW.unpack(row_of)
            yield location, size
