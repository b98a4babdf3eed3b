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
    """

    path: Path
    offset: int
    text: str
    needs_checkpoint: bool

    def __str__(self) -> str:
        return f"{self.path}, offset {self.offset}: {self.text}"


@attrs.frozen
class LogCheck:
    """Recovery data of one moment, to be verified.

    @ivar segments: the segments in use, by generation; C{free} has the files that may be used next.
    @ivar begin: the position of the newest checkpoint, in the file C{checkpoint}; C{end} that of the log.
    """

    segments: Mapping[int, tuple[Path, SegmentHeader]]
    free: Sequence[Path]
    checkpoint: Path
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
        for problem in (_checkpoint_problem(self.checkpoint, system), self._group_problem()):
            if problem is not None:
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


def _checkpoint_problem(path: Path, system: LogSystem) -> LogProblem | None:
    descriptor = system.open(path, os.O_RDONLY)
    try:
        try:
            header = read_checkpoint_header(read_exactly(descriptor, 0, BODY, system))
        except Malformed as error:
            return LogProblem(path, 0, f"{error}; a new one replaces it", True)
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
        return LogProblem(path, 0, f"{UNREADABLE}; a new one replaces it", True)
    finally:
        system.close(descriptor)
    if offset == end and checksum == header.checksum:
        return None
    return LogProblem(
        path, BODY, "the checksum of the checkpoint does not match; a new one replaces it", True
    )
