"""External reader of a SQLite store: read-only access from another process.

A read transaction prevents SQLite from resetting its WAL, so all reads are short.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.migration_mark import MARK
from msmq.storage.readers.shape import (
    HEAD,
    LARGE,
    LAST,
    PAGE_ROWS,
    VERIFY,
    Row,
    RowDamaged,
    RowPage,
    check_packet,
    events_of,
    first_beyond,
    one_page,
    other_version,
    refuse_moved,
    stored,
    within,
    without_body,
)
from msmq.storage.records import lookup_id_of, read_definition
from msmq.storage.sqlite.failures import failure, kind_of
from msmq.storage.sqlite.file_ownership import APPLICATION_ID, BUSY_SECONDS, pragma
from msmq.storage.sqlite.integrity.checksum_fill import EVENT_COLUMNS, is_event_sound
from msmq.storage.sqlite.integrity.sums import IS_SOUND_OR_OLDER
from msmq.storage.sqlite.schema import SCHEMA
from msmq.storage.sqlite.text import text_of
from msmq.wire.guid import format_guid


class SqliteStoreReader:
    """See L{StoreReader<msmq.storage.readers.shape.StoreReader>}.

    @param path: the file.
    @param is_looked_up: it was found in a data directory, and not named: if its content was moved to another
        store, that one is meant, and L{identifier} is refused.
    """

    def __init__(self, path: Path, is_looked_up: bool = False) -> None:
        self.text = str(path)
        self._is_looked_up = is_looked_up
        self.bytes_read = 0
        self._path = path
        self._connection: sqlite3.Connection | None = None
        # The file that is open, by its device and number; none if it is read as it was when it was opened.
        self._file: tuple[int, int] | None = None
        self._is_held = False

    def __reduce__(self) -> tuple[type[SqliteStoreReader], tuple[Path, bool]]:
        return SqliteStoreReader, (self._path, self._is_looked_up)

    def hold(self) -> None:
        """See L{StoreReader.hold<msmq.storage.readers.shape.StoreReader.hold>}.

        Meanwhile the server cannot reuse the space of its write-ahead log.
        """
        with self._reading() as connection:
            connection.execute("SELECT 1 FROM generation").fetchone()
            self._is_held = True

    def skip_logged(self, starts: Mapping[UUID, int]) -> None:
        """Nothing: a database reads what is asked for alone.

        See L{StoreReader.skip_logged<msmq.storage.readers.shape.StoreReader.skip_logged>}.
        """

    def identifier(self) -> str:
        """See L{StoreReader.identifier<msmq.storage.readers.shape.StoreReader.identifier>}."""
        with self._reading() as connection:
            found = dict(
                connection.execute(
                    "SELECT name, value FROM state WHERE name IN ('queue_manager', ?)", (MARK,)
                ).fetchall()
            )
            if self._is_looked_up:
                refuse_moved(self.text, found.get(MARK))
        return format_guid(UUID(bytes=found["queue_manager"])) if "queue_manager" in found else ""

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreReader.queues<msmq.storage.readers.shape.StoreReader.queues>}."""
        with self._reading() as connection:
            found = connection.execute("SELECT definition FROM queue ORDER BY id").fetchall()
            return [read_definition(record) for (record,) in found]

    def values(self) -> dict[str, bytes]:
        """See L{StoreReader.values<msmq.storage.readers.shape.StoreReader.values>}."""
        with self._reading() as connection:
            return dict(connection.execute("SELECT name, value FROM state ORDER BY name").fetchall())

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.messages<msmq.storage.readers.shape.StoreReader.messages>}."""
        with self._reading() as connection:
            row = self._row_of(connection, queue)
            first, last = stored(begin), stored(end)
            sizes = connection.execute(
                "SELECT lookup_id, size FROM message WHERE queue = ? AND lookup_id >= ? AND lookup_id < ?"
                " ORDER BY lookup_id LIMIT ?",
                (row, first, last, PAGE_ROWS + 1),
            ).fetchall()
            count, is_more = one_page(sizes, bodies)
            if not count:
                return RowPage((), None)
            found = self._packets(connection, _MESSAGES, row, sizes[:count], since, until, bodies)
        rows = [(lookup_id_of(signed), *rest) for signed, *rest in found]
        return RowPage(rows, lookup_id_of(sizes[count][0]) if is_more else None)

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        """See L{StoreReader.message_rows<msmq.storage.readers.shape.StoreReader.message_rows>}."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT lookup_id, arrived, aborts, moves, due, size FROM message"
                " WHERE queue = ? AND lookup_id >= ? ORDER BY lookup_id LIMIT ?",
                (self._row_of(connection, queue), stored(begin), PAGE_ROWS + 1),
            ).fetchall()
        rows = [(lookup_id_of(signed), *rest) for signed, *rest in found]
        return RowPage(rows[:PAGE_ROWS], rows[-1][0] if len(rows) > PAGE_ROWS else None)

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.log<msmq.storage.readers.shape.StoreReader.log>}."""
        with self._reading() as connection:
            row = self._row_of(connection, queue)
            sizes = connection.execute(
                "SELECT sequence, size FROM log WHERE queue = ?1 AND sequence >= ?2 AND sequence < ?3"
                " AND sequence >= (SELECT first FROM log_extent WHERE queue = ?1) ORDER BY sequence LIMIT ?4",
                (row, *within(begin, end), PAGE_ROWS + 1),
            ).fetchall()
            count, is_more = one_page(sizes, bodies)
            if not count:
                return RowPage((), None)
            found = self._packets(connection, _LOG, row, sizes[:count], since, until, bodies)
        rows = [(sequence, lookup_id_of(signed), *rest) for sequence, signed, *rest in found]
        return RowPage(rows, sizes[count][0] if is_more else None)

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreReader.events<msmq.storage.readers.shape.StoreReader.events>}."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT sequence, {EVENT_COLUMNS}, checksum,"
                " checksum IS NULL AND (SELECT is_checked FROM generation) IS 0 FROM event"
                " WHERE sequence >= ? AND sequence < ?"
                " AND sequence >= (SELECT first FROM sequence WHERE name = 'event')"
                " ORDER BY sequence LIMIT ?",
                (*within(begin, end), PAGE_ROWS + 1),
            ).fetchall()
            for sequence, *row, checksum, is_older in rows:
                if not is_older and not is_event_sound(checksum, sequence, row):
                    where = f"{self._path}, table event, sequence {sequence}"
                    raise RowDamaged(f"{where}: the checksum does not match; {VERIFY}", sequence)
        return events_of([row[:7] for row in rows], text_of)

    def message_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.message_cuts<msmq.storage.readers.shape.StoreReader.message_cuts>}."""
        cuts, rest = self._cuts("lookup_id FROM message", queue, stored(begin), stored(end), rows)
        return [lookup_id_of(cut) for cut in cuts], rest

    def log_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.log_cuts<msmq.storage.readers.shape.StoreReader.log_cuts>}."""
        first, last = within(begin, end)
        first = max(first, self.log_bounds(queue)[0])
        return self._cuts("sequence FROM log", queue, first, last, rows)

    def places(self, kind: str, queue: UUID, begin: int, end: int) -> bytes:
        """See L{StoreReader.places<msmq.storage.readers.shape.StoreReader.places>}."""
        return b""

    def packets(self, places: Sequence[tuple[int, int, int]], bodies: bool) -> list[bytes]:
        """See L{StoreReader.packets<msmq.storage.readers.shape.StoreReader.packets>}."""
        raise NotImplementedError("packets have no places in a database")

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreReader.log_bounds<msmq.storage.readers.shape.StoreReader.log_bounds>}."""
        with self._reading() as connection:
            row = self._row_of(connection, queue)
            found = connection.execute("SELECT first FROM log_extent WHERE queue = ?", (row,)).fetchone()
            if found is None:
                return 1, 1
            (last,) = connection.execute("SELECT max(sequence) FROM log WHERE queue = ?", (row,)).fetchone()
        return found[0], max(found[0], (last or 0) + 1)

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreReader.event_bounds<msmq.storage.readers.shape.StoreReader.event_bounds>}."""
        with self._reading() as connection:
            (first,) = connection.execute("SELECT first FROM sequence WHERE name = 'event'").fetchone()
            (last,) = connection.execute("SELECT max(sequence) FROM event").fetchone()
        return first, max(first, (last or 0) + 1)

    def log_end(self) -> int:
        """See L{StoreReader.log_end<msmq.storage.readers.shape.StoreReader.log_end>}."""
        with self._reading() as connection:
            (given,) = connection.execute("SELECT last FROM sequence WHERE name = 'log'").fetchone()
            (last,) = connection.execute("SELECT max(sequence) FROM log").fetchone()
        return int(max(given, last or 0)) + 1

    def log_since(self, queue: UUID, time: float) -> int | None:
        """See L{StoreReader.log_since<msmq.storage.readers.shape.StoreReader.log_since>}."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT sequence FROM log WHERE queue = ?1 AND arrived >= ?2"
                " AND sequence >= (SELECT first FROM log_extent WHERE queue = ?1) ORDER BY sequence LIMIT 1",
                (self._row_of(connection, queue), time),
            ).fetchone()
        return None if found is None else int(found[0])

    def event_since(self, time: float) -> int | None:
        """See L{StoreReader.event_since<msmq.storage.readers.shape.StoreReader.event_since>}."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT sequence FROM event WHERE time >= ?"
                " AND sequence >= (SELECT first FROM sequence WHERE name = 'event')"
                " ORDER BY sequence LIMIT 1",
                (time,),
            ).fetchone()
        return None if found is None else int(found[0])

    def log_after(
        self, queues: Sequence[UUID], begin: int, rows: int | None, size: int | None = None
    ) -> int | None:
        """See L{StoreReader.log_after<msmq.storage.readers.shape.StoreReader.log_after>}."""
        with self._reading() as connection:
            ids = [row for queue in queues if (row := self._row_of(connection, queue)) is not None]
            entries = (
                "FROM log JOIN log_extent USING (queue)"
                f" WHERE queue IN ({', '.join(map(str, ids))}) AND sequence >= max(first, ?)"
                " ORDER BY sequence"
            )
            first = within(begin, 0)[0]
            if size is not None or rows is None:
                sizes = connection.execute(f"SELECT sequence, log.size {entries}", (first,))
                return first_beyond(sizes, rows, LAST if size is None else size)
            found = connection.execute(
                f"SELECT sequence {entries} LIMIT 1 OFFSET ?", (first, rows)
            ).fetchone()
        return None if found is None else int(found[0])

    def is_reusable(self) -> bool:
        """See L{StoreReader.is_reusable<msmq.storage.readers.shape.StoreReader.is_reusable>}."""
        return self._connection is not None and self._file is not None and self._file == _file_at(self._path)

    def close(self) -> None:
        """See L{StoreReader.close<msmq.storage.readers.shape.StoreReader.close>}."""
        self._is_held = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _packets(
        self,
        connection: sqlite3.Connection,
        statements: tuple[str, str, str],
        row: int | None,
        sizes: Sequence[tuple[int, int]],
        since: float | None,
        until: float | None,
        bodies: bool,
    ) -> list[Row]:
        """The rows of one page; of large packets only the beginning, if bodies are not needed."""
        everything, place, table = statements
        arguments = {
            "queue": row,
            "first": sizes[0][0],
            "last": sizes[-1][0],
            "since": since,
            "until": until,
            "bodies": bodies,
            "limit": LARGE,
        }
        found: list[Row] = []
        for number, *facts, checksum, is_sound, size, packet in connection.execute(everything, arguments):
            is_whole = True
            if packet is None and size >= LARGE and not bodies:
                (place_of,) = connection.execute(place, (row, number)).fetchone()
                packet, is_whole = self._without_body(connection, table, place_of, size)
            else:
                packet = packet if isinstance(packet, bytes) else b""
                self.bytes_read += len(packet)
            values = (number, *facts, packet)
            check_packet(
                self.text,
                row or 0,
                values,
                size,
                checksum,
                is_log=table == "log",
                is_sound=bool(is_sound),
                is_whole=is_whole,
            )
            found.append(values)
        return found

    def _without_body(
        self, connection: sqlite3.Connection, table: str, number: int, size: int
    ) -> tuple[bytes, bool]:
        """A large packet with a body of zeros, or the whole one if its beginning is not enough for that."""
        column = "content" if table == "packet" else "packet"
        with connection.blobopen(table, column, number, readonly=True) as blob:
            packet = without_body(blob.read(HEAD), size)
            self.bytes_read += HEAD if packet is not None else size
            if packet is not None:
                return packet, False
            blob.seek(0)
            return blob.read(), True

    def _cuts(self, what: str, queue: UUID, first: int, last: int, rows: int) -> tuple[list[int], int]:
        column, _, table = what.split()
        cuts: list[int] = []
        while True:
            with self._reading() as connection:
                where = f"FROM {table} WHERE queue = ? AND {column} >= ? AND {column} < ?"
                arguments = (self._row_of(connection, queue), first, last)
                found = connection.execute(
                    f"SELECT {column} {where} ORDER BY {column} LIMIT 1 OFFSET ?", (*arguments, rows)
                ).fetchone()
                if found is None:
                    (rest,) = connection.execute(f"SELECT count(*) {where}", arguments).fetchone()
                    return cuts, rest
            first = found[0]
            cuts.append(first)

    def _row_of(self, connection: sqlite3.Connection, queue: UUID) -> int | None:
        """The number of a queue in this transaction: after a restart another queue may have it."""
        found = connection.execute("SELECT id FROM queue WHERE identifier = ?", (queue.bytes,)).fetchone()
        return None if found is None else int(found[0])

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection in a read transaction, which sees one state of the file."""
        try:
            if self._connection is None:
                found = _file_at(self._path)
                self._connection, is_immutable = _connect(self._path)
                self._file = None if is_immutable else found
            connection = self._connection
            if self._is_held:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if not self._is_held:
                    connection.execute("COMMIT")
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            # A value of a damaged row may have another type.
            self.close()
            raise failure(self._path, "read", error) from None


def _file_at(path: Path) -> tuple[int, int] | None:
    """The device and number of a file; C{None} if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Connect read-only to a file that is a store of this version.

    @return: the connection, and whether it sees no later change.
    @raise StorageError: it is not.
    """
    if not path.exists():
        raise StorageError(f"{path}: there is no such store")
    try:
        return _opened(path, "mode=ro"), False
    except sqlite3.Error as error:
        # In a read-only directory, a file that no server has open is read without a WAL.
        is_alone = not path.with_name(f"{path.name}-wal").exists() and not os.access(path.parent, os.W_OK)
        if kind_of(error) not in ("SQLITE_CANTOPEN", "SQLITE_READONLY") or not is_alone:
            raise
    return _opened(path, "immutable=1"), True


def _opened(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        if pragma(connection, "application_id") != APPLICATION_ID:
            raise StorageError(f"{path}: this is not a store of msmq")
        version = pragma(connection, "user_version")
        if version != SCHEMA.version:
            raise other_version(path, version, SCHEMA.version)
    except BaseException:
        connection.close()
        raise
    return connection


_WHEN: Final = "AND (:since IS NULL OR arrived >= :since) AND (:until IS NULL OR arrived < :until)"

_MESSAGES: Final = (
    f"SELECT lookup_id, arrived, aborts, moves, due, checksum, {IS_SOUND_OR_OLDER}, size,"
    " CASE WHEN :bodies OR size < :limit THEN (SELECT content FROM packet WHERE id = message.packet) END"
    " FROM message"
    f" WHERE queue = :queue AND lookup_id BETWEEN :first AND :last {_WHEN} ORDER BY lookup_id",
    "SELECT packet FROM message WHERE queue = ? AND lookup_id = ?",
    "packet",
)
_LOG: Final = (
    "SELECT sequence, lookup_id, arrived, checksum,"
    " checksum IS NOT NULL OR (SELECT is_checked FROM generation) IS 0, size,"
    " CASE WHEN :bodies OR size < :limit THEN packet END FROM log"
    f" WHERE queue = :queue AND sequence BETWEEN :first AND :last {_WHEN} ORDER BY sequence",
    "SELECT sequence FROM log WHERE queue = ? AND sequence = ?",
    "log",
)
