"""Packed rows of message logs and of the event log: appended at the end, removed at the front."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from operator import lt
from struct import Struct
from typing import Final, Literal

from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW

_SEQUENCE: Final = Struct("<Q")
_SIZE_WORD: Final = 6
"""Position of the size of the packet among the 32-bit words of a row."""
_LAG: Final = 4096
"""Removed rows that may stay in memory, if they are not the larger part."""


class LogRows:
    """Rows of one message log, in the order of their sequences.

    @ivar size: bytes of the packets.
    @ivar first: the sequence after the last trimmed one; 1 if none was trimmed.
    """

    def __init__(self) -> None:
        self._rows = bytearray()
        self._start = 0
        self.size = 0
        self.first = 1

    def __len__(self) -> int:
        return len(self._rows) // LOG_ROW.size - self._start

    def row(self, index: int) -> bytes:
        """The row at an index, from 0 for the oldest."""
        begin = (self._start + index) * LOG_ROW.size
        return bytes(self._rows[begin : begin + LOG_ROW.size])

    def sequence(self, index: int) -> int:
        """The sequence of the row at an index."""
        found: int = _SEQUENCE.unpack_from(self._rows, (self._start + index) * LOG_ROW.size)[0]
        return found

    def after(self, sequence: int) -> int:
        """The first index with a larger sequence; the number of rows if there is none."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.sequence(middle) > sequence:
                high = middle
            else:
                low = middle + 1
        return low

    def index(self, sequence: int) -> int | None:
        """The index of a sequence; C{None} if it is not stored."""
        found = self.after(sequence) - 1
        return found if found >= 0 and self.sequence(found) == sequence else None

    def append(self, row: bytes) -> None:
        """Append a row with the largest sequence so far."""
        self._rows += row
        self.size += LOG_ROW.unpack(row)[3]

    def put(self, row: bytes) -> bytes | None:
        """Insert a row in order; one with the same sequence is replaced and returned."""
        (sequence,) = _SEQUENCE.unpack_from(row)
        rows = self._rows
        last = len(rows) - LOG_ROW.size
        if last < self._start * LOG_ROW.size or _SEQUENCE.unpack_from(rows, last)[0] < sequence:
            self.append(row)
            return None
        index = self.after(sequence)
        old = None
        if index and self.sequence(index - 1) == sequence:
            index -= 1
            old = self.row(index)
        begin = (self._start + index) * LOG_ROW.size
        self._rows[begin : begin + (LOG_ROW.size if old else 0)] = row
        self.size += LOG_ROW.unpack(row)[3] - (LOG_ROW.unpack(old)[3] if old else 0)
        return old

    def put_all(self, sequences: list[int], rows: bytes) -> None:
        """Insert many rows; of those with one sequence the last one applies.

        Ordered rows after all others are appended together, and rows that replace consecutive ones too, as in
        a replay of what a checkpoint already has.

        @param sequences: L{log_sequences} of the rows.
        """
        if not sequences:
            return
        index, count = self.after(sequences[0] - 1), len(sequences)
        old = self.chunk(index, count)
        if log_sequences(old) == sequences:
            begin = (self._start + index) * LOG_ROW.size
            self._rows[begin : begin + len(rows)] = rows
            self.size += _sizes(rows) - _sizes(old)
        elif not old and all(map(lt, sequences, sequences[1:])):
            self._rows += rows
            self.size += _sizes(rows)
        else:
            for at in range(0, len(rows), LOG_ROW.size):
                self.put(rows[at : at + LOG_ROW.size])

    def pop_last(self) -> None:
        """Undo the last L{append}."""
        self.size -= LOG_ROW.unpack(self.row(len(self) - 1))[3]
        del self._rows[-LOG_ROW.size :]

    def forget(self, count: int, size: int) -> None:
        """Remove the oldest rows; a negative count undoes that, until L{settle}.

        @param size: bytes of their packets.
        """
        self._start += count
        self.size -= size

    def settle(self) -> None:
        """Free the memory of removed rows."""
        if self._start > _LAG and 2 * self._start * LOG_ROW.size > len(self._rows):
            del self._rows[: self._start * LOG_ROW.size]
            self._start = 0

    def retain(self, rows: list[bytes]) -> None:
        """Keep only these rows, a subset of its own, in their order."""
        self._rows = bytearray(b"".join(rows))
        self._start = 0
        self.size = sum(LOG_ROW.unpack(row)[3] for row in rows)

    def chunk(self, index: int, count: int) -> bytes:
        """A range of rows in stored form."""
        begin = (self._start + index) * LOG_ROW.size
        end = min(begin + count * LOG_ROW.size, len(self._rows))
        return bytes(self._rows[begin:end])


def rows_from(rows: bytes, start: int) -> bytes:
    """These rows of a message log; of those that all have smaller sequences, the last one."""
    sequences = array("Q", rows)[:: LOG_ROW.size // 8]
    if sys.byteorder == "big":
        sequences.byteswap()
    last = max(sequences, default=start)
    if last >= start:
        return rows
    # A replay may have them in another order.
    begin = sequences.index(last) * LOG_ROW.size
    return rows[begin : begin + LOG_ROW.size]


def log_sequences(rows: bytes) -> list[int]:
    """The sequences of rows of a message log."""
    return _words("Q", rows)[:: LOG_ROW.size // 8].tolist()


def _sizes(rows: bytes) -> int:
    """The sum of the sizes of their packets."""
    return sum(_words("I", rows)[_SIZE_WORD :: LOG_ROW.size // 4].tolist())


def _words(kind: Literal["Q", "I"], rows: bytes) -> memoryview[int] | array[int]:
    if sys.byteorder == "little":
        return memoryview(rows).cast(kind)
    found = array(kind, rows)
    found.byteswap()
    return found


class EventRows:
    """Rows of the event log, whose sequences have no gaps.

    @ivar first: the sequence of the oldest event; of the next one, if there are none.
    """

    def __init__(self) -> None:
        self._rows = bytearray()
        self._start = 0
        self.first = 1

    def __len__(self) -> int:
        return len(self._rows) // EVENT_ROW.size - self._start

    @property
    def end(self) -> int:
        """The sequence of the next event."""
        return self.first + len(self)

    def row(self, sequence: int) -> bytes | None:
        """The row of an event; C{None} if it is not stored."""
        if not self.first <= sequence < self.end:
            return None
        begin = (self._start + sequence - self.first) * EVENT_ROW.size
        return bytes(self._rows[begin : begin + EVENT_ROW.size])

    def append(self, row: bytes) -> None:
        """Append the next event."""
        self._rows += row

    def extend(self, rows: bytes) -> None:
        """Append the rows of the next events."""
        self._rows += rows

    def pop_last_of(self, count: int) -> None:
        """Undo the last C{count} events of L{extend}."""
        del self._rows[len(self._rows) - count * EVENT_ROW.size :]

    def put(self, sequence: int, row: bytes) -> bytes | None:
        """Store the row of an event that is not trimmed; return the replaced row.

        @raise Malformed: events are missing before it.
        """
        if sequence < self.first:
            return None
        if not len(self):
            self.first = sequence
        old = self.row(sequence)
        if old is None:
            if sequence != self.end:
                raise Malformed(f"event {sequence} comes after event {self.end - 1}")
            self._rows += row
            return None
        begin = (self._start + sequence - self.first) * EVENT_ROW.size
        self._rows[begin : begin + EVENT_ROW.size] = row
        return old

    def pop_last(self) -> None:
        """Undo the last L{append}."""
        del self._rows[-EVENT_ROW.size :]

    def forget(self, count: int) -> None:
        """Remove the oldest rows; a negative count undoes that, until L{settle}."""
        self._start += count
        self.first += count

    def settle(self) -> None:
        """Free the memory of removed rows."""
        if self._start > _LAG and 2 * self._start * EVENT_ROW.size > len(self._rows):
            del self._rows[: self._start * EVENT_ROW.size]
            self._start = 0

    def chunk(self, sequence: int, count: int) -> bytes:
        """A range of rows in stored form, from a sequence on."""
        begin = (self._start + sequence - self.first) * EVENT_ROW.size
        end = min(begin + count * EVENT_ROW.size, len(self._rows))
        return bytes(self._rows[begin:end])

    def of(self, identity: bytes, after: int) -> Iterator[int]:
        """Sequences of the events of one message, greater than a given one."""
        wanted = bytes([len(identity)]) + identity.ljust(20, b"\0")
        at = EVENT_ROW.size - len(wanted)
        found = (self._start + max(0, after + 1 - self.first)) * EVENT_ROW.size
        while (found := self._rows.find(wanted, found)) >= 0:
            index, within = divmod(found, EVENT_ROW.size)
            if within == at:
                yield self.first + index - self._start
            found += 1
