"""Divergences between directory objects and this queue manager: log, event log and C{msmq status}."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from twisted.logger import Logger

MOST_SHOWN: Final = 100
"""Limit on the differences that C{msmq status} shows; their count is complete."""

EVENT: Final = "directory_difference"
"""The event of a difference that is not applied."""

TAKEN_EVENT: Final = "directory_change"
"""The event of a change in the directory that is applied."""

Note = Callable[[str, str, str], None]
"""Appends to the event log: the event, its reason, and the path of the queue."""


class DirectoryDivergences:
    """Records differences between directory objects and local ones; each is reported once.

    @param note: appends an event.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, note: Note) -> None:
        self._note = note
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}

    def report(self, path: str, subject: str, texts: tuple[str, ...]) -> None:
        """Replace the differences of one subject of a queue.

        @param path: of the queue; empty for the queue manager itself.
        @param subject: C{object} or C{list}.
        @param texts: the differences that there are now.
        """
        key = path, subject
        before = self._known.get(key, ())
        if texts == before:
            return
        for text in texts:
            if text not in before:
                self.log.warn(
                    "the directory differs from {object}: {difference}", object=_named(path), difference=text
                )
                self._note(EVENT, text, path)
        if texts:
            self._known[key] = texts
        else:
            del self._known[key]
            self.log.info(
                "the directory no longer differs from the {subject} of {object}",
                subject=subject,
                object=_named(path),
            )

    def taken(self, path: str, text: str) -> None:
        """Report a change that is in effect from now on."""
        self.log.info(
            "a change in the directory is in effect for {object}: {change}", object=_named(path), change=text
        )
        self._note(TAKEN_EVENT, text, path)

    def forget(self, path: str) -> None:
        """Remove the differences of a deleted queue."""
        for key in [key for key in self._known if key[0] == path]:
            del self._known[key]

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def described(self) -> list[str]:
        """The differences as C{msmq status} shows them, by the names of the queues."""
        shown = list(self._each())
        more = len(shown) - MOST_SHOWN
        return [*shown[:MOST_SHOWN], f"and {more} more"] if more > 0 else shown

    def of(self, path: str) -> list[str]:
        """The differences of one queue."""
        return [text for key in sorted(self._known) if key[0] == path for text in self._known[key]]

    def _each(self) -> Iterator[str]:
        for path, subject in sorted(self._known):
            for text in self._known[path, subject]:
                yield f"{_named(path)}: {text}"


def _named(path: str) -> str:
    return path or "this queue manager"
