"""Fault log of directory entries: each invalid attribute is logged once, until it changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final

import attrs
from twisted.logger import Logger

from msmq.directory.ldap.transport.wire import Entry

MOST_REMEMBERED: Final = 10_000
"""Limit on remembered entries with faults; the least recently read is evicted first."""

MOST_LINES: Final = 100
"""Limit on log lines for one response; only the number of further faults is logged."""

WHOLE: Final = ""
"""Stands for the entry itself instead of an attribute."""


@attrs.define
class Faults:
    """The faults of the entries of one response.

    @ivar found: the problems with their attributes, by the names of entries.
    """

    found: dict[str, list[tuple[str, str]]] = attrs.field(factory=dict)

    def add(self, entry: Entry, problem: str, attribute: str = WHOLE) -> None:
        """Add a fault."""
        self.found.setdefault(entry.name, []).append((attribute, problem))


class FaultLog:
    """Logs faults of entries that are read repeatedly.

    A fault is logged when it is new, or when the value of its attribute has changed since. A fault that
    recurs after it was corrected is new.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self) -> None:
        self._known: OrderedDict[str, dict[tuple[str, str], int]] = OrderedDict()

    def report(self, entries: Iterable[Entry], attributes: Collection[str], faults: Faults) -> None:
        """Log the new faults of a response.

        @param attributes: the requested attributes; faults of others may persist.
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
