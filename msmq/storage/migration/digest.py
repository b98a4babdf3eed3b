"""Digest of a store: counts and hashes that are independent of its kind; blocking."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from msmq.persistence.migration_mark import MARK
from msmq.storage.migration.pages import END
from msmq.storage.readers.shape import StoreContents
from msmq.storage.records import definition_record

SECTIONS: Final = ("queues", "messages", "log entries", "events", "values")
"""The parts of a store, in the order in which they are hashed."""

_MESSAGE: Final = struct.Struct("<QdqqqQ")
_ENTRY: Final = struct.Struct("<QQdQ")
_EVENT: Final = struct.Struct("<Qdq")
_NUMBERS: Final = struct.Struct("<QQ")
_LENGTH: Final = struct.Struct("<Q")

Section = Iterator[tuple[int, int, list[bytes]]]


@attrs.frozen
class SectionDigest:
    """Digest of one part of a store.

    @ivar size: bytes of its packets or values.
    @ivar sha256: over every property of every row, and the next numbers.
    """

    rows: int
    size: int
    sha256: str


StoreDigest = Mapping[str, SectionDigest]
"""By the names in L{SECTIONS}."""


def digest_of(reader: StoreContents, report: Callable[[int], object]) -> StoreDigest:
    """Compute the digest of a whole store, without its migration mark.

    @param report: called with the number of rows that were read since the last call.
    @raise StorageError: it cannot be read, or is damaged.
    """
    found: dict[str, SectionDigest] = {}
    sections = (_queues, _messages, _entries, _events, _values)
    for name, read in zip(SECTIONS, sections, strict=True):
        checksum = hashlib.sha256()
        rows = size = 0
        for more, more_bytes, pieces in read(reader):
            for piece in pieces:
                checksum.update(piece)
            rows, size = rows + more, size + more_bytes
            report(more)
        found[name] = SectionDigest(rows, size, checksum.hexdigest())
    return found


def _queues(reader: StoreContents) -> Section:
    for definition in reader.queues():
        record = definition_record(definition)
        yield 1, len(record), [_LENGTH.pack(len(record)), record]


def _messages(reader: StoreContents) -> Section:
    for definition in reader.queues():
        queue = definition.identifier
        yield 0, 0, [queue.bytes]
        begin: int | None = 0
        while begin is not None:
            page = reader.messages(queue, begin, END, since=None, until=None, bodies=True)
            pieces: list[bytes] = []
            for lookup_id, arrived, aborts, moves, due, packet in page.rows:
                leaves = -1 if due is None else due
                pieces += (_MESSAGE.pack(lookup_id, arrived, leaves, aborts, moves, len(packet)), packet)
            yield len(page.rows), sum(len(row[-1]) for row in page.rows), pieces
            begin = page.next


def _entries(reader: StoreContents) -> Section:
    yield 0, 0, [_LENGTH.pack(reader.log_end())]
    for definition in reader.queues():
        queue = definition.identifier
        yield 0, 0, [queue.bytes, _LENGTH.pack(reader.log_bounds(queue)[0])]
        begin: int | None = 0
        while begin is not None:
            page = reader.log(queue, begin, END, since=None, until=None, bodies=True)
            pieces: list[bytes] = []
            for sequence, lookup_id, arrived, packet in page.rows:
                pieces += (_ENTRY.pack(sequence, lookup_id, arrived, len(packet)), packet)
            yield len(page.rows), sum(len(row[-1]) for row in page.rows), pieces
            begin = page.next


def _events(reader: StoreContents) -> Section:
    yield 0, 0, [_NUMBERS.pack(*reader.event_bounds())]
    begin: int | None = 0
    while begin is not None:
        events, begin = reader.events(begin, END)
        pieces: list[bytes] = []
        for stored in events:
            event = stored.event
            pieces.append(_EVENT.pack(stored.sequence, event.time, event.message_class))
            texts = (event.event, event.reason, event.queue)
            for part in (event.identity, *(text.encode("utf-8", "surrogatepass") for text in texts)):
                pieces += (_LENGTH.pack(len(part)), part)
        yield len(events), 0, pieces


def _values(reader: StoreContents) -> Section:
    for name, value in sorted(reader.values().items()):
        if name != MARK:
            text = name.encode()
            yield 1, len(value), [_LENGTH.pack(len(text)), text, _LENGTH.pack(len(value)), value]
