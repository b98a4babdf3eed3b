"""Packets of a record log by their places, without a replay of the log.

A read that is planned in one process and done in others gives each its places; a replay in each of them would
cost more than all packets. Packets that follow each other are read at once. Files are not mapped into memory:
one that is truncated meanwhile would end the process.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias
from zlib import crc32

from msmq.interfaces.storage import StorageError
from msmq.storage.log.core.format import SEGMENT_HEADER, SegmentHeader
from msmq.storage.log.core.records import OFFSET_MASK
from msmq.storage.log.files import FileDescriptors, find_segments, read_exactly
from msmq.storage.readers.shape import HEAD, LARGE, VERIFY, MomentGone, PacketDamage, without_body

PacketPlace: TypeAlias = tuple[int, int, int]
"""Location, size and checksum of a packet, as rows of the log have them."""

_GAP: Final = 16 * 1024
"""Bytes between two packets that are read rather than skipped."""
_RUN: Final = 1024 * 1024
"""Bytes that are read at once."""


class LogPackets:
    """Reads packets of one log.

    @param directory: of the log.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = FileDescriptors()
        self._segments: dict[int, tuple[Path, SegmentHeader]] | None = None

    def read(self, places: Sequence[PacketPlace], bodies: bool) -> list[bytes]:
        """The packets at these places, verified.

        @param bodies: as of L{StoreReader.messages<msmq.storage.readers.shape.StoreReader.messages>}.
        @raise MomentGone: the server has reused the space of one.
        @raise PacketDamage: one is damaged.
        @raise StorageError: one cannot be read.
        """
        found: list[bytes] = []
        try:
            for run in _runs(places, bodies):
                found += self._run(run, bodies)
        except OSError as error:
            raise StorageError(f"{self._directory}: cannot be read: {error.strerror or error}") from None
        return found

    def close(self) -> None:
        """Close the files."""
        self._files.close()
        self._segments = None

    def _run(self, run: Sequence[PacketPlace], bodies: bool) -> list[bytes]:
        location, size, _ = run[0]
        generation, begin = location >> 32, location & OFFSET_MASK
        if not bodies and size >= LARGE:
            [(_, _, checksum)] = run
            packet = without_body(self._bytes(generation, begin, HEAD), size)
            if packet is not None:
                # Its checksum needs the body: another message may have taken its place meanwhile.
                self._check(generation)
                return [packet]
        last, last_size, _ = run[-1]
        data = self._bytes(generation, begin, (last & OFFSET_MASK) + last_size - begin)
        packets = []
        for location, size, checksum in run:
            place = (location & OFFSET_MASK) - begin
            packet = data[place : place + size]
            if crc32(packet) != checksum:
                self._check(generation)
                path, _ = self._segment(generation)
                raise PacketDamage(f"{path}, offset {begin + place}: {size} bytes are damaged; {VERIFY}")
            packets.append(packet)
        return packets

    def _bytes(self, generation: int, offset: int, size: int) -> bytes:
        path, _ = self._segment(generation)
        try:
            return read_exactly(self._files.of(path), offset, size)
        except FileNotFoundError:
            raise self._gone() from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise PacketDamage(
                f"{path}, offset {offset}: {size} bytes are damaged: {error.strerror}; {VERIFY}"
            ) from None

    def _check(self, generation: int) -> None:
        path, header = self._segment(generation)
        if read_exactly(self._files.of(path), 0, SEGMENT_HEADER) != header.to_bytes():
            raise self._gone()

    def _segment(self, generation: int) -> tuple[Path, SegmentHeader]:
        if self._segments is None:
            self._segments = {
                one.header.generation: (one.path, one.header)
                for one in find_segments(self._directory)
                if one.header is not None
            }
        if generation not in self._segments:
            raise self._gone()
        return self._segments[generation]

    def _gone(self) -> MomentGone:
        self.close()
        return MomentGone(f"{self._directory}: the server has reused space that is to be read")


def _runs(places: Sequence[PacketPlace], bodies: bool) -> Iterator[Sequence[PacketPlace]]:
    """Places that are read at once, in order."""
    begin = 0
    first = end = -1
    for index, (location, size, _) in enumerate(places):
        is_alone = not bodies and size >= LARGE
        if index == begin:
            first, end = location, location + size
        elif is_alone or not end <= location <= end + _GAP or location + size - first > _RUN:
            yield places[begin:index]
            begin, first, end = index, location, location + size
        else:
            end = location + size
        if is_alone:
            yield places[begin : index + 1]
            begin = index + 1
    if begin < len(places):
        yield places[begin:]
