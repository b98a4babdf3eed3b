"""Errors of SQLite and the file system as store errors."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.quoting import LONGEST_QUOTED, shown
from msmq.storage.sqlite.reserve import FULL, free_bytes

_WRITES = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP")
"""SQLite errors that can also mean a full disk, detected late."""

_NEARLY_NOTHING = 64 * 1024

_MEANING = {
    "SQLITE_FULL": "there is no space left",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_NOTADB": "the file is not a SQLite database",
    "SQLITE_BUSY": "another program keeps the file locked",
    "SQLITE_READONLY": "the file cannot be written",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_IOERR": "the disk or its file system failed",
}


def kind_of(error: BaseException) -> str:
    """The primary name of an error of SQLite, such as C{SQLITE_FULL}; empty for any other exception."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])


def failure(path: Path, doing: str, error: Exception) -> StorageError:
    """The store error for an exception.

    @param doing: the attempted operation, such as C{"write"}.
    @return: L{StorageFull} if there is no space.
    """
    if isinstance(error, StorageError):
        return error
    kind = StorageFull if _is_for_space(path, error) else StorageError
    return kind(f"{path}: cannot {doing}: {_error_text(error)}")


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        # A message of SQLite that quotes the file, which Python cannot decode.
        return f"{_MEANING['SQLITE_CORRUPT']}: {_one_line(error.object.decode(errors='backslashreplace'))}"
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None)
        detail = _one_line(f"{error} ({name})" if name else str(error))
        meaning = _MEANING.get(kind_of(error))
        return f"{f'{meaning}: ' if meaning else ''}{detail}"
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _one_line(text: str) -> str:
    # SQLite quotes statements of the schema, which have several lines.
    return shown(" ".join(text.split()), LONGEST_QUOTED)


def _is_for_space(path: Path, error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    name = getattr(error, "sqlite_errorname", None)
    if name == "SQLITE_FULL":
        return True
    with suppress(OSError):
        return name in _WRITES and free_bytes(path) < _NEARLY_NOTHING
    return False
