"""The operating system of one life of a host, as the record log sees it."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msmq.storage.log.system import LogWorker
from msmq.storage.log.workers import Call
from msmq.testing.network import MemoryHost
from tests.simulation.disk import SECTOR, SimulatedDisk, SimulatedFile

QUICK: Final = 0.0002
"""Seconds that a task of a worker takes on a disk that is not slow."""


class Off(OSError):
    """The host has no power any more."""


class SimulatedSystem:
    """Implements L{msmq.storage.log.system.LogSystem}.

    @param power_cut: called when the host loses its power in a call, as C{cut_after} says.
    @ivar failing: with which error calls that write fail; 0 if they do not.
    @ivar delay: seconds that a task of a worker takes.
    @ivar cut_after: after how many more calls that change something the power is cut; C{None} for never.
    @ivar cut_after_writes: after how many more synchronised writes the power is cut, before anything can be
        reported of the last one; C{None} for never.
    @ivar calls: how many calls changed something.
    @ivar is_unclear: what a failed write left could not be overwritten, so that a group that was reported as
        failed may be on the disk until another one is written over it.
    """

    def __init__(self, disk: SimulatedDisk, host: MemoryHost, power_cut: Callable[[], object]) -> None:
        self._disk = disk
        self._host = host
        self._power_cut = power_cut
        self._open: dict[int, tuple[Path, SimulatedFile]] = {}
        self._next = 3
        self._spent = 0.0
        self.failing = 0
        self.delay = QUICK
        self.cut_after: int | None = None
        self.cut_after_writes: int | None = None
        self.calls = 0
        self.is_unclear = False

    # Faults

    def _change(self) -> bool:
        """Before a call that changes something: whether it is the last one, and perhaps half done.

        @raise OSError: it fails.
        """
        if self._host.is_dead:
            raise Off(errno.EIO, "no power")
        self.calls += 1
        if self.cut_after is not None:
            self.cut_after -= 1
            if self.cut_after <= 0:
                return True
        if self.failing and self._disk.chance.random() < 0.8:
            raise OSError(self.failing, os.strerror(self.failing))
        return False

    def _cut(self) -> None:
        self._power_cut()
        raise Off(errno.EIO, "no power")

    def measured(self) -> float:
        """Seconds, by which the store measures its writes."""
        return self._host.seconds() + self._spent

    # Files

    def open(self, path: Path, flags: int) -> int:
        """See L{LogSystem.open}."""
        file = self._disk.names.get(path)
        if file is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            if self._change():
                self._cut()
            file = SimulatedFile()
            self._disk.name(path, file)
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "file exists", str(path))
        self._next += 1
        self._open[self._next] = path, file
        return self._next

    def close(self, descriptor: int) -> None:
        """See L{LogSystem.close}."""
        self._open.pop(descriptor, None)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """See L{LogSystem.read}."""
        # A slice of the content itself would be another copy.
        return bytes(memoryview(self._open[descriptor][1].content)[offset : offset + size])

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LogSystem.write}."""
        file = self._open[descriptor][1]
        data = b"".join(buffers)
        try:
            is_last = self._change()
        except Off:
            raise
        except OSError:
            self._tear(file, offset, data)
            self.is_unclear = not any(data)
            raise
        if self._disk.is_full and offset + len(data) > len(file.content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if is_last:
            self._tear(file, offset, data)
            self._cut()
        file.write(offset, data, is_synced=bool(flags))
        if flags:
            self.is_unclear = False
            self._disk.last_group = file, offset, offset + len(data)
            if self.cut_after_writes is not None:
                self.cut_after_writes -= 1
                if self.cut_after_writes <= 0:
                    self._cut()
        self._spent += self.delay / 10
        return len(data)

    def _tear(self, file: SimulatedFile, offset: int, data: bytes) -> None:
        """Write some sectors of it."""
        for start in range(0, len(data), SECTOR):
            if self._disk.chance.random() < 0.5 and offset + start < len(file.content):
                file.write(offset + start, data[start : start + SECTOR], is_synced=False)

    def sync_content(self, descriptor: int) -> None:
        """See L{LogSystem.sync_content}."""
        if self._change():
            self._cut()
        self._open[descriptor][1].unsynced.clear()

    def sync_file(self, descriptor: int) -> None:
        """See L{LogSystem.sync_file}."""
        self.sync_content(descriptor)

    def sync(self, path: Path) -> None:
        """See L{LogSystem.sync}."""
        if self._change():
            self._cut()
        self._disk.sync_names(path)

    def allocate(self, descriptor: int, size: int) -> None:
        """See L{LogSystem.allocate}."""
        if self._change():
            self._cut()
        file = self._open[descriptor][1]
        if len(file.content) < size:
            if self._disk.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            file.resize(size)

    def truncate(self, descriptor: int, size: int) -> None:
        """See L{LogSystem.truncate}."""
        if self._change():
            self._cut()
        self._open[descriptor][1].resize(size)

    def size(self, descriptor: int) -> int:
        """See L{LogSystem.size}."""
        return len(self._open[descriptor][1].content)

    def free_space(self, directory: Path) -> int:
        """See L{LogSystem.free_space}."""
        return 0 if self._disk.is_full else 1 << 40

    def advise(self, descriptor: int, offset: int, size: int, advice: int) -> None:
        """See L{LogSystem.advise}."""

    def replace(self, path: Path, target: Path) -> None:
        """See L{LogSystem.replace}."""
        if self._change():
            self._cut()
        file = self._disk.names[path]
        # One entry of the journal of the file system: both names change, or neither.
        self._disk.name(target, file)
        self._disk.name(path, None)

    def unlink(self, path: Path) -> None:
        """See L{LogSystem.unlink}."""
        if path in self._disk.names:
            if self._change():
                self._cut()
            self._disk.name(path, None)

    def exists(self, path: Path) -> bool:
        """See L{LogSystem.exists}."""
        return path in self._disk.names or any(path in name.parents for name in self._disk.names)

    def list(self, directory: Path) -> list[Path]:
        """See L{LogSystem.list}."""
        return sorted(path for path in self._disk.names if path.parent == directory)

    def lock(self, descriptor: int) -> None:
        """See L{LogSystem.lock}."""

    def make_directory(self, path: Path, *, parents: bool = True) -> None:
        """See L{LogSystem.make_directory}."""

    def write_durably(self, path: Path, content: bytes) -> None:
        """See L{LogSystem.write_durably}."""
        partial = path.with_name(f"{path.name}.new")
        self.unlink(partial)
        descriptor = self.open(partial, os.O_RDWR | os.O_CREAT)
        try:
            self.write(descriptor, [content], 0)
            self.sync_file(descriptor)
            self.replace(partial, path)
        finally:
            self.close(descriptor)
        self.sync(path.parent)

    def read_all(self, path: Path) -> bytes:
        """See L{LogSystem.read_all}."""
        file = self._disk.names.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return bytes(file.content)

    def random_bytes(self, size: int) -> bytes:
        """See L{LogSystem.random_bytes}."""
        return self._disk.chance.randbytes(size)

    def worker(self, name: str, call: Call) -> LogWorker:
        """See L{LogSystem.worker}."""
        return SimulatedWorker(self, self._host)


class SimulatedWorker:
    """A thread of a simulation: it does its tasks later, one after the other."""

    def __init__(self, system: SimulatedSystem, host: MemoryHost) -> None:
        self._system = system
        self._host = host
        self._tasks: deque[tuple[Callable[[], Any], Callable[[Any], object]]] = deque()
        self._is_scheduled = False

    def do(self, task: Callable[[], Any], report: Callable[[Any], object]) -> None:
        """See L{LogWorker.do}."""
        self._tasks.append((task, report))
        self._schedule()

    def _schedule(self) -> None:
        if self._tasks and not self._is_scheduled:
            self._is_scheduled = True
            self._host.callLater(self._system.delay, self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if self._tasks:
            self._do()
        self._schedule()

    def _do(self) -> None:
        task, report = self._tasks.popleft()
        try:
            outcome = task()
        except Exception as error:
            outcome = error
        if not self._host.is_dead:
            self._host.callLater(0, report, outcome)

    def stop(self) -> None:
        """See L{LogWorker.stop}."""
        while self._tasks:
            self._do()
