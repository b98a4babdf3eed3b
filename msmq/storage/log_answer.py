"""Page limits of message log reads, shared by all stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msmq.interfaces.storage import LogEntry

LOG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of packets in one page of more than one entry."""


def one_answer(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """Take the first entries up to L{LOG_BYTES}, at least one."""
    size = 0
    for entry in entries:
        if size and size + len(entry.packet) > LOG_BYTES:
            return
        size += len(entry.packet)
        yield entry
