"""Entries of a log that were read before, by which a store that was restored from a backup is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msmq.interfaces.storage import StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.pipeline.files.row_parts import log_bounds, logged_page, logged_pages
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.streams import Topic
from msmq.pipeline.rows import EVENTS_TOPIC
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.checking.sqlite_log_repair import removed_entry
from msmq.storage.damage import DAMAGED, EVENT_LOST, REPAIRED
from msmq.storage.readers import RowDamaged, StoreReader
from msmq.wire.guid import NULL_GUID

_EVENTS: Final = Topic(NULL_GUID, EVENTS_TOPIC)


def earlier_entry(
    store: StoreReader, topic: Topic, number: int, *, is_events: bool, notices: RemovalNotices
) -> Sequence[StoredPacket | StoredEvent] | None:
    """The entry of a log with a number that was read before; empty if the store has none.

    @param notices: those found before, for callers that ask often.
    @return: C{None} if it was trimmed, or lost by damage: then it is not known whether it is the same.
    @raise StorageError: the store cannot be read.
    """
    try:
        page, _ = logged_page(store, topic, number, number + 1, is_events=is_events)
    except RowDamaged:
        return None
    if any(map(_is_placeholder, page)):
        return None
    if page:
        return page
    is_trimmed = log_bounds(store, topic, is_events=is_events)[0] > number
    return None if is_trimmed or _was_removed(store, topic, number, notices) else page


def _is_placeholder(row: StoredPacket | StoredEvent) -> bool:
    """Whether a repair has put an event in the place of a damaged one."""
    return isinstance(row, StoredEvent) and (row.event.event, row.event.reason) == (DAMAGED, EVENT_LOST)


def _was_removed(store: StoreReader, topic: Topic, number: int, notices: RemovalNotices) -> bool:
    """Whether a repair has removed this entry from its log, which an event says."""
    path, what = topic.name.removeprefix(".\\").casefold(), f"entry {number} of the message log;"

    def says(event: AppendEvent) -> bool:
        if event.event == REPAIRED:
            return removed_entry(number) in event.reason
        return event.event == DAMAGED and event.queue.casefold() == path and event.reason.startswith(what)

    first, end = store.event_bounds()
    known = notices.event(topic.queue, number)
    if known is not None and first <= known < end:
        with suppress(RowDamaged):
            found, _ = store.events(known, known + 1)
            if any(says(one.event) for one in found):
                return True
    pages = logged_pages(store, _EVENTS, first, end, lambda *_: None, lambda _: None, is_events=True)
    for page, _ in pages:
        for row in page:
            if isinstance(row, StoredEvent) and says(row.event):
                notices.keep(topic.queue, number, row.sequence)
                return True
    return False
