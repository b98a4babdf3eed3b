"""[MS-MQDMPR] 3.1.6.2, 3.1.6.4 and 3.1.6.5 reads of several objects that were begun and not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.membership.entry import DirectoryEntry

MOST_READS: Final = 1000
"""How many reads that were begun may not be at their end."""

MOST_OBJECTS: Final = 200_000
"""How many objects these may have found and not told of."""


class PendingReads:
    """What the reads of one directory have found and nobody has taken yet."""

    def __init__(self) -> None:
        self._rest: dict[int, list[DirectoryEntry[Any]]] = {}
        self._last_handle = 0

    def __len__(self) -> int:
        """How many were begun and not ended."""
        return len(self._rest)

    def check_room(self) -> None:
        """Say before something is looked for whether it can be kept.

        @raise DirectoryError: too many reads are not at their end.
        """
        if len(self._rest) >= MOST_READS:
            raise _generic(f"{MOST_READS} reads are not at their end")

    def begin(self, found: Sequence[DirectoryEntry[Any]]) -> int:
        """Keep what a read has found; give its handle, which no other read ever has.

        @raise DirectoryError: too many reads are not at their end, or too many objects were not taken.
        """
        self.check_room()
        if len(found) + sum(map(len, self._rest.values())) > MOST_OBJECTS:
            raise _generic(f"reads have found more than {MOST_OBJECTS} objects that nobody took")
        self._last_handle += 1
        # The last is the next, so that taking it costs nothing.
        self._rest[self._last_handle] = list(reversed(found))
        return self._last_handle

    def next(self, handle: int) -> DirectoryEntry[Any]:
        """The next object.

        @raise DirectoryError: END_OF_DATA if there are no more; or there is no such read.
        """
        rest = self._under_way(handle)
        if not rest:
            raise DirectoryError(DirectoryOperationResult.END_OF_DATA, "there are no more")
        return rest.pop()

    def end(self, handle: int) -> None:
        """Forget a read.

        @raise DirectoryError: there is no such read.
        """
        self._under_way(handle)
        del self._rest[handle]

    def clear(self) -> None:
        """Forget all of them."""
        self._rest.clear()

    def _under_way(self, handle: int) -> list[DirectoryEntry[Any]]:
        if handle not in self._rest:
            raise _generic(f"no read is under way with the handle {handle}")
        return self._rest[handle]


def _generic(detail: str) -> DirectoryError:
    return DirectoryError(DirectoryOperationResult.GENERIC_ERROR, detail)
