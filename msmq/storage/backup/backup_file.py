"""The file of a backup: the contents of a store of any kind, and the other files of its data directory.

It is a database of SQLite.  A backup is one transaction, so a backup that ends early leaves the previous one.
Packets that the file has already are not written again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import attrs

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.persistence.definition import QueueDefinition
from msmq.storage.migration.digest import SectionDigest, StoreDigest
from msmq.storage.readers.shape import PAGE_ROWS, Row, RowPage, one_page, stored
from msmq.storage.records import definition_record, lookup_id_of, read_definition, stored_lookup_id
from msmq.storage.sqlite.failures import failure

FILE_NAME: Final = "msmq-backup.sqlite"
"""Name of the file in the directory of a backup."""
APPLICATION_ID: Final = 0x4D514250
"""Application identifier of the file for SQLite: MQBP."""
VERSION: Final = 1
"""Version of the schema."""

_MESSAGE: Final = 0
_ENTRY: Final = 1

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE file (name BLOB PRIMARY KEY, mode INTEGER NOT NULL, sha256 BLOB NOT NULL, content BLOB NOT NULL);
CREATE TABLE queue (place INTEGER PRIMARY KEY, identifier BLOB NOT NULL UNIQUE, first INTEGER NOT NULL,
    definition BLOB NOT NULL);
CREATE TABLE value (name BLOB PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE packet (kind INTEGER NOT NULL, queue BLOB NOT NULL, number INTEGER NOT NULL,
    arrived REAL NOT NULL, checksum INTEGER NOT NULL, packet BLOB NOT NULL,
    PRIMARY KEY (kind, queue, number));
CREATE TABLE message (queue BLOB NOT NULL, number INTEGER NOT NULL, arrived REAL NOT NULL,
    aborts INTEGER NOT NULL, moves INTEGER NOT NULL, due INTEGER, size INTEGER NOT NULL,
    PRIMARY KEY (queue, number)) WITHOUT ROWID;
CREATE TABLE entry (queue BLOB NOT NULL, number INTEGER NOT NULL, lookup INTEGER NOT NULL,
    arrived REAL NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (queue, number)) WITHOUT ROWID;
CREATE TABLE event (sequence INTEGER PRIMARY KEY, time REAL NOT NULL, identity BLOB NOT NULL,
    event BLOB NOT NULL, reason BLOB NOT NULL, class INTEGER NOT NULL, queue BLOB NOT NULL);
"""


class NotFinished(StorageError):
    """The first backup of a directory has not ended."""


@attrs.frozen
class BackupFacts:
    """What a backup says of itself.

    @ivar identifier: the GUID of the queue manager, as text with braces.
    @ivar created: when it was made, seconds since 1970-01-01 UTC.
    @ivar software: the version of msmq that made it.
    @ivar store: the store that was backed up, as readable text.
    @ivar kind: the kind of that store.
    @ivar origin: the data directory, as an absolute path.
    @ivar host: the fingerprint of the computer; empty if it is unknown.
    @ivar sections: counts and hashes of the contents.
    """

    identifier: str
    created: float
    software: str
    store: str
    kind: str
    origin: str
    host: str
    sections: StoreDigest = attrs.field(repr=False)

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(attrs.asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> BackupFacts:
        """The opposite of L{to_bytes}.

        @raise ValueError: it is something else.
        """
        found = json.loads(content)
        sections = {name: SectionDigest(**values) for name, values in found.pop("sections").items()}
        return cls(**found, sections=sections)


@attrs.frozen
class BackedUpFile:
    """A file of the data directory, other than the store.

    @ivar name: its path within the directory, with slashes.
    """

    name: str
    mode: int
    content: bytes = attrs.field(repr=False)


class BackupFile:
    """The contents of one backup, for reading and for the next backup.

    Rows are as those of L{StoreReader<msmq.storage.readers.shape.StoreReader>}.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.text = str(path)
        self._connection = connection

    @classmethod
    def open(cls, directory: Path) -> BackupFile:
        """Open an existing backup for reading.

        @raise StorageError: there is none, it is damaged, or it is of another version.
        """
        path = directory / FILE_NAME
        if not path.is_file():
            raise StorageError(f"{directory}: there is no backup; {FILE_NAME} is missing")
        with _failing(path, "read"):
            # A backup that was killed leaves a journal, by which SQLite restores the one before.
            mode = "rw" if path.with_name(f"{FILE_NAME}-journal").exists() else "ro"
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None
            )
            found = cls(path, connection)
            try:
                found._check()
                connection.execute("BEGIN")
            except BaseException:
                connection.close()
                raise
            return found

    @classmethod
    def begin(cls, directory: Path) -> BackupFile:
        """Begin a backup, the first or a later one of this directory; L{finish} or L{close} has to follow.

        @raise StorageError: another one is running, or the file is something else.
        """
        path = directory / FILE_NAME
        with _failing(path, "write"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.close(descriptor)
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            found = cls(path, connection)
            try:
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE")
                if found._is_empty():
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                else:
                    found._check()
            except BaseException:
                connection.close()
                raise
            return found

    def close(self) -> None:
        """Close the file; a backup that was not finished is undone."""
        self._connection.close()

    def _is_empty(self) -> bool:
        """Whether no backup was ever finished."""
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return not tables

    def _check(self) -> None:
        if self._is_empty():
            raise NotFinished(f"{self.path}: the first backup has not ended; repeat it")
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise StorageError(f"{self.path}: not a backup of msmq")
        if version != VERSION:
            which = "a newer" if version > VERSION else "an older"
            raise StorageError(
                f"{self.path}: a backup of {which} version (format {version}, this one reads {VERSION}); "
                "use that version of msmq"
            )

    # Writing

    def restart(self) -> None:
        """Forget the contents, except the packets, which the next backup may have again."""
        for table in ("meta", "file", "queue", "value", "message", "entry", "event"):
            self._put_rows(f"DELETE FROM {table}", [()])

    def put_files(self, files: Iterable[BackedUpFile]) -> None:
        """Store files of the data directory."""
        self._put_rows(
            "INSERT INTO file VALUES (?, ?, ?, ?)",
            [
                (os.fsencode(file.name), file.mode, hashlib.sha256(file.content).digest(), file.content)
                for file in files
            ],
        )

    def put_queues(self, queues: Sequence[tuple[QueueDefinition, int]]) -> None:
        """Store the queues, each with the first number of its message log."""
        self._put_rows(
            "INSERT INTO queue (identifier, first, definition) VALUES (?, ?, ?)",
            [(each.identifier.bytes, first, definition_record(each)) for each, first in queues],
        )

    def put_values(self, values: Mapping[str, bytes]) -> None:
        """Store the values of the queue manager."""
        self._put_rows(
            "INSERT INTO value VALUES (?, ?)", [(name.encode(), value) for name, value in values.items()]
        )

    def put_messages(self, queue: UUID, rows: Sequence[Row], *, has_packets: bool) -> None:
        """Store messages of a queue, with their packets unless the file has them."""
        self._put_rows(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (queue.bytes, stored_lookup_id(lookup_id), arrived, aborts, moves, due, len(packet))
                for lookup_id, arrived, aborts, moves, due, packet in rows
            ],
        )
        if not has_packets:
            packets = [(stored_lookup_id(row[0]), row[1], row[5]) for row in rows]
            self._put_packets(_MESSAGE, queue, packets)

    def put_entries(self, queue: UUID, rows: Sequence[Row]) -> None:
        """Store entries of a message log."""
        self._put_rows(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?)",
            [
                (queue.bytes, sequence, stored_lookup_id(lookup_id), arrived, len(packet))
                for sequence, lookup_id, arrived, packet in rows
            ],
        )
        known = self._known(_ENTRY, queue, [(row[0], row[2], len(row[3])) for row in rows])
        if known is None:
            self._put_packets(_ENTRY, queue, [(row[0], row[2], row[3]) for row in rows])

    def put_events(self, events: Sequence[StoredEvent]) -> None:
        """Store entries of the event log."""
        self._put_rows(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    each.sequence,
                    each.event.time,
                    each.event.identity,
                    _blob(each.event.event),
                    _blob(each.event.reason),
                    each.event.message_class,
                    _blob(each.event.queue),
                )
                for each in events
            ],
        )

    def put_numbers(self, log_end: int, event_bounds: tuple[int, int]) -> None:
        """Store the next number of a log entry, and the bounds of the event log."""
        self._put_meta("numbers", json.dumps([log_end, *event_bounds]).encode())

    def known_packets(self, queue: UUID, rows: Sequence[Row]) -> list[bytes] | None:
        """The packets of these rows of L{StoreReader.message_rows}, if the file has all of them, intact."""
        wanted = [(stored_lookup_id(row[0]), row[1], row[5]) for row in rows]
        return self._known(_MESSAGE, queue, wanted)

    def finish(self, facts: BackupFacts) -> None:
        """Remove what is left of earlier backups, and commit."""
        with _failing(self.path, "write"):
            for kind, table in ((_MESSAGE, "message"), (_ENTRY, "entry")):
                self._connection.execute(
                    "DELETE FROM packet WHERE kind = ? AND NOT EXISTS"
                    f" (SELECT 1 FROM {table} WHERE queue = packet.queue AND number = packet.number)",
                    (kind,),
                )
            content = facts.to_bytes()
            self._put_meta("facts", content)
            self._put_meta("checksum", self._checksum(content))
            self._connection.execute("COMMIT")

    def _put_meta(self, name: str, value: bytes) -> None:
        self._put_rows("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(name, value)])

    def _put_packets(self, kind: int, queue: UUID, packets: Sequence[tuple[int, float, bytes]]) -> None:
        self._put_rows(
            "INSERT OR REPLACE INTO packet VALUES (?, ?, ?, ?, ?, ?)",
            [
                (kind, queue.bytes, number, arrived, crc32(packet), packet)
                for number, arrived, packet in packets
            ],
        )

    def _put_rows(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Perform a statement for each of these rows.

        @raise StorageError: the file cannot be written, as on a full disk.
        """
        with _failing(self.path, "write"):
            self._connection.executemany(statement, rows)

    def _known(self, kind: int, queue: UUID, wanted: Sequence[tuple[int, float, int]]) -> list[bytes] | None:
        if not wanted:
            return []
        with self._reading():
            rows = self._connection.execute(
                "SELECT number, arrived, checksum, packet FROM packet WHERE kind = ? AND queue = ?"
                " AND number BETWEEN ? AND ?",
                (kind, queue.bytes, wanted[0][0], wanted[-1][0]),
            )
            found = {row[0]: row[1:] for row in rows}
        packets: list[bytes] = []
        for number, arrived, size in wanted:
            then, checksum, packet = found.get(number, (None, 0, b""))
            if then != arrived or len(packet) != size or crc32(packet) != checksum:
                return None
            packets.append(packet)
        return packets

    # Reading

    def facts(self) -> BackupFacts:
        """What the backup says of itself.

        @raise StorageError: it is damaged, or a file is missing, or has another name or mode.
        """
        with self._reading():
            content = self._meta("facts")
            # Backups of earlier versions have none.
            is_checked = self._connection.execute("SELECT 1 FROM meta WHERE name = 'checksum'").fetchone()
            if is_checked and self._meta("checksum") != self._checksum(content):
                raise ValueError("the checksum of its facts and of the names of its files does not match")
            return BackupFacts.from_bytes(content)

    def files(self) -> Iterator[BackedUpFile]:
        """The files of the data directory.

        @raise StorageError: one is damaged, or its name leads out of the directory.
        """
        with self._reading():
            for name, mode, checksum, content in self._connection.execute("SELECT * FROM file ORDER BY name"):
                text = os.fsdecode(name)
                path = PurePosixPath(text)
                if hashlib.sha256(content).digest() != checksum:
                    raise ValueError(f"the checksum of {text} does not match")
                if path.is_absolute() or ".." in path.parts or not path.parts:
                    raise ValueError(f"{text} is not a name in a data directory")
                yield BackedUpFile(text, mode & 0o777, content)

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreContents.queues<msmq.storage.readers.shape.StoreContents.queues>}."""
        with self._reading():
            found = self._connection.execute("SELECT definition FROM queue ORDER BY place").fetchall()
            return [read_definition(record) for (record,) in found]

    def values(self) -> dict[str, bytes]:
        """See L{StoreContents.values<msmq.storage.readers.shape.StoreContents.values>}."""
        with self._reading():
            found = self._connection.execute("SELECT name, value FROM value ORDER BY name").fetchall()
            return {name.decode(): value for name, value in found}

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreContents.messages<msmq.storage.readers.shape.StoreContents.messages>}."""
        found, following = self._page("message", _MESSAGE, queue, stored(begin), stored(end))
        rows = [
            (lookup_id_of(number), arrived, aborts, moves, due, packet)
            for number, arrived, aborts, moves, due, _, packet in found
        ]
        return RowPage(rows, None if following is None else lookup_id_of(following))

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreContents.log<msmq.storage.readers.shape.StoreContents.log>}."""
        found, following = self._page("entry", _ENTRY, queue, begin, min(end, (1 << 63) - 1))
        rows = [
            (number, lookup_id_of(lookup), arrived, packet) for number, lookup, arrived, _, packet in found
        ]
        return RowPage(rows, following)

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreContents.events<msmq.storage.readers.shape.StoreContents.events>}."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT * FROM event WHERE sequence >= ? ORDER BY sequence LIMIT ?", (begin, PAGE_ROWS + 1)
            ).fetchall()
            events = [
                StoredEvent(
                    sequence,
                    AppendEvent(time, identity, _text(event), _text(reason), number, _text(queue)),
                )
                for sequence, time, identity, event, reason, number, queue in rows[:PAGE_ROWS]
            ]
            return events, rows[-1][0] if len(rows) > PAGE_ROWS else None

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreContents.log_bounds<msmq.storage.readers.shape.StoreContents.log_bounds>}."""
        with self._reading():
            found = self._connection.execute(
                "SELECT first, (SELECT max(number) FROM entry WHERE queue = identifier) FROM queue"
                " WHERE identifier = ?",
                (queue.bytes,),
            ).fetchone()
        return (1, 1) if found is None else (found[0], max(found[0], (found[1] or 0) + 1))

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreContents.event_bounds<msmq.storage.readers.shape.StoreContents.event_bounds>}."""
        first, end = self._numbers()[1:]
        return first, end

    def log_end(self) -> int:
        """See L{StoreContents.log_end<msmq.storage.readers.shape.StoreContents.log_end>}."""
        return self._numbers()[0]

    def _numbers(self) -> list[int]:
        with self._reading():
            return [int(number) for number in json.loads(self._meta("numbers"))]

    def _checksum(self, facts: bytes) -> bytes:
        """Over the facts, and the names, modes and checksums of the files, which nothing else covers."""
        found = hashlib.sha256(facts)
        for row in self._connection.execute("SELECT name, mode, sha256 FROM file ORDER BY name"):
            found.update(repr(row).encode())
        return found.digest()

    def _meta(self, name: str) -> bytes:
        found = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        if found is None:
            raise ValueError(f"{name} is missing")
        return bytes(found[0])

    def _page(
        self, table: str, kind: int, queue: UUID, begin: int, end: int
    ) -> tuple[list[tuple[Any, ...]], int | None]:
        """A page of an index with the packets, and where the next one begins."""
        with self._reading():
            sizes = self._connection.execute(
                f"SELECT number, size FROM {table} WHERE queue = ? AND number >= ? AND number < ?"
                " ORDER BY number LIMIT ?",
                (queue.bytes, begin, end, PAGE_ROWS + 1),
            ).fetchall()
            count, is_more = one_page(sizes, True)
            if not count:
                return [], None
            rows = self._connection.execute(
                f"SELECT t.*, p.checksum, p.packet FROM {table} AS t LEFT JOIN packet AS p"
                " ON p.kind = ? AND p.queue = t.queue AND p.number = t.number"
                " WHERE t.queue = ? AND t.number BETWEEN ? AND ? ORDER BY t.number",
                (kind, queue.bytes, sizes[0][0], sizes[count - 1][0]),
            ).fetchall()
            for *_, checksum, packet in rows:
                if packet is None or crc32(packet) != checksum:
                    raise ValueError("the checksum of a packet does not match")
        found = [(*row[1:-2], row[-1]) for row in rows]
        return found, sizes[count][0] if is_more else None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise StorageError(f"{self.path}: the backup is damaged: {error}") from error


@contextmanager
def _failing(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
            raise StorageError(f"{path}: another backup is writing it") from error
        raise failure(path, doing, error) from error


def _blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(blob: bytes) -> str:
    return blob.decode("utf-8", "surrogatepass")
