"""Records of deliveries: collected, written with other changes, merged into pages, searched, and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from msmq.persistence.state_records import StateChange, StateError, numbered
from msmq.transfer.deliveries.records import (
    LARGEST_PAGE,
    MOST_SOURCES,
    DeliveryIndex,
    DeliveryRecord,
    content_size,
    read_index,
    read_records,
    write_block,
    write_page,
)

MERGED: Final = (64, 16)
"""The number of blocks that are merged into a page, and of pages that are merged into a larger one."""

MERGED_BYTES: Final = 256 * 1024
"""Size in bytes at which blocks are merged regardless of their number; larger values are not merged again."""

MOST_RANGES: Final = 0xFFFF
"""Limit on the source queue managers of one page."""

_OVERHEAD: Final = 200
"""Approximate overhead of a value in memory and in a store, in bytes."""


@attrs.define(eq=False)
class DeliveryValue:
    """One value of the store.

    @ivar content: its bytes, or those of the blocks in it before they were compressed.
    @ivar level: how often it was merged.
    """

    name: str
    data: bytes = attrs.field(repr=False)
    index: DeliveryIndex
    content: int
    level: int

    @property
    def cost(self) -> int:
        """Bytes that it takes."""
        return len(self.data) + _OVERHEAD


class DeliveryTable:
    """Keeps the newest delivery records, up to a number of bytes.

    A value whose commit failed stays in memory, and is stored with the page into which it is merged.

    @param prefix: of the names of its values in the store.
    @param limit: bytes, in memory and in the store, of what is complete; 0 to keep nothing.
    @ivar damage: what L{load} could not read, and why.
    """

    def __init__(self, prefix: str, limit: int) -> None:
        self.damage: list[str] = []
        self._prefix = prefix
        self._limit = limit
        self._pending: list[DeliveryRecord] = []
        self._pending_messages = 0
        # The oldest first; each level is complete before a value of it is merged.
        self._levels: tuple[list[DeliveryValue], ...] = ([], [], [])
        self._content = [0, 0, 0]
        self._size = 0
        self._next = 0
        self._damaged: list[str] = []

    @property
    def is_on(self) -> bool:
        """Whether records are kept."""
        return self._limit > 0

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        return self._size

    @property
    def messages(self) -> int:
        """Steps of messages that are kept."""
        return self._pending_messages + sum(value.index.messages for value in self._values())

    @property
    def pending(self) -> int:
        """Steps of messages that were added since the last L{take}."""
        return self._pending_messages

    @property
    def since(self) -> float | None:
        """The time of the oldest record, seconds since 1970-01-01 UTC; C{None} if there is none."""
        times = [value.index.first for value in self._values()]
        times += [record.time for record in self._pending[:1]]
        return min(times, default=None)

    def configure(self, limit: int) -> None:
        """Keep another number of bytes, from the next L{take} on."""
        self._limit = limit

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored records; a value that cannot be read is removed with the next L{take}."""
        for number, name, data in numbered(state, self._prefix):
            self._next = number + 1
            try:
                index, content = read_index(name, data), content_size(name, data)
            except StateError as error:
                self._damaged.append(name)
                self.damage.append(str(error))
                continue
            # Its level is not stored: what is not large is merged with others again.
            level = 0 if content == len(data) else (1 if content <= MERGED_BYTES // MERGED[1] else 2)
            self._add(DeliveryValue(name, data, index, content, level))

    def add(self, record: DeliveryRecord) -> None:
        """Record a step; it is stored with the next L{take}."""
        if self.is_on:
            self._pending.append(record)
            self._pending_messages += record.count

    def take(self) -> list[StateChange]:
        """The changes to store: added records, merged pages, and removals by the limit."""
        changes: dict[str, bytes | None] = dict.fromkeys(self._damaged)
        self._damaged = []
        pending, self._pending = self._pending, []
        self._pending_messages = 0
        while pending:
            portion, pending = _portion(pending)
            data = write_block(portion)
            self._put(changes, data, read_index(self._prefix, data), len(data), 0)
        for level, count in enumerate(MERGED):
            if len(self._levels[level]) >= count or self._content[level] >= MERGED_BYTES:
                self._merge(changes, level)
        self._trim(changes)
        return list(changes.items())

    def renewed(self, changes: Iterable[StateChange]) -> list[StateChange]:
        """Changes of an earlier L{take} that could not be stored, as they are to be stored now.

        A value that was merged or dropped since then is removed: otherwise a restart would find its records
        twice.
        """
        held = {value.name for value in self._values()}
        return [(name, data if name in held else None) for name, data in changes]

    def find(self, source: bytes, message_id: int) -> Iterator[list[DeliveryRecord]]:
        """The records of one message, in portions that are found quickly, in no order.

        @param source: the GUID of its SourceQueueManager as it stands in a packet.
        @raise StateError: a value is damaged.
        """
        for value in self._values():
            if value.index.may_have(source, message_id):
                yield list(read_records(value.name, value.data, source, message_id))
        pending = (record for record in self._pending if record.source == source)
        yield [found for record in pending for found in record.about(message_id)]

    def _values(self) -> list[DeliveryValue]:
        return [value for level in self._levels for value in level]

    def _add(self, value: DeliveryValue) -> None:
        self._levels[value.level].append(value)
        self._content[value.level] += value.content
        self._size += value.cost

    def _put(
        self, changes: dict[str, bytes | None], data: bytes, index: DeliveryIndex, content: int, level: int
    ) -> None:
        name = f"{self._prefix}{self._next}"
        self._next += 1
        self._add(DeliveryValue(name, data, index, content, level))
        changes[name] = data

    def _remove(self, changes: dict[str, bytes | None], value: DeliveryValue) -> None:
        self._levels[value.level].remove(value)
        self._content[value.level] -= value.content
        self._size -= value.cost
        if changes.get(value.name) is None:
            changes[value.name] = None
        else:
            # It was never stored.
            del changes[value.name]

    def _merge(self, changes: dict[str, bytes | None], level: int) -> None:
        values = list(self._levels[level])
        index = DeliveryIndex.joined(value.index for value in values)
        if len(values) == 1 or sum(map(_framed, values)) > LARGEST_PAGE or len(index.ranges) > MOST_RANGES:
            # They are large, so little would be saved.
            self._levels[level].clear()
            self._levels[level + 1].extend(values)
            self._content[level + 1] += self._content[level]
            self._content[level] = 0
            for value in values:
                value.level = level + 1
            return
        data = write_page([value.data for value in values], index)
        for value in values:
            self._remove(changes, value)
        self._put(changes, data, index, content_size(self._prefix, data), level + 1)

    def _trim(self, changes: dict[str, bytes | None]) -> None:
        while self._size > self._limit and (values := self._values()):
            self._remove(changes, min(values, key=lambda value: value.index.last))


def _framed(value: DeliveryValue) -> int:
    """Bytes that a value may take in a page before it is compressed; of a block also those of its size."""
    return value.content + 4


def _portion(records: list[DeliveryRecord]) -> tuple[list[DeliveryRecord], list[DeliveryRecord]]:
    """As many records as a block may have, and the others."""
    sources: set[bytes] = set()
    for number, record in enumerate(records):
        sources.add(record.source)
        if len(sources) > MOST_SOURCES or number >= 0xFFFF:
            return records[:number], records[number:]
    return records, []
