"""The SQLite file with its companions (WAL, shared memory, lock): creation, checks, removal."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from msmq.durable import sync
from msmq.interfaces.storage import StorageError
from msmq.storage.exclusive_lock import lock_exclusively
from msmq.storage.sqlite.failures import failure


def make_file(path: Path) -> bool:
    """Create the file with mode 0600 if it is missing; SQLite creates its other files with the same mode.

    @return: whether it was created.
    @raise OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def create_file(path: Path) -> None:
    """Create a file like L{make_file}, and sync the directory.

    @raise OSError: it cannot be made.
    """
    if make_file(path):
        sync(path.parent)


def is_absent(path: Path) -> bool:
    """Whether there is no store: no file, or an empty file without a WAL.

    @raise OSError: it is unknown.
    """
    if not path.exists():
        return True
    log = path.with_name(f"{path.name}-wal")
    return not path.stat().st_size and not (log.exists() and log.stat().st_size)


def move_stale_log_away(path: Path) -> None:
    """Rename a WAL without its file, which SQLite would apply to a new file.

    @raise OSError: it cannot be renamed.
    """
    log = path.with_name(f"{path.name}-wal")
    if not path.exists() and log.exists():
        log.replace(log.with_name(f"{log.name}.lost"))


def lock_file(path: Path) -> int:
    """Lock the store while the descriptor is open, so that two processes never write to one file.

    The lock is on a separate file, since closing any descriptor of the database would release SQLite's
    own locks.

    @raise StorageError: another process has it, or the file is a symbolic link: SQLite would keep its other
        files next to the target, where another data directory may have it open.
    """
    if path.is_symlink():
        raise StorageError(
            f"{path}: a symbolic link to {path.resolve()}; set [storage] backend to sqlite:PATH with the path"
            " of the file, or move the file here"
        )
    lock_path = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure(lock_path, "open", error) from error
    try:
        lock_exclusively(descriptor)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StorageError(f"{path} is in use by another queue manager; stop it first") from error
    except OSError as error:
        os.close(descriptor)
        raise failure(lock_path, "lock", error) from error
    return descriptor


@attrs.frozen
class OpenedFiles:
    """Identities of the files when they were opened.

    SQLite continues in a file that was unlinked, and its data would be lost.
    """

    _files: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(cls, path: Path) -> OpenedFiles:
        """The file and its log.

        @raise OSError: they do not exist.
        """
        return cls(tuple((name, *_identity(name)) for name in (str(path), f"{path}-wal")))

    def loss(self) -> StorageError | None:
        """The problem if one was deleted or replaced; C{None} if both are still there."""
        for name, device, inode in self._files:
            try:
                if _identity(name) != (device, inode):
                    return StorageError(f"{name}: another file was put in its place while it was in use")
            except OSError as error:
                return failure(Path(name), "find it any more", error)
        return None


def _identity(name: str) -> tuple[int, int]:
    found = os.stat(name)
    return found.st_dev, found.st_ino
