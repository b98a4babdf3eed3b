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
"""The columns that need the body."""


@attrs.frozen
class RowSelection:
    """Selection of rows and columns.

    @ivar names: the selected columns.
    @ivar bodies: whether bodies are read.
    @ivar begin: the first offset.
    @ivar end: the first offset after the selected ones; here and below, C{None} is no limit.
    @ivar since: the approximate earliest time, in seconds since 1970-01-01 UTC.
    @ivar until: the approximate end of the time range, exclusive.
    @ivar topics: the selected topics.
    @ivar classes: of an archive, the selected classes, for skipping parts of files.
    """

    names: tuple[str, ...]
    bodies: bool = True
    begin: int = 0
    end: int | None = None
    since: float | None = None
    until: float | None = None
    topics: frozenset[str] | None = None
    classes: frozenset[int] | None = None

    def within(self, begin: int, end: int) -> tuple[int, int]:
        """Intersect a range of offsets with the selected one."""
        return max(begin, self.begin), end if self.end is None else min(end, self.end)

    def has_topic(self, topic: str) -> bool:
        """Whether a topic is selected."""
        return self.topics is None or topic in self.topics

    def takes(self, packet: StoredPacket) -> bool:
        """Whether a packet is selected that was not filtered by a store."""
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
    """Selection of all rows, with these columns."""
    bodies = not BODY_COLUMNS.isdisjoint(names)
    bodies |= options.decode != NONE and "decode_error" in names
    return RowSelection(names, bodies)


def known_names(names: Iterable[str], stream: str) -> tuple[str, ...]:
    """Check names of columns.

    @raise ReadingError: a name is not a column of the stream, or is there twice.
    """
    columns = names_of(EVENT_COLUMNS if stream == "events" else EXPORTED_COLUMNS)
    found = tuple(names)
    for name in found:
        if name not in columns:
            raise ReadingError(f"there is no column {quoted(name)}, only {', '.join(columns)}")
        if found.count(name) > 1:
            raise ReadingError(f"the column {name} is requested twice: name it once")
    return found
