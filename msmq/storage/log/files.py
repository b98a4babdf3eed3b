"""Files of the record log: segments and their directory; all calls block."""

from __future__ import annotations

import errno
import os
import re
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from msmq.interfaces.storage import StorageError
from msmq.storage.log.core.format import FIRST, SEGMENT_HEADER, Malformed, SegmentHeader, read_segment_header
from msmq.storage.log.core.scan import Read
from msmq.storage.log.failures import StoreDamaged, failure
from msmq.storage.log.system import LOCAL, LogSystem

DSYNC: Final = getattr(os, "RWF_DSYNC", 0)
"""Flag of C{pwritev2} for a synchronous write; 0 if unsupported."""
VECTORS: Final = 1000
"""Buffers per call; the system's limit is 1024."""
OPEN_FILES: Final = 32
"""Open segments per user."""

_NAME: Final = re.compile(r"segment-(\d{6,})")
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
SYNCED: Final = 256 * 1024
"""Bytes of a new file that are synchronised at once: a group that is written meanwhile waits for them, a
millisecond instead of the 30 that a whole segment takes."""
_ZEROS: Final = bytes(SYNCED)
_PAGE: Final = 4096
UNREADABLE: Final = "the disk cannot read it (Input/output error)"
"""The problem of a file on damaged sectors."""


def lock_directory(directory: Path, system: LogSystem = LOCAL) -> int:
    """Lock a directory while the descriptor is open, so that two processes never write one log.

    @raise StorageError: another process holds the lock, or it cannot be created.
    """
    lock_path = directory / "lock"
    try:
        descriptor = system.open(lock_path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise failure(lock_path, "open", error) from error
    try:
        system.lock(descriptor)
    except BlockingIOError as error:
        system.close(descriptor)
        raise StorageError(f"{directory} is in use by another queue manager; stop it first") from error
    except OSError as error:
        system.close(descriptor)
        raise failure(lock_path, "lock", error) from error
    return descriptor


def write_synced(
    descriptor: int,
    buffers: Sequence[bytes],
    offset: int,
    flags: int = DSYNC,
    system: LogSystem = LOCAL,
) -> int:
    """Write at an offset; on stable storage when it returns. What takes several calls is synchronised once.

    @param flags: L{DSYNC}, or 0 to write first and then synchronise.
    @return: the flags that work here.
    @raise OSError: it failed, perhaps after a partial write.
    """
    used = flags if len(buffers) <= VECTORS else 0
    for start in range(0, len(buffers), VECTORS):
        piece = buffers[start : start + VECTORS]
        while piece:
            try:
                written = system.write(descriptor, piece, offset, used)
            except OSError as error:
                if not used or error.errno not in _UNSUPPORTED:
                    raise
                flags = used = 0
                continue
            offset += written
            piece = _rest(piece, written)
    if not used:
        system.sync_content(descriptor)
    return flags


def write_unsynced(descriptor: int, buffers: Sequence[bytes], offset: int, system: LogSystem = LOCAL) -> None:
    """Write at an offset, without waiting for the disk.

    @raise OSError: it failed.
    """
    for start in range(0, len(buffers), VECTORS):
        piece = buffers[start : start + VECTORS]
        while piece:
            written = system.write(descriptor, piece, offset)
            offset += written
            piece = _rest(piece, written)


def _rest(buffers: Sequence[bytes], written: int) -> list[bytes]:
    """The rest of buffers after this many bytes."""
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [buffer[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []


def read_exactly(descriptor: int, offset: int, size: int, system: LogSystem = LOCAL) -> bytes:
    """Read bytes of a file; fewer at its end.

    @raise OSError: it cannot be read.
    """
    found = system.read(descriptor, size, offset)
    while 0 < len(found) < size:
        more = system.read(descriptor, size - len(found), offset + len(found))
        if not more:
            break
        found += more
    return found


def read_readable(
    descriptor: int, offset: int, size: int, system: LogSystem = LOCAL, most_bad: int | None = None
) -> bytes:
    """Read bytes of a file, with zeros for the pages that the disk cannot read; fewer at its end.

    @param most_bad: unreadable pages after which it ends, since a disk takes seconds for each; C{None} for no
        limit.
    @raise OSError: it cannot be read for another reason.
    """
    try:
        return read_exactly(descriptor, offset, size, system)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    pieces: list[bytes] = []
    end, bad = offset + size, 0
    while offset < end and bad != most_bad:
        count = min(_PAGE - offset % _PAGE, end - offset)
        try:
            piece = read_exactly(descriptor, offset, count, system)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            piece, bad = bytes(count), bad + 1
        pieces.append(piece)
        if len(piece) < count:
            break
        offset += count
    return b"".join(pieces)


class FileDescriptors:
    """LRU cache of open files, for one thread.

    @param flags: how files are opened.
    """

    def __init__(self, flags: int = os.O_RDONLY, system: LogSystem = LOCAL) -> None:
        self._flags = flags
        self._system = system
        self._open: OrderedDict[Path, int] = OrderedDict()

    def of(self, path: Path) -> int:
        """The descriptor of a file.

        @raise OSError: it cannot be opened.
        """
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._open[path] = self._system.open(path, self._flags)
            if len(self._open) > OPEN_FILES:
                self._system.close(self._open.popitem(last=False)[1])
        self._open.move_to_end(path)
        return descriptor

    def forget(self, path: Path) -> None:
        """Close one file."""
        if (descriptor := self._open.pop(path, None)) is not None:
            self._system.close(descriptor)

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._system.close(self._open.popitem()[1])


def damage_read(files: FileDescriptors, path: Path, system: LogSystem = LOCAL) -> Read:
    """Create a function that reads a file, opened at the first read; what the disk cannot read is damage."""

    def read(offset: int, size: int) -> bytes:
        try:
            return read_exactly(files.of(path), offset, size, system)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise StoreDamaged(path, offset, UNREADABLE) from error

    return read


@attrs.frozen
class FoundSegment:
    """A segment file found in the directory.

    @ivar header: C{None} if it was never used, or its header is not intact.
    @ivar problem: what is wrong with the header.
    """

    path: Path
    size: int
    header: SegmentHeader | None
    problem: str | None = None


def is_segment_name(name: str) -> bool:
    """Whether a file of this name is a segment of a log."""
    return _NAME.fullmatch(name) is not None


def find_segments(directory: Path, system: LogSystem = LOCAL) -> list[FoundSegment]:
    """Find all segments of a directory, unordered.

    @raise OSError: they cannot be read.
    """
    found: list[FoundSegment] = []
    for path in system.list(directory):
        if _NAME.fullmatch(path.name) is None:
            continue
        try:
            descriptor = system.open(path, os.O_RDONLY)
        except FileNotFoundError:
            # A server has deleted it meanwhile.
            continue
        header, problem, head, size = None, None, b"", 0
        try:
            size = system.size(descriptor)
            head = read_exactly(descriptor, 0, SEGMENT_HEADER, system)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            problem = UNREADABLE
        finally:
            system.close(descriptor)
        if head.strip(b"\0"):
            try:
                header = read_segment_header(head)
            except Malformed as error:
                problem = str(error)
        found.append(FoundSegment(path, size, header, problem))
    return found


def make_segment(directory: Path, number: int, size: int, system: LogSystem = LOCAL) -> Path:
    """Create a file of zeros, durably, its name included.

    @raise OSError: it cannot be created; no file is left.
    """
    path = directory / f"segment-{number:06d}"
    partial = directory / "segment.new"
    system.unlink(partial)
    descriptor = system.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        # Fails at once if there is no space.
        system.allocate(descriptor, size)
        flags = DSYNC
        for offset in range(0, size, len(_ZEROS)):
            piece = _ZEROS[: min(len(_ZEROS), size - offset)]
            flags = write_synced(descriptor, [piece], offset, flags, system)
        system.sync_file(descriptor)
        # One large write or read-ahead may be cached as one large page, which Linux writes whole when a part
        # changes: up
        # to a megabyte a group. Pages of 4 KiB are cached instead.
        system.advise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        system.advise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        for offset in range(0, size, len(_ZEROS)):
            read_exactly(descriptor, offset, len(_ZEROS), system)
        system.replace(partial, path)
    except OSError:
        with suppress(OSError):
            system.unlink(partial)
        raise
    finally:
        system.close(descriptor)
    try:
        system.sync(directory)
    except OSError:
        with suppress(OSError):
            system.unlink(path)
        raise
    return path


def begin_segment(path: Path, header: SegmentHeader, flags: int, system: LogSystem = LOCAL) -> None:
    """Write the header of a segment, durably.

    @raise OSError: it cannot be written.
    """
    descriptor = system.open(path, os.O_RDWR)
    try:
        head = header.to_bytes()
        write_synced(descriptor, [head + bytes(FIRST - len(head))], 0, flags, system)
    finally:
        system.close(descriptor)


def slot_number(path: Path) -> int:
    """The number in the name of a segment."""
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])
