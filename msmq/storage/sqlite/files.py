"""The file, and those beside it, apart from what SQLite does with them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.storage.sqlite.failures import failure


def make_file(path: Path) -> bool:
    """Make the file, mode 0600, if it is not there; SQLite gives the files beside it the same mode.

    @return: whether it was not there.
    @raise OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def create_file(path: Path) -> None:
    """The same for a file whose name has to survive a power cut.

    @raise OSError: it cannot be made.
    """
    if make_file(path):
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """See to it that the names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(path: Path) -> int:
    """Hold a lock as long as the descriptor is open, so that two processes never write one file.

    The lock is on a file beside it, since closing any descriptor of the database would end SQLite's
    own locks.
    """
    place = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure(place, "open", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StorageError(f"{path} is in use by another queue manager") from error
    return descriptor
