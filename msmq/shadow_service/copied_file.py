"""The file with the messages that a shadow has copied, and with its position in the message log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from msmq.durable import make_directory, write_durably

_RECORD: Final = Struct("<Q20s20s")
_NOTHING: Final = bytes(20)
_READ: Final = 4096
"""Records that are read at once."""

MOST_RECORDS: Final = 2_000_000
"""Records beyond which the older half is removed."""


class CopiedFile:
    """Records of 48 bytes: the sequence number of a message, its identifier, and that of its copy.

    The first record has the position at which the shadow began.
    A tail that a power failure has not written is written again: the messages are sent under keys, so they
    get the same identifiers.
    To open it, L{halved}, L{begun_again}, L{sync} and L{close} take as long as the disk needs for all of it.

    @ivar sequence: the sequence number of the last message.
    @ivar copied: messages with a copy, and C{skipped} those without one, of all in the file.
    """

    def __init__(self, path: Path, begin: int) -> None:
        """Open the file, or create it for a shadow that begins now.

        @param begin: the sequence number of the last message that is not copied.
        @raise OSError: it cannot be read or written.
        """
        self._path = path
        if not path.exists():
            make_directory(path.parent)
            write_durably(path, _RECORD.pack(begin, _NOTHING, _NOTHING))
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._scan()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _scan(self) -> None:
        """Count the valid records, and remove what follows them."""
        self.sequence, self.copied, self.skipped, self._records = -1, 0, 0, 0
        for number, one, copy in self._read(0):
            if self._records and (number <= self.sequence or one == _NOTHING):
                break
            if self._records:
                self._count(copy)
            self.sequence = number
            self._records += 1
        if not self._records:
            raise OSError(
                f"{self._path} is not a file of a shadow; delete it; the shadow goes on without its records"
            )
        os.ftruncate(self._descriptor, self._records * _RECORD.size)

    def _read(self, first: int) -> Iterator[tuple[int, bytes, bytes]]:
        """The records from this one on."""
        while data := os.pread(self._descriptor, _READ * _RECORD.size, first * _RECORD.size):
            whole = len(data) // _RECORD.size
            if not whole:
                return
            yield from _RECORD.iter_unpack(data[: whole * _RECORD.size])
            first += whole

    def _count(self, copy: bytes) -> None:
        if copy in (b"", _NOTHING):
            self.skipped += 1
        else:
            self.copied += 1

    @property
    def is_full(self) -> bool:
        """Whether it has more records than it may have: L{halved} has to follow."""
        return self._records > MOST_RECORDS

    def add(self, records: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Add messages and their copies; without a copy the last value is empty.

        @raise OSError: they cannot be written, and may be added again.
        """
        data = b"".join(_RECORD.pack(number, one, copy or _NOTHING) for number, one, copy in records)
        # At its place in any case: what a failed write has left of the same records is overwritten.
        offset = self._records * _RECORD.size
        written = 0
        while written < len(data):
            written += os.pwrite(self._descriptor, data[written:], offset + written)
        self._records += len(records)
        for number, _, copy in records:
            self.sequence = number
            self._count(copy)

    def part(self, after: int, count: int) -> list[tuple[int, bytes, bytes]]:
        """At most C{count} messages, without the first C{after} in the file; an empty copy is none.

        @param count: at most some thousands, since they are read at once.
        """
        first = after + 1
        count = min(count, self._records - first)
        if count <= 0:
            return []
        data = os.pread(self._descriptor, count * _RECORD.size, first * _RECORD.size)
        return [
            (number, one, b"" if copy == _NOTHING else copy)
            for number, one, copy in _RECORD.iter_unpack(data)
        ]

    def sync(self) -> None:
        """Synchronise it to disk.

        @raise OSError: that failed.
        """
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Synchronise it to disk, and close it."""
        try:
            self.sync()
        finally:
            os.close(self._descriptor)

    def halved(self) -> CopiedFile:
        """The file without the older half of its records, which replaces this one; close this one then.

        Nothing may be added meanwhile.

        @raise OSError: it cannot be written, and this one stays.
        """
        last_dropped = self._records // 2
        size = (self._records - last_dropped) * _RECORD.size
        data = os.pread(self._descriptor, size, last_dropped * _RECORD.size)
        before, _, _ = _RECORD.unpack_from(data)
        write_durably(self._path, _RECORD.pack(before, _NOTHING, _NOTHING) + data[_RECORD.size :])
        return CopiedFile(self._path, before)

    def begun_again(self, begin: int) -> CopiedFile:
        """An empty file that replaces this one, as that of a shadow that begins now; close this one then.

        @raise OSError: it cannot be written, and this one stays.
        """
        write_durably(self._path, _RECORD.pack(begin, _NOTHING, _NOTHING))
        return CopiedFile(self._path, begin)
