"""The SQLite file of express messages: written asynchronously, and discarded at the next start.

A batch of both kinds is two transactions: this one is written first and committed last, after the durable
one.
So that its commit does not fail for lack of space, its WAL is preallocated; express messages that cannot be
committed nevertheless stay pending, and are written before anything else.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msmq.storage.part_plan import PartPlan
from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.file_ownership import connect
from msmq.storage.sqlite.files import make_file
from msmq.storage.sqlite.schema import MESSAGE_TABLES

FRAME_BYTES: Final = 4096 + 24
"""Size of a WAL frame."""
STEP_BYTES: Final = 4 * 1024 * 1024
"""Additional bytes by which the WAL is extended."""
PUT_PAGES: Final = 8
"""Upper limit on the pages that a put writes, except those filled by its packet."""
CHANGE_PAGES: Final = 4
"""Upper limit on the pages that a move or removal writes."""


def express_path(path: Path) -> Path:
    """Path of the file of express messages of a store."""
    return path.with_name(f"{path.name}.express")


def remove_express(path: Path) -> None:
    """Delete the express file of an earlier process.

    @raise OSError: it cannot be deleted.
    """
    place = express_path(path)
    for suffix in ("", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def open_express(path: Path) -> sqlite3.Connection:
    """Create an empty file for express messages, and connect to it.

    @raise StorageError: it cannot be created.
    """
    place = express_path(path)
    with ExitStack() as opened:
        try:
            remove_express(path)
            make_file(place)
            connection = connect(place)
            opened.callback(connection.close)
            for pragma in ("synchronous = OFF", "auto_vacuum = INCREMENTAL", "journal_mode = WAL"):
                connection.execute(f"PRAGMA {pragma}").fetchone()
            for statement in MESSAGE_TABLES:
                connection.execute(statement)
        except (OSError, sqlite3.Error) as error:
            raise failure(place, "open", error) from error
        opened.pop_all()
    return connection


class ExpressLog:
    """Preallocation of the WAL of the express file.

    @param connection: to the file of express messages.
    @param path: the file of the store.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        place = express_path(path)
        self._path = place.with_name(f"{place.name}-wal")
        # The end of the written frames.
        self._used = STEP_BYTES

    def make_room(self, plan: PartPlan) -> None:
        """Preallocate space for a plan; not while a transaction is open.

        @raise StorageError: there is no space.
        """
        needed = _bytes_at_most(plan)
        try:
            size = self._path.stat().st_size
            if self._used + needed > size:
                # A checkpointed log can be reused, unless a reader still needs it.
                _, frames, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                self._used = frames * FRAME_BYTES
                if self._used + needed > size:
                    self._grow(self._used + needed + STEP_BYTES)
        except (OSError, sqlite3.Error) as error:
            raise failure(self._path, "write", error) from error
        self._used += needed

    def _grow(self, size: int) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def _bytes_at_most(plan: PartPlan) -> int:
    pages = 4 * PUT_PAGES
    for stage in plan.stages:
        pages += CHANGE_PAGES * (len(stage.moves) + len(stage.aborts))
        for messages in stage.messages.values():
            pages += sum(
                CHANGE_PAGES if message is None else PUT_PAGES + len(message.packet) // 4000
                for message in messages.values()
            )
    return pages * FRAME_BYTES
