"""Rows of a store in parts of one date each, which an export and an archive write to files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import attrs

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.files.directory import date_of
from msmq.pipeline.reading.damage import until_damage
from msmq.pipeline.reading.slices import LEVEL, LEVELS
from msmq.pipeline.reading.streams import Topic
from msmq.pipeline.rows import PLAIN, BodyReaders, event_batch, message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.readers import RowDamaged, RowPage, StoreReader

_NAMES: Final = names_of(EXPORTED_COLUMNS)


@attrs.frozen
class RowPart:
    """Rows of one date.

    @ivar batch: an Arrow record batch.
    @ivar first: the smallest number of its rows; C{last}: the largest.
    @ivar size: the bytes of its packets, or of the reasons of its events.
    """

    date: str
    batch: Any
    first: int
    last: int
    size: int


def row_parts(
    rows: Sequence[StoredPacket | StoredEvent],
    number: Callable[[Any], int],
    *,
    reading: BodyReaders = PLAIN,
    most: int = 1 << 31,
) -> Iterator[RowPart]:
    """Rows by date, in order.

    @param rows: packets, or events.
    @param number: the number of a row.
    @param reading: the body decoders.
    @param most: the largest number of rows of a part.
    """
    for date, group in groupby(rows, _date):
        same = list(group)
        for place in range(0, len(same), most):
            part = same[place : place + most]
            numbers = list(map(number, part))
            yield RowPart(date, _batch(part, reading), min(numbers), max(numbers), sum(map(_size, part)))


def logged_page(
    store: StoreReader, topic: Topic, begin: int, end: int, *, is_events: bool
) -> tuple[Sequence[StoredPacket | StoredEvent], int | None]:
    """A page of the message log of a queue, or of the event log, and the number at which the next one begins.

    @param begin: the first number to read; C{end}: the first one not to read.
    @raise StorageError: the store cannot be read.
    """
    if is_events:
        return store.events(begin, end)
    page = store.log(topic.queue, begin, end, since=None, until=None, bodies=True)
    rows = [
        StoredPacket(packet, topic.name, sequence, arrived, lookup_id)
        for sequence, lookup_id, arrived, packet in page.rows
    ]
    return rows, page.next


def log_bounds(store: StoreReader, topic: Topic, *, is_events: bool) -> tuple[int, int]:
    """The first number of a message log or the event log, and the one after its last.

    @raise StorageError: the store cannot be read.
    """
    return store.event_bounds() if is_events else store.log_bounds(topic.queue)


def logged_pages(
    store: StoreReader,
    topic: Topic,
    begin: int,
    end: int,
    on_trimmed: Callable[[int, int], object],
    on_damaged: Callable[[RowDamaged], object],
    *,
    is_events: bool,
) -> Iterator[tuple[Sequence[StoredPacket | StoredEvent], bool]]:
    """The pages of a log, each with whether it is the last, while its server may trim the log.

    @param begin: the first number to read; C{end}: the first one not to read.
    @param on_trimmed: called with the first and the last number of entries that were trimmed before they were
        read; some of these numbers may belong to other queues.
    @param on_damaged: called for each damaged entry, which is left out, after the page before it.
    @raise StorageError: the store cannot be read.
    """
    following: int | None = begin
    while following is not None:
        # The store may be trimmed between any two calls. The numbers of a queue have gaps, so the entry that
        # comes next is looked up before the bounds.
        expected = _first_entry(store, topic, following, is_events)
        while (first := log_bounds(store, topic, is_events=is_events)[0]) > following:
            on_trimmed(following, first - 1)
            following = first
            expected = _first_entry(store, topic, following, is_events)
        asked = following
        read = partial(logged_page, store, topic, asked, is_events=is_events)
        (page, following), damage = until_damage(read, end)
        found = number_of(page[0]) if page else log_bounds(store, topic, is_events=is_events)[0]
        if expected is not None and expected < found:
            on_trimmed(asked, found - 1)
        if damage is None or following is not None:
            yield page, following is None
            continue
        if page:
            yield page, False
        if log_bounds(store, topic, is_events=is_events)[0] <= damage.number:
            on_damaged(damage)
        following = damage.number + 1
        if following >= end:
            yield (), True
            return


def _first_entry(store: StoreReader, topic: Topic, begin: int, is_events: bool) -> int | None:
    """The first entry from a number on; C{None} if there is none. The numbers of events have no gaps."""
    return begin if is_events else store.log_after([topic.queue], begin, 0)


def number_of(row: StoredPacket | StoredEvent) -> int:
    """The number of an entry of a log."""
    return row.sequence if isinstance(row, StoredEvent) else row.offset


def queued_pages(
    store: StoreReader,
    topic: Topic,
    is_wanted: Callable[[int, float | None], bool],
    on_damaged: Callable[[RowDamaged], object],
    first: int = 0,
    end: int = LEVELS * LEVEL,
) -> Iterator[Sequence[StoredPacket]]:
    """The wanted messages of a queue, in the order of LookupIdentifiers.

    @param is_wanted: for a LookupIdentifier and a time of arrival, in seconds since 1970-01-01 UTC.
    @param on_damaged: called for each damaged message, which is left out.
    @param first: the first LookupIdentifier to read; C{end}: the first one not to read.
    @raise StorageError: the store cannot be read.
    """
    begin: int | None = first
    while begin is not None:
        page, damage = until_damage(partial(_messages, store, topic, begin), end)
        rows = [
            StoredPacket(packet, topic.name, lookup_id % LEVEL, arrived, lookup_id, aborts, moves)
            for lookup_id, arrived, aborts, moves, _, packet in page.rows
            if is_wanted(lookup_id, arrived)
        ]
        if rows:
            yield rows
        begin = page.next
        if damage is not None and begin is None:
            on_damaged(damage)
            begin = damage.number + 1 if damage.number + 1 < end else None


def _messages(store: StoreReader, topic: Topic, begin: int, end: int) -> RowPage:
    return store.messages(topic.queue, begin, end, since=None, until=None, bodies=True)


def _batch(rows: Sequence[Any], reading: BodyReaders) -> Any:
    return event_batch(rows) if isinstance(rows[0], StoredEvent) else message_batch(rows, _NAMES, reading)


def _date(row: StoredPacket | StoredEvent) -> str:
    return date_of(row.event.time if isinstance(row, StoredEvent) else row.arrived)


def _size(row: StoredPacket | StoredEvent) -> int:
    return len(row.event.reason if isinstance(row, StoredEvent) else row.packet)
