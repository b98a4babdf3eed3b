"""Detection of the non-empty streams of a store, since Spark reads empty ones at full cost."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.pipeline.reading.opening import open_store
from msmq.pipeline.reading.slices import LEVEL, level_spans
from msmq.pipeline.reading.stores import LOGS
from msmq.pipeline.reading.streams import topics_of
from msmq.storage.readers import StoreReader


def streams_present(location: str, streams: Iterable[str]) -> list[str]:
    """The non-empty streams among these.

    @param location: a data directory, a record log, a file of SQLite, or C{postgresql://...}.
    @raise StorageError: there is no store, or it cannot be read.
    """
    store = open_store(location)
    try:
        return [stream for stream in streams if _has_rows(store, stream)]
    finally:
        store.close()


def owner_of(location: str) -> str:
    """The GUID of the queue manager that a store belongs to; empty if none has opened it yet.

    @param location: as of L{streams_present}.
    @raise StorageError: there is no store, or it cannot be read.
    """
    store = open_store(location)
    try:
        return store.identifier()
    finally:
        store.close()


def _has_rows(store: StoreReader, stream: str) -> bool:
    if stream == "events":
        first, last = store.event_bounds()
        return first < last
    queues = [topic.queue for topic in topics_of(stream, store.queues())]
    if stream in LOGS:
        return any(first < last for first, last in map(store.log_bounds, queues))
    return any(
        store.messages(queue, span.begin, span.end, since=None, until=None, bodies=False).rows
        for queue in queues
        for span in level_spans(queue, "", 0, LEVEL)
    )
