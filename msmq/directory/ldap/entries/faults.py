"""Objects of a directory that cannot be used: each is logged once, until it changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final

import attrs
from twisted.logger import Logger

from msmq.directory.ldap.transport.wire import Entry

MOST_REMEMBERED: Final = 10_000
"""Entries with faults that are remembered; the one that was read longest ago is forgotten first."""

MOST_LINES: Final = 100
"""Lines in the log for one answer; of more faults their number is logged."""

WHOLE: Final = ""
"""In the place of the attribute that has a fault: the entry itself."""


@attrs.define
class Faults:
    """The faults of the entries of one answer.

    @ivar found: by the names of the entries, what is wrong, with the attributes that it is about.
    """

    found: dict[str, list[tuple[str, str]]] = attrs.field(factory=dict)

    def add(self, entry: Entry, problem: str, attribute: str = WHOLE) -> None:
        """Take one up."""
        self.found.setdefault(entry.name, []).append((attribute, problem))


class FaultLog:
    """Logs the faults of entries that are read again and again.

    A fault is logged when it is new, or when its attribute has another value than when it was logged.
    One that was mended, and comes again, is new.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self) -> None:
        self._known: OrderedDict[str, dict[tuple[str, str], int]] = OrderedDict()

    def report(self, entries: Iterable[Entry], attributes: Collection[str], faults: Faults) -> None:
        """Log what is new in an answer.

        @param attributes: those that were asked for; faults of others may be there still.
        """
        new: list[str] = []
        looked_at = {WHOLE, *(name.lower() for name in attributes)}
        for entry in entries:
            found = faults.found.get(entry.name, ())
            if found or entry.name in self._known:
                new += self._changes(entry, looked_at, found)
        for text in new[:MOST_LINES]:
            self.log.warn("directory entry left out or used in part: {fault}", fault=text)
        if len(new) > MOST_LINES:
            self.log.warn("{count} more directory entries have faults", count=len(new) - MOST_LINES)

    def _changes(
        self, entry: Entry, looked_at: Collection[str], found: Iterable[tuple[str, str]]
    ) -> list[str]:
        known = self._known.pop(entry.name, {})
        kept = {fault: mark for fault, mark in known.items() if fault[0].lower() not in looked_at}
        new = []
        for fault in found:
            attribute, problem = fault
            mark = hash(entry.all(attribute) if attribute else _contents(entry.values))
            if known.get(fault) != mark:
                new.append(f"{entry.name}: {problem}")
            kept[fault] = mark
        if kept:
            self._known[entry.name] = kept
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return new


def _contents(values: Mapping[str, Collection[bytes]]) -> frozenset[tuple[str, frozenset[bytes]]]:
    return frozenset((name, frozenset(held)) for name, held in values.items())
