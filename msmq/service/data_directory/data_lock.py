"""Exclusive lock on a data directory, so that only one server uses it at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import attrs

from msmq.durable import make_directory
from msmq.errors import MsmqError


class DataDirectoryError(MsmqError):
    """The data directory cannot be used; names it, and the reason."""


class DataDirectoryInUse(DataDirectoryError):
    """Another server uses the data directory."""


@attrs.define
class DataLock:
    """An advisory lock on C{DATA/lock}, held from L{acquire} until L{release} or the end of the process.

    The kernel releases it however the process ends, so that a server that was killed leaves nothing
    to clean up; the file itself stays, and holds the process identifier of the last holder.

    @param keeps_file: false: L{release} removes the file if L{acquire} has created it.
    """

    data: Path
    _keeps_file: bool = attrs.field(default=True, kw_only=True)
    _is_new: bool = attrs.field(init=False, default=False)
    _descriptor: int | None = attrs.field(init=False, default=None)

    @property
    def path(self) -> Path:
        """The file that is locked."""
        return self.data / "lock"

    def acquire(self) -> None:
        """Create the data directory, mode 0700, if it does not exist, and lock it.

        @raise DataDirectoryInUse: another server holds the lock.
        @raise DataDirectoryError: the directory cannot be created or written.
        """
        try:
            make_directory(self.data)
            descriptor = self._open()
        except FileExistsError:
            raise DataDirectoryError(f"data directory {self.data}: there is a file of that name") from None
        except OSError as error:
            raise DataDirectoryError(f"data directory {self.data}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_current(descriptor):
                # Its holder has removed it before the lock was free; the next process creates another.
                raise BlockingIOError
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DataDirectoryInUse(
                f"data directory {self.data} is in use by another server (process {holder or 'unknown'})"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise DataDirectoryError(f"{self.path}: {error.strerror}") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._descriptor is not None:
            if self._is_new and not self._keeps_file:
                self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags | os.O_EXCL, 0o600)
        except FileExistsError:
            self._is_new = False
            return os.open(self.path, flags, 0o600)
        self._is_new = True
        return descriptor

    def _is_current(self, descriptor: int) -> bool:
        """Whether the file that was opened is still that of the data directory."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False
