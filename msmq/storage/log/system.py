"""The operating system as the record log uses it: files, random bytes and worker threads.

A simulation of disks provides another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from msmq.durable import make_directory, sync, write_durably
from msmq.storage.exclusive_lock import lock_exclusively
from msmq.storage.log.workers import Call, Worker

_Result = TypeVar("_Result")


class LogWorker(Protocol):
    """Runs functions one after the other, and reports each result to the reactor's thread."""

    def do(self, task: Callable[[], _Result], report: Callable[[_Result | Exception], object]) -> None:
        """Run a function after all earlier ones; see L{Worker.do}."""

    def stop(self) -> None:
        """Finish all pending work; there is no more."""


class LogSystem(Protocol):
    """Files, random bytes and worker threads; all calls but C{worker} block, and raise OSError."""

    def open(self, path: Path, flags: int) -> int:
        """Open a file for its owner alone; returns its descriptor."""

    def close(self, descriptor: int) -> None:
        """Close a file."""

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """Read at most this many bytes at an offset."""

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """Write at an offset; returns how many bytes were written."""

    def sync_content(self, descriptor: int) -> None:
        """Synchronise the content of a file to disk."""

    def sync_file(self, descriptor: int) -> None:
        """Synchronise the content and the size of a file to disk."""

    def sync(self, path: Path) -> None:
        """Synchronise the names in a directory to disk."""

    def allocate(self, descriptor: int, size: int) -> None:
        """Reserve space on disk for the first bytes of a file, which has at least this size then."""

    def truncate(self, descriptor: int, size: int) -> None:
        """Change the size of a file."""

    def size(self, descriptor: int) -> int:
        """The size of a file."""

    def free_space(self, directory: Path) -> int:
        """Bytes that may still be written to the file system of a directory."""

    def advise(self, descriptor: int, offset: int, size: int, advice: int) -> None:
        """Advise the page cache."""

    def replace(self, path: Path, target: Path) -> None:
        """Rename a file, over another one if that is there."""

    def unlink(self, path: Path) -> None:
        """Delete a file; nothing happens if it is not there."""

    def exists(self, path: Path) -> bool:
        """Whether there is such a file or directory."""

    def list(self, directory: Path) -> list[Path]:
        """The files of a directory, unordered."""

    def lock(self, descriptor: int) -> None:
        """Lock a file while its descriptor is open; fails if another process has locked it."""

    def make_directory(self, path: Path, *, parents: bool = True) -> None:
        """Create a directory durably."""

    def write_durably(self, path: Path, content: bytes) -> None:
        """Replace the content of a file atomically and durably."""

    def read_all(self, path: Path) -> bytes:
        """The content of a file."""

    def random_bytes(self, size: int) -> bytes:
        """Random bytes."""

    def worker(self, name: str, call: Call) -> LogWorker:
        """Start a worker thread; C{call} calls a function in the reactor's thread."""


class LocalSystem:
    """The system of this process; see L{LogSystem}."""

    def open(self, path: Path, flags: int) -> int:
        """See L{LogSystem.open}."""
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def close(self, descriptor: int) -> None:
        """See L{LogSystem.close}."""
        os.close(descriptor)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """See L{LogSystem.read}."""
        return os.pread(descriptor, size, offset)

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LogSystem.write}."""
        return os.pwritev(descriptor, buffers, offset, flags)

    def sync_content(self, descriptor: int) -> None:
        """See L{LogSystem.sync_content}."""
        os.fdatasync(descriptor)

    def sync_file(self, descriptor: int) -> None:
        """See L{LogSystem.sync_file}."""
        os.fsync(descriptor)

    def sync(self, path: Path) -> None:
        """See L{LogSystem.sync}."""
        sync(path)

    def allocate(self, descriptor: int, size: int) -> None:
        """See L{LogSystem.allocate}."""
        os.posix_fallocate(descriptor, 0, size)

    def truncate(self, descriptor: int, size: int) -> None:
        """See L{LogSystem.truncate}."""
        os.ftruncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        """See L{LogSystem.size}."""
        return os.fstat(descriptor).st_size

    def free_space(self, directory: Path) -> int:
        """See L{LogSystem.free_space}."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def advise(self, descriptor: int, offset: int, size: int, advice: int) -> None:
        """See L{LogSystem.advise}."""
        os.posix_fadvise(descriptor, offset, size, advice)

    def replace(self, path: Path, target: Path) -> None:
        """See L{LogSystem.replace}."""
        path.replace(target)

    def unlink(self, path: Path) -> None:
        """See L{LogSystem.unlink}."""
        path.unlink(missing_ok=True)

    def exists(self, path: Path) -> bool:
        """See L{LogSystem.exists}."""
        return path.exists()

    def list(self, directory: Path) -> list[Path]:
        """See L{LogSystem.list}."""
        return list(directory.iterdir())

    def lock(self, descriptor: int) -> None:
        """See L{LogSystem.lock}."""
        lock_exclusively(descriptor)

    def make_directory(self, path: Path, *, parents: bool = True) -> None:
        """See L{LogSystem.make_directory}."""
        make_directory(path, parents=parents)

    def write_durably(self, path: Path, content: bytes) -> None:
        """See L{LogSystem.write_durably}."""
        write_durably(path, content)

    def read_all(self, path: Path) -> bytes:
        """See L{LogSystem.read_all}."""
        return path.read_bytes()

    def random_bytes(self, size: int) -> bytes:
        """See L{LogSystem.random_bytes}."""
        return os.urandom(size)

    def worker(self, name: str, call: Call) -> LogWorker:
        """See L{LogSystem.worker}."""
        return Worker(name, call)


LOCAL: Final[LogSystem] = LocalSystem()
"""The system that every store uses but those of a simulation."""
