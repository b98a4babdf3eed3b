"""Group writer: groups go to the active segment, express packets to separate files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from msmq.storage.log.core.format import (
    BLOCK,
    GROUP_HEADER,
    SegmentHeader,
    encode_group,
    padded,
)
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
JOINED_BYTES: Final = 256 * 1024
"""Bytes of a table that are joined in one step, which holds the interpreter lock."""


@attrs.frozen
class PlannedGroup:
    """A planned group, and where it is to be written. A large one takes milliseconds to encode, which is why
    the thread that writes it does that.

    @ivar content: its content, which does not change before the group is written.
    @ivar header: header of the segment, whose file is C{path}.
    @ivar position: position of the group.
    @ivar express_path: the file of its express packets, if it has some.
    @ivar express_offset: offset of the next packet in the file of express packets.
    @ivar log_size: bytes that it takes in the segment; 0 if only express messages change.
    """

    content: GroupContent = attrs.field(repr=False)
    header: SegmentHeader
    path: Path
    position: Position
    express_path: Path | None = None
    express_offset: int = 0
    log_size: int = attrs.field(init=False)

    @log_size.default
    def _log_size(self) -> int:
        content = self.content
        return padded(GROUP_HEADER + content.size + content.table_size) if content.table else 0

    @property
    def size(self) -> int:
        """Number of bytes to write."""
        return self.log_size + self.content.express_size

    def encode(self) -> tuple[list[bytes], Position]:
        """Buffers for the log, none if only express messages change, and the position after the group."""
        content, position, header = self.content, self.position, self.header
        if not content.table:
            return [], position
        table = _joined(content.table, content.table_size)
        buffers, checksum = encode_group(
            header.seed,
            header.generation,
            position.sequence,
            position.chain,
            content.packets,
            content.size,
            table,
        )
        end = position.offset + self.log_size
        return buffers, Position(position.generation, end, position.sequence + 1, checksum)


@attrs.frozen
class WrittenGroup:
    """A group that is on stable storage.

    @ivar seconds: duration of the write.
    @ivar next: position after the group.
    """

    seconds: float
    next: Position


def _joined(pieces: Sequence[bytes], size: int) -> list[bytes]:
    """Join consecutive pieces to buffers, each in a step that is short for the other threads."""
    buffers: list[bytes] = []
    start = joined = 0
    if size > JOINED_BYTES:
        for end, piece in enumerate(pieces, 1):
            joined += len(piece)
            if joined >= JOINED_BYTES:
                buffers.append(b"".join(pieces[start:end]))
                start, joined = end, 0
    buffers.append(b"".join(pieces[start:]))
    return buffers


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

    def write(self, group: PlannedGroup) -> WrittenGroup:
        """Encode and write a group; on stable storage when it returns.

        @raise OSError: it failed; a partial write is invalidated if the disk permits.
        """
        buffers, after = group.encode()
        began = self._clock()
        if group.content.express:
            assert group.express_path is not None
            write_unsynced(
                self._express.of(group.express_path),
                group.content.express,
                group.express_offset,
                self._system,
            )
        if buffers:
            descriptor = self._files.of(group.path)
            offset = group.position.offset
            try:
                self.flags = write_synced(descriptor, buffers, offset, self.flags, self._system)
            except OSError:
                # A batch that was reported as failed must not reappear at the next start.
                with suppress(OSError):
                    write_synced(descriptor, [bytes(BLOCK)], offset, self.flags, self._system)
                raise
        return WrittenGroup(self._clock() - began, after)

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
    @raise OSError: it cannot be created, or written; no new file is left.
    """
    if path is not None:
        begin_segment(path, header, flags, system)
        return path
    path = make_segment(directory, slot, header.size, system)
    try:
        begin_segment(path, header, flags, system)
    except OSError:
        with suppress(OSError):
            system.unlink(path)
        raise
    return path


def express_path(directory: Path, number: int) -> Path:
    """Path of a file for express packets."""
    return directory / f"{EXPRESS_PREFIX}{number:06d}"
