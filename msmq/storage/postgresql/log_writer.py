"""Writes message logs and the event log to PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    LoggedPacket,
    RestoreLog,
    RestoreNumbers,
    TrimLog,
)
from msmq.storage.checksums import entry_checksum, event_checksum
from msmq.storage.plan import EventStep, LogStep
from msmq.storage.postgresql.arrays import bigints, byte_strings, floats, integers
from msmq.storage.postgresql.statement import Statement, chunks
from msmq.storage.records import stored_lookup_id

Appended: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]
"""Numbers and sizes of the entries appended to a message log, by row of the queue."""


Entry: TypeAlias = tuple[int, int, AppendLog | LoggedPacket]
"""The row of the queue, the number of the entry, the entry."""


@attrs.define
class LogNumbers:
    """The last assigned numbers, which are stored in the table C{progress}.

    @ivar group: of a transaction.
    @ivar entry: of an entry in any message log.
    @ivar event: of an entry in the event log.
    @ivar first_event: of the oldest event that counts.
    """

    group: int
    entry: int
    event: int
    first_event: int


def append_entries(
    steps: Sequence[LogStep], numbers: LogNumbers, statements: list[Statement], main: Statement
) -> Appended:
    """Append the entries of these steps to the message logs.

    @param numbers: updated with the assigned numbers.
    @param statements: receives statements that are too large for C{main}.
    """
    appended: dict[int, list[tuple[int, int]]] = {}
    entries: list[Entry] = []
    for row, change in steps:
        if isinstance(change, AppendLog):
            numbers.entry += 1
            entries.append((row, numbers.entry, change))
        elif isinstance(change, RestoreLog):
            _begin_at(row, change.first, statements)
            entries += [(row, entry.sequence, entry) for entry in change.entries]
            numbers.entry = max(numbers.entry, *(entry.sequence for entry in change.entries), 0)
    for row, sequence, entry in entries:
        appended.setdefault(row, []).append((sequence, len(entry.packet)))
    if entries:
        *others, last = chunks(entries, _size_of)
        for chunk in others:
            statement = Statement()
            _append(chunk, statement)
            statements.append(statement)
        _append(last, main)
        main.add(
            "INSERT INTO log_extent SELECT g.queue, 1, g.entries, g.size"
            " FROM unnest({0}, {1}, {2}) AS g (queue, entries, size) ON CONFLICT (queue) DO UPDATE"
            " SET entries = log_extent.entries + excluded.entries, size = log_extent.size + excluded.size",
            integers(list(appended)),
            bigints([len(entries) for entries in appended.values()]),
            bigints([sum(size for _, size in entries) for entries in appended.values()]),
        )
    return appended


def _size_of(entry: Entry) -> int:
    return len(entry[2].packet)


def _append(entries: Sequence[Entry], statement: Statement) -> None:
    arrived = [entry.arrived for _, _, entry in entries]
    if math.isnan(sum(arrived)):
        raise ValueError("an ArrivalTime is not a number")
    packets = [entry.packet for _, _, entry in entries]
    checksums = [
        entry_checksum(row, sequence, stored_lookup_id(entry.lookup_id), entry.arrived, entry.packet)
        for row, sequence, entry in entries
    ]
    statement.add(
        "INSERT INTO log SELECT * FROM unnest({0}, {1}, {2}, {3}, {4}, {5}, {6})",
        integers([row for row, _, _ in entries]),
        bigints([sequence for _, sequence, _ in entries]),
        bigints([stored_lookup_id(entry.lookup_id) for _, _, entry in entries]),
        floats(arrived),
        integers([len(packet) for packet in packets]),
        byte_strings(packets),
        bigints(checksums),
    )


def _begin_at(row: int, first: int, statements: list[Statement]) -> None:
    """Set the first number of a message log, before entries are appended."""
    statement = Statement()
    statement.add(
        "INSERT INTO log_extent VALUES ({0}, {1}, 0, 0) ON CONFLICT (queue) DO UPDATE"
        " SET first = greatest(log_extent.first, excluded.first)",
        row,
        first,
    )
    statements.append(statement)


def write_events(changes: Sequence[EventStep], numbers: LogNumbers, main: Statement) -> None:
    """Append to the event log and trim it; trimmed events are deleted later, or not written at all."""
    events: list[tuple[int, AppendEvent]] = []
    for change in changes:
        if isinstance(change, AppendEvent):
            numbers.event += 1
            events.append((numbers.event, change))
        elif isinstance(change, RestoreNumbers):
            numbers.entry = max(numbers.entry, change.last_entry)
            numbers.event = max(numbers.event, change.last_event)
            numbers.first_event = max(numbers.first_event, change.last_event + 1)
        else:
            # The numbers have no gaps, so this is the first remaining one.
            first = numbers.event - max(0, change.keep) + 1
            numbers.first_event = max(numbers.first_event, first)
    events = [(sequence, event) for sequence, event in events if sequence >= numbers.first_event]
    if events:
        main.add(
            "INSERT INTO event SELECT * FROM unnest({0}, {1}, {2}, {3}, {4}, {5}, {6}, {7})",
            bigints([sequence for sequence, _ in events]),
            floats([event.time for _, event in events]),
            byte_strings([event.identity for _, event in events]),
            byte_strings([stored_text(event.event) for _, event in events]),
            byte_strings([stored_text(event.reason) for _, event in events]),
            integers([event.message_class for _, event in events]),
            byte_strings([stored_text(event.queue) for _, event in events]),
            bigints([_event_checksum(sequence, event) for sequence, event in events]),
        )


def _event_checksum(sequence: int, event: AppendEvent) -> int:
    texts = stored_text(event.event), stored_text(event.reason), stored_text(event.queue)
    return event_checksum(sequence, event.time, event.message_class, event.identity, *texts)


@attrs.frozen
class _Trim:
    """Trim of a message log, which ignores entries appended after it.

    @ivar last: the newest entry that it considers.
    """

    last: int
    change: TrimLog


def trim_logs(
    steps: Sequence[LogStep], last: int, appended: Appended, statements: list[Statement]
) -> frozenset[int]:
    """Trim the message logs after everything is appended.

    Each trim considers only entries appended before it; the result is the same as in order, and trims that a
    later one repeats are omitted.

    @param last: the newest entry before these steps.
    @return: the rows of the queues whose logs are trimmed.
    """
    trims: dict[int, list[_Trim]] = {}
    for row, change in steps:
        if isinstance(change, AppendLog):
            last += 1
        elif isinstance(change, RestoreLog):
            last = max(last, *(entry.sequence for entry in change.entries), 0)
        else:
            kept = [trim for trim in trims.get(row, ()) if not _is_within(trim.change, change)]
            trims[row] = [*kept, _Trim(last, change)]
    for row, of_row in trims.items():
        for trim in of_row:
            later = sum(size for sequence, size in appended.get(row, ()) if sequence > trim.last)
            statements.extend(_cuts(row, trim, later))
    return frozenset(trims)


def _cuts(row: int, trim: _Trim, later: int) -> Iterator[Statement]:
    """By age first: what is left then counts against the size.

    @param later: the bytes of the entries appended after the trim.
    """
    before, keep_bytes = trim.change.before, trim.change.keep_bytes
    if before is not None:
        if math.isnan(before):
            raise ValueError("the time of a trim is not a number")
        statement = Statement()
        statement.add(_CUT.format(cut=_BY_AGE), row, trim.last, before)
        yield statement
    if keep_bytes is not None:
        statement = Statement()
        statement.add(_CUT.format(cut=_BY_SIZE), row, trim.last, max(0, keep_bytes), later)
        yield statement


def _is_within(earlier: TrimLog, later: TrimLog) -> bool:
    """Whether the earlier of two trims can be omitted without a difference."""
    if earlier.keep_bytes is not None and later.before is not None:
        # An entry trimmed by size despite its age must not keep older entries after it.
        return False

    def takes(first: float | None, second: float | None, sign: int) -> bool:
        return first is None or (second is not None and sign * second >= sign * first)

    return takes(earlier.before, later.before, 1) and takes(earlier.keep_bytes, later.keep_bytes, -1)


# The first valid entry directly follows the last removed one, so that a reader that continues from a number
# detects whether unread entries were removed.
_CUT: Final = (
    "WITH extent AS (SELECT first, size FROM log_extent WHERE queue = {{0}}), cut AS ({cut}),"
    " gone AS (SELECT count(*) AS entries, coalesce(sum(log.size), 0) AS size, max(log.sequence) AS last"
    " FROM log, extent, cut WHERE log.queue = {{0}} AND log.sequence >= extent.first"
    " AND log.sequence < cut.first)"
    " UPDATE log_extent SET first = coalesce(gone.last + 1, log_extent.first),"
    " entries = log_extent.entries - gone.entries, size = log_extent.size - gone.size FROM cut, gone"
    " WHERE log_extent.queue = {{0}} AND log_extent.first < cut.first"
)
_BY_AGE: Final = (
    "SELECT coalesce((SELECT log.sequence FROM log, extent WHERE log.queue = {0}"
    " AND log.sequence >= extent.first AND log.sequence <= {1} AND log.arrived >= {2}"
    " ORDER BY log.sequence LIMIT 1), {1} + 1) AS first"
)
_BY_SIZE: Final = (
    "SELECT sequence + 1 AS first FROM (SELECT log.sequence, extent.size AS whole, sum(log.size)"
    " OVER (ORDER BY log.sequence ROWS UNBOUNDED PRECEDING) AS total FROM log, extent"
    " WHERE log.queue = {0} AND log.sequence >= extent.first AND log.sequence <= {1}) AS entries"
    " WHERE whole - {3} > {2} AND total >= whole - {3} - {2} ORDER BY sequence LIMIT 1"
)


def stored_text(text: str) -> bytes:
    """Encode text as bytes, since text from peers need not be valid Unicode."""
    return text.encode("utf-8", "surrogatepass")


def text_of(stored: bytes) -> str:
    """Decode the stored form of a text."""
    return stored.decode("utf-8", "surrogatepass")
