"""Faults of the machine under a server: a process that stands still, a full disk, a clock that jumps.

The disk is a small file system in memory over the data directory of the server; the clock is that of
libfaketime, which reads the difference to the true one from a file.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from enum import Enum
from pathlib import Path
from typing import Final

FAKETIME: Final = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
DISK_SIZE: Final = 48 << 20
"""Bytes, of which a server of a campaign uses a third."""
_STEP: Final = 4096


class MachineFault(Enum):
    """What happens to the machine of one server."""

    PAUSED = "pauses"
    """SIGSTOP, and SIGCONT after a while: its connections stay open, and it answers nothing."""

    FULL = "full disks"
    """Nothing more can be written for a while."""

    JUMP = "jumps of a clock"
    """The wall clock goes on from another moment."""


class SmallDisk:
    """A file system of its own under a directory, which can be filled and freed.

    @param directory: what it is mounted over; it is created.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._filler = directory / "filler"
        directory.mkdir()
        options = f"size={DISK_SIZE},mode=700"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", os.fspath(directory)],
            check=True,
            capture_output=True,
            text=True,
        )

    def fill(self) -> None:
        """Leave no block free."""
        descriptor = os.open(self._filler, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            free = os.fstatvfs(descriptor)
            step = max(_STEP, free.f_bavail * free.f_frsize // _STEP * _STEP)
            # The server may take or give back blocks meanwhile.
            while step >= _STEP:
                try:
                    os.posix_fallocate(descriptor, size, step)
                except OSError:
                    step //= 2
                else:
                    size += step
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """Give back what L{fill} took."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it; what was on it is gone."""
        subprocess.run(["umount", "-l", os.fspath(self._directory)], check=True)

    @staticmethod
    def is_possible(home: Path) -> bool:
        """Whether this process may mount one in a directory."""
        try:
            disk = SmallDisk(home / "probe")
        except (OSError, subprocess.CalledProcessError):
            with contextlib.suppress(OSError):
                (home / "probe").rmdir()
            return False
        disk.close()
        (home / "probe").rmdir()
        return True


class JumpingClock:
    """The wall clock of one server; its timers run on.

    @param file: where the difference to the true clock is.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump(0)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process with this clock."""
        return {
            "LD_PRELOAD": os.fspath(FAKETIME[0]),
            "FAKETIME_TIMESTAMP_FILE": os.fspath(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def forget(self, pid: int) -> None:
        """Remove the shared memory of a killed process, which another one with its number would find."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            Path("/dev/shm", name).unlink(missing_ok=True)

    def jump(self, seconds: int) -> None:
        """Let it be wrong by so much, from the next second on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n", encoding="ascii")
        fresh.replace(self._file)
