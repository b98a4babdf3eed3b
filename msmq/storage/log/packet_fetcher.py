"""Packet reads from segments, with checksum verification."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

import attrs

from msmq.storage.log.core.records import EXPRESS, OFFSET_MASK
from msmq.storage.log.core.segments import Segments
from msmq.storage.log.failures import failure
from msmq.storage.log.files import FileDescriptors, read_exactly, read_readable
from msmq.storage.log.system import LOCAL, LogSystem
from msmq.storage.log.writer import express_path

MOST_BAD: Final = 4
"""Unreadable pages of a packet after which the rest of it is given up: other reads wait meanwhile."""
_PAGE: Final = 4096


@attrs.frozen
class PacketLocation:
    """Location of a packet on disk."""

    path: Path
    offset: int
    size: int
    checksum: int


@attrs.frozen
class Damage:
    """A damaged packet.

    @ivar found: the bytes that could be read, with zeros for pages that the disk cannot read; shorter if the
        file ends, or the disk cannot read several of them.
    """

    location: PacketLocation
    found: bytes = attrs.field(repr=False)
    problem: str

    @property
    def where(self) -> str:
        """Where the bytes are, and what is wrong with them."""
        packet = self.location
        return f"{packet.path}, offset {packet.offset}: {packet.size} bytes are damaged: {self.problem}"


def packet_location(
    directory: Path, segments: Segments, location: int, size: int, checksum: int
) -> PacketLocation:
    """Resolve a location to a file and offset."""
    if location >= EXPRESS:
        path = express_path(directory, location >> 32 & 0x7FFFFFFF)
    else:
        path = segments.used[location >> 32].path
    return PacketLocation(path, location & OFFSET_MASK, size, checksum)


class PacketFetcher:
    """Reads packets; blocking, used by one thread."""

    def __init__(self, system: LogSystem = LOCAL) -> None:
        self._system = system
        self._files = FileDescriptors(system=system)

    def fetch(self, locations: Sequence[PacketLocation]) -> list[bytes | Damage]:
        """Fetch the packets at these locations, each verified.

        @raise StorageError: a file cannot be read for a reason that may pass.
        """
        return [self._fetch(location) for location in locations]

    def fetch_from_disk(self, locations: Sequence[PacketLocation], active: Path) -> list[bytes | Damage]:
        """Fetch packets bypassing the page cache, except those in the active segment.

        @raise StorageError: a file cannot be read for a reason that may pass.
        """
        for location in locations:
            if location.path != active:
                start = location.offset // _PAGE * _PAGE
                size = -(-(location.offset + location.size) // _PAGE) * _PAGE - start
                with suppress(OSError):
                    self._system.advise(self._files.of(location.path), start, size, os.POSIX_FADV_DONTNEED)
        return self.fetch(locations)

    def forget(self, path: Path) -> None:
        """Close a file that is to be deleted."""
        self._files.forget(path)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def _readable(self, location: PacketLocation) -> bytes:
        """What the disk can read of a packet."""
        try:
            descriptor = self._files.of(location.path)
            return read_readable(descriptor, location.offset, location.size, self._system, MOST_BAD)
        except OSError:
            return b""

    def _fetch(self, location: PacketLocation) -> bytes | Damage:
        try:
            packet = read_exactly(self._files.of(location.path), location.offset, location.size, self._system)
        except OSError as error:
            if error.errno != errno.EIO:
                # Such as too many open files: the packet may be intact.
                raise failure(location.path, "read", error) from error
            packet = self._readable(location)
            if len(packet) < location.size or crc32(packet) != location.checksum:
                return Damage(location, packet, error.strerror or str(error))
        if len(packet) < location.size:
            return Damage(location, packet, f"the file ends {location.size - len(packet)} bytes too early")
        if crc32(packet) != location.checksum:
            return Damage(location, packet, "the checksum does not match")
        return packet
