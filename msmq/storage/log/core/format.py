"""Binary format of segments and groups, described byte by byte in C{docs/design/log.md}."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

import attrs

VERSION: Final = 2
"""Format version that is written."""
OLDEST: Final = 1
"""The oldest version that can be read; a store of any other version is refused and not changed."""
BLOCK: Final = 512
"""Alignment of groups, so that no disk sector has bytes of two groups."""
FIRST: Final = 4096
"""Offset of the first group of a segment, after its header."""
LARGEST: Final = 1 << 31
"""Maximum size of a segment, and so of a group, in bytes."""

SEGMENT_MAGIC: Final = b"MSMQLOG\n"
GROUP_MAGIC: Final = b"MQG1"

_SEGMENT: Final = Struct("<8sI16sQQ16s")
_GROUP: Final = Struct("<4sIQQII")
_CRC: Final = Struct("<I")
GENERATION: Final = Struct("<Q")
"""The generation in the header of a group."""
GENERATION_AT: Final = 8
"""Its offset there."""
SEGMENT_HEADER: Final = _SEGMENT.size + _CRC.size
GROUP_HEADER: Final = _GROUP.size + _CRC.size


class Malformed(Exception):
    """Bytes violate the format; the text says how."""


@attrs.frozen
class SegmentHeader:
    """Header of a segment.

    @ivar store: the identifier of the store, 16 bytes.
    @ivar generation: increasing over all uses of all segments; never reused.
    @ivar size: usable bytes of the segment.
    @ivar nonce: 16 random bytes of this use.
    @ivar version: of the format of its groups.
    @ivar seed: the start value of the checksums of the segment's groups.
    """

    store: bytes
    generation: int
    size: int
    nonce: bytes
    version: int = VERSION
    seed: int = attrs.field(init=False, eq=False, repr=False)

    def to_bytes(self) -> bytes:
        """The header, with its checksum."""
        head = _SEGMENT.pack(SEGMENT_MAGIC, self.version, self.store, self.generation, self.size, self.nonce)
        return head + _CRC.pack(crc32(head))

    @seed.default
    def _seed(self) -> int:
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
    check_version(version)
    if _CRC.unpack_from(head, _SEGMENT.size)[0] != crc32(head[: _SEGMENT.size]):
        raise Malformed("the checksum of the segment header does not match")
    if not FIRST < size <= LARGEST:
        raise Malformed(f"the segment header gives a size of {size} bytes")
    return SegmentHeader(store, generation, size, nonce, version)


def check_version(version: int) -> None:
    """Check that a version of the format can be read.

    @raise Malformed: it cannot.
    """
    if not OLDEST <= version <= VERSION:
        which = "a newer" if version > VERSION else "an older"
        raise Malformed(
            f"written by {which} version of msmq (log format {version}, this one knows {OLDEST} to {VERSION})"
        )


@attrs.frozen
class GroupHeader:
    """Header of a group.

    @ivar size: bytes from its header to the end of its table.
    @ivar generation: of its segment.
    @ivar sequence: consecutive over all groups of the store.
    @ivar table_size: bytes of the table, which follows the packets and ends the group.
    @ivar previous: the checksum of the previous group.
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
        """Offset of the table in the group."""
        return self.size - self.table_size


def encode_group(
    seed: int,
    generation: int,
    sequence: int,
    previous: int,
    packets: Sequence[bytes],
    packets_size: int,
    table: Sequence[bytes],
) -> tuple[list[bytes], int]:
    """Encode a group, padded to the next block.

    @param packets_size: bytes of all packets.
    @param table: the table, in pieces.
    @return: buffers to write, and the group's checksum.
    """
    table_size = sum(map(len, table))
    size = GROUP_HEADER + packets_size + table_size
    head = _GROUP.pack(GROUP_MAGIC, size, generation, sequence, table_size, previous)
    checksum = crc32(head, seed)
    for piece in table:
        checksum = crc32(piece, checksum)
    return [head + _CRC.pack(checksum), *packets, *table, bytes(padded(size) - size)], checksum


def read_group_header(head: bytes, offset: int = 0) -> GroupHeader | None:
    """Read the header at an offset, without verifying its checksum; C{None} if there is none."""
    if len(head) - offset < GROUP_HEADER:
        return None
    magic, size, generation, sequence, table_size, previous = _GROUP.unpack_from(head, offset)
    if magic != GROUP_MAGIC or table_size + GROUP_HEADER > size:
        return None
    (checksum,) = _CRC.unpack_from(head, offset + _GROUP.size)
    return GroupHeader(size, generation, sequence, table_size, previous, checksum)


def group_checksum(header: GroupHeader, seed: int, table: bytes) -> int:
    """Checksum of a group with this header and table, in the segment with this seed."""
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
    """Size of a group with its padding."""
    return -(-size // BLOCK) * BLOCK
