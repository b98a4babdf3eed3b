"""Scan of a segment in recovery: finds the valid groups; pure functions of bytes.

A group counts if its checksum, which starts from that of its segment's header and so from the generation
and the nonce of this use, covers its header and its table, and if it continues the sequence and the chain of
checksums of the groups before it.
Only the last group may be torn, since no group is written before the one before it is on stable storage: so
of the last group the packets are verified too, unless another one was begun after it, and a group that is not
intact with a later one behind it is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias
from zlib import crc32

import attrs

from msmq.storage.log.core.format import (
    BLOCK,
    FIRST,
    GENERATION,
    GENERATION_AT,
    GROUP_HEADER,
    GROUP_MAGIC,
    GroupHeader,
    Malformed,
    SegmentHeader,
    is_intact,
    padded,
    read_group_header,
)
from msmq.storage.log.core.records import (
    EVENT_ROW,
    LOG_ROW,
    MESSAGE_ROW,
    OFFSET_MASK,
    Kind,
    TableRecord,
    read_records,
)

Read: TypeAlias = Callable[[int, int], bytes]
"""Reads bytes of a segment, by offset and size; fewer at its end."""

_PIECE: Final = 1 << 20


@attrs.frozen
class Position:
    """Expected position of the next group of the log.

    @ivar sequence: its number.
    @ivar chain: the checksum of the group before it.
    """

    generation: int = 1
    offset: int = FIRST
    sequence: int = 1
    chain: int = 0


@attrs.frozen
class Group:
    """A group whose header and table are intact."""

    offset: int
    header: GroupHeader
    table: bytes = attrs.field(repr=False)

    def records(self) -> list[TableRecord]:
        """The records of its table.

        @raise Malformed: its format is not that of this version.
        """
        return read_records(self.table)

    @property
    def end(self) -> int:
        """Offset of the next group."""
        return self.offset + padded(self.header.size)

    def next(self, sealed: int | None) -> Position:
        """Position after this group.

        @param sealed: the next generation, if the group seals its segment.
        """
        next_position = (self.header.generation, self.end) if sealed is None else (sealed, FIRST)
        return Position(*next_position, self.header.sequence + 1, self.header.checksum)


def group_at(read: Read, segment: SegmentHeader, offset: int) -> Group | None:
    """The group at an offset, if its header and its table are intact."""
    header = read_group_header(read(offset, GROUP_HEADER))
    if (
        header is None
        or header.generation != segment.generation
        or offset + header.size > segment.size
        or header.table_size > header.size - GROUP_HEADER
    ):
        return None
    table = read(offset + header.table_offset, header.table_size)
    return Group(offset, header, table) if is_intact(header, segment.seed, table) else None


def next_group(read: Read, segment: SegmentHeader, position: Position) -> Group | None:
    """The group that continues the log at a position; C{None} if there is none."""
    group = group_at(read, segment, position.offset)
    if group is None or group.header.sequence != position.sequence or group.header.previous != position.chain:
        return None
    return group


def later_group(
    read: Read, segment: SegmentHeader, position: Position, most: int | None = None
) -> Group | None:
    """An intact group of the same use of the segment behind a position; C{None} if there is none.

    @param most: bytes that are searched for its beginning; C{None} for all.
    """
    offset = position.offset
    end = segment.size if most is None else offset + most
    generation = GENERATION.pack(segment.generation)
    while offset < end and (piece := read(offset, min(_PIECE, end - offset))):
        found = -1
        while (found := piece.find(GROUP_MAGIC, found + 1)) >= 0:
            at = offset + found
            # A reused segment is full of small groups of its earlier use: those are not read.
            if at % BLOCK or at <= position.offset or not piece.startswith(generation, found + GENERATION_AT):
                continue
            group = group_at(read, segment, at)
            if group is not None and group.header.sequence >= position.sequence:
                return group
        offset += len(piece)
    return None


def begun_group(read: Read, segment: SegmentHeader, position: Position) -> GroupHeader | None:
    """The header of a group that was begun at a position; C{None} if there is none.

    Its write may have been cut off. A reused segment has older bytes there.
    """
    header = read_group_header(read(position.offset, GROUP_HEADER))
    if header is None or header.generation != segment.generation or header.sequence != position.sequence:
        return None
    return header


def has_successor(read: Read, segment: SegmentHeader, position: Position) -> bool:
    """Whether another group was begun after the one that ends at a position.

    So that one is on stable storage: a packet of it that does not match is damaged, and not torn.
    """
    begun = begun_group(read, segment, position)
    return begun is not None and begun.previous == position.chain


def begins_repair(group: Group) -> bool:
    """Whether a repair has written a group: the first one of a segment, and of a chain of checksums.

    So is the first one of a store, in the segment of generation 1.
    """
    header = group.header
    return group.offset == FIRST and not header.previous and header.generation > 1


def follows_group(read: Read, segment: SegmentHeader, position: Position) -> bool:
    """Whether the header of the previous group is there; always true at the start of a segment."""
    size = _PIECE // 16
    while position.offset > FIRST:
        start = max(FIRST, position.offset - size)
        is_there = _ends_with(read(start, position.offset - start), segment, position)
        if is_there or start == FIRST:
            return is_there
        size *= 8
    return True


def _ends_with(content: bytes, segment: SegmentHeader, position: Position) -> bool:
    """Whether bytes that start at a block boundary end with the previous group."""
    found = len(content)
    while (found := content.rfind(GROUP_MAGIC, 0, found)) >= 0:
        header = read_group_header(content, found)
        if (
            header is not None
            and found % BLOCK == 0
            and found + padded(header.size) == len(content)
            and header.generation == segment.generation
            and header.sequence == position.sequence - 1
        ):
            return header.checksum == position.chain
    return False


def torn_packet(read: Read, group: Group) -> int | None:
    """Offset of the first packet of a group with a wrong checksum; C{None} if all are intact."""
    begin = group.offset + GROUP_HEADER
    end = group.offset + group.header.table_offset
    for location, size, checksum in packets_of(group.records()):
        offset = location & OFFSET_MASK
        if location >> 32 != group.header.generation or not begin <= offset <= end - size:
            continue
        if crc32(read(offset, size)) != checksum:
            return offset
    return None


def packets_of(records: list[TableRecord]) -> Iterator[tuple[int, int, int]]:
    """Location, size and checksum of every packet to which records refer."""
    for record in records:
        match record.kind:
            case Kind.MESSAGE:
                location, size, checksum, *_ = MESSAGE_ROW.unpack(record.body)
            case Kind.LOG:
                _, _, location, size, checksum, _ = LOG_ROW.unpack(record.body)
            case Kind.EVENT:
                location, size, checksum, *_ = EVENT_ROW.unpack(record.body)
            case Kind.MESSAGES:
                rows = record.body[8 * record.key :]
                yield from (row[:3] for row in MESSAGE_ROW.iter_unpack(rows))
                continue
            case Kind.LOGS:
                yield from (row[2:5] for row in LOG_ROW.iter_unpack(record.body))
                continue
            case Kind.EVENTS:
                # Removals in one batch share the packet of their events.
                yield from {row[:3]: None for row in EVENT_ROW.iter_unpack(record.body)}
                continue
            case _:
                continue
        yield location, size, checksum


def sealed_by(records: list[TableRecord]) -> int | None:
    """The generation of the next segment, if these records seal theirs."""
    if records and records[-1].kind is Kind.SEALED:
        return records[-1].key
    return None


__all__ = [
    "Group",
    "Malformed",
    "Position",
    "Read",
    "begins_repair",
    "begun_group",
    "follows_group",
    "group_at",
    "has_successor",
    "later_group",
    "next_group",
    "packets_of",
    "sealed_by",
    "torn_packet",
]
