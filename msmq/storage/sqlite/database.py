"""The file as its one writer sees it; everything here blocks, and belongs to one thread."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.queues.changes import Change
from msmq.queues.snapshot import Snapshot, StoredMessage
from msmq.storage.sqlite.express import attach_express, remove_express
from msmq.storage.sqlite.failures import failure, kind_of
from msmq.storage.sqlite.files import create_file, lock_file
from msmq.storage.sqlite.log_writing import Logs
from msmq.storage.sqlite.opening import connect, prepare
from msmq.storage.sqlite.plan import Plan
from msmq.storage.sqlite.records import lookup_id_of, read_definition
from msmq.storage.sqlite.schema import SCHEMA, Schema
from msmq.storage.sqlite.space import Space
from msmq.storage.sqlite.writing import MessageWriter, PlanWriter

CHECKPOINT_BYTES = 4 * 1024 * 1024
"""About what is written to the log before it is brought into the file."""
LOG_BYTES = 64 * 1024 * 1024
"""What the log is cut to when it has grown beyond it."""


class Database:
    """One file, from L{Database.__init__} to L{close}.

    @param path: the file; made if it is not there.
    @param page_limit: the most pages that it may have; C{None} for no limit of ours.
    @raise StorageError: it cannot be used; says why.
    """

    def __init__(self, path: Path, *, page_limit: int | None = None, schema: Schema = SCHEMA) -> None:
        self.path = path
        self._lock = lock_file(path)
        try:
            create_file(path)
            self._connection = connection = connect(path)
        except (OSError, sqlite3.Error) as error:
            os.close(self._lock)
            raise failure(path, "open", error) from error
        try:
            prepare(connection, path, schema)
            attach_express(connection, path)
            for part in ("main", "express"):
                connection.execute(f"PRAGMA {part}.journal_size_limit = {LOG_BYTES}")
                if page_limit is not None:
                    connection.execute(f"PRAGMA {part}.max_page_count = {page_limit}")
            connection.execute("PRAGMA wal_autocheckpoint = 8000")
            self._known, self._next_queue = self._rows()
            (last,) = connection.execute("SELECT max(id) FROM main.packet").fetchone()
            logs = Logs.found(connection)
        except Exception as error:
            self.close()
            raise failure(path, "open", error) from error
        self._writer = PlanWriter(
            connection,
            MessageWriter(connection, "main", (last or 0) + 1),
            MessageWriter(connection, "express", 1),
            logs,
        )
        self._space = Space(connection, logs)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        with suppress(OSError):
            remove_express(self.path)
        os.close(self._lock)

    def snapshot(self) -> Snapshot:
        """What the file holds; no packet is read.

        @raise StorageError: it cannot be read.
        """
        execute = self._connection.execute
        try:
            queues = [
                (row, read_definition(record))
                for row, record in execute("SELECT id, definition FROM queue ORDER BY id")
            ]
            messages = {definition.identifier: self._index(row) for row, definition in queues}
            state = dict(execute("SELECT name, value FROM state").fetchall())
        except (sqlite3.Error, ValueError) as error:
            raise failure(self.path, "read", error) from error
        return Snapshot(tuple(definition for _, definition in queues), messages, state)

    def write(self, batches: Sequence[Sequence[Change]]) -> list[StorageError | None]:
        """Do these batches in their order, each whole or not at all; answers with what failed of each.

        They go to the disk as one transaction.
        When that fails each is tried alone, so that one that is too large, or that is itself the
        reason, takes no other with it.
        """
        plan = Plan(self._known, self._next_queue)
        outcomes: list[StorageError | None] = []
        for changes in batches:
            try:
                plan.add(changes)
            except Exception as error:
                outcomes.append(failure(self.path, "write", error))
            else:
                outcomes.append(None)
        reason = self._perform(plan)
        if reason is None:
            return outcomes
        if len(batches) == 1 or kind_of(reason) == "SQLITE_BUSY":
            failed = failure(self.path, "write", reason)
            return [failed if outcome is None else outcome for outcome in outcomes]
        return [outcome for changes in batches for outcome in self.write([changes])]

    def tidy(self) -> bool:
        """Give a little space back; whether there is more to do.

        @raise StorageError: it failed, and nothing was changed.
        """
        try:
            return self._space.give_back()
        except sqlite3.Error as error:
            raise failure(self.path, "give space back", error) from error

    def checkpoint(self) -> bool:
        """Bring the log into the file, if it has become long; it is all done at once.

        @raise StorageError: it failed; the log still holds everything.
        """
        if self._writer.written < CHECKPOINT_BYTES:
            return False
        self._writer.written = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return False
        except sqlite3.Error as error:
            raise failure(self.path, "bring the log into the file", error) from error

    def _index(self, row: int) -> list[StoredMessage]:
        """The messages of a queue, as a start needs them."""
        select = (
            "SELECT lookup_id & 0x7fffffffffffffff, size, arrived, due, aborts, moves FROM main.message"
            " WHERE queue = ? AND lookup_id {} 0 ORDER BY lookup_id"
        )
        # With the sign bit off it is what it stands for, unless it has all 64 bits.
        index: list[StoredMessage] = self._connection.execute(select.format("<"), (row,)).fetchall()
        beyond = self._connection.execute(select.format(">="), (row,)).fetchall()
        index += [(lookup_id_of(lookup_id), *rest) for lookup_id, *rest in beyond]
        return index

    def _rows(self) -> tuple[dict[int, int], int]:
        """The row of each queue by its identifier, and the first that no queue has or had."""
        execute = self._connection.execute
        known = {
            int.from_bytes(identifier, "big"): row
            for row, identifier in execute("SELECT id, identifier FROM queue")
        }
        (last,) = execute("SELECT max(id) FROM removed_queue").fetchone()
        return known, max((last or 0, *known.values())) + 1

    def _perform(self, plan: Plan) -> Exception | None:
        """Write what a plan comes to, or nothing of it; why nothing."""
        connection = self._connection
        numbers = self._writer.numbers()
        try:
            # Locks a file only when it is written, and nobody else writes.
            connection.execute("BEGIN")
            self._writer.write(plan)
            connection.execute("COMMIT")
        except Exception as error:
            self._writer.restore(numbers)
            # A failure of the disk ends the transaction by itself.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            return error
        for identifier, row in plan.changed.items():
            if row is None:
                self._known.pop(identifier, None)
            else:
                self._known[identifier] = row
        self._next_queue = plan.next_queue
        return None
