"""Message store in one SQLite file: C{IMessageStore}."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from msmq.interfaces.plugins import ILossAcceptance, IStorageFactory, IStorageProbe
from msmq.interfaces.storage import IMessageStore, IStoreFiles, IStoreVerification
from msmq.persistence.changes import Change
from msmq.storage.damage import DamagePolicy
from msmq.storage.reading_thread import Deliver, Outcome, ReadingThread
from msmq.storage.scrub_policy import SCRUBBING
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.sqlite.packet_reader import PacketReader
from msmq.storage.sqlite.schema import SCHEMA, Schema
from msmq.storage.sqlite.writing_thread import SqliteWritingThread
from msmq.storage.threaded import ThreadedMessageStore
from msmq.storage.writing_thread import Listener

FILE_NAME = "msmq.sqlite"
MARK_SUFFIX = "-mark"
"""Suffix of the mark file in the data directory, which records the store last used and its progress."""


@implementer(IMessageStore, IStoreFiles, IStoreVerification)
class SqliteMessageStore(ThreadedMessageStore):
    """Message store in one SQLite file; a completed commit is on stable storage.

    It does not open if the file is of another program, of a newer version, damaged, or in use.
    A batch that is submitted during a read may already be visible to it.

    @param path: the file; it is created with mode 0600 if missing, and SQLite creates others next to it.
    @param policy: handling of damage and loss.
    @param page_limit: maximum number of pages of 4096 bytes; C{None} for no limit.
    @param schema: the version of the tables.
    @param reactor: the reactor in whose thread the Deferreds fire; by default the running one.
    """

    name = "sqlite"
    durable = True

    def __init__(
        self,
        path: Path,
        policy: DamagePolicy,
        *,
        page_limit: int | None = None,
        schema: Schema = SCHEMA,
        reactor: IReactorFromThreads | None = None,
    ) -> None:
        self.path = path.absolute()
        super().__init__(str(self.path), policy, reactor)
        self._open_database = partial(FileDatabase, self.path, policy, page_limit=page_limit, schema=schema)
        self._unfinished = 0

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        writing = self._open_writing()
        if writing is None:
            return fail(self._not_open())
        done: Deferred[None] = Deferred()
        self._unfinished += 1
        writing.put((tuple(changes), done))
        return done

    def files(self) -> Sequence[Path]:
        """See L{IStoreFiles.files}."""
        return [self.path, self.path.with_name(f"{self.path.name}-wal")]

    def _threads(
        self, listener: Listener, deliver: Deliver
    ) -> tuple[SqliteWritingThread, tuple[ReadingThread, ReadingThread]]:
        packets = ReadingThread("msmq sqlite packets", PacketReader(self.path), deliver)
        searches = ReadingThread("msmq sqlite searches", PacketReader(self.path), deliver)
        reading = packets, searches
        return SqliteWritingThread("msmq sqlite writer", self._open_database, reading, listener), reading

    def _is_writing(self) -> bool:
        return self._unfinished > 0

    def _forget(self, outcomes: Sequence[Outcome]) -> None:
        self._unfinished -= len(outcomes)


@implementer(IStorageFactory, IStorageProbe, ILossAcceptance)
@attrs.frozen
class SqliteStorageFactory:
    """C{sqlite}: C{msmq.sqlite} in the data directory; C{sqlite:PATH}: another file, from there."""

    name: str = "sqlite"
    description: str = "in one SQLite file; survives a kill and a power cut"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        return self._store(argument, data, accepts_loss=False)

    def open_with_loss(self, argument: str, data: Path) -> IMessageStore:
        """See L{ILossAcceptance.open_with_loss}."""
        return self._store(argument, data, accepts_loss=True)

    def probe(self, argument: str, data: Path) -> None:
        """See L{IStorageProbe.probe}: the directory of the file is there, and the file can be written."""
        path = data / (argument or FILE_NAME)
        if path.exists():
            if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
                raise ValueError(f"{path} is not a file that this user can write")
        elif path.parent != data and not path.parent.is_dir():
            raise ValueError(f"the directory {path.parent} does not exist")
        elif path.parent.is_dir() and not os.access(path.parent, os.W_OK | os.X_OK):
            raise ValueError(f"the directory {path.parent} cannot be written by this user")

    def _store(self, argument: str, data: Path, *, accepts_loss: bool) -> SqliteMessageStore:
        if "\0" in argument:
            raise ValueError("a path must not contain a null character")
        path = data / (argument or FILE_NAME)
        mark = data / f"{path.name}{MARK_SUFFIX}"
        return SqliteMessageStore(path, DamagePolicy(mark, accepts_loss, time.time, SCRUBBING))
