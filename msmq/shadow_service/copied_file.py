"""The file with the messages that a shadow has copied, and with its position in the message log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from msmq.durable import make_directory, write_durably

_RECORD: Final = Struct("<Q20s20s")
_NOTHING: Final = bytes(20)

MOST_RECORDS: Final = 2_000_000
"""Records beyond which the older half is removed."""


class CopiedFile:
    """Records of 48 bytes: the sequence number of a message, its identifier, and that of its copy.

    The first record has the position at which the shadow began.
    A tail that a power failure has not written is written again: the messages are sent under keys, so they
    get the same identifiers.

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
        self.sequence, self.copied, self.skipped, end = _scan(path)
        self._file = path.open("r+b")
        self._file.truncate(end * _RECORD.size)
        self._file.seek(0, os.SEEK_END)
        self._records = end

    def add(self, records: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Add messages and their copies; without a copy the last value is empty.

        @raise OSError: they cannot be written.
        """
        self._file.write(
            b"".join(_RECORD.pack(number, one, copy or _NOTHING) for number, one, copy in records)
        )
        self._file.flush()
        self._records += len(records)
        for number, _, copy in records:
            self.sequence = number
            if copy:
                self.copied += 1
            else:
                self.skipped += 1
        if self._records > MOST_RECORDS:
            self._halve()

    def part(self, after: int, count: int) -> list[tuple[int, bytes, bytes]]:
        """At most C{count} messages, without the first C{after} in the file; an empty copy is none."""
        first = after + 1
        count = min(count, self._records - first)
        if count <= 0:
            return []
        with self._path.open("rb") as file:
            file.seek(first * _RECORD.size)
            data = file.read(count * _RECORD.size)
        return [
            (number, one, b"" if copy == _NOTHING else copy)
            for number, one, copy in _RECORD.iter_unpack(data)
        ]

    def close(self) -> None:
        """Synchronise it to disk, and close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _halve(self) -> None:
        kept = self.part(self._records // 2, self._records)
        before = self.part(self._records // 2 - 1, 1)[0][0]
        content = [_RECORD.pack(before, _NOTHING, _NOTHING)]
        content += [_RECORD.pack(number, one, copy or _NOTHING) for number, one, copy in kept]
        self._file.close()
        write_durably(self._path, b"".join(content))
        self._file = self._path.open("r+b")
        self._file.seek(0, os.SEEK_END)
        self._records = len(content)
        self.skipped = sum(not copy for _, _, copy in kept)
        self.copied = len(kept) - self.skipped


def _scan(path: Path) -> tuple[int, int, int, int]:
    """The last sequence number, the counts, and the number of valid records.

    @raise OSError: it cannot be read, or has no valid record.
    """
    data = path.read_bytes()
    last, copied, skipped, records = -1, 0, 0, 0
    for number, one, copy in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]):
        if records and (number <= last or one == _NOTHING):
            break
        last = number
        if records:
            copied += copy != _NOTHING
            skipped += copy == _NOTHING
        records += 1
    if not records:
        raise OSError(f"{path} is not a file of a shadow; delete it to begin again")
    return last, copied, skipped, records
