"""Durable file writes: after a power failure a file has either its old content or its new."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace the content of a file atomically and durably.

    Two processes must not write one file at the same time.

    @param mode: its permissions, from which the process's mask takes away.
    @raise OSError: it cannot be written.
    """
    beginning = path.with_name(f"{path.name}.new")
    with suppress(FileNotFoundError):
        # A killed process may have left the temporary file, perhaps with other permissions.
        beginning.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(beginning, flags, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beginning.replace(path)
    sync(path.parent)


def make_directory(path: Path, mode: int = 0o700, *, parents: bool = True) -> None:
    """Create a directory durably.

    For an existing directory only its name is synchronised, unless its parent is unreadable.

    @param mode: its permissions, from which the process's mask takes away.
    @param parents: whether to create its parents too.
    @raise OSError: it cannot be created, or the synchronisation of its name failed.
    """
    is_there = path.is_dir()
    if not is_there:
        if parents and not path.parent.exists():
            make_directory(path.parent, 0o777)
        path.mkdir(mode=mode, exist_ok=True)
    try:
        sync(path.absolute().parent)
    except PermissionError:
        if not is_there:
            raise


def sync(path: Path) -> None:
    """Synchronise the content of a file, or the names in a directory, to disk.

    @raise OSError: the synchronisation failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
