"""Log follower: reads the log of a running server, without a lock."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError
from msmq.storage.log.checkpoint_files import find_checkpoints, newest_header
from msmq.storage.log.core.format import (
    GROUP_HEADER,
    SEGMENT_HEADER,
    GroupHeader,
    SegmentHeader,
    padded,
    read_group_header,
)
from msmq.storage.log.core.records import TableRecord, replay
from msmq.storage.log.core.recovery import RecoveredSegment, check_end, missing
from msmq.storage.log.core.scan import (
    Group,
    Position,
    Read,
    begun_group,
    has_successor,
    next_group,
    sealed_by,
    torn_packet,
)
from msmq.storage.log.core.state import ALL_LOGS, KeptQueue
from msmq.storage.log.failures import StoreDamaged
from msmq.storage.log.files import FileDescriptors, damage_read, find_segments, read_exactly
from msmq.storage.log.system import LOCAL, LogSystem

TRIES: Final = 5
"""Limit on repetitions of a check because the server has written meanwhile."""
SEARCHED: Final = 1 << 17
"""Bytes after the end of a log that is followed, and after a group that is begun there, that are searched."""


class SegmentGone(Exception):
    """A segment was reused or deleted since the reader found it.

    @ivar generation: its generation; C{None} if it is not known.
    """

    def __init__(self, generation: int | None = None) -> None:
        super().__init__(generation)
        self.generation = generation


@attrs.frozen
class _CheckedEnd:
    """The end of a log that was checked.

    @ivar time: when its segment was last written to, before the check; nanoseconds.
    @ivar most: bytes that were searched; C{None} for all.
    @ivar damage: what is wrong there.
    """

    position: Position
    time: int
    most: int | None
    damage: StoreDamaged | None = None


class Follower:
    """State of a log at the last replayed group.

    @param directory: of the log.
    @param log_starts: as of L{State<msmq.storage.log.core.state.State>}.
    @param system: reads the checkpoints.
    @raise StorageError: there is no log.
    @raise SegmentGone: the server has overwritten both checkpoints while they were read.
    """

    def __init__(
        self, directory: Path, log_starts: Mapping[UUID, int] = ALL_LOGS, system: LogSystem = LOCAL
    ) -> None:
        self.directory = directory
        self._files = FileDescriptors()
        self._segments: dict[int, tuple[Path, SegmentHeader]] = {}
        self._sorted: tuple[int, int, list[int]] = (-1, -1, [])
        if not directory.is_dir():
            raise StorageError(f"{directory}: there is no such store")
        checkpoints = find_checkpoints(directory, is_complete=False, log_starts=log_starts, system=system)
        newest = next((one for one in checkpoints if one.state is not None), None)
        if newest is None or newest.header is None or newest.state is None:
            if checkpoints:
                if newest_header(directory) not in [one.header for one in checkpoints]:
                    raise SegmentGone
                raise StoreDamaged(checkpoints[0].path, 0, checkpoints[0].problem or "damaged")
            raise StorageError(f"{directory}: not the record log of a store")
        self.state = newest.state
        self._checkpoint = newest.header
        self._newest = next(one.header for one in checkpoints if one.header is not None)
        self._number = newest.header.number
        self._store = newest.header.store
        self._position = newest.header.position
        # Position of the newest checkpoint that was seen.
        self._reached = self._position
        self._checked: _CheckedEnd | None = None
        # Where the last replayed group of each segment begins, and its header.
        self._replayed: dict[int, tuple[int, GroupHeader]] = {}

    def follow(self) -> None:
        """Replay the groups written since the last call, and check that there are no others.

        The first call searches all of the rest of the log. Later ones search the beginning of the rest, when
        the first of them at a position replays nothing, and all of it when something was written since and
        there is still nothing to replay: following a server costs little. So a damaged group of more than
        L{SEARCHED} bytes whose header is damaged too is noticed only when something is written after it.

        @raise StoreDamaged: a group is damaged, and what was replayed is not the whole log. If this is not
            the first call, the log may have been repaired or replaced meanwhile: a new follower shows it.
        @raise SegmentGone: the server has reused the next segment.
        """
        before = self._position
        self._replay()
        if _order(self._position) < _order(self._reached):
            # A repair has continued the log elsewhere.
            raise SegmentGone
        if self._checked is None or self._position == before:
            self._check_end(is_forced=False)

    def check_end(self) -> None:
        """Check that no group follows the end of what was replayed, and replay what is written meanwhile.

        A group is begun after the one before it is complete. So one that cannot be read, with another one
        after it, is damaged.

        @raise StoreDamaged: as of L{follow}.
        @raise SegmentGone: the server has reused the segment.
        """
        self._check_end(is_forced=True)

    def _check_end(self, *, is_forced: bool) -> None:
        """See L{check_end}.

        @param is_forced: whether to search all, however much was searched at this position before.
        """
        checked, most = self._checked, None
        if checked is not None:
            end = attrs.evolve(self._end(checked.most), damage=checked.damage)
            if end == checked and end.damage is not None:
                raise end.damage.with_traceback(None)
            if end == checked and (end.most is None or not is_forced):
                return
            if end.position != checked.position and not is_forced:
                most = SEARCHED + self._begun_size()
        self._find()
        for _ in range(TRIES):
            end = self._end(most)
            try:
                self._check_rest(most)
            except StoreDamaged as damage:
                # Unless what follows has been written since.
                self._replay()
                if self._position == end.position:
                    self._checked = attrs.evolve(end, damage=damage)
                    raise
            else:
                self._checked = end
                return

    def _replay(self) -> None:
        """Replay the groups that follow.

        The packets of the last group are verified, since its write may be in progress. A group after which
        another one was begun is complete.
        """
        position = self._position
        last: Group | None = None
        records: list[TableRecord] = []
        while True:
            read, header = self._reading(position.generation)
            group = next_group(read, header, position)
            if last is not None:
                if group is None and self._is_torn(last) and not has_successor(read, header, position):
                    self.check(last.header.generation)
                    return
                for record in records:
                    replay(record, self.state)
                self._position = position
                self._replayed[last.header.generation] = last.offset, last.header
            if group is None:
                self.check(position.generation)
                return
            records = group.records()
            last, position = group, group.next(sealed_by(records))

    def _begun_size(self) -> int:
        """Bytes of a group that was begun at the position: another one may follow where it ends."""
        begun = begun_group(*self._reading(self._position.generation), self._position)
        return 0 if begun is None else padded(begun.size)

    def _end(self, most: int | None) -> _CheckedEnd:
        position = self._position
        return _CheckedEnd(position, self._status(position.generation).st_mtime_ns, most)

    def _check_rest(self, most: int | None) -> None:
        first = self._position.generation
        sources: dict[int, RecoveredSegment] = {}
        for generation in (first, *(one for one in self._segments if one > first)):
            size = self._status(generation).st_size
            read, header = self._reading(generation)
            sources[generation] = RecoveredSegment(self.path(generation), header, size, read)
        check_end(sources, sources[first], self._checkpoint.position, self._position, most)

    def missing_segment(self, gone: SegmentGone) -> StorageError | None:
        """The error about a segment that is missing or damaged; C{None} if the server may have reused it.

        @raise OSError: the files cannot be read.
        """
        generation = gone.generation
        if generation is None:
            return None
        if generation < self._checkpoint.position.generation:
            # Unless its packets were removed, or copied to another segment.
            try:
                self.follow()
            except (SegmentGone, StoreDamaged):
                # What is wrong, if anything, is shown by a new follower.
                return None
            if generation not in self.state.live():
                return None
        elif newest_header(self.directory) != self._newest:
            # A server reuses what its checkpoints need only after it has written others.
            return None
        found = find_segments(self.directory)
        for one in found:
            if one.problem is not None:
                # Its generation is unreadable, so it may be the missing segment.
                return StoreDamaged(one.path, 0, one.problem)
        return missing(self.directory, [one.path for one in found], generation)

    def is_current(self) -> bool:
        """Whether the directory still has the log that was replayed, at least as far as it was.

        It has not where another log, or an older copy, has taken its place. The answer may also be no for the
        same log, if its server has reused the segment of the last replayed group, or has written a checkpoint
        and no group was replayed.

        @raise OSError: the files cannot be read.
        """
        newest = newest_header(self.directory)
        if newest is None or newest.number < self._number:
            return False
        self._number, self._reached = newest.number, newest.position
        if not self._replayed:
            return newest == self._checkpoint
        # No copy that is older than the checkpoint has it. One that is not lacks some of the later groups,
        # and the files that it does not have may still be there: one of an earlier segment shows it.
        last = max(self._replayed)
        for generation in [one for one in self._replayed if one < min(last, newest.position.generation)]:
            del self._replayed[generation]
        return all(self._has(*group) for group in self._replayed.values())

    def _has(self, offset: int, group: GroupHeader) -> bool:
        """Whether a replayed group is still there."""
        if group.generation not in self._segments:
            return False
        try:
            # An open descriptor may be that of a file that was replaced.
            descriptor = os.open(self.path(group.generation), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return read_group_header(read_exactly(descriptor, offset, GROUP_HEADER)) == group
        finally:
            os.close(descriptor)

    def _is_torn(self, group: Group) -> bool:
        read, _ = self._reading(group.header.generation)
        return torn_packet(read, group) is not None

    def lookup_ids(self, kept: KeptQueue | None, begin: int, end: int) -> Iterator[int]:
        """LookupIdentifiers of the messages in a queue, in order."""
        if kept is None:
            return iter(())
        if self._sorted[:2] != (kept.number, self._position.sequence):
            self._sorted = kept.number, self._position.sequence, sorted(kept.messages)
        ids = self._sorted[2]
        return (ids[index] for index in range(bisect_left(ids, begin), bisect_left(ids, end)))

    def read(self, generation: int, offset: int, size: int) -> bytes:
        """Bytes of a segment.

        @raise SegmentGone: the segment is gone.
        """
        return read_exactly(self._descriptor(generation), offset, size)

    def path(self, generation: int) -> Path:
        """The file of a segment that was read."""
        return self._segments[generation][0]

    def check(self, generation: int) -> None:
        """Check that a segment still has the expected generation.

        @raise SegmentGone: it is not.
        """
        if generation not in self._segments:
            raise SegmentGone(generation)
        _, header = self._segments[generation]
        if read_exactly(self._descriptor(generation), 0, SEGMENT_HEADER) != header.to_bytes():
            raise SegmentGone(generation)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def _reading(self, generation: int) -> tuple[Read, SegmentHeader]:
        self._descriptor(generation)
        path, header = self._segments[generation]
        return damage_read(self._files, path), header

    def _status(self, generation: int) -> os.stat_result:
        return os.fstat(self._descriptor(generation))

    def _descriptor(self, generation: int) -> int:
        if generation not in self._segments:
            self._find()
        if generation not in self._segments:
            raise SegmentGone(generation)
        try:
            return self._files.of(self.path(generation))
        except FileNotFoundError:
            raise SegmentGone(generation) from None

    def _find(self) -> None:
        try:
            found = find_segments(self.directory)
        except FileNotFoundError:
            raise SegmentGone from None
        self._segments = {
            one.header.generation: (one.path, one.header)
            for one in found
            if one.header is not None and one.header.store == self._store
        }


def _order(position: Position) -> tuple[int, int]:
    return position.generation, position.sequence
