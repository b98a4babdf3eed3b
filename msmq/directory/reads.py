"""Pending reads of several objects (Begin, Next, End). [MS-MQDMPR] 3.1.6.2, 3.1.6.4 and 3.1.6.5."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from heapq import merge
from typing import Any, Final, Protocol

import attrs

from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.queries import SortOrder, directions, sort_key

MOST_READS: Final = 1000
"""Limit on pending reads."""

MOST_OBJECTS: Final = 200_000
"""Limit on the objects that pending reads have found and not returned."""


_FREED_AT_ONCE: Final = 10_000


class Objects(Protocol):
    """The results of a read, in reverse order, so that removing the next one is cheap."""

    def __len__(self) -> int:
        """The number of remaining objects."""

    def pop(self) -> DirectoryEntry[Any]:
        """Remove and return the next."""


@attrs.define
class FoundObjects:
    """The objects of a long read, serialized.

    A hundred thousand objects are half a million for the garbage collector, which traverses and frees them in
    one iteration of the reactor; serialized, each is one bytes object, which it does not traverse.

    @ivar of: the type of all of them.
    @ivar read: the attributes that are kept of each; C{None} for all.
    """

    of: type[DirectoryObject]
    read: tuple[str, ...] | None = None
    _packed: list[bytes] = attrs.field(factory=list, init=False, repr=False)

    def __len__(self) -> int:
        """The number of remaining objects."""
        return len(self._packed)

    def append(self, entry: DirectoryEntry[Any]) -> None:
        """Append an object."""
        values = entry.values
        if self.read is not None:
            values = {name: value for name, value in values.items() if name in self.read}
        self._packed.append(pickle.dumps(dict(values), pickle.HIGHEST_PROTOCOL))

    def pop(self) -> DirectoryEntry[Any]:
        """Remove and return the last."""
        return DirectoryEntry(self.of, _unpacked(self._packed.pop()), self.read)

    def ordering(self, order: Sequence[SortOrder], at_once: int) -> Generator[None, None, None]:
        """Sort the objects in reverse, so that the next one is the last. [MS-MQDMPR] 3.1.7.1.21.

        Runs of C{at_once} objects are sorted separately and then merged.

        @param order: as many as C{read}, or none: they are in the order in which they were found.
        @param at_once: how many objects are compared in one step.
        @return: a generator that yields between the steps, and has to run to its end.
        """
        for name, direction in directions(self.read, order):
            key, is_descending = sort_key(name), not direction.ascending
            # Each key is computed once, since a merge compares an object many times.
            keys: list[Any] = []
            runs = []
            for start in range(0, len(self._packed), at_once):
                keys += [key(_unpacked(each)) for each in self._packed[start : start + at_once]]
                runs.append(sorted(range(start, len(keys)), key=keys.__getitem__, reverse=is_descending))
                yield
            merged: list[bytes] = []
            for place in merge(*runs, key=keys.__getitem__, reverse=is_descending):
                merged.append(self._packed[place])
                if not len(merged) % at_once:
                    yield
            self._packed = merged
            while keys:
                del keys[-_FREED_AT_ONCE:]
                yield
        self._packed.reverse()


class PendingReads:
    """The results of pending reads of one directory."""

    def __init__(self) -> None:
        self._rest: dict[int, Objects] = {}
        self._last_handle = 0

    def __len__(self) -> int:
        """The number of pending reads."""
        return len(self._rest)

    def check_room(self) -> None:
        """Check the limit on pending reads before a search.

        @raise DirectoryError: too many reads are pending.
        """
        if len(self._rest) >= MOST_READS:
            raise _generic(f"{MOST_READS} reads are pending already")

    def begin(self, found: Objects) -> int:
        """Store the results of a read, and return a handle that is never reused.

        @param found: in reverse order.
        @raise DirectoryError: too many reads are pending, or too many objects of them.
        """
        self.check_room()
        if len(found) + sum(map(len, self._rest.values())) > MOST_OBJECTS:
            raise _generic(f"pending reads hold more than {MOST_OBJECTS} objects")
        self._last_handle += 1
        self._rest[self._last_handle] = found
        return self._last_handle

    def next(self, handle: int) -> DirectoryEntry[Any]:
        """The next object.

        @raise DirectoryError: END_OF_DATA if there are no more; or there is no such read.
        """
        rest = self._under_way(handle)
        if not len(rest):
            raise DirectoryError(DirectoryOperationResult.END_OF_DATA, "the read has no more objects")
        return rest.pop()

    def end(self, handle: int) -> None:
        """End a read.

        @raise DirectoryError: there is no such read.
        """
        self._under_way(handle)
        del self._rest[handle]

    def clear(self) -> None:
        """End all reads."""
        self._rest.clear()

    def _under_way(self, handle: int) -> Objects:
        if handle not in self._rest:
            raise _generic(f"no read in progress has the handle {handle}")
        return self._rest[handle]


def _unpacked(packed: bytes) -> dict[str, Any]:
    # Only FoundObjects.append creates this data, and it never leaves the process.
    values: dict[str, Any] = pickle.loads(packed)
    return values


def _generic(detail: str) -> DirectoryError:
    return DirectoryError(DirectoryOperationResult.GENERIC_ERROR, detail)
