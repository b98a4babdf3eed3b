"""WAL check: detects damage in the middle of the write-ahead log, where SQLite would truncate it."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_LIMIT: Final = 0xFFFFFFFF

Sums: TypeAlias = tuple[int, int]
"""The two running checksums of the WAL."""


def lost_frame(connection: sqlite3.Connection, path: Path) -> int | None:
    """The offset in the WAL of a damaged frame that is followed by committed transactions.

    SQLite truncates the WAL before the first frame that does not match.
    This is correct for an interrupted transaction, which no other follows.
    The frames of each transaction are on stable storage before the next one begins, so if two transactions
    end behind the first frame that does not match, and their checksums continue from that frame, the first
    of them was confirmed.

    @param connection: the first to the file, which has not written yet.
    @param path: the file of the store.
    @raise sqlite3.Error: the log cannot be read.
    @raise OSError: so too.
    """
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as file:
            return _Log(file, page).lost(max(0, frames))
    except FileNotFoundError:
        return None


def lost_frame_at_rest(path: Path, page: int) -> int | None:
    """The same for a file that no process has open, without changes.

    @param page: the size of a page.
    @raise OSError: the log cannot be read.
    """
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as file:
            return _Log(file, page).lost(0)
    except FileNotFoundError:
        return None


class _Log:
    def __init__(self, file: BinaryIO, page: int) -> None:
        self._file = file
        self._size = _FRAME.size + page
        self._salts = b""

    def lost(self, number: int) -> int | None:
        """The offset of the lost frame.

        @param number: the number of frames that SQLite has found.
        """
        header = self._file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return None
        magic, *_, first, second = _HEADER.unpack(header)
        order = ">" if magic & 1 else "<"
        sums: Sums = (first, second)
        # Frames of an earlier use of the log have other salts.
        is_sound = _words((0, 0), header[:24], order) == sums
        self._salts = header[16:24] if is_sound else self._frame(1)[8:16]
        if number:
            sums = _stored(self._frame(number - 1))
        # Frames of a transaction that lacks its end still match.
        while (frame := self._frame(number)) and self._matches(sums, frame, order):
            sums, number = _stored(frame), number + 1
        if not frame:
            return None
        # Either the checksum of this frame or its content is damaged.
        for seed in {_stored(frame), _sums(sums, frame, order)}:
            if self._ends(number, frame, seed, order) > 1:
                return _HEADER.size + number * self._size
        return None

    def _ends(self, number: int, damaged: bytes, sums: Sums, order: str) -> int:
        """The number of transactions that end at or after this frame, at most two."""
        ends = int(_FRAME.unpack_from(damaged)[1] != 0)
        while ends < 2 and (frame := self._frame(number := number + 1)):
            if not self._matches(sums, frame, order):
                break
            sums = _stored(frame)
            ends += _FRAME.unpack_from(frame)[1] != 0
        return ends

    def _matches(self, sums: Sums, frame: bytes, order: str) -> bool:
        return frame[8:16] == self._salts and _sums(sums, frame, order) == _stored(frame)

    def _frame(self, number: int) -> bytes:
        """A frame with its header; empty beyond the end."""
        self._file.seek(_HEADER.size + number * self._size)
        found = self._file.read(self._size)
        return found if len(found) == self._size else b""


def _stored(frame: bytes) -> Sums:
    *_, first, second = _FRAME.unpack_from(frame)
    return first, second


def _sums(sums: Sums, frame: bytes, order: str) -> Sums:
    """The running checksums after a frame: over its first 8 bytes and its page."""
    return _words(_words(sums, frame[:8], order), frame[_FRAME.size :], order)


def _words(sums: Sums, content: bytes, order: str) -> Sums:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for left, right in zip(words[::2], words[1::2], strict=True):
        first = (first + left + second) & _LIMIT
        second = (second + right + first) & _LIMIT
    return first, second
