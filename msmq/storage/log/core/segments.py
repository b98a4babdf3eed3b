"""Segment table of the record log, with the live bytes of each segment."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Final

import attrs

from msmq.storage.log.core.format import SegmentHeader

SPARSE: Final = 4
"""Divisor of the live fraction below which a segment is compacted."""
SLACK: Final = 4
"""Segments beyond twice the live bytes that do not yet cause compaction."""
KEPT: Final = 7
"""Minimum number of free files.

A checkpoint frees the segments that were filled since the previous one, usually two or three; these are kept
until the next one, in addition to the three that are created in advance.  With fewer files, a log whose
messages are received soon would delete files and fill new ones with zeros, which writes each byte twice.
"""
RESERVED: Final = 2
"""Reserve files, only for batches that remove, move or count messages.

One file would not be enough on a full disk: the records of removals may fill it before any segment becomes
empty.
With two, the full one is reused while the other is filled.
"""
AHEAD: Final = 1
"""Files created in advance for other batches, so that no batch waits for zero-filling."""
SPARED: Final = 8
"""Segments in use per free file of a large log."""
MOST_VICTIMS: Final = 64
"""Segments compacted per pass over the index."""


@attrs.define(eq=False)
class Segment:
    """Segment in use.

    @ivar rows: number of rows that refer to a packet in it; C{size_live} is the size of these packets.
    """

    path: Path
    header: SegmentHeader
    rows: int = 0
    size_live: int = 0

    @property
    def generation(self) -> int:
        """Number of this use, increasing over all segments."""
        return self.header.generation


@attrs.define
class Segments:
    """The segments of a log.

    @ivar used: by generation.
    @ivar free: reusable files, all of the usual size.
    @ivar next_slot: the number of the next new file.
    @ivar next_generation: larger than that of every segment, also of one that was begun but not used because
        the process was killed.
    @ivar horizon: the oldest generation that a checkpoint still needs.
    """

    size: int
    used: dict[int, Segment] = attrs.field(factory=dict)
    free: list[Path] = attrs.field(factory=list)
    next_slot: int = 1
    next_generation: int = 1
    horizon: int = 1

    def take_slot(self) -> int:
        """A number for a new file."""
        self.next_slot += 1
        return self.next_slot - 1

    def take_generation(self) -> int:
        """A new generation, never returned twice."""
        self.next_generation += 1
        return self.next_generation - 1

    def gained(self, generation: int, rows: int, size: int) -> None:
        """Count new references to packets of a segment."""
        segment = self.used[generation]
        segment.rows += rows
        segment.size_live += size

    def lost(self, packets: Iterable[tuple[int, int]]) -> None:
        """Count references to packets that were removed."""
        generation, rows, total = -1, 0, 0
        for location, size in packets:
            if location >> 32 != generation:
                if rows:
                    self._lost(generation, rows, total)
                generation, rows, total = location >> 32, 0, 0
            rows += 1
            total += size
        if rows:
            self._lost(generation, rows, total)

    def _lost(self, generation: int, rows: int, size: int) -> None:
        segment = self.used[generation]
        segment.rows -= rows
        segment.size_live -= size

    def has_pinned(self, active: int) -> bool:
        """Whether an empty segment is kept only for existing checkpoints."""
        return any(
            not segment.rows and self.horizon <= generation < active
            for generation, segment in self.used.items()
        )

    def advance_horizon(self, generation: int) -> None:
        """Record that no checkpoint needs groups of earlier generations."""
        self.horizon = max(self.horizon, generation)

    def reclaim(self, active: int) -> list[Path]:
        """Free the segments without needed content; returns the files to delete."""
        extra: list[Path] = []
        for generation in [
            generation
            for generation, segment in self.used.items()
            if not segment.rows and generation < min(active, self.horizon)
        ]:
            segment = self.used.pop(generation)
            if segment.header.size == self.size and len(self.free) < max(KEPT, len(self.used) // SPARED):
                self.free.append(segment.path)
            else:
                extra.append(segment.path)
        return extra

    def victims(self, active: int, *, is_short: bool) -> set[int]:
        """Choose the generations to compact; none if it does not pay.

        At most a quarter of each is live, so that a byte that is copied frees three, and together with
        free files the log has more than twice the bytes that are live.

        @param is_short: whether the disk is full: then up to half a segment is copied.
        """
        total = sum(segment.header.size for segment in self.used.values())
        live = sum(min(segment.size_live, segment.header.size) for segment in self.used.values())
        if total <= 2 * live + (0 if is_short else SLACK * self.size):
            return set()
        sparse = sorted(
            (segment.size_live, generation)
            for generation, segment in self.used.items()
            if generation < active and segment.rows and SPARSE * segment.size_live <= segment.header.size
        )
        if is_short:
            totals = accumulate(size for size, _ in sparse)
            sparse = [one for one, size in zip(sparse, totals, strict=True) if 2 * size <= self.size]
        return {generation for _, generation in sparse[:MOST_VICTIMS]}
