"""What is read from the file, through connections that only read; it blocks, and belongs to one thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from msmq.interfaces.storage import LogEntry, LogExtent, MessageNotStored, StoredEvent
from msmq.queues.changes import AppendEvent
from msmq.storage.sqlite.express import express_path
from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.opening import connect
from msmq.storage.sqlite.records import lookup_id_of, stored_lookup_id, text_of

Answer = TypeVar("Answer")

TOGETHER: Final = 64
"""Messages that are asked for with one statement."""
LOG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of packets that one answer about a message log holds, if it holds more than one entry."""
LAST: Final = (1 << 63) - 1


class PacketReader:
    """Reads; connects when it is first asked, and again after a failure.

    @param path: the file, which the writer has made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections: tuple[sqlite3.Connection, sqlite3.Connection] | None = None

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """The packets of these messages, in this order.

        @raise MessageNotStored: one of them is not kept.
        @raise StorageError: they cannot be read.
        """
        return self._ask(lambda durable, express: _read(durable, express, queue, lookup_ids))

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """The places of all messages that have this identity.

        @raise StorageError: it cannot be read.
        """
        return self._ask(lambda durable, express: _find(durable, express, identity))

    def read_log(self, queue: UUID, after: int, limit: int) -> list[LogEntry]:
        """Entries of a message log with larger numbers.

        @raise StorageError: they cannot be read.
        """
        return self._ask(lambda durable, _: _read_log(durable, queue, after, limit))

    def log_extent(self, queue: UUID) -> LogExtent:
        """What a message log holds.

        @raise StorageError: it cannot be read.
        """
        return self._ask(lambda durable, _: _log_extent(durable, queue))

    def read_events(self, after: int, limit: int, identity: bytes | None) -> list[StoredEvent]:
        """Events with larger numbers.

        @raise StorageError: they cannot be read.
        """
        return self._ask(lambda durable, _: _read_events(durable, after, limit, identity))

    def close(self) -> None:
        """Let go of the file until the next read."""
        if self._connections is not None:
            for connection in self._connections:
                connection.close()
            self._connections = None

    def _ask(self, question: Callable[[sqlite3.Connection, sqlite3.Connection], Answer]) -> Answer:
        try:
            if self._connections is None:
                self._connections = _connect(self.path), _connect(express_path(self.path))
            durable, express = self._connections
            for connection in (durable, express):
                connection.execute("BEGIN")
            try:
                return question(durable, express)
            finally:
                for connection in (durable, express):
                    connection.execute("COMMIT")
        except MessageNotStored:
            raise
        except Exception as error:
            self.close()
            raise failure(self.path, "read", error) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _row_of(durable: sqlite3.Connection, queue: UUID) -> int | None:
    found = durable.execute("SELECT id FROM queue WHERE identifier = ?", (queue.bytes,)).fetchone()
    return None if found is None else int(found[0])


def _read(
    durable: sqlite3.Connection, express: sqlite3.Connection, queue: UUID, lookup_ids: Sequence[int]
) -> list[bytes]:
    packets: dict[int, bytes] = {}
    wanted = [stored_lookup_id(lookup_id) for lookup_id in lookup_ids]
    row = _row_of(durable, queue)
    if row is not None:
        packets.update(_select(durable, row, wanted))
        packets.update(_select(express, row, [place for place in wanted if place not in packets]))
    for lookup_id, place in zip(lookup_ids, wanted, strict=True):
        if place not in packets:
            raise MessageNotStored(queue, lookup_id)
    return [packets[place] for place in wanted]


def _select(connection: sqlite3.Connection, row: int, wanted: Sequence[int]) -> dict[int, bytes]:
    packets: dict[int, bytes] = {}
    for start in range(0, len(wanted), TOGETHER):
        ids = list(wanted[start : start + TOGETHER])
        # The last piece is filled up, so that there is one statement, which stays prepared.
        ids += ids[-1:] * (TOGETHER - len(ids))
        packets.update(connection.execute(_SELECT, (row, *ids)).fetchall())
    return packets


def _find(
    durable: sqlite3.Connection, express: sqlite3.Connection, identity: bytes
) -> list[tuple[UUID, int]]:
    if not identity:
        return []
    queues: dict[int, UUID] = {
        row: UUID(bytes=identifier) for row, identifier in durable.execute("SELECT id, identifier FROM queue")
    }
    return [
        (queues[row], lookup_id_of(place))
        for connection in (durable, express)
        for row, place in connection.execute(
            "SELECT queue, lookup_id FROM message WHERE identity = ?", (identity,)
        )
        if row in queues
    ]


def _read_log(durable: sqlite3.Connection, queue: UUID, after: int, limit: int) -> list[LogEntry]:
    row = _row_of(durable, queue)
    if row is None:
        return []
    entries: list[LogEntry] = []
    size = 0
    for sequence, place, arrived, packet in durable.execute(
        "SELECT sequence, lookup_id, arrived, packet FROM log WHERE queue = ?1 AND sequence > ?2"
        " AND sequence >= (SELECT first FROM log_extent WHERE queue = ?1) ORDER BY sequence LIMIT ?3",
        (row, min(after, LAST), max(0, min(limit, LAST))),
    ):
        size += len(packet)
        if entries and size > LOG_BYTES:
            break
        entries.append(LogEntry(sequence, lookup_id_of(place), arrived, packet))
    return entries


def _log_extent(durable: sqlite3.Connection, queue: UUID) -> LogExtent:
    found = durable.execute(
        "SELECT first, entries, log_extent.size, log_extent.queue FROM log_extent"
        " JOIN queue ON queue.id = log_extent.queue WHERE identifier = ?",
        (queue.bytes,),
    ).fetchone()
    if found is None or found[1] == 0:
        return LogExtent()
    first, entries, size, row = found
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


_SELECT: Final = (
    "SELECT lookup_id, content FROM message JOIN packet ON packet.id = message.packet"
    f" WHERE queue = ? AND lookup_id IN ({', '.join('?' * TOGETHER)})"
)
