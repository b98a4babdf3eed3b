"""Locations of stores for migration: open, read and erase a store by its description."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from msmq.durable import sync
from msmq.interfaces.plugins import ILossAcceptance, IStorageFactory
from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.quoting import quoted
from msmq.storage.log.factory import DIRECTORY_NAME, LogStorageFactory, mark_name
from msmq.storage.log.failures import failure
from msmq.storage.log.opened_log import EXPRESS_PREFIX
from msmq.storage.log.quarantine import DIRECTORY
from msmq.storage.readers.shape import StoreReader
from msmq.storage.sqlite.store import FILE_NAME, MARK_SUFFIX, SqliteStorageFactory

KINDS: Final = ("log", "sqlite", "postgresql")
"""Kinds of stores that can be migrated, backed up and checked."""


@attrs.frozen
class StoreLocation(ABC):
    """Location of a store.

    @ivar kind: of L{KINDS}.
    @ivar argument: the text after the colon of its description.
    @ivar data: the data directory of the queue manager.
    """

    kind: str
    argument: str = attrs.field(repr=False)
    data: Path

    @property
    @abstractmethod
    def text(self) -> str:
        """Readable location, without secrets."""

    def is_named(self, text: str) -> bool:
        """Whether the mark of a migration names it.

        A store in its data directory is named by its own name, unless there is another one at C{text}: the
        directory may have been moved since, or is reached through a symbolic link.

        @param text: what L{text} was then.
        """
        return text == self.text

    @abstractmethod
    def exists(self) -> bool:
        """Whether a store may exist there.

        @raise StorageError: it cannot be determined.
        """

    @abstractmethod
    def make_store(self, *, accepts_loss: bool = False) -> IMessageStore:
        """Create the store object; opening it creates a missing store.

        @param accepts_loss: whether it opens although it is not the one last used.
        """

    @abstractmethod
    def make_reader(self) -> StoreReader:
        """Create a reader for a separate thread."""

    @abstractmethod
    def erase(self) -> int:
        """Delete the store; no process may have it open.

        @return: the bytes of the files that were deleted; 0 if it is not in files.
        @raise StorageError: it cannot be deleted, or is in use.
        """


class SqliteLocation(StoreLocation):
    """A file of SQLite."""

    @property
    def path(self) -> Path:
        """The file."""
        return (self.data / (self.argument or FILE_NAME)).absolute()

    @property
    def text(self) -> str:
        """See L{StoreLocation.text}."""
        return str(self.path)

    def is_named(self, text: str) -> bool:
        """See L{StoreLocation.is_named}."""
        return _is_named(self.path, self.data, text)

    def exists(self) -> bool:
        """See L{StoreLocation.exists}."""
        return self.path.exists()

    def make_store(self, *, accepts_loss: bool = False) -> IMessageStore:
        """See L{StoreLocation.make_store}."""
        return _made(SqliteStorageFactory(), self, accepts_loss)

    def make_reader(self) -> StoreReader:
        """See L{StoreLocation.make_reader}."""
        from msmq.storage.readers.sqlite import SqliteStoreReader

        return SqliteStoreReader(self.path)

    def erase(self) -> int:
        """See L{StoreLocation.erase}: the file first, since SQLite ignores the log of an empty file."""
        # The mark is deleted first: a store without a mark is not reported as lost.
        size = _erase(self.data, [f"{self.path.name}{MARK_SUFFIX}"])
        names = [f"{self.path.name}{suffix}" for suffix in _BESIDE]
        return size + _erase(self.path.parent, [self.path.name, *names])


_BESIDE: Final = (
    *(f".express{suffix}" for suffix in ("-wal", "-shm", "-journal", "")),
    "-wal",
    "-shm",
    "-journal",
    ".reserve",
    ".lock",
)
"""Suffixes of the files that belong to a file of SQLite."""


class LogLocation(StoreLocation):
    """The directory of a record log."""

    @property
    def path(self) -> Path:
        """The directory."""
        return (self.data / (self.argument or DIRECTORY_NAME)).absolute()

    @property
    def text(self) -> str:
        """See L{StoreLocation.text}."""
        return str(self.path)

    def is_named(self, text: str) -> bool:
        """See L{StoreLocation.is_named}."""
        return _is_named(self.path, self.data, text)

    def exists(self) -> bool:
        """See L{StoreLocation.exists}."""
        return self.path.is_dir() and any(
            one.name.startswith(("segment-", "checkpoint-")) for one in self.path.iterdir()
        )

    def make_store(self, *, accepts_loss: bool = False) -> IMessageStore:
        """See L{StoreLocation.make_store}."""
        return _made(LogStorageFactory(), self, accepts_loss)

    def make_reader(self) -> StoreReader:
        """See L{StoreLocation.make_reader}."""
        from msmq.storage.readers.log import LogStoreReader

        return LogStoreReader(self.path)

    def erase(self) -> int:
        """See L{StoreLocation.erase}: renamed first, so that a part of it is never taken for a log.

        What is in its quarantine stays next to it, as that of a file of SQLite does. Where the name is a
        symbolic link, the directory that it leads to stays, with its quarantine: it may be a mount point.
        """
        size = _erase(self.data, [mark_name(self.path)])
        doomed = self.path.with_name(f"{self.path.name}.discarded")
        try:
            for directory in (doomed, self.path):
                if not directory.is_dir():
                    continue
                if directory != doomed:
                    directory.rename(doomed)
                    sync(doomed.parent)
                if not doomed.is_symlink():
                    self._keep_quarantine(doomed)
                size += _erase_log(doomed)
            sync(doomed.parent)
        except OSError as error:
            raise failure(self.path, "delete", error) from error
        return size

    def _keep_quarantine(self, doomed: Path) -> None:
        """Move the quarantine of a directory that is to be deleted to a name that is not used."""
        quarantine = doomed / DIRECTORY
        if not quarantine.is_dir() or not any(quarantine.iterdir()):
            return
        name = f"{self.path.name}.{DIRECTORY}"
        target, number = self.path.with_name(name), 1
        while target.exists():
            number += 1
            target = self.path.with_name(f"{name}-{number}")
        quarantine.rename(target)
        sync(target.parent)


_OF_A_LOG: Final = ("segment-*", "checkpoint-*", f"{EXPRESS_PREFIX}*", "lock")
"""The names of the files of a record log."""


def _erase_log(directory: Path) -> int:
    """Delete a directory, or, of the one that a link leads to, the files of a log and the link.

    @return: the bytes of the files that were deleted.
    @raise OSError: it cannot be deleted.
    """
    if not directory.is_symlink():
        size = sum(one.stat().st_size for one in directory.rglob("*") if one.is_file())
        shutil.rmtree(directory)
        return size
    size = 0
    for one in [one for name in _OF_A_LOG for one in directory.glob(name)]:
        size += one.stat().st_size
        one.unlink()
    directory.unlink()
    return size


class PostgresqlLocation(StoreLocation):
    """A schema of a database."""

    @property
    def text(self) -> str:
        """See L{StoreLocation.text}."""
        from msmq.storage.postgresql.address import parse_address

        return parse_address(self.argument).text

    def exists(self) -> bool:
        """See L{StoreLocation.exists}."""
        from msmq.storage.postgresql.address import parse_address
        from msmq.storage.postgresql.erasure import has_store

        return has_store(parse_address(self.argument))

    def make_store(self, *, accepts_loss: bool = False) -> IMessageStore:
        """See L{StoreLocation.make_store}."""
        from msmq.storage.postgresql.factory import PostgresqlStorageFactory

        return _made(PostgresqlStorageFactory(), self, accepts_loss)

    def make_reader(self) -> StoreReader:
        """See L{StoreLocation.make_reader}."""
        from msmq.storage.readers.postgresql import PostgresqlStoreReader

        return PostgresqlStoreReader(self.argument)

    def erase(self) -> int:
        """See L{StoreLocation.erase}."""
        from msmq.storage.postgresql.address import parse_address
        from msmq.storage.postgresql.erasure import erase_store
        from msmq.storage.postgresql.factory import database_mark_name

        address = parse_address(self.argument)
        _erase(self.data, [database_mark_name(address)])
        erase_store(address)
        return 0


_LOCATIONS: Final[Mapping[str, Callable[[str, str, Path], StoreLocation]]] = {
    "log": LogLocation,
    "sqlite": SqliteLocation,
    "postgresql": PostgresqlLocation,
}


def store_location_of(description: str, data: Path) -> StoreLocation:
    """Resolve a store description of the configuration.

    @raise StorageError: the store cannot be migrated, backed up or checked; says why.
    """
    kind, _, argument = description.partition(":")
    made = _LOCATIONS.get(kind)
    if made is None:
        raise StorageError(
            f"storage {quoted(kind)}: this command does not know its files; it knows {', '.join(KINDS)}"
        )
    location = made(kind, argument, data)
    try:
        location.make_store()
    except ValueError as error:
        raise StorageError(f"storage {kind}: {error}") from error
    return location


def _made(factory: IStorageFactory, location: StoreLocation, accepts_loss: bool) -> IMessageStore:
    if accepts_loss:
        return ILossAcceptance(factory).open_with_loss(location.argument, location.data)
    return factory.open_store(location.argument, location.data)


def _is_named(path: Path, data: Path, text: str) -> bool:
    if text == str(path):
        return True
    named = Path(text)
    if path.parent != data.absolute() or named.name != path.name:
        return False
    try:
        return named.samefile(path)
    except FileNotFoundError:
        return not named.exists()
    except OSError:
        return False


def _erase(directory: Path, names: Sequence[str]) -> int:
    """Delete files of a directory, in this order.

    @raise StorageError: it cannot be done.
    """
    size = 0
    try:
        for path in (directory / name for name in names):
            if path.exists():
                size += path.stat().st_size
                path.unlink()
        sync(directory)
    except OSError as error:
        raise failure(directory, "delete a file", error) from error
    return size
