"""Supply of segment files, with a reserve for batches that free space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from msmq.storage.log.core.format import SegmentHeader
from msmq.storage.log.core.segments import AHEAD, KEPT, RESERVED, Segment, Segments
from msmq.storage.log.files import make_segment
from msmq.storage.log.system import LogSystem, LogWorker
from msmq.storage.log.writer import next_segment

SPACE: Final = 64
"""Segments for which the disk has to have space before more files than these are created."""

Begun: TypeAlias = tuple[SegmentHeader, Path]


class SegmentSupply:
    """Creates files in advance, in a worker thread, and begins segments.

    @param store: the identifier of the store.
    """

    def __init__(
        self, directory: Path, store: bytes, segments: Segments, upkeep: LogWorker, system: LogSystem
    ) -> None:
        self._system = system
        self._directory = directory
        self._store = store
        self._segments = segments
        self._upkeep = upkeep
        self._is_making = False
        self._wanted = RESERVED + AHEAD
        # Whether the last attempt to create a file failed.
        self._has_failed = False
        # Segments that were begun and are not in use, in the order of their generations.
        self._begun: list[Begun] = []

    @property
    def is_short(self) -> bool:
        """Whether the last attempt to create a file failed, and only the reserve, or a part of it, is left.

        With more files, which removals have freed since, the log works as on any disk.
        """
        return self._has_failed and len(self._segments.free) <= RESERVED

    @property
    def has_reserve(self) -> bool:
        """Whether batches that need space are accepted without creating a file first."""
        return len(self._segments.free) >= RESERVED

    def prepare(self) -> None:
        """Create the missing files in the background."""
        found = len(self._segments.free)
        if self._is_making or found >= self._wanted:
            return
        self._is_making = True
        if found < RESERVED + AHEAD:
            self._make(self._prepared)
        else:
            self._make_optional()

    def fill(self) -> None:
        """Create as many files as a log in use keeps, in the background, until the next segment begins.

        Called in a quiet log: a load that follows then writes no zeros besides its messages, which for large
        ones are as many bytes again.
        """
        self._wanted = KEPT
        self.prepare()

    def _prepared(self, outcome: Path | Exception) -> None:
        self._is_making = False
        if isinstance(outcome, Path):
            self.prepare()

    def _make_optional(self) -> None:
        """Create a file if there is plenty of space; a failure says nothing of the files that are needed."""
        directory, slot, size = self._directory, self._segments.take_slot(), self._segments.size
        system = self._system

        def make() -> Path | None:
            if system.free_space(directory) < SPACE * size:
                return None
            return make_segment(directory, slot, size, system)

        def made(outcome: Path | Exception | None) -> None:
            self._is_making = False
            if isinstance(outcome, Path):
                self._segments.free.append(outcome)
                self.prepare()

        self._upkeep.do(make, made)

    def reserve(self, done: Callable[[Path | Exception], object]) -> None:
        """Create one file for the reserve.

        @param done: called in the reactor's thread with the file, or with the failure.
        """
        self._make(done)

    def _make(self, done: Callable[[Path | Exception], object]) -> None:
        slot, size = self._segments.take_slot(), self._segments.size

        def made(outcome: Path | Exception) -> None:
            self._has_failed = isinstance(outcome, Exception)
            if isinstance(outcome, Path):
                self._segments.free.append(outcome)
            done(outcome)

        self._upkeep.do(lambda: make_segment(self._directory, slot, size, self._system), made)

    def begin(
        self, size: int, *, uses_reserve: bool, flags: int, done: Callable[[Begun | Exception], object]
    ) -> None:
        """Begin the next segment, still unreferenced.

        @param size: its minimum size in bytes.
        @param uses_reserve: whether it may use a file of the reserve.
        @param flags: the flags that C{pwritev2} supports here.
        @param done: called in the reactor's thread with the segment, or with the failure.
        """
        segments = self._segments
        self._wanted = RESERVED + AHEAD
        if self._begun and self._begun[-1][0].size >= size:
            # If the record that names it did reach the disk, it must name this segment.
            begun = self._begun.pop()
            self._upkeep.do(lambda: None, lambda _: done(begun))
            return
        size = max(segments.size, size)
        path = None
        if size == segments.size and len(segments.free) > (0 if uses_reserve else RESERVED):
            path = segments.free.pop(0)
        header = SegmentHeader(self._store, segments.take_generation(), size, self._system.random_bytes(16))
        slot = segments.take_slot() if path is None else 0

        def written(outcome: Path | Exception) -> None:
            if isinstance(outcome, Path):
                done((header, outcome))
                return
            if path is not None:
                segments.free.append(path)
            else:
                self._has_failed = True
            done(outcome)

        self._upkeep.do(
            lambda: next_segment(self._directory, path, slot, header, flags, self._system), written
        )

    def keep(self, begun: Begun) -> None:
        """Keep a begun segment for later, since the log could not switch to it."""
        self._begun.append(begun)

    def switched(self) -> None:
        """Release the segments that were begun before the one to which the log has switched.

        The log never continues in one of them: its segments are used in the order of their generations.
        """
        for header, path in self._begun:
            # Empty segments in use, until no checkpoint can precede them.
            self._segments.used[header.generation] = Segment(path, header)
        self._begun.clear()
        self.prepare()
