"""Reads from the SQLite file through read-only connections; blocking, in one thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from msmq.interfaces.storage import LogEntry, LogExtent, MessageNotStored, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.storage.log_answer import one_answer
from msmq.storage.records import lookup_id_of, stored_lookup_id
from msmq.storage.sqlite.express import express_path
from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.file_ownership import connect
from msmq.storage.sqlite.text import text_of

TOGETHER: Final = 64
"""Messages that are asked for with one statement."""
LAST: Final = (1 << 63) - 1


class PacketReader:
    """Reads; connects when it is first asked, and again after a failure.

    @param path: the file, which the writer has made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections: dict[Path, sqlite3.Connection] = {}

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """The packets of these messages, in this order.

        @raise MessageNotStored: one of them is not kept.
        @raise StorageError: they cannot be read.
        """
        wanted = [stored_lookup_id(lookup_id) for lookup_id in lookup_ids]
        with self._reading(self.path) as durable:
            row = _row_of(durable, queue)
            packets = {} if row is None else _packets(durable, row, wanted)
        missing = [place for place in wanted if place not in packets]
        if row is not None and missing:
            with self._reading(express_path(self.path)) as express:
                packets.update(_packets(express, row, missing))
        for place in missing:
            if place not in packets:
                raise MessageNotStored(queue, lookup_id_of(place))
        return [packets[place] for place in wanted]

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """The places of all messages that have this identity.

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
        return [(queues[row], lookup_id_of(place)) for row, place in found if row in queues]

    def read_log(self, queue: UUID, after: int, limit: int) -> list[LogEntry]:
        """Entries of a message log with larger numbers.

        @raise StorageError: they cannot be read.
        """
        with self._reading(self.path) as durable:
            row = _row_of(durable, queue)
            return [] if row is None else _read_log(durable, row, after, limit)

    def log_extent(self, queue: UUID) -> LogExtent:
        """What a message log holds.

        @raise StorageError: it cannot be read.
        """
        with self._reading(self.path) as durable:
            row = _row_of(durable, queue)
            return LogExtent() if row is None else _log_extent(durable, row)

    def read_events(self, after: int, limit: int, identity: bytes | None) -> list[StoredEvent]:
        """Events with larger numbers.

        @raise StorageError: they cannot be read.
        """
        with self._reading(self.path) as durable:
            return _read_events(durable, after, limit, identity)

    def close(self) -> None:
        """Release the files until the next read."""
        while self._connections:
            _, connection = self._connections.popitem()
            connection.close()

    @contextmanager
    def _reading(self, path: Path) -> Iterator[sqlite3.Connection]:
        """A connection that shows one moment of a file."""
        try:
            connection = self._connections.get(path)
            if connection is None:
                connection = self._connections[path] = connect(path)
                connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")
        except Exception as error:
            self.close()
            raise failure(path, "read", error) from error


def _row_of(durable: sqlite3.Connection, queue: UUID) -> int | None:
    found = durable.execute("SELECT id FROM queue WHERE identifier = ?", (queue.bytes,)).fetchone()
    return None if found is None else int(found[0])


def _packets(connection: sqlite3.Connection, row: int, wanted: Sequence[int]) -> dict[int, bytes]:
    packets: dict[int, bytes] = {}
    for start in range(0, len(wanted), TOGETHER):
        ids = list(wanted[start : start + TOGETHER])
        # The last piece is filled up, so that there is one statement, which stays prepared.
        ids += ids[-1:] * (TOGETHER - len(ids))
        packets.update(connection.execute(_SELECT, (row, *ids)).fetchall())
    return packets


def _read_log(durable: sqlite3.Connection, row: int, after: int, limit: int) -> list[LogEntry]:
    rows = durable.execute(
        "SELECT sequence, lookup_id, arrived, packet FROM log WHERE queue = ?1 AND sequence > ?2"
        " AND sequence >= (SELECT first FROM log_extent WHERE queue = ?1) ORDER BY sequence LIMIT ?3",
        (row, min(after, LAST), max(0, min(limit, LAST))),
    )
    return list(
        one_answer(
            LogEntry(sequence, lookup_id_of(place), arrived, packet)
            for sequence, place, arrived, packet in rows
        )
    )


def _log_extent(durable: sqlite3.Connection, row: int) -> LogExtent:
    found = durable.execute("SELECT first, entries, size FROM log_extent WHERE queue = ?", (row,)).fetchone()
    if found is None or found[1] == 0:
        return LogExtent()
    first, entries, size = found
    oldest, newest = durable.execute(
        "SELECT (SELECT min(sequence) FROM log WHERE queue = ?1 AND sequence >= ?2),"
        " (SELECT max(sequence) FROM log WHERE queue = ?1)",
        (row, first),
    ).fetchone()
    return LogExtent(oldest, newest, entries, size)


def _read_events(
    durable: sqlite3.Connection, after: int, limit: int, identity: bytes | None
) -> list[StoredEvent]:
    rows = durable.execute(
        "SELECT sequence, time, identity, event, reason, message_class, queue FROM event"
        " WHERE sequence > ? AND sequence >= (SELECT first FROM sequence WHERE name = 'event')"
        f"{'' if identity is None else ' AND identity = ?'} ORDER BY sequence LIMIT ?",
        (min(after, LAST), *(() if identity is None else (identity,)), max(0, min(limit, LAST))),
    )
    return [
        StoredEvent(
            sequence,
            AppendEvent(time, owner, text_of(event), text_of(reason), message_class, text_of(queue)),
        )
        for sequence, time, owner, event, reason, message_class, queue in rows
    ]


_FIND: Final = "SELECT queue, lookup_id FROM message WHERE identity = ?"

_SELECT: Final = (
    "SELECT lookup_id, content FROM message JOIN packet ON packet.id = message.packet"
    f" WHERE queue = ? AND lookup_id IN ({', '.join('?' * TOGETHER)})"
)
