"""Detection of the non-empty streams of a store, since Spark reads empty ones at full cost."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.pipeline.reading.opening import open_store
from msmq.pipeline.reading.stores import LOGS
from msmq.pipeline.reading.streams import topics_of
from msmq.storage.readers import StoreReader


def owner_and_streams(location: str, streams: Iterable[str]) -> tuple[str, list[str]]:
    """The GUID of the queue manager that a store belongs to, and the non-empty streams among these.

    The GUID is empty if no queue manager has opened the store yet. Both come from one reader, since the index
    of a large record log takes a second to read.

    @param location: a data directory, a record log, a file of SQLite, or C{postgresql://...}.
    @raise StorageError: there is no store, or it cannot be read.
    """
    store = open_store(location)
    try:
        return store.identifier(), [stream for stream in streams if _has_rows(store, stream)]
    finally:
        store.close()


def _has_rows(store: StoreReader, stream: str) -> bool:
    if stream == "events":
        first, last = store.event_bounds()
        return first < last
    queues = [topic.queue for topic in topics_of(stream, store.queues())]
    if stream in LOGS:
        return any(first < last for first, last in map(store.log_bounds, queues))
    return any(store.message_rows(queue, 0).rows for queue in queues)
