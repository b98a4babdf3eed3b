"""Read-only, paged access to the store of a running server."""

from __future__ import annotations

import os
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.persistence.migration_mark import MARK, MigrationMark, MigrationRole, read_mark
from msmq.storage.readers.shape import RowDamaged, RowPage, StoreMoved, StoreReader

__all__ = [
    "RowDamaged",
    "RowPage",
    "StoreMoved",
    "StoreReader",
    "check_entry",
    "has_store",
    "open_looked_up",
    "open_reader",
    "store_in_use",
]

STORE_FILE = "msmq.sqlite"
"""The file of the store in a data directory."""
LOG_DIRECTORY = "msmq.log"
"""The directory of a record log in a data directory."""
CHECKPOINTS = ("checkpoint-a", "checkpoint-b")
"""The files that identify the directory of a record log."""


def open_reader(location: str) -> StoreReader:
    """Open the store at a path or URL.

    @param location: a data directory, a file of SQLite, the directory of a record log, or
        C{postgresql://...}.
    @raise StorageError: there is no store, or it is damaged or of another version.
    """
    if location.startswith(("postgresql:", "postgres:")):
        # psycopg belongs to an extra.
        try:
            from msmq.storage.readers.postgresql import PostgresqlStoreReader
        except ImportError as error:
            raise StorageError(f"PostgreSQL needs msmq[postgresql]: {error}") from None
        return PostgresqlStoreReader(location.partition(":")[2])
    path = Path(location)
    if is_log(path):
        return _open_log(path)
    if not path.is_dir():
        return _open_sqlite(path)
    found = store_in_use(path)
    if found is None:
        raise StorageError(
            f"{path}: there is no store in this directory; one that is elsewhere is named by its file, its"
            " directory, or postgresql://..."
        )
    return open_looked_up(found)


def open_looked_up(path: Path) -> StoreReader:
    """Open the store at a path that no user has named; it is refused if it was moved to another one.

    @raise StorageError: there is no store, or it is damaged or of another version.
    """
    if is_log(path):
        return _open_log(path, is_looked_up=True)
    return open_reader(str(path)) if path.is_dir() else _open_sqlite(path, is_looked_up=True)


# A worker of Spark opens one store, and starts often: only what reads that kind is imported.
def _open_log(path: Path, *, is_looked_up: bool = False) -> StoreReader:
    from msmq.storage.readers.log import LogStoreReader

    return LogStoreReader(path, is_looked_up=is_looked_up)


def _open_sqlite(path: Path, *, is_looked_up: bool = False) -> StoreReader:
    from msmq.storage.readers.sqlite import SqliteStoreReader

    return SqliteStoreReader(path, is_looked_up=is_looked_up)


def store_in_use(directory: Path) -> Path | None:
    """The store of a data directory, of two the one that the marks of migrations say; C{None} without one.

    The mark of a log alone is not read here, since it costs the reading of its index; its reader reads it.

    @raise StorageError: it was moved to another place, both seem to be in use, or the directory may not be
        entered.
    """
    check_entry(directory)
    stores = [directory / STORE_FILE] if (directory / STORE_FILE).exists() else []
    if is_log(directory / LOG_DIRECTORY):
        stores.append(directory / LOG_DIRECTORY)
    if not stores:
        return None
    if len(stores) == 1 and stores[0].name == LOG_DIRECTORY:
        return stores[0]
    if len(stores) == 1:
        try:
            mark = _mark_of(stores[0])
        except StorageError:
            # What is wrong with it, its readers say.
            return stores[0]
        if mark is None or mark.role is not MigrationRole.MOVED:
            return stores[0]
        raise StoreMoved(f"{stores[0]}: this store was moved to {mark.other}, which has to be named")
    left = []
    for store, other in (stores, stores[::-1]):
        mark = _mark_of(store)
        if mark is not None and mark.role is MigrationRole.MOVED and _is(mark.other, other):
            return other
        if mark is None:
            left.append(store)
    if len(left) != 1:
        names = " and ".join(each.name for each in stores)
        raise StorageError(f"{directory}: there are {names}; the one that is in use has to be named")
    return left[0]


def _is(text: str, store: Path) -> bool:
    """Whether the text of a mark names a store: its directory may have been moved or copied since."""
    return Path(text).name == store.name


def _mark_of(store: Path) -> MigrationMark | None:
    try:
        if store.name == STORE_FILE:
            from msmq.storage.sqlite.peek import stored_value

            return read_mark(stored_value(store, MARK))
        from msmq.storage.readers.log import LogStoreReader

        reader = LogStoreReader(store)
        try:
            return read_mark(reader.values().get(MARK))
        finally:
            reader.close()
    except ValueError as error:
        raise StorageError(f"{store}: {error}") from error


def has_store(directory: Path) -> bool:
    """Whether a directory is a data directory with a store in files, or that of a record log.

    @raise StorageError: the directory may not be entered.
    """
    check_entry(directory)
    return (directory / STORE_FILE).exists() or is_log(directory) or is_log(directory / LOG_DIRECTORY)


def check_entry(directory: Path) -> None:
    """Check that a directory can be entered: otherwise a file that may not be in it would be named.

    @raise StorageError: it cannot, for lack of a right, for example; one that does not exist is no error.
    """
    try:
        os.stat(os.path.join(directory, "."))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise StorageError(f"{directory}: {error.strerror}") from error


def is_log(directory: Path) -> bool:
    """Whether a directory is that of a record log.

    @raise StorageError: the directory may not be entered.
    """
    check_entry(directory)
    return any((directory / name).is_file() for name in CHECKPOINTS)
