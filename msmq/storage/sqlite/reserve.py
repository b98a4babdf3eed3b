"""Disk space reserve, so that messages can be removed on a full disk."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 8 * 1024 * 1024
"""Size of the reserve: more than is written between two checkpoints of the WAL."""

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Error codes of the system for a full disk or an exceeded quota."""


def free_bytes(path: Path) -> int:
    """The free space in the file system of a file, for this user.

    @raise OSError: it is unknown.
    """
    system = os.statvfs(path.parent)
    return system.f_bavail * system.f_frsize


class Reserve:
    """Reserve file, deleted when space is needed.

    @param path: the file of the store.
    @ivar is_spent: whether its space was released and is not reserved again yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.reserve")
        self.is_spent = False

    def hold(self) -> bool:
        """Reserve the space, if available; returns whether it was.

        If the system refuses for another reason, the store continues without it.
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
