"""Export of a store as pages of changes that reproduce it in another store; blocking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from msmq.persistence.changes import (
    Change,
    LoggedPacket,
    PutMessage,
    PutQueue,
    PutState,
    RestoreLog,
    RestoreNumbers,
)
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.migration_mark import MARK, CopyPhase, CopyPosition
from msmq.storage.readers.shape import StoreContents

END: Final = 1 << 64
"""Greater than every LookupIdentifier and every sequence."""
QUEUES: Final = 500
"""Queues, or state values, per page."""
VALUE_BYTES: Final = 1024 * 1024
"""Bytes of values in a page, if it has more than one."""
LOG_ENTRIES: Final = 100
"""Entries of one change: a store writes a change in one step."""


@attrs.frozen
class CopyPage:
    """A page of the contents of a store.

    @ivar position: where the copy continues after it.
    @ivar rows: how many messages, entries, events or values it has.
    @ivar size: bytes of their packets.
    """

    changes: tuple[Change, ...] = attrs.field(repr=False)
    position: CopyPosition
    rows: int = 0
    size: int = 0


def copy_pages(reader: StoreContents, start: CopyPosition) -> Iterator[CopyPage]:
    """Iterate over the pages after a position; the last page has the phase C{COPIED}.

    A page has some megabytes at most, or one large packet.

    @raise StorageError: the store cannot be read.
    """
    queues = reader.queues()
    phase, index, begin = start.phase, start.index, start.begin
    if phase is CopyPhase.QUEUES:
        yield from _queues(reader, queues, begin)
        phase, index, begin = CopyPhase.MESSAGES, 0, 0
    if phase is CopyPhase.MESSAGES:
        yield from _messages(reader, queues, index, begin)
        phase, index, begin = CopyPhase.LOGS, 0, 0
    if phase is CopyPhase.LOGS:
        yield from _logs(reader, queues, index, begin)
        phase, index, begin = CopyPhase.EVENTS, 0, 0
    if phase is CopyPhase.EVENTS:
        yield from _events(reader, begin)
        phase, index, begin = CopyPhase.VALUES, 0, 0
    if phase is CopyPhase.VALUES:
        yield from _values(reader, begin)


def _queues(reader: StoreContents, queues: Sequence[QueueDefinition], begin: int) -> Iterator[CopyPage]:
    if not begin:
        numbers = RestoreNumbers(reader.log_end() - 1, reader.event_bounds()[0] - 1)
        yield CopyPage((numbers,), CopyPosition(CopyPhase.QUEUES, 0, 0))
    for first in range(begin, len(queues), QUEUES):
        some = queues[first : first + QUEUES]
        position = CopyPosition(CopyPhase.QUEUES, 0, first + len(some))
        yield CopyPage(tuple(map(PutQueue, some)), position, len(some))


def _messages(
    reader: StoreContents, queues: Sequence[QueueDefinition], index: int, begin: int
) -> Iterator[CopyPage]:
    for number in range(index, len(queues)):
        queue = queues[number].identifier
        following: int | None = begin if number == index else 0
        while following is not None:
            page = reader.messages(queue, following, END, since=None, until=None, bodies=True)
            following = page.next
            changes = tuple(
                PutMessage(queue, lookup_id, packet, arrived, due, aborts, moves)
                for lookup_id, arrived, aborts, moves, due, packet in page.rows
            )
            position = _behind(CopyPhase.MESSAGES, number, following)
            if changes:
                yield CopyPage(changes, position, len(changes), sum(len(row[-1]) for row in page.rows))


def _logs(
    reader: StoreContents, queues: Sequence[QueueDefinition], index: int, begin: int
) -> Iterator[CopyPage]:
    for number in range(index, len(queues)):
        queue = queues[number].identifier
        following: int | None = begin if number == index else 0
        # The trimmed numbers precede the first entry.
        first = 1 if following else reader.log_bounds(queue)[0]
        while following is not None:
            page = reader.log(queue, following, END, since=None, until=None, bodies=True)
            following = page.next
            entries = [
                LoggedPacket(sequence, lookup_id, packet, arrived)
                for sequence, lookup_id, arrived, packet in page.rows
            ]
            changes = tuple(
                RestoreLog(queue, first, tuple(entries[at : at + LOG_ENTRIES]))
                for at in range(0, max(1, len(entries)), LOG_ENTRIES)
            )
            if entries or first > 1:
                position = _behind(CopyPhase.LOGS, number, following)
                yield CopyPage(changes, position, len(entries), sum(len(row[-1]) for row in page.rows))
            first = 1


def _events(reader: StoreContents, begin: int) -> Iterator[CopyPage]:
    following: int | None = begin
    while following is not None:
        events, following = reader.events(following, END)
        if events:
            behind = events[-1].sequence + 1
            changes = tuple(stored.event for stored in events)
            yield CopyPage(changes, CopyPosition(CopyPhase.EVENTS, 0, behind), len(events))


def _values(reader: StoreContents, begin: int) -> Iterator[CopyPage]:
    values = sorted((name, value) for name, value in reader.values().items() if name != MARK)
    changes: list[Change] = []
    size = 0
    for index, (name, value) in enumerate(values[begin:], begin):
        if changes and (len(changes) == QUEUES or size + len(value) > VALUE_BYTES):
            yield CopyPage(tuple(changes), CopyPosition(CopyPhase.VALUES, 0, index), len(changes), size)
            changes, size = [], 0
        changes.append(PutState(name, value))
        size += len(value)
    yield CopyPage(tuple(changes), CopyPosition(CopyPhase.COPIED), len(changes), size)


def _behind(phase: CopyPhase, number: int, following: int | None) -> CopyPosition:
    return CopyPosition(phase, number + 1) if following is None else CopyPosition(phase, number, following)
