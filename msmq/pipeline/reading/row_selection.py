"""Row and column selection from pushed-down filters; rows that cannot be decided are kept."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from msmq.pipeline.bodies import NONE
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.schema import EVENT_COLUMNS, EXPORTED_COLUMNS, names_of
from msmq.pipeline.stored_packets import StoredPacket
from msmq.quoting import quoted

BODY_COLUMNS = frozenset({"value", "body", "body_base64", "decoded", "packet"})
"""The columns for which a body has to be read."""


@attrs.frozen
class RowSelection:
    """Selection of rows and columns.

    @ivar names: the columns.
    @ivar bodies: whether bodies have to be read.
    @ivar begin: the first offset.
    @ivar end: the first offset that is not wanted any more; C{None} for no limit, as of what follows.
    @ivar since: the earliest time, about, in seconds since 1970-01-01 UTC.
    @ivar until: a time from which on nothing is wanted, about.
    @ivar topics: the topics.
    """

    names: tuple[str, ...]
    bodies: bool = True
    begin: int = 0
    end: int | None = None
    since: float | None = None
    until: float | None = None
    topics: frozenset[str] | None = None

    def within(self, begin: int, end: int) -> tuple[int, int]:
        """What is left of a range of offsets."""
        return max(begin, self.begin), end if self.end is None else min(end, self.end)

    def has_topic(self, topic: str) -> bool:
        """Whether rows of a topic are wanted."""
        return self.topics is None or topic in self.topics

    def takes(self, packet: StoredPacket) -> bool:
        """Whether this one is wanted, of what no store has looked through."""
        if not self.has_topic(packet.topic) or packet.offset < self.begin:
            return False
        if self.end is not None and packet.offset >= self.end:
            return False
        if packet.arrived is None:
            return self.since is None and self.until is None
        if self.since is not None and packet.arrived < self.since:
            return False
        return self.until is None or packet.arrived < self.until


def wanted_columns(names: tuple[str, ...], options: ReadOptions) -> RowSelection:
    """Every row, with these columns."""
    bodies = not BODY_COLUMNS.isdisjoint(names)
    bodies |= options.decode != NONE and "decode_error" in names
    return RowSelection(names, bodies)


def known_names(names: Iterable[str], stream: str) -> tuple[str, ...]:
    """These names of columns.

    @raise ReadingError: one is not a column of the stream.
    """
    columns = names_of(EVENT_COLUMNS if stream == "events" else EXPORTED_COLUMNS)
    found = tuple(names)
    for name in found:
        if name not in columns:
            raise ReadingError(f"there is no column {quoted(name)}, only {', '.join(columns)}")
    return found
