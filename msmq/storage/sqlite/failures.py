"""What SQLite and the file system say, in the words of the store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from msmq.interfaces.storage import StorageError

_MEANING = {
    "SQLITE_FULL": "there is no space left",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_NOTADB": "the file is no SQLite database",
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
    """The error of the store that tells what happened.

    @param doing: what was tried, such as C{"write"}.
    """
    if isinstance(error, StorageError):
        return error
    if isinstance(error, OSError):
        return StorageError(f"{path}: cannot {doing}: {error.strerror}")
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None)
        detail = f"{error} ({name})" if name else str(error)
        meaning = _MEANING.get(kind_of(error))
        return StorageError(f"{path}: cannot {doing}: {f'{meaning}: ' if meaning else ''}{detail}")
    said = str(error) if isinstance(error, ValueError) else repr(error)
    return StorageError(f"{path}: cannot {doing}: {said}")
