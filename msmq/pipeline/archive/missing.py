"""Which entries of a log an archive lacks, and why: trimmed, damaged, or deleted with their queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

MOST_RANGES: Final = 1000
"""Limit on the ranges and numbers of one kind that a manifest keeps singly; older ones are counted."""
NOT_WATCHED: Final = (0, 0, 0)
"""C{deleted} of a manifest of an earlier version, whose queue may have been deleted long ago."""


@attrs.define
class MissingEntries:
    """Entries of the message log of a queue, or of the event log, that are not archived.

    @ivar trimmed: first and last numbers that the store had trimmed before they were archived; some of these
        numbers may belong to other queues.
    @ivar damaged: the numbers of entries that the store could not read.
    @ivar deleted: after the queue was deleted, the first and last number that its entries may have had that
        are not archived, and how many they were at most; empty while it exists.
    @ivar earlier: how many ranges and numbers were dropped from these lists, and how many numbers they had.
    """

    trimmed: list[tuple[int, int]] = attrs.field(factory=list)
    damaged: list[int] = attrs.field(factory=list)
    deleted: tuple[int, ...] = ()
    earlier: tuple[int, int] = (0, 0)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> MissingEntries:
        """Of a manifest.

        @raise ValueError: it is none; so are L{KeyError} and L{TypeError}.
        """
        count, numbers = record["earlier"]
        return cls(
            [(first, last) for first, last in record["trimmed"]],
            list(record["damaged"]),
            tuple(record["deleted"]),
            (count, numbers),
        )

    @property
    def numbers(self) -> int:
        """How many numbers were trimmed or damaged."""
        return sum(last - first + 1 for first, last in self.trimmed) + len(self.damaged) + self.earlier[1]

    def may_have(self, begin: int, end: int) -> bool:
        """Whether a number from C{begin} to before C{end} may be missing; of dropped ones it is not known."""
        return (
            self.earlier[0] > 0
            or any(first < end and last >= begin for first, last in self.trimmed)
            or any(begin <= number < end for number in self.damaged)
        )

    def trim(self, first: int, last: int) -> str:
        """Note a range as trimmed, and return the line about it."""
        self.trimmed.append((first, last))
        if len(self.trimmed) > MOST_RANGES:
            first_dropped, last_dropped = self.trimmed.pop(0)
            self._drop(last_dropped - first_dropped + 1)
        return _trimmed(first, last)

    def damage(self, number: int) -> str:
        """Note an entry as damaged, and return the line about it."""
        self.damaged.append(number)
        if len(self.damaged) > MOST_RANGES:
            self.damaged.pop(0)
            self._drop(1)
        return _damaged(number)

    def delete(self, first: int, last: int, most: int) -> str:
        """Note that the queue was deleted, and return the line about it.

        @param most: the maximum number of its entries between these numbers.
        """
        self.deleted = (first, last, most)
        return _deleted(first, last, most)

    @property
    def uncertain(self) -> tuple[int, ...]:
        """What C{deleted} has, or nothing if there can be no such entry."""
        return self.deleted if self.deleted and self.deleted[2] else ()

    def _drop(self, numbers: int) -> None:
        self.earlier = self.earlier[0] + 1, self.earlier[1] + numbers

    def lines(self) -> Iterator[str]:
        """What is missing, for people."""
        if self.earlier[0]:
            ranges, numbers = self.earlier
            yield f"{numbers} numbers before these, in {ranges} ranges, were trimmed or damaged as well"
        for first, last in self.trimmed:
            yield _trimmed(first, last)
        yield from map(_damaged, self.damaged)
        if self.uncertain:
            yield _deleted(*self.uncertain)


def _trimmed(first: int, last: int) -> str:
    return f"the entries {first} to {last} were trimmed before they were archived"


def _damaged(number: int) -> str:
    return f"the entry {number} is damaged in the store, and could not be archived"


def _deleted(first: int, last: int, most: int) -> str:
    return (
        f"the queue was deleted: at most {most} of its entries, between the numbers {first} and {last},"
        " are not archived"
    )
