"""Group writer: groups go to the active segment, express packets to separate files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from msmq.storage.log.core.format import BLOCK, SegmentHeader, group_buffers, group_header
from msmq.storage.log.core.group import GroupContent
from msmq.storage.log.core.scan import Position
from msmq.storage.log.files import (
    DSYNC,
    FileDescriptors,
    begin_segment,
    make_segment,
    write_synced,
    write_unsynced,
)
from msmq.storage.log.opened_log import EXPRESS_PREFIX
from msmq.storage.log.system import LOCAL, LogSystem

EXPRESS_BYTES: Final = 16 * 1024 * 1024
"""Size at which a new file for express packets begins."""


@attrs.frozen
class GroupBytes:
    """A group that is ready to be written.

    @ivar buffers: buffers for the log; empty if only express messages change.
    @ivar next: position after the group.
    """

    path: Path
    offset: int
    buffers: Sequence[bytes] = attrs.field(repr=False)
    express_path: Path
    express_offset: int
    express: Sequence[bytes] = attrs.field(repr=False)
    next: Position

    @property
    def size(self) -> int:
        """Number of bytes to write."""
        return sum(map(len, self.buffers)) + sum(map(len, self.express))


def group_bytes(
    content: GroupContent, header: SegmentHeader, path: Path, position: Position, express: tuple[Path, int]
) -> GroupBytes:
    """Encode a group at a position.

    @param express: the file of express packets, and the offset of the next one.
    """
    buffers: list[bytes] = []
    after = position
    if content.table:
        table = b"".join(content.table)
        head, checksum = group_header(
            header.seed, header.generation, position.sequence, position.chain, content.size, table
        )
        buffers = group_buffers(head, content.packets, table)
        end = position.offset + sum(map(len, buffers))
        after = Position(position.generation, end, position.sequence + 1, checksum)
    return GroupBytes(path, position.offset, buffers, *express, content.express, after)


class GroupWriter:
    """Writes groups; blocking, used by one thread at a time.

    @param clock: seconds, for measuring.
    @ivar flags: the flags that C{pwritev2} supports here.
    """

    def __init__(self, clock: Callable[[], float], system: LogSystem = LOCAL) -> None:
        self._clock = clock
        self._system = system
        self._files = FileDescriptors(os.O_RDWR, system)
        self._express = FileDescriptors(os.O_RDWR | os.O_CREAT, system)
        self.flags = DSYNC

    def write(self, group: GroupBytes) -> float:
        """Write a group; on stable storage when it returns.

        @return: duration in seconds.
        @raise OSError: it failed; a partial write is invalidated if the disk permits.
        """
        began = self._clock()
        if group.express:
            write_unsynced(
                self._express.of(group.express_path), group.express, group.express_offset, self._system
            )
        if group.buffers:
            descriptor = self._files.of(group.path)
            try:
                self.flags = write_synced(descriptor, group.buffers, group.offset, self.flags, self._system)
            except OSError:
                # A batch that was reported as failed must not reappear at the next start.
                with suppress(OSError):
                    write_synced(descriptor, [bytes(BLOCK)], group.offset, self.flags, self._system)
                raise
        return self._clock() - began

    def close(self) -> None:
        """Close the files."""
        self._files.close()
        self._express.close()

    def forget(self, path: Path) -> None:
        """Close a file that is to be deleted."""
        self._files.forget(path)
        self._express.forget(path)


def next_segment(
    directory: Path, path: Path | None, slot: int, header: SegmentHeader, flags: int, system: LogSystem
) -> Path:
    """Begin the next segment; blocking.

    @param path: the file; C{None} for a new one, of this slot.
    @raise OSError: it cannot be created, or written.
    """
    if path is None:
        path = make_segment(directory, slot, header.size, system)
    begin_segment(path, header, flags, system)
    return path


def express_path(directory: Path, number: int) -> Path:
    """Path of a file for express packets."""
    return directory / f"{EXPRESS_PREFIX}{number:06d}"
