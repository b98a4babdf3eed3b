"""Reads from the SQLite file through read-only connections; blocking, in one thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from msmq.interfaces.storage import LogEntry, LogExtent, MessageNotStored, StoredEvent
from msmq.storage.damage import DamagedRow, PacketDamaged, VerifiedRows
from msmq.storage.records import lookup_id_of, stored_lookup_id
from msmq.storage.scrub_step import ScrubPosition, ScrubStep
from msmq.storage.sqlite.express import express_path
from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.file_ownership import connect
from msmq.storage.sqlite.integrity.row_scrubber import scrub
from msmq.storage.sqlite.integrity.verification import FileRowVerifier

LAST: Final = (1 << 63) - 1


class PacketReader:
    """Reader that connects at the first read, and reconnects after a failure.

    @param path: the file, which the writer has created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections: dict[Path, sqlite3.Connection] = {}

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """The packets of these messages, in this order, each verified.

        @raise PacketDamaged: some of them are damaged; their bytes are quarantined.
        @raise MessageNotStored: one of them is not stored.
        @raise StorageError: they cannot be read.
        """
        wanted = [stored_lookup_id(lookup_id) for lookup_id in lookup_ids]
        damaged: list[DamagedRow] = []
        with self._reading(self.path) as durable:
            row = _row_of(durable, queue)
            packets: dict[int, bytes] = {}
            if row is not None:
                packets = FileRowVerifier(durable, self.path, damaged).packets(row, wanted)
        gone = {stored_lookup_id(one.key) for one in damaged}
        missing = [stored_id for stored_id in wanted if stored_id not in packets and stored_id not in gone]
        if row is not None and missing:
            with self._reading(express_path(self.path)) as express, self._reading(self.path) as durable:
                verification = FileRowVerifier(durable, self.path, damaged, express)
                packets.update(verification.packets(row, missing))
        if damaged:
            raise PacketDamaged(queue, damaged)
        for stored_id in missing:
            if stored_id not in packets:
                raise MessageNotStored(queue, lookup_id_of(stored_id))
        return [packets[stored_id] for stored_id in wanted]

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """The locations of all messages with this identity.

        @raise StorageError: it cannot be read.
        """
        if not identity:
            return []
        with self._reading(self.path) as durable:
            queues: dict[int, UUID] = {
                row: UUID(bytes=identifier)
                for row, identifier in durable.execute("SELECT id, identifier FROM queue")
            }
            found = durable.execute(_FIND, (identity,)).fetchall()
        with self._reading(express_path(self.path)) as express:
            found += express.execute(_FIND, (identity,)).fetchall()
        return [(queues[row], lookup_id_of(stored_id)) for row, stored_id in found if row in queues]

    def read_log(self, queue: UUID, after: int, limit: int) -> VerifiedRows[LogEntry]:
        """Entries of a message log with larger numbers, without damaged ones.

        @raise StorageError: they cannot be read.
        """
        damaged: list[DamagedRow] = []
        with self._reading(self.path) as durable:
            row = _row_of(durable, queue)
            entries: list[LogEntry] = []
            if row is not None:
                within = min(after, LAST), max(0, min(limit, LAST))
                entries = FileRowVerifier(durable, self.path, damaged).entries(row, *within)
        return VerifiedRows(entries, damaged)

    def log_extent(self, queue: UUID) -> LogExtent:
        """The extent of a message log.

        @raise StorageError: it cannot be read.
        """
        with self._reading(self.path) as durable:
            row = _row_of(durable, queue)
            return LogExtent() if row is None else _log_extent(durable, row)

    def read_events(self, after: int, limit: int, identity: bytes | None) -> VerifiedRows[StoredEvent]:
        """Events with larger numbers, without damaged ones.

        @raise StorageError: they cannot be read.
        """
        damaged: list[DamagedRow] = []
        with self._reading(self.path) as durable:
            within = min(after, LAST), max(0, min(limit, LAST))
            events = FileRowVerifier(durable, self.path, damaged).events(*within, identity)
        return VerifiedRows(events, damaged)

    def scrub(self, position: ScrubPosition | None, size: int) -> ScrubStep:
        """Verify rows after a position, about this number of bytes of packets.

        @param position: where to begin; C{None} for the beginning.
        @raise StorageError: it cannot be read.
        """
        try:
            return scrub(self.path, position, size)
        except Exception as error:
            raise failure(self.path, "read", error) from error

    def close(self) -> None:
        """Release the files until the next read."""
        while self._connections:
            _, connection = self._connections.popitem()
            connection.close()

    @contextmanager
    def _reading(self, path: Path) -> Iterator[sqlite3.Connection]:
        """A connection in a read transaction, which sees one state of the file."""
        try:
            connection = self._connections.get(path)
            if connection is None:
                connection = self._connections[path] = connect(path)
                connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                try:
                    connection.execute("COMMIT")
                except sqlite3.DatabaseError:
                    # This may fail after damage was found; the rows that were read are valid nevertheless.
                    self._connections.pop(path, connection).close()
        except Exception as error:
            self.close()
            raise failure(path, "read", error) from error


def _row_of(durable: sqlite3.Connection, queue: UUID) -> int | None:
    found = durable.execute("SELECT id FROM queue WHERE identifier = ?", (queue.bytes,)).fetchone()
    return None if found is None else int(found[0])


def _log_extent(durable: sqlite3.Connection, row: int) -> LogExtent:
    found = durable.execute("SELECT first, entries, size FROM log_extent WHERE queue = ?", (row,)).fetchone()
    if found is None:
        return LogExtent()
    first, entries, size = found
    if not entries:
        return LogExtent(trimmed=first - 1)
    oldest, newest = durable.execute(
        "SELECT (SELECT min(sequence) FROM log WHERE queue = ?1 AND sequence >= ?2),"
        " (SELECT max(sequence) FROM log WHERE queue = ?1)",
        (row, first),
    ).fetchone()
    return LogExtent(oldest, newest, entries, size, first - 1)


_FIND: Final = "SELECT queue, lookup_id FROM message WHERE identity = ?"
