"""Writer of the SQLite store: group commit, disk-full handling; blocking, used by one thread."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

from twisted.logger import Logger

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.persistence.changes import (
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    RestoreLog,
    TrimEvents,
    TrimLog,
)
from msmq.persistence.snapshot import Snapshot
from msmq.storage.damage import DamagePolicy
from msmq.storage.loss_check import LossCheck
from msmq.storage.part_plan import PartPlan
from msmq.storage.plan import TransactionPlan
from msmq.storage.sqlite.express import ExpressLog, express_path, open_express, remove_express
from msmq.storage.sqlite.failures import failure, kind_of
from msmq.storage.sqlite.file_ownership import connect, prepare
from msmq.storage.sqlite.files import OpenedFiles, create_file, is_absent, lock_file, move_stale_log_away
from msmq.storage.sqlite.generation import FileGeneration
from msmq.storage.sqlite.index import read_rows, read_snapshot
from msmq.storage.sqlite.integrity.checksum_fill import FileChecksumFill
from msmq.storage.sqlite.integrity.start_check import check_small_tables, take_damaged_messages
from msmq.storage.sqlite.integrity.wal_check import lost_frame
from msmq.storage.sqlite.plan_writer import PlanWriter, SqliteNumbers
from msmq.storage.sqlite.reserve import Reserve
from msmq.storage.sqlite.schema import DROP_TRIGGER, REMOVAL_TRIGGER, SCHEMA, Schema
from msmq.storage.sqlite.space import Space

CHECKPOINT_BYTES: Final = 4 * 1024 * 1024
"""Approximate size of the WAL at which it is checkpointed."""
LOG_BYTES: Final = 64 * 1024 * 1024
"""Size to which a larger WAL is truncated."""
RESERVE_PAGES: Final = 64
"""Pages beyond the configured limit, only for removals."""
LARGE_STATE: Final = 512 * 1024
"""Size of a state value above which a batch may not use the space reserved for removals."""

REMOVING: Final = (RemoveMessages, RemoveQueue, MoveMessage, PutAborts, TrimLog, TrimEvents, RemoveState)
"""The changes that are possible on a full disk."""


class FileDatabase:
    """One file, from L{FileDatabase.__init__} to L{close}, and the one for express messages next to it.

    If the express file fails after the durable part of a batch is committed, the express messages stay
    pending. At most one group is pending, since no other express message is accepted before they are written.

    @param path: the file; created if missing.
    @param policy: handling of damage and loss.
    @param page_limit: maximum number of pages; C{None} for no configured limit.
    @ivar damaged: the number of damaged messages that were quarantined when it was opened.
    @raise StorageError: it cannot be used; the text is the reason.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, path: Path, policy: DamagePolicy, *, page_limit: int | None = None, schema: Schema = SCHEMA
    ) -> None:
        self.path = path
        self._policy = policy
        self.damaged = 0
        self._page_limit = page_limit
        self._reserve = Reserve(path)
        with ExitStack() as opened:
            opened.callback(os.close, lock_file(path))
            opened.callback(_remove_express, path)
            loss = LossCheck(str(path), policy)
            if is_absent(path):
                loss.check_empty()
            try:
                self._connection, self._express = connection, express = self._open(schema, loss)
                opened.callback(connection.close)
                opened.callback(express.close)
                self._limit_pages(0)
                self._generation = FileGeneration(connection, policy.mark)
                remedy = f"{path} and {path}-wal"
                loss.check(self._generation.store, self._generation.number, remedy)
                self._generation.advance_alone()
                opened.callback(self._generation.end)
                self._presence = OpenedFiles.of(path)
                check_small_tables(connection, path, schema)
                self._known, self._next_queue = read_rows(connection)
                self._writer = PlanWriter.found(connection, express)
                self._fill = FileChecksumFill.found(connection)
                self._take_damaged(loss)
            except Exception as error:
                raise failure(path, "open", error) from error
            self._opened = opened.pop_all()
        self._space = Space(connection, express, self._writer.logs)
        self._express_log = ExpressLog(express, path)
        self._owed: PartPlan | None = None
        self._reserve.hold()

    def close(self) -> None:
        """Release the file."""
        self._opened.close()

    def snapshot(self) -> Snapshot:
        """Read the index of the file, without packets.

        @raise StorageError: it cannot be read.
        """
        try:
            return read_snapshot(self._connection)
        except (sqlite3.Error, ValueError) as error:
            raise failure(self.path, "read", error) from error

    def write(self, batches: Sequence[Sequence[Change]]) -> list[StorageError | None]:
        """Write these batches in order, each atomically; returns the error of each.

        They are written as one transaction. If that fails each is retried singly, so that a faulty or too
        large batch fails alone.
        """
        plan = TransactionPlan(self._known, self._next_queue)
        outcomes: list[StorageError | None] = [None] * len(batches)
        if self._reserve.is_spent and not self._reserve.hold() and any(map(_puts, batches)):
            return self._write_without_space(batches)
        for place, error in plan.add_all(batches).items():
            outcomes[place] = failure(self.path, "write", error)
        reason = self._perform(plan)
        if reason is not None and len(batches) > 1 and kind_of(reason) != "SQLITE_BUSY":
            return [outcome for changes in batches for outcome in self.write([changes])]
        failed = None if reason is None else failure(self.path, "write", reason)
        if reason is not None and kind_of(reason) == "SQLITE_CORRUPT" and _removes(batches[-1]):
            reason = self._perform(plan, leaves_packets=True)
            failed = None if reason is None else failure(self.path, "write", reason)
        if isinstance(failed, StorageFull) and outcomes == [None] and _removes(batches[0]):
            with self._more_room():
                reason = self._perform(plan, is_careful=False)
            failed = None if reason is None else failure(self.path, "write", reason)
        if failed is None:
            failed = self._presence.loss()
        return outcomes if failed is None else [outcome or failed for outcome in outcomes]

    def cleanup(self) -> bool:
        """Release some space; returns whether more work is pending.

        @raise StorageError: it failed, and nothing was changed.
        """
        is_urgent = self._reserve.is_spent and not self._reserve.hold()
        try:
            is_more = self._space.reclaim(is_urgent=is_urgent) or self._fill.step()
        except sqlite3.Error as error:
            raise failure(self.path, "release space", error) from error
        if self._space.has_checkpointed:
            self._space.has_checkpointed = False
            self._generation.request()
        self._pay()
        return is_more

    def checkpoint(self) -> bool:
        """Checkpoint the WAL completely, if it has become long.

        @raise StorageError: it failed; the WAL still has all data.
        """
        if self._writer.written + self._space.written < CHECKPOINT_BYTES:
            return False
        self._writer.written = self._space.written = 0
        self._generation.request()
        try:
            for connection in (self._connection, self._express):
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return False
        except sqlite3.Error as error:
            raise failure(self.path, "checkpoint the write-ahead log", error) from error

    def _take_damaged(self, loss: LossCheck) -> None:
        """Quarantine messages whose rows are damaged, and write the events about the start."""
        self._connection.execute("BEGIN")
        found = take_damaged_messages(self._connection, self.path)
        for one in found:
            self.log.error("{problem}; it is in quarantine", problem=f"{one.what}; {one.problem}")
        self.damaged = len(found)
        events = [*loss.events(), *(one.event(self._policy.now()) for one in found)]
        if events:
            self._writer.logs.write_events(events)
        self._connection.execute("COMMIT")

    def _open(self, schema: Schema, loss: LossCheck) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        """Connect to both files; on a full disk this uses the reserve."""
        try:
            return self._connect(schema, loss)
        except StorageFull:
            if not self._reserve.spend():
                raise
        return self._connect(schema, loss)

    def _connect(self, schema: Schema, loss: LossCheck) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        with ExitStack() as opened:
            try:
                move_stale_log_away(self.path)
                create_file(self.path)
                connection = connect(self.path)
                opened.callback(connection.close)
                if (offset := lost_frame(connection, self.path)) is not None:
                    loss.found(
                        f"{self.path}-wal, offset {offset}: damaged in the middle, and confirmed transactions"
                        " follow; restore both files, or start with --accept-loss to use what is before it"
                    )
                prepare(connection, self.path, schema, loss.check_empty)
                express = open_express(self.path)
                opened.callback(express.close)
                for each in (connection, express):
                    each.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
                    each.execute("PRAGMA wal_autocheckpoint = 8000")
            except Exception as error:
                raise failure(self.path, "open", error) from error
            opened.pop_all()
        return connection, express

    def _limit_pages(self, more: int) -> None:
        if self._page_limit is not None:
            for connection in (self._connection, self._express):
                connection.execute(f"PRAGMA max_page_count = {self._page_limit + more}")

    @contextmanager
    def _more_room(self) -> Iterator[None]:
        """Allow the pages that are reserved for removals."""
        self._reserve.spend()
        self._limit_pages(RESERVE_PAGES)
        yield
        self._limit_pages(0)

    def _write_without_space(self, batches: Sequence[Sequence[Change]]) -> list[StorageError | None]:
        """Write those batches that only remove, on a full disk."""
        full = StorageFull(
            f"{self.path}: cannot write: there is no space left: the rest is reserved for removing messages"
        )
        done = iter(self.write([changes for changes in batches if not _puts(changes)]))
        return [full if _puts(changes) else next(done) for changes in batches]

    def _perform(
        self, plan: TransactionPlan, *, is_careful: bool = True, leaves_packets: bool = False
    ) -> Exception | None:
        """Write a plan atomically; return the reason of a failure.

        @param is_careful: whether to reserve the space for express messages first.
        @param leaves_packets: whether packets of removed messages stay, since SQLite cannot reach them.
        """
        express = plan.express
        is_durable = plan.is_durable
        numbers = self._writer.numbers()
        try:
            if express is not None:
                self._pay()
                if is_careful:
                    self._express_log.make_room(express)
                self._express.execute("BEGIN")
                self._writer.express.write(express)
            if is_durable:
                # This locks the file only during the write; there is no other writer.
                self._connection.execute("BEGIN")
                if leaves_packets:
                    self._connection.execute(DROP_TRIGGER)
                self._writer.write(plan)
                if leaves_packets:
                    self._connection.execute(REMOVAL_TRIGGER)
                is_marked = self._generation.is_due
                if is_marked:
                    self._generation.advance()
                self._connection.execute("COMMIT")
                if is_marked:
                    self._generation.confirm()
                else:
                    self._generation.has_written()
            elif express is not None:
                self._express.execute("COMMIT")
        except Exception as error:
            self._writer.restore(numbers)
            _roll_back(self._express)
            _roll_back(self._connection)
            return error
        if is_durable and express is not None:
            self._commit_express(express, numbers)
        plan.apply_to(self._known)
        self._next_queue = plan.next_queue
        return None

    def _commit_express(self, express: PartPlan, before: SqliteNumbers) -> None:
        """Commit the express messages of a committed durable part; on a failure they stay pending.

        @param before: the numbers before the write.
        """
        try:
            self._express.execute("COMMIT")
        except sqlite3.Error as error:
            _roll_back(self._express)
            self._writer.express.next_packet = before.express
            self._owed = express
            self.log.error(
                "{error}; the express messages of a batch that is done are in memory until it works",
                error=failure(express_path(self.path), "write", error),
            )

    def _pay(self) -> None:
        """Write pending express messages.

        @raise StorageError: it failed, and they stay pending.
        """
        if self._owed is None:
            return
        numbers = self._writer.numbers()
        try:
            self._express.execute("BEGIN")
            self._writer.express.write(self._owed)
            self._express.execute("COMMIT")
        except sqlite3.Error as error:
            self._writer.restore(numbers)
            _roll_back(self._express)
            raise failure(express_path(self.path), "write", error) from error
        self._owed = None


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite rolls back by itself after a failure of the disk.
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _puts(changes: Sequence[Change]) -> bool:
    """Whether a batch stores messages or large values."""
    return any(
        isinstance(change, PutMessage | AppendLog | RestoreLog | PutQueue)
        or (isinstance(change, PutState) and len(change.value) >= LARGE_STATE)
        for change in changes
    )


def _removes(changes: Sequence[Change]) -> bool:
    """Whether a batch removes or moves messages, for which space is reserved."""
    return not _puts(changes) and any(isinstance(change, REMOVING) for change in changes)


def _remove_express(path: Path) -> None:
    with suppress(OSError):
        remove_express(path)
