"""Stores that break the promise that what they have committed is on the disk, to see that it is noticed.

A test lets C{twistd} find them by a plugin that it writes into a directory of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.storage import IMessageStore
from msmq.persistence.changes import Change
from msmq.storage.sqlite import SqliteMessageStore
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.sqlite.store import FILE_NAME
from tests.storage.policies import policy_of

PLUGIN = """\
from tests.faults.careless import CARELESS, HASTY
from tests.faults.small_log import HASTY_LOG, SMALL_LOG

careless, hasty, hasty_log, small_log = CARELESS, HASTY, HASTY_LOG, SMALL_LOG
"""
_PROJECT = Path(__file__).resolve().parents[2]


def write_plugin(home: Path) -> dict[str, str]:
    """Write the plugin into a directory; returns an environment in which C{twistd} finds it."""
    plugins = home / "plugins" / "twisted" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "careless_plugin.py").write_text(PLUGIN)
    path = [os.fspath(home / "plugins"), os.fspath(_PROJECT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


class CarelessMessageStore(SqliteMessageStore):
    """Does not wait for the disk.

    @param synchronous: SQLite's pragma: C{OFF}, or C{NORMAL} for a log that is synchronised sometimes.
    """

    def __init__(self, path: Path, synchronous: str) -> None:
        super().__init__(path, policy_of(path))
        self._open_database = partial(_open_carelessly, path, synchronous)


class HastyMessageStore(SqliteMessageStore):
    """Says that it is done before it has begun."""

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """Hand it over, and answer at once."""
        super().commit(changes)
        return succeed(None)


def _open_carelessly(path: Path, synchronous: str) -> FileDatabase:
    database = FileDatabase(path, policy_of(path))
    database._connection.execute(f"PRAGMA synchronous = {synchronous}")
    return database


@implementer(IStorageFactory)
@attrs.frozen
class CarelessStorageFactory:
    """C{careless:OFF}."""

    name: str = "careless"
    description: str = "loses messages"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        return CarelessMessageStore(data / FILE_NAME, argument)


@implementer(IStorageFactory)
@attrs.frozen
class HastyStorageFactory:
    """C{hasty}."""

    name: str = "hasty"
    description: str = "loses messages too"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        path = data / FILE_NAME
        return HastyMessageStore(path, policy_of(path))


CARELESS = CarelessStorageFactory()
HASTY = HastyStorageFactory()
