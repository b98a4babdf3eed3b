"""Entries of a store that are archived too, by which a store that was restored from a backup is noticed."""

from __future__ import annotations

from zlib import crc32

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.archive.manifest import Archive, StreamManifest
from msmq.pipeline.files.earlier_entries import earlier_entry
from msmq.pipeline.files.format import EVENTS, read_file
from msmq.pipeline.files.row_parts import log_bounds
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.streams import Topic
from msmq.pipeline.rows import microseconds
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.readers import StoreReader


def entry_checksum(row: StoredPacket | StoredEvent) -> int:
    """The checksum of what a row was made of."""
    if isinstance(row, StoredEvent):
        event = row.event
        facts = (
            event.time,
            event.identity.hex(),
            event.event,
            event.reason,
            event.message_class,
            event.queue,
        )
        return crc32(repr(facts).encode("utf-8", "surrogatepass"))
    return crc32(repr((row.arrived, row.lookup_id)).encode(), crc32(row.packet))


def has_other_anchor(
    store: StoreReader, topic: Topic, manifest: StreamManifest, notices: RemovalNotices
) -> bool:
    """Whether the store has another entry than the last archived one of a log, or never had it.

    One that was trimmed or damaged, or removed by a repair, says nothing.

    @param notices: those found before.
    @raise StorageError: the store cannot be read.
    """
    if not manifest.anchor:
        return False
    last, crc = manifest.anchor
    is_events = manifest.stream == EVENTS
    if log_bounds(store, topic, is_events=is_events)[0] > last:
        return False
    found = earlier_entry(store, topic, last, is_events=is_events, notices=notices)
    return found is not None and [entry_checksum(row) for row in found] != [crc]


def has_other_end(archive: Archive, store: StoreReader, topic: Topic, manifest: StreamManifest) -> bool:
    """Whether the last entry that the store has of a log is not the archived one with its number.

    The copy of a store, such as the replica of a database, may be behind the archive without that.

    @raise FilesError: an archived file cannot be read.
    @raise StorageError: the store cannot be read.
    """
    is_events = manifest.stream == EVENTS
    number = log_bounds(store, topic, is_events=is_events)[1] - 1
    found = earlier_entry(store, topic, number, is_events=is_events, notices=RemovalNotices())
    if not found or not manifest.begun <= number < manifest.next:
        return False
    [row] = found
    moment = microseconds(row.event.time if isinstance(row, StoredEvent) else row.arrived) or 0
    for file in manifest.files:
        if not file.first <= number <= file.last:
            continue
        for batch in read_file(archive.path(file), ("offset", "timestamp")):
            moments = batch.column("timestamp").cast("int64").fill_null(0).to_pylist()
            archived = dict(zip(batch.column("offset").to_pylist(), moments, strict=True))
            if number in archived:
                return bool(archived[number] != moment)
    # What was erased or has expired, or was damaged, is in no file.
    return not (manifest.erased or manifest.expired or manifest.missing.numbers)
