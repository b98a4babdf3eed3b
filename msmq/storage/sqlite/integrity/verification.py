"""Verified reads of SQLite rows, with quarantine of damaged ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from msmq.interfaces.storage import LogEntry, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.storage.checksums import entry_checksum
from msmq.storage.damage import DamagedRow, RowKind
from msmq.storage.log_answer import LOG_BYTES
from msmq.storage.records import lookup_id_of
from msmq.storage.row_quarantine import MISMATCH, RowQuarantine, packet_problem
from msmq.storage.sqlite.failures import kind_of
from msmq.storage.sqlite.integrity.checksum_fill import EVENT_COLUMNS, is_event_sound
from msmq.storage.sqlite.integrity.sums import IS_SOUND, IS_SOUND_OR_OLDER
from msmq.storage.sqlite.text import text_of

TOGETHER: Final = 64
"""Messages per statement."""


def quarantine_path(path: Path) -> Path:
    """The quarantine directory of a store in a file."""
    return path.with_name(f"{path.name}.quarantine")


class FileRowVerifier:
    """Verified reads through a connection, in one transaction.

    @param durable: the connection to the file of the store.
    @param path: the file of the store.
    @param damaged: receives the damaged rows, whose bytes are quarantined before.
    @param express: the connection to the file of express messages, if these are read.
    @param keeps: whether the bytes of damaged rows are quarantined.
    """

    def __init__(
        self,
        durable: sqlite3.Connection,
        path: Path,
        damaged: list[DamagedRow],
        express: sqlite3.Connection | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        self._durable = durable
        directory = quarantine_path(path) if keeps else None
        self._quarantine = RowQuarantine(str(path), directory, _TABLES, self._queue, damaged)
        self._messages = durable if express is None else express
        self._kind = RowKind.MESSAGE if express is None else RowKind.EXPRESS
        self._select = _SELECT.format(is_sound=IS_SOUND_OR_OLDER if express is None else IS_SOUND)

    def packets(self, row: int, wanted: Sequence[int]) -> dict[int, bytes]:
        """The packets of the stored and intact messages among these."""
        packets: dict[int, bytes] = {}
        for start in range(0, len(wanted), TOGETHER):
            ids = list(wanted[start : start + TOGETHER])
            # The last chunk is padded, so that one prepared statement is enough.
            filled = ids + ids[-1:] * (TOGETHER - len(ids))
            for lookup_id, packet, checksum, is_sound, size, identity in self._rows(row, ids, filled):
                problem = _problem(packet, checksum, is_sound, size, identity)
                if problem is None:
                    packets[lookup_id] = packet
                else:
                    self._message(row, lookup_id, packet, identity, problem)
        return packets

    def entries(self, row: int, after: int, limit: int) -> list[LogEntry]:
        """The intact entries of a message log after this one, up to L{LOG_BYTES}, at least one."""
        while wanted := self._wanted_entries(row, after, limit):
            rows = self._numbered("log", _ENTRY, wanted)
            found = [self._entry(row, sequence, *rows[sequence]) for sequence in wanted]
            if intact := [entry for entry in found if entry is not None]:
                return intact
            # An empty page is the end of a log.
            after = wanted[-1]
        return []

    def _wanted_entries(self, row: int, after: int, limit: int) -> list[int]:
        sequences = self._durable.execute(
            "SELECT sequence, size FROM log WHERE queue = ?1 AND sequence > ?2"
            " AND sequence >= (SELECT first FROM log_extent WHERE queue = ?1) ORDER BY sequence LIMIT ?3",
            (row, after, limit),
        )
        wanted: list[int] = []
        total = 0
        for sequence, size in sequences:
            total += size if isinstance(size, int) else 0
            if wanted and total > LOG_BYTES:
                break
            wanted.append(sequence)
        return wanted

    def _entry(self, row: int, sequence: int, found: tuple[Any, ...] | None, problem: str) -> LogEntry | None:
        if found is not None:
            queue, place, arrived, size, packet, checksum, is_older = found
            if (
                (is_older or _is(checksum, lambda: entry_checksum(queue, sequence, place, arrived, packet)))
                and queue == row
                and len(packet) == size
            ):
                return LogEntry(sequence, lookup_id_of(place), arrived, packet)
        self._quarantine.put(RowKind.LOG_ENTRY, row, sequence, _bytes(found, 4), b"", problem)
        return None

    def numbered_entries(self, rows: Sequence[tuple[int, int]]) -> None:
        """Verify entries of message logs, by row of the queue and sequence."""
        found = self._numbered("log", _ENTRY, [sequence for _, sequence in rows])
        for row, sequence in rows:
            self._entry(row, sequence, *found[sequence])

    def numbered_events(self, wanted: Sequence[int]) -> None:
        """Verify events."""
        for sequence, (row, problem) in self._numbered("event", _EVENT, wanted).items():
            self._event(sequence, row, problem)

    def events(self, after: int, limit: int, identity: bytes | None) -> list[StoredEvent]:
        """The intact events after this one."""
        while True:
            sequences = self._durable.execute(
                "SELECT sequence FROM event"
                " WHERE sequence > ? AND sequence >= (SELECT first FROM sequence WHERE name = 'event')"
                f"{'' if identity is None else ' AND identity = ?'} ORDER BY sequence LIMIT ?",
                (after, *(() if identity is None else (identity,)), limit),
            )
            wanted = [sequence for (sequence,) in sequences.fetchall()]
            rows = self._numbered("event", _EVENT, wanted)
            found = [self._event(sequence, *rows[sequence]) for sequence in wanted]
            intact = [event for event in found if event is not None]
            if intact or not wanted:
                return intact
            # An empty page is the end of the log.
            after = wanted[-1]

    def _event(self, sequence: int, found: tuple[Any, ...] | None, problem: str) -> StoredEvent | None:
        if found is not None:
            *row, checksum, is_older = found
            time, owner, event, reason, message_class, queue = row
            if is_older or is_event_sound(checksum, sequence, row):
                with suppress(UnicodeDecodeError):
                    texts = text_of(event), text_of(reason), message_class, text_of(queue)
                    return StoredEvent(sequence, AppendEvent(time, owner, *texts))
        said = b"; ".join(map(_shown, found[2:6])) if found else b""
        self._quarantine.put(RowKind.EVENT, None, sequence, said, b"", problem)
        return None

    def _rows(self, row: int, ids: Sequence[int], filled: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._messages.execute(self._select, (row, *filled)).fetchall()
            return
        except sqlite3.DatabaseError as error:
            if kind_of(error) != "SQLITE_CORRUPT":
                raise
        # One row cannot be read; reading each alone, by the index first, finds it.
        for lookup_id in ids:
            facts = self._messages.execute(_FACTS, (row, lookup_id)).fetchone()
            if facts is None:
                continue
            size, identity = facts
            try:
                yield from self._messages.execute(self._select, (row, *[lookup_id] * TOGETHER)).fetchall()
            except sqlite3.DatabaseError as error:
                if kind_of(error) != "SQLITE_CORRUPT":
                    raise
                yield lookup_id, None, None, 1, size, identity

    def _numbered(
        self, table: str, columns: str, wanted: Sequence[int]
    ) -> dict[int, tuple[tuple[Any, ...] | None, str]]:
        """The rows with these numbers, each with its problem if it is damaged."""
        select = f"SELECT sequence, {columns} FROM {table} WHERE sequence"
        found: dict[int, tuple[tuple[Any, ...] | None, str]] = dict.fromkeys(wanted, (None, _MISSING))
        for start in range(0, len(wanted), TOGETHER):
            some = wanted[start : start + TOGETHER]
            try:
                rows = self._durable.execute(f"{select} IN ({', '.join('?' * len(some))})", some).fetchall()
            except sqlite3.DatabaseError as error:
                if kind_of(error) != "SQLITE_CORRUPT":
                    raise
            else:
                found.update((sequence, (tuple(row), MISMATCH)) for sequence, *row in rows)
                continue
            for sequence in some:
                try:
                    row = self._durable.execute(f"{select} = ?", (sequence,)).fetchone()
                except sqlite3.DatabaseError as error:
                    if kind_of(error) != "SQLITE_CORRUPT":
                        raise
                    found[sequence] = None, str(error)
                else:
                    found[sequence] = (None, _MISSING) if row is None else (row[1:], MISMATCH)
        return found

    def _message(self, row: int, lookup_id: int, packet: object, identity: object, problem: str) -> None:
        content = packet if isinstance(packet, bytes) else b""
        owner = identity if isinstance(identity, bytes) and len(identity) == 20 else b""
        self._quarantine.put(self._kind, row, lookup_id_of(lookup_id), content, owner, problem)

    def _queue(self, row: int) -> tuple[UUID, bytes] | None:
        found = self._durable.execute(
            "SELECT identifier, definition FROM queue WHERE id = ?", (row,)
        ).fetchone()
        return None if found is None else (UUID(bytes=found[0]), found[1])


def _problem(packet: object, checksum: int | None, is_sound: int, size: int, identity: object) -> str | None:
    """The problem of a message; C{None} if it is intact."""
    if not isinstance(packet, bytes):
        return "the packet cannot be read"
    return packet_problem(packet, checksum, bool(is_sound), size, identity)


def _is(checksum: object, compute: Callable[[], int]) -> bool:
    try:
        return compute() == checksum
    except Exception:
        # A value has another type than the one that was written.
        return False


def _shown(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _bytes(row: tuple[Any, ...] | None, column: int) -> bytes:
    return row[column] if row is not None and isinstance(row[column], bytes) else b""


_TABLES: Final = {
    RowKind.MESSAGE: "table message",
    RowKind.EXPRESS: "express messages",
    RowKind.LOG_ENTRY: "table log",
    RowKind.EVENT: "table event",
}

_SELECT: Final = (
    "SELECT lookup_id, content, checksum, {is_sound}, size, identity"
    " FROM message LEFT JOIN packet ON packet.id = message.packet"
    f" WHERE queue = ? AND lookup_id IN ({', '.join('?' * TOGETHER)})"
)
_FACTS: Final = "SELECT size, identity FROM message WHERE queue = ? AND lookup_id = ?"
_OLDER: Final = "checksum IS NULL AND (SELECT is_checked FROM generation) IS 0"
_ENTRY: Final = f"queue, lookup_id, arrived, size, packet, checksum, {_OLDER}"
_EVENT: Final = f"{EVENT_COLUMNS}, checksum, {_OLDER}"
_MISSING: Final = "the row is missing"
