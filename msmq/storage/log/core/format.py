"""The bytes of segments and groups: pure functions, described byte by byte in C{docs/design/log.md}."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

import attrs

VERSION: Final = 1
"""The version of the format; a store of another one is refused and not changed."""
BLOCK: Final = 512
"""Groups begin at multiples of this, so that no sector holds bytes of two groups."""
FIRST: Final = 4096
"""Where the first group of a segment begins, behind its header."""
LARGEST: Final = 1 << 31
"""Bytes that a segment may have, and so a group."""

SEGMENT_MAGIC: Final = b"MSMQLOG\n"
GROUP_MAGIC: Final = b"MQG1"

_SEGMENT: Final = Struct("<8sI16sQQ16s")
_GROUP: Final = Struct("<4sIQQII")
_CRC: Final = Struct("<I")
SEGMENT_HEADER: Final = _SEGMENT.size + _CRC.size
GROUP_HEADER: Final = _GROUP.size + _CRC.size


class Malformed(Exception):
    """Bytes that are not what they should be; says what is wrong with them."""


@attrs.frozen
class SegmentHeader:
    """The first bytes of a segment.

    @ivar store: the identifier of the store, 16 bytes.
    @ivar generation: rising over all uses of all segments; never given twice.
    @ivar size: bytes of the segment that may be used.
    @ivar nonce: 16 random bytes of this use.
    """

    store: bytes
    generation: int
    size: int
    nonce: bytes

    def to_bytes(self) -> bytes:
        """The header, with its checksum."""
        head = _SEGMENT.pack(SEGMENT_MAGIC, VERSION, self.store, self.generation, self.size, self.nonce)
        return head + _CRC.pack(crc32(head))

    @property
    def seed(self) -> int:
        """What the checksums of the segment's groups start from."""
        return crc32(self.to_bytes())


def read_segment_header(head: bytes) -> SegmentHeader:
    """Read the first bytes of a segment.

    @raise Malformed: they are not a header of this version.
    """
    if len(head) < SEGMENT_HEADER:
        raise Malformed(f"the file has {len(head)} bytes, less than its header of {SEGMENT_HEADER}")
    magic, version, store, generation, size, nonce = _SEGMENT.unpack_from(head)
    if magic != SEGMENT_MAGIC:
        raise Malformed("not a segment of an msmq log")
    if version != VERSION:
        which = "a newer" if version > VERSION else "an older"
        raise Malformed(
            f"written by {which} version of msmq (log format {version}, this one knows {VERSION})"
        )
    if _CRC.unpack_from(head, _SEGMENT.size)[0] != crc32(head[: _SEGMENT.size]):
        raise Malformed("the checksum of the segment header does not match")
    if not FIRST < size <= LARGEST:
        raise Malformed(f"the segment header gives a size of {size} bytes")
    return SegmentHeader(store, generation, size, nonce)


@attrs.frozen
class GroupHeader:
    """The first bytes of a group.

    @ivar size: bytes from its header to the end of its table.
    @ivar generation: of its segment.
    @ivar sequence: consecutive over all groups of the store.
    @ivar table_size: bytes of the table, which ends the group; the packets stand before it.
    @ivar previous: the checksum of the group before.
    @ivar checksum: over this header and the table.
    """

    size: int
    generation: int
    sequence: int
    table_size: int
    previous: int
    checksum: int

    @property
    def table_offset(self) -> int:
        """Where the table begins, from the beginning of the group."""
        return self.size - self.table_size


def group_header(
    seed: int, generation: int, sequence: int, previous: int, packets_size: int, table: bytes
) -> tuple[bytes, int]:
    """The header of a group with this table, and the group's checksum."""
    size = GROUP_HEADER + packets_size + len(table)
    head = _GROUP.pack(GROUP_MAGIC, size, generation, sequence, len(table), previous)
    checksum = crc32(table, crc32(head, seed))
    return head + _CRC.pack(checksum), checksum


def read_group_header(head: bytes, offset: int = 0) -> GroupHeader | None:
    """The header that begins at an offset, whose checksum is not verified; C{None} if none can be there."""
    if len(head) - offset < GROUP_HEADER:
        return None
    magic, size, generation, sequence, table_size, previous = _GROUP.unpack_from(head, offset)
    if magic != GROUP_MAGIC or table_size + GROUP_HEADER > size:
        return None
    (checksum,) = _CRC.unpack_from(head, offset + _GROUP.size)
    return GroupHeader(size, generation, sequence, table_size, previous, checksum)


def group_checksum(header: GroupHeader, seed: int, table: bytes) -> int:
    """The checksum that a group with this header and this table has in the segment with this seed."""
    head = _GROUP.pack(
        GROUP_MAGIC,
        header.size,
        header.generation,
        header.sequence,
        header.table_size,
        header.previous,
    )
    return crc32(table, crc32(head, seed))


def is_intact(header: GroupHeader, seed: int, table: bytes) -> bool:
    """Whether the checksum of a group covers this header and this table, in the segment with this seed."""
    return len(table) == header.table_size and group_checksum(header, seed, table) == header.checksum


def padded(size: int) -> int:
    """Bytes that a group of this size takes."""
    return -(-size // BLOCK) * BLOCK


def group_buffers(header: bytes, packets: Sequence[bytes], table: bytes) -> list[bytes]:
    """What is written for a group, up to the next block."""
    size = len(header) + sum(map(len, packets)) + len(table)
    return [header, *packets, table, bytes(padded(size) - size)]
