"""Checkpoint files of the record log: two files, written alternately."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID
from zlib import crc32

import attrs

from msmq.storage.log.core.checkpoint import (
    BODY,
    CheckpointHeader,
    chunk,
    read_body,
    read_checkpoint_header,
    read_needed,
)
from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.state import ALL_LOGS, State
from msmq.storage.log.files import SYNCED, UNREADABLE, read_exactly, write_unsynced
from msmq.storage.log.system import LOCAL, LogSystem

NAMES: Final = ("checkpoint-a", "checkpoint-b")
UNFINISHED: Final = "checkpoint.new"
"""The file in which a repair writes its checkpoint, before that replaces the others."""


@attrs.frozen
class FoundCheckpoint:
    """A checkpoint file as found.

    @ivar header: C{None} if it is not intact.
    @ivar state: its content; C{None} if it is damaged.
    @ivar problem: what is wrong with it.
    """

    path: Path
    header: CheckpointHeader | None
    state: State | None
    problem: str | None = None


def find_checkpoints(
    directory: Path,
    *,
    is_complete: bool = True,
    log_starts: Mapping[UUID, int] = ALL_LOGS,
    system: LogSystem = LOCAL,
) -> list[FoundCheckpoint]:
    """Find the checkpoints of a directory, the newest first.

    @param is_complete: whether to read and verify older checkpoints too.
    @param log_starts: as of L{State}.
    @raise OSError: they cannot be read.
    """
    found = _heads(directory, system)
    for index, one in enumerate(found):
        found[index] = _read(one, log_starts, system)
        if found[index].state is not None and not is_complete:
            break
    return found


def newest_header(directory: Path) -> CheckpointHeader | None:
    """The header of the newest checkpoint, whose content is not verified; C{None} if there is none.

    @raise OSError: the files cannot be read.
    """
    return next((one.header for one in _heads(directory, LOCAL) if one.header is not None), None)


def other_file(path: Path) -> Path:
    """The other one of the two files."""
    return path.with_name(NAMES[path.name == NAMES[0]])


def is_overwritten(found: FoundCheckpoint) -> bool:
    """Whether a server has begun to write another checkpoint over one since it was found.

    @raise OSError: the files cannot be read.
    """
    now = {one.path: one.header for one in _heads(found.path.parent, LOCAL)}
    return now.get(found.path) != found.header


def _heads(directory: Path, system: LogSystem) -> list[FoundCheckpoint]:
    """The headers of the checkpoints, without their content, the newest first."""
    found: list[FoundCheckpoint] = []
    for name in NAMES:
        path = directory / name
        try:
            descriptor = system.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            head = read_exactly(descriptor, 0, BODY, system)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            found.append(FoundCheckpoint(path, None, None, UNREADABLE))
            continue
        finally:
            system.close(descriptor)
        if not head.strip(b"\0"):
            # It was being written.
            continue
        try:
            found.append(FoundCheckpoint(path, read_checkpoint_header(head), None))
        except Malformed as error:
            found.append(FoundCheckpoint(path, None, None, str(error)))
    found.sort(key=lambda one: one.header.number if one.header else -1, reverse=True)
    return found


def _read(found: FoundCheckpoint, log_starts: Mapping[UUID, int], system: LogSystem) -> FoundCheckpoint:
    header = found.header
    if header is None:
        return found
    descriptor = system.open(found.path, os.O_RDONLY)
    try:
        if not log_starts:
            return attrs.evolve(
                found, state=read_body(header, read_exactly(descriptor, BODY, header.size, system))
            )
        state = read_needed(
            header, lambda offset, size: read_exactly(descriptor, BODY + offset, size, system), log_starts
        )
        # The header is overwritten first.
        if read_checkpoint_header(read_exactly(descriptor, 0, BODY, system)) != header:
            raise Malformed("the checkpoint was overwritten while it was read")
        return attrs.evolve(found, state=state)
    except Malformed as error:
        return attrs.evolve(found, problem=str(error))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return attrs.evolve(found, problem=UNREADABLE)
    finally:
        system.close(descriptor)


class CheckpointWriter:
    """Writes a checkpoint over the older file.

    @param path: the file that is overwritten.
    @param spare: bytes reserved in the file beyond twice its content, for a full disk.
    """

    def __init__(self, path: Path, spare: int, system: LogSystem = LOCAL) -> None:
        self._path = path
        self._system = system
        self._spare = spare
        self._size = 0
        self._checksum = 0
        # Bytes that were written and not synchronised.
        self._unsynced = 0
        self._descriptor = -1
        self._problem: OSError | None = None

    def reserve(self, size: int) -> None:
        """Create the file without a checkpoint, so that there is space for one on a full disk.

        A file that is there, and perhaps has a checkpoint, keeps its content. One without the space was
        created when the disk was full.

        @param size: bytes of the body that it is to have space for.
        @raise OSError: there is no space.
        """
        try:
            if not self._system.exists(self._path):
                self._begin()
            else:
                self._descriptor = self._system.open(self._path, os.O_RDWR)
            wanted = 2 * (BODY + size) + self._spare
            if self._system.size(self._descriptor) < wanted:
                self._system.allocate(self._descriptor, wanted)
        finally:
            self.close()

    def begin(self) -> None:
        """Invalidate the content of the file; L{finish} reports failures of this and of L{append}."""
        self._try(self._begin)

    def append(self, tables: list[bytes]) -> None:
        """Write more of the body."""
        self._try(lambda: self._append(tables))

    def _try(self, step: Callable[[], None]) -> None:
        if self._problem is None:
            try:
                step()
            except OSError as error:
                self._problem = error

    def _begin(self) -> None:
        is_new = not self._system.exists(self._path)
        self._descriptor = self._system.open(self._path, os.O_RDWR | os.O_CREAT)
        write_unsynced(self._descriptor, [bytes(BODY)], 0, self._system)
        self._system.sync_file(self._descriptor)
        if is_new:
            self._system.sync(self._path.parent)

    def _append(self, tables: list[bytes]) -> None:
        pending: list[bytes] = []
        for one in map(chunk, tables):
            pending.append(one)
            self._checksum = crc32(one, self._checksum)
            self._unsynced += len(one)
            if self._unsynced >= SYNCED:
                self._write(pending)
                pending = []
                self._system.sync_content(self._descriptor)
                self._unsynced = 0
        self._write(pending)

    def _write(self, chunks: list[bytes]) -> None:
        write_unsynced(self._descriptor, chunks, BODY + self._size, self._system)
        self._size += sum(map(len, chunks))

    def finish(self, header: CheckpointHeader) -> int:
        """Sync the body to disk, then write and sync the header.

        @param header: without the size and the checksum of the body.
        @return: bytes of the file that are in use.
        @raise OSError: this write, or an earlier one, failed.
        """
        if self._problem is not None:
            raise self._problem
        end = BODY + self._size
        # Reserved space allows the next checkpoint on a full disk; space beyond that is released.
        size, kept = self._system.size(self._descriptor), 2 * end + self._spare
        if size < kept:
            with suppress(OSError):
                self._system.allocate(self._descriptor, kept)
        elif size > kept + kept // 4:
            self._system.truncate(self._descriptor, kept)
        self._system.sync_file(self._descriptor)
        head = attrs.evolve(header, size=self._size, checksum=self._checksum).to_bytes()
        write_unsynced(self._descriptor, [head], 0, self._system)
        self._system.sync_file(self._descriptor)
        return end

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            self._system.close(self._descriptor)
            self._descriptor = -1
