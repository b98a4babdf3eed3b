"""Message logs of the store in memory: trimmed lists with look-up by number."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

import attrs

from msmq.interfaces.storage import LogEntry, LogExtent, StoredEvent
from msmq.persistence.changes import AppendEvent, TrimLog
from msmq.storage.log_answer import one_answer


class _Numbered(Protocol):
    @property
    def sequence(self) -> int: ...


_Entry = TypeVar("_Entry", bound=_Numbered)
_NUMBER = attrgetter("sequence")


@attrs.define
class Numbered(Generic[_Entry]):
    """List of entries in the order of their numbers, trimmed at the front."""

    _entries: list[_Entry] = attrs.field(factory=list)
    # Entries before it are removed, and deleted from the list when they are the larger part.
    _start: int = 0

    def __len__(self) -> int:
        return len(self._entries) - self._start

    def __iter__(self) -> Iterator[_Entry]:
        return islice(self._entries, self._start, None)

    def append(self, entry: _Entry) -> None:
        """Append an entry with the largest number so far."""
        self._entries.append(entry)

    @property
    def last(self) -> _Entry:
        """The newest entry."""
        return self._entries[-1]

    @property
    def first(self) -> _Entry:
        """The oldest entry."""
        return self._entries[self._start]

    def pop_first(self) -> _Entry:
        """Remove and return the oldest entry."""
        entry = self._entries[self._start]
        self._start += 1
        if self._start > 64 and 2 * self._start > len(self._entries):
            del self._entries[: self._start]
            self._start = 0
        return entry

    def after(self, sequence: int) -> Iterator[_Entry]:
        """Entries with larger numbers, the oldest first."""
        entries = self._entries
        start = bisect_right(entries, sequence, lo=self._start, key=_NUMBER)
        return (entries[index] for index in range(start, len(entries)))


@attrs.define
class MessageLog:
    """The message log of one queue.

    @ivar size: bytes of the packets.
    @ivar trimmed: the number of the newest entry that was trimmed; 0 if none was.
    """

    entries: Numbered[LogEntry] = attrs.field(factory=lambda: Numbered[LogEntry]())
    size: int = 0
    trimmed: int = 0

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self.entries)

    def append(self, entry: LogEntry) -> None:
        """Append an entry."""
        self.entries.append(entry)
        self.size += len(entry.packet)

    def trim(self, change: TrimLog) -> None:
        """Remove the oldest entries."""
        # By age first; the remaining entries count against the size.
        if change.before is not None:
            while len(self.entries) and self.entries.first.arrived < change.before:
                self._pop_first()
        if change.keep_bytes is not None:
            while len(self.entries) and self.size > change.keep_bytes:
                self._pop_first()

    def read(self, after: int, limit: int) -> Iterator[LogEntry]:
        """One page of entries with larger numbers."""
        return one_answer(islice(self.entries.after(after), max(0, limit)))

    def extent(self) -> LogExtent:
        """The extent of the log."""
        if not len(self.entries):
            return LogExtent(trimmed=self.trimmed)
        first, last = self.entries.first.sequence, self.entries.last.sequence
        return LogExtent(first, last, len(self.entries), self.size, self.trimmed)

    def _pop_first(self) -> None:
        entry = self.entries.pop_first()
        self.size -= len(entry.packet)
        self.trimmed = entry.sequence


@attrs.define
class MemoryEventLog:
    """Event log, with an index by message identity."""

    _events: Numbered[StoredEvent] = attrs.field(factory=lambda: Numbered[StoredEvent]())
    _by_identity: dict[bytes, deque[StoredEvent]] = attrs.field(factory=dict)
    _last: int = 0

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter(self._events)

    def clear(self) -> None:
        """Remove all events."""
        self.trim(0)

    def append(self, event: AppendEvent) -> None:
        """Append an event under the next number."""
        self._last += 1
        stored = StoredEvent(self._last, event)
        self._events.append(stored)
        self._by_identity.setdefault(event.identity, deque()).append(stored)

    def continue_after(self, last: int) -> None:
        """Continue the numbers after this one."""
        self._last = max(self._last, last)

    def trim(self, keep: int) -> None:
        """Remove the oldest events until at most this many are left."""
        while len(self._events) > max(0, keep):
            identity = self._events.pop_first().event.identity
            owned = self._by_identity[identity]
            owned.popleft()
            if not owned:
                del self._by_identity[identity]

    def read(self, after: int, limit: int, identity: bytes | None) -> list[StoredEvent]:
        """Events with larger numbers, the oldest first, optionally only those of one message."""
        found: Iterable[StoredEvent]
        if identity is None:
            found = self._events.after(after)
        else:
            found = (event for event in self._by_identity.get(identity, ()) if event.sequence > after)
        return list(islice(found, max(0, limit)))
