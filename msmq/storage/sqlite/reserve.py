"""Disk space reserve, so that messages can be removed on a full disk."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 8 * 1024 * 1024
"""More than is written between two times that the log is brought into the file."""

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Error codes of the system for a full disk or an exceeded quota."""


def free_bytes(path: Path) -> int:
    """What is left in the file system of a file, for us.

    @raise OSError: it is unknown.
    """
    system = os.statvfs(path.parent)
    return system.f_bavail * system.f_frsize


class Reserve:
    """Reserve file, deleted when space is needed.

    @param path: the file of the store.
    @ivar is_spent: whether its space was given away, and could not be had back until now.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.reserve")
        self.is_spent = False

    def hold(self) -> bool:
        """Reserve the space, if available; returns whether it was.

        Where the system refuses for another reason the store goes on without it.
        """
        self.is_spent = False
        try:
            if self._path.exists() and self._path.stat().st_size >= RESERVE_BYTES:
                return True
            if free_bytes(self._path) < 2 * RESERVE_BYTES:
                self.is_spent = True
                return False
            self._make()
        except OSError as error:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self.is_spent = error.errno in FULL
        return not self.is_spent

    def spend(self) -> bool:
        """Release the space; returns whether there was any."""
        self.is_spent = True
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _make(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        finally:
            os.close(descriptor)
