"""The file as its one writer sees it; everything here blocks, and belongs to one thread."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from msmq.interfaces.storage import StorageError
from msmq.queues.changes import Change
from msmq.queues.snapshot import Snapshot
from msmq.storage.sqlite.failures import failure, kind_of
from msmq.storage.sqlite.plan import Plan
from msmq.storage.sqlite.records import lookup_id_of, read_definition
from msmq.storage.sqlite.schema import SCHEMA, Schema, connect, create_file, pragma, prepare

Row = TypeVar("Row")

STATEMENT_BYTES = 1024 * 1024
"""Bytes of packets in one statement, which SQLite copies."""
CHECKPOINT_BYTES = 4 * 1024 * 1024
"""About what is written to the log before it is brought into the file."""
GROUP_BYTES = 16 * 1024
"""About what a transaction writes beside its packets."""
LOG_BYTES = 64 * 1024 * 1024
"""What the log is cut to when it has grown beyond it."""
SLACK_PAGES = 1024
"""Free pages that the file keeps, since they will be needed again."""
STEP_PAGES = 256
"""Pages that are given back in one step."""
STEP_MESSAGES = 1000
"""Messages of a removed queue that are deleted in one step."""


class Database:
    """One file, from L{Database.__init__} to L{close}.

    @param path: the file; made if it is not there.
    @param page_limit: the most pages that it may have; C{None} for no limit of ours.
    @raise StorageError: it cannot be used; says why.
    """

    def __init__(self, path: Path, *, page_limit: int | None = None, schema: Schema = SCHEMA) -> None:
        self.path = path
        self._written = 0
        self._lock = _lock(path)
        try:
            create_file(path)
            self._connection = connect(path)
        except (OSError, sqlite3.Error) as error:
            os.close(self._lock)
            raise failure(path, "open", error) from error
        try:
            prepare(self._connection, path, schema)
            self._connection.execute("PRAGMA wal_autocheckpoint = 8000")
            self._connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            if page_limit is not None:
                self._connection.execute(f"PRAGMA max_page_count = {page_limit}")
            self._known, self._next_queue = self._rows()
            (last,) = self._connection.execute("SELECT max(id) FROM packet").fetchone()
        except Exception as error:
            self.close()
            raise failure(path, "open", error) from error
        self._next_packet = (last or 0) + 1

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
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
            messages = {
                definition.identifier: [
                    (lookup_id_of(stored), size, arrived)
                    for stored, size, arrived in execute(
                        "SELECT lookup_id, size, arrived FROM message WHERE queue = ? ORDER BY lookup_id",
                        (row,),
                    ).fetchall()
                ]
                for row, definition in queues
            }
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
        execute = self._connection.execute
        try:
            left = execute("SELECT id FROM removed_queue LIMIT 1").fetchone()
            if left is not None:
                deleted = execute(
                    "DELETE FROM message WHERE queue = ?1 AND lookup_id IN"
                    " (SELECT lookup_id FROM message WHERE queue = ?1 LIMIT ?2)",
                    (left[0], STEP_MESSAGES),
                ).rowcount
                if deleted < STEP_MESSAGES:
                    execute("DELETE FROM removed_queue WHERE id = ?", left)
                return True
            excess = pragma(self._connection, "freelist_count") - SLACK_PAGES
            if excess <= 0 or 4 * (excess + SLACK_PAGES) < pragma(self._connection, "page_count"):
                return False
            # It answers with a row without columns for each page, and only a script goes on after the first.
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(excess, STEP_PAGES)})")
            if excess <= STEP_PAGES:
                # The file itself is cut only when the log is brought into it.
                execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return excess > STEP_PAGES
        except sqlite3.Error as error:
            raise failure(self.path, "give space back", error) from error

    def checkpoint(self) -> bool:
        """Bring the log into the file, if it has become long; it is all done at once.

        @raise StorageError: it failed; the log still holds everything.
        """
        if self._written < CHECKPOINT_BYTES:
            return False
        self._written = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return False
        except sqlite3.Error as error:
            raise failure(self.path, "bring the log into the file", error) from error

    def _rows(self) -> tuple[dict[UUID, int], int]:
        """The row of each queue, and the first that no queue has or had."""
        execute = self._connection.execute
        known = {
            UUID(bytes=identifier): row for row, identifier in execute("SELECT id, identifier FROM queue")
        }
        (last,) = execute("SELECT max(id) FROM removed_queue").fetchone()
        return known, max((last or 0, *known.values())) + 1

    def _perform(self, plan: Plan) -> Exception | None:
        """Write what a plan comes to, or nothing of it; why nothing."""
        connection = self._connection
        next_packet = self._next_packet
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._execute(plan)
            connection.execute("COMMIT")
        except Exception as error:
            self._next_packet = next_packet
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

    def _execute(self, plan: Plan) -> None:
        connection = self._connection
        for row in plan.removed:
            connection.execute("INSERT INTO removed_queue VALUES (?)", (row,))
            connection.execute("DELETE FROM queue WHERE id = ?", (row,))
        for row, (identifier, record) in plan.queues.items():
            connection.execute(
                "INSERT INTO queue VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET definition = excluded.definition",
                (row, identifier, record),
            )
        for row, messages in plan.messages.items():
            put = [(lookup_id, kept[0], kept[1]) for lookup_id, kept in messages.items() if kept is not None]
            for chunk in _chunks(put):
                self._put(row, chunk)
            gone = [lookup_id for lookup_id, kept in messages.items() if kept is None]
            for ids in _pieces(gone):
                connection.execute(
                    f"DELETE FROM message WHERE queue = ? AND lookup_id IN ({_list('?', len(ids))})",
                    (row, *ids),
                )
            self._written += 2048 * len(gone)
        connection.executemany(
            "INSERT INTO state VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            plan.state.items(),
        )
        self._written += GROUP_BYTES

    def _put(self, row: int, messages: Sequence[tuple[int, bytes, float]]) -> None:
        """Write some messages with one statement for the packets and one for the index.

        Between two rows of many statements Python lets another thread run, and with a busy reactor
        waits each time until it may go on; so there are few statements.
        """
        first = self._next_packet
        self._next_packet += len(messages)
        count = len(messages)
        self._connection.execute(
            f"INSERT INTO packet VALUES {_list('(?, ?)', count)}",
            tuple(chain.from_iterable((first + n, packet) for n, (_, packet, _) in enumerate(messages))),
        )
        self._connection.execute(
            f"INSERT INTO message VALUES {_list('(?, ?, ?, ?, ?)', count)} ON CONFLICT (queue, lookup_id)"
            " DO UPDATE SET size = excluded.size, arrived = excluded.arrived, packet = excluded.packet",
            tuple(
                chain.from_iterable(
                    (row, lookup_id, len(packet), arrived, first + n)
                    for n, (lookup_id, packet, arrived) in enumerate(messages)
                )
            ),
        )
        self._written += sum(len(packet) for _, packet, _ in messages)


def _list(element: str, count: int) -> str:
    return ", ".join([element] * count)


def _pieces(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cut into pieces of few different lengths, so that their statements stay prepared."""
    position = 0
    for length in (64, 16, 4, 1):
        while len(rows) - position >= length:
            yield rows[position : position + length]
            position += length


def _chunks(messages: Sequence[tuple[int, bytes, float]]) -> Iterator[Sequence[tuple[int, bytes, float]]]:
    """The same, with not too many bytes in one."""
    for piece in _pieces(messages):
        if len(piece) == 1 or sum(len(packet) for _, packet, _ in piece) <= STATEMENT_BYTES:
            yield piece
        else:
            yield from ([message] for message in piece)


def _lock(path: Path) -> int:
    """Hold a lock as long as the descriptor is open, so that two processes never write one file.

    The lock is on a file beside it, since closing any descriptor of the database would end SQLite's
    own locks.
    """
    place = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure(place, "open", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StorageError(f"{path} is in use by another queue manager") from error
    return descriptor
