"""Verification of the log's recovery data: segment headers, groups and checkpoint; blocking."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

import attrs

from msmq.storage.log.core.checkpoint import BODY, read_checkpoint_header
from msmq.storage.log.core.format import FIRST, SEGMENT_HEADER, Malformed, SegmentHeader, read_segment_header
from msmq.storage.log.core.records import KEY
from msmq.storage.log.core.scan import Position, next_group, sealed_by
from msmq.storage.log.files import DSYNC, UNREADABLE, begin_segment, read_exactly, write_synced
from msmq.storage.log.system import LOCAL, LogSystem

_PIECE: Final = 1 << 20


@attrs.frozen
class LogProblem:
    """Damage in data that recovery would need.

    @ivar needs_checkpoint: whether a new checkpoint makes it unnecessary.
    @ivar is_checkpoint: whether it is the newest checkpoint that is damaged.
    """

    path: Path
    offset: int
    text: str
    needs_checkpoint: bool
    is_checkpoint: bool = False

    def __str__(self) -> str:
        return f"{self.path}, offset {self.offset}: {self.text}"


@attrs.frozen
class LogCheck:
    """Recovery data of one moment, to be verified.

    @ivar segments: the segments in use, by generation; C{free} has the files that may be used next.
    @ivar checkpoint: the file of the newest checkpoint; C{None} if it is known to be damaged.
    @ivar begin: the position of that checkpoint; C{end} that of the log.
    """

    segments: Mapping[int, tuple[Path, SegmentHeader]]
    free: Sequence[Path]
    checkpoint: Path | None
    begin: Position
    end: Position
    system: LogSystem = LOCAL

    def run(self) -> list[LogProblem]:
        """Verify it; a damaged segment header is rewritten.

        @raise OSError: a file cannot be read, or the header not be written.
        """
        system = self.system
        found = [
            problem
            for path, header in self.segments.values()
            if (problem := _repair_header(path, header, system)) is not None
        ]
        found += [
            problem for path in self.free if (problem := _repair_free_segment(path, system)) is not None
        ]
        if self.checkpoint is not None:
            damage = _checkpoint_damage(self.checkpoint, system)
            if damage is not None:
                offset, text = damage
                text = f"{text}; a new one replaces it"
                found.append(LogProblem(self.checkpoint, offset, text, True, is_checkpoint=True))
        if (problem := self._group_problem()) is not None:
            found.append(problem)
        return found

    def _group_problem(self) -> LogProblem | None:
        """The first damaged group between the checkpoint and the end."""
        position, system = self.begin, self.system
        while position.sequence < self.end.sequence:
            path, header = self.segments[position.generation]
            descriptor = system.open(path, os.O_RDONLY)
            try:
                while True:
                    group, problem = None, "is damaged"
                    try:
                        group = next_group(partial(read_exactly, descriptor, system=system), header, position)
                    except OSError as error:
                        if error.errno != errno.EIO:
                            raise
                        problem = "cannot be read (Input/output error)"
                    if group is None:
                        problem = f"group {position.sequence} {problem}; checkpoints replace it"
                        return LogProblem(path, position.offset, problem, True)
                    # The record that seals a segment is alone in its group.
                    sealed = sealed_by(group.records()) if len(group.table) == KEY.size else None
                    position = group.next(sealed)
                    if sealed is not None or position.sequence >= self.end.sequence:
                        break
            finally:
                system.close(descriptor)
        return None


def _repair_header(path: Path, header: SegmentHeader, system: LogSystem) -> LogProblem | None:
    descriptor = system.open(path, os.O_RDONLY)
    try:
        is_intact = _head(descriptor, system) == header.to_bytes()
    finally:
        system.close(descriptor)
    if is_intact:
        return None
    begin_segment(path, header, DSYNC, system)
    return LogProblem(path, 0, "the header of the segment was damaged, and was written again", False)


def _repair_free_segment(path: Path, system: LogSystem) -> LogProblem | None:
    descriptor = system.open(path, os.O_RDWR)
    try:
        head = _head(descriptor, system)
        if head and not head.strip(b"\0"):
            return None
        try:
            read_segment_header(head)
        except Malformed:
            write_synced(descriptor, [bytes(FIRST)], 0, system=system)
            return LogProblem(path, 0, "the header of a free segment was damaged, and was cleared", False)
    finally:
        system.close(descriptor)
    return None


def _head(descriptor: int, system: LogSystem) -> bytes:
    """The header of a segment; nothing if the disk cannot read it."""
    try:
        return read_exactly(descriptor, 0, SEGMENT_HEADER, system)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


def _checkpoint_damage(path: Path, system: LogSystem) -> tuple[int, str] | None:
    """The offset and the kind of the damage of a checkpoint; C{None} if it is intact."""
    descriptor = system.open(path, os.O_RDONLY)
    try:
        try:
            header = read_checkpoint_header(read_exactly(descriptor, 0, BODY, system))
        except Malformed as error:
            return 0, str(error)
        checksum, offset, end = 0, BODY, BODY + header.size
        while offset < end:
            piece = read_exactly(descriptor, offset, min(_PIECE, end - offset), system)
            if not piece:
                break
            checksum = crc32(piece, checksum)
            offset += len(piece)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return 0, UNREADABLE
    finally:
        system.close(descriptor)
    if offset == end and checksum == header.checksum:
        return None
    return BODY, "the checksum of the checkpoint does not match"
