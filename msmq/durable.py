"""Files that are whole after a power cut, with their old content or their new."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Have a file on disk with this content; until it is there, what was there before stays.

    Two processes must not write one file at the same time.

    @param mode: its permissions, from which the process's mask takes away.
    @raise OSError: it cannot be written.
    """
    beginning = path.with_name(f"{path.name}.new")
    with suppress(FileNotFoundError):
        # It was left by a process that was killed, perhaps with other permissions.
        beginning.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(beginning, flags, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beginning.replace(path)
    sync(path.parent)


def make_directory(path: Path, mode: int = 0o700, *, parents: bool = True) -> None:
    """Create a directory that survives a power cut.

    Of a directory that exists only the name is synchronised, unless the one above it may not be read.

    @param mode: its permissions, from which the process's mask takes away.
    @param parents: whether those above it are created too.
    @raise OSError: it cannot be created, or the disk has not taken its name.
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
    """See to it that the content of a file, or the names in a directory, survive a power cut.

    @raise OSError: the disk has not taken it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
