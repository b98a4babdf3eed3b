"""Pages of message log reads, for all stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msmq.interfaces.storage import LogEntry

LOG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of packets that one answer holds, if it holds more than one entry."""


def one_answer(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """The first of these entries, up to L{LOG_BYTES}, but one at least."""
    size = 0
    for entry in entries:
        if size and size + len(entry.packet) > LOG_BYTES:
            return
        size += len(entry.packet)
        yield entry
