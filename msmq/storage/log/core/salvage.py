"""Salvage of a damaged log: finds intact groups and tables, and replays records with gaps.

Recovery requires the whole log. A repair uses every group and every checkpoint table with a valid checksum,
even with gaps between them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final
from uuid import UUID
from zlib import crc32

import attrs

from msmq.storage.log.core.format import (
    BLOCK,
    FIRST,
    GROUP_HEADER,
    GROUP_MAGIC,
    GroupHeader,
    group_checksum,
    is_intact,
    padded,
    read_group_header,
)
from msmq.storage.log.core.records import EVENT_ROW, MESSAGE_ROW, Kind
from msmq.storage.log.core.scan import Group, Read
from msmq.storage.log.core.state import State

_CHUNK: Final = Struct("<II")
_PIECE: Final = 1 << 20
_BITS: Final = 32

MOST_EVENTS: Final = 100_000
"""Limit on missing events that are replaced; if more are missing, older ones are dropped."""
LOST_EVENT: Final = EVENT_ROW.pack(0, 0, 0, 0.0, 0, b"")
"""The row of an event whose record is missing; no segment has generation 0."""


def seed_of(header: GroupHeader, table: bytes) -> int | None:
    """The seed of the segment for which the checksum of a group matches; C{None} if there is none.

    The checksum is a linear function of the seed, so 33 checksums determine it.
    """
    base = group_checksum(header, 0, table)
    # Each row: the effect of a bit of the seed, and the bits combined in it.
    basis: list[tuple[int, int]] = []
    for bit in range(_BITS):
        change, bits = group_checksum(header, 1 << bit, table) ^ base, 1 << bit
        for other, others in basis:
            if change ^ other < change:
                change, bits = change ^ other, bits ^ others
        if change:
            basis.append((change, bits))
            basis.sort(reverse=True)
    wanted, seed = header.checksum ^ base, 0
    for change, bits in basis:
        if wanted ^ change < wanted:
            wanted, seed = wanted ^ change, seed ^ bits
    return seed if not wanted and is_intact(header, seed, table) else None


def first_group(read: Read) -> tuple[GroupHeader, int] | None:
    """The header of the first group of a segment whose own header is damaged, and the segment's seed."""
    header = read_group_header(read(FIRST, GROUP_HEADER))
    if header is None or not header.table_size:
        return None
    table = read(FIRST + header.table_offset, header.table_size)
    if len(table) < header.table_size:
        return None
    seed = seed_of(header, table)
    return None if seed is None else (header, seed)


def intact_groups(read: Read, generation: int, seed: int, size: int) -> Iterator[Group]:
    """Every intact group of a segment, in the order of their offsets.

    @param size: bytes of the segment.
    """
    offset = FIRST
    while offset < size:
        group = intact_group(read, generation, seed, size, offset)
        if group is not None:
            yield group
            offset = group.end
            continue
        found = _next_magic(read, offset + BLOCK, size)
        if found is None:
            return
        offset = found


def intact_group(read: Read, generation: int, seed: int, size: int, offset: int) -> Group | None:
    """The group at an offset; C{None} if it is not intact."""
    header = read_group_header(read(offset, GROUP_HEADER))
    if (
        header is None
        or header.generation != generation
        or offset + header.size > size
        or header.table_size > header.size - GROUP_HEADER
    ):
        return None
    table = read(offset + header.table_offset, header.table_size)
    return Group(offset, header, table) if is_intact(header, seed, table) else None


def _next_magic(read: Read, offset: int, size: int) -> int | None:
    """Next possible start of a group, at or after an offset."""
    while offset < size and (piece := read(offset, min(_PIECE, size - offset))):
        found = piece.find(GROUP_MAGIC)
        while found >= 0:
            if (offset + found) % BLOCK == 0:
                return offset + found
            found = piece.find(GROUP_MAGIC, found + 1)
        offset += padded(len(piece))
    return None


def is_whole(head: bytes) -> bool:
    """Whether a header of any version ends with its own checksum."""
    return any(head[:4]) and crc32(head[:-4]) == int.from_bytes(head[-4:], "little")


def one_bit_changed(head: bytes) -> Iterator[bytes]:
    """Every header that differs from this one in a single bit."""
    for index in range(len(head)):
        for bit in range(8):
            yield head[:index] + bytes([head[index] ^ 1 << bit]) + head[index + 1 :]


def intact_tables(body: bytes) -> Iterator[tuple[int, bytes | None]]:
    """The tables of a checkpoint, each with its offset; C{None} where one is damaged."""
    offset, is_damaged = 0, False
    while offset + _CHUNK.size <= len(body):
        size, checksum = _CHUNK.unpack_from(body, offset)
        end = offset + _CHUNK.size + size
        if _may_be_table(body, offset, size) and crc32(body[offset + _CHUNK.size : end]) == checksum:
            yield offset, body[offset + _CHUNK.size : end]
            offset, is_damaged = end, False
            continue
        if not is_damaged:
            yield offset, None
        is_damaged = True
        offset += 1


def _may_be_table(body: bytes, offset: int, size: int) -> bool:
    """Whether a table of this size may begin there: the first bytes are a record."""
    begin = offset + _CHUNK.size
    if not 0 < size <= len(body) - begin:
        return False
    return body[begin + 1 : begin + 4] == b"\0\0\0" and Kind.QUEUE <= body[begin] <= Kind.EVENTS


@attrs.define(eq=False)
class SalvagedState(State):
    """A state that accepts records although earlier ones are missing.

    @ivar orphans: rows of messages by the number of their queue, whose definition was not found.
    """

    orphans: dict[int, dict[int, bytes]] = attrs.field(factory=dict)

    def put_queue(self, number: int, identifier: UUID, definition: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        State.put_queue(self, number, identifier, definition)
        for lookup_id, row in self.orphans.pop(number, {}).items():
            self.put_message(number, lookup_id, row)

    def remove_queue(self, number: int) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        self.orphans.pop(number, None)
        State.remove_queue(self, number)

    def put_message(self, number: int, lookup_id: int, row: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if number in self.by_number:
            State.put_message(self, number, lookup_id, row)
        else:
            self.orphans.setdefault(number, {})[lookup_id] = row

    def remove_messages(self, number: int, lookup_ids: array[int]) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if number in self.by_number:
            State.remove_messages(self, number, lookup_ids)
            return
        for lookup_id in lookup_ids:
            self.orphans.get(number, {}).pop(lookup_id, None)

    def put_messages(self, number: int, lookup_ids: array[int], rows: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if number in self.by_number:
            State.put_messages(self, number, lookup_ids, rows)
            return
        for index, lookup_id in enumerate(lookup_ids):
            at = index * MESSAGE_ROW.size
            self.orphans.setdefault(number, {})[lookup_id] = rows[at : at + MESSAGE_ROW.size]

    def put_event(self, sequence: int, row: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        if sequence - self.events.end > MOST_EVENTS:
            self.trim_events(sequence)
        if len(self.events):
            for missing in range(self.events.end, sequence):
                self.events.put(missing, LOST_EVENT)
        State.put_event(self, sequence, row)

    def put_events(self, first: int, rows: bytes) -> None:
        """See L{msmq.storage.log.core.records.RecordTarget}."""
        for index, at in enumerate(range(0, len(rows), EVENT_ROW.size)):
            self.put_event(first + index, rows[at : at + EVENT_ROW.size])
