"""External reader of a PostgreSQL store: read-only access from another process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from uuid import UUID

import psycopg

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.definition import QueueDefinition
from msmq.storage.checksums import event_checksum
from msmq.storage.postgresql.address import parse_address
from msmq.storage.postgresql.arrays import bigints
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import failure
from msmq.storage.postgresql.log_writer import text_of
from msmq.storage.postgresql.schema import SCHEMA
from msmq.storage.postgresql.sums import IS_OLDER, IS_SOUND
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
    one_page,
    other_version,
    stored,
    within,
    without_body,
)
from msmq.storage.records import lookup_id_of, read_definition
from msmq.wire.guid import format_guid


class PostgresqlStoreReader:
    """See L{StoreReader<msmq.storage.readers.shape.StoreReader>}.

    @param argument: what stands behind C{postgresql:}.
    @raise StorageError: it is no such URL.
    """

    def __init__(self, argument: str) -> None:
        try:
            self._address = parse_address(argument)
        except ValueError as error:
            raise StorageError(f"the URL of PostgreSQL {error}") from None
        self.text = self._address.text
        self.bytes_read = 0
        self._argument = argument
        self._link: PostgresqlConnection | None = None
        self._held: AbstractContextManager[object] | None = None

    def __reduce__(self) -> tuple[type[PostgresqlStoreReader], tuple[str]]:
        return PostgresqlStoreReader, (self._argument,)

    def hold(self) -> None:
        """See L{StoreReader.hold<msmq.storage.readers.shape.StoreReader.hold>}.

        Meanwhile the database cannot remove rows that are deleted.
        """
        with self._reading():
            pass
        link = self._link
        assert link is not None
        try:
            former, self._held = self._held, None
            if former is not None:
                former.__exit__(None, None, None)
            held = link.transaction()
            held.__enter__()
            link.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            # The first statement that reads fixes the state.
            link.execute(b"SELECT 1 FROM progress")
        except psycopg.Error as error:
            self.close()
            raise failure(self._address, "read", error) from None
        self._held = held

    def skip_logged(self, starts: Mapping[UUID, int]) -> None:
        """Nothing: a database reads what is asked for alone.

        See L{StoreReader.skip_logged<msmq.storage.readers.shape.StoreReader.skip_logged>}.
        """

    def identifier(self) -> str:
        """See L{StoreReader.identifier<msmq.storage.readers.shape.StoreReader.identifier>}."""
        with self._reading() as link:
            found = link.rows("SELECT value FROM state WHERE name = $1", [b"queue_manager"])
        return format_guid(UUID(bytes=found[0][0])) if found else ""

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreReader.queues<msmq.storage.readers.shape.StoreReader.queues>}."""
        with self._reading() as link:
            return [
                read_definition(found) for (found,) in link.rows("SELECT definition FROM queue ORDER BY id")
            ]

    def values(self) -> dict[str, bytes]:
        """See L{StoreReader.values<msmq.storage.readers.shape.StoreReader.values>}."""
        with self._reading() as link:
            rows = link.rows("SELECT name, value FROM state ORDER BY name")
        return {name.decode(): value for name, value in rows}

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.messages<msmq.storage.readers.shape.StoreReader.messages>}."""
        with self._reading() as link:
            sizes = link.rows(
                "SELECT lookup_id, size::bigint FROM message WHERE queue = (SELECT id FROM queue WHERE"
                f" identifier = $1) AND lookup_id >= $2 AND lookup_id < $3 AND {_IS_REACHABLE}"
                " ORDER BY lookup_id LIMIT $4",
                [queue, stored(begin), stored(end), PAGE_ROWS + 1],
            )
            count, is_more = one_page(sizes, bodies)
            if not count:
                return RowPage((), None)
            found = self._packets(link, _MESSAGES, queue, sizes[:count], since, until, bodies)
        rows = [(lookup_id_of(signed), *rest) for signed, *rest in found]
        return RowPage(rows, lookup_id_of(sizes[count][0]) if is_more else None)

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        """See L{StoreReader.message_rows<msmq.storage.readers.shape.StoreReader.message_rows>}."""
        with self._reading() as link:
            found = link.rows(
                "SELECT lookup_id, arrived, aborts, moves, due, size FROM message"
                f" WHERE queue = {_QUEUE} AND lookup_id >= $2 AND {_IS_REACHABLE}"
                " ORDER BY lookup_id LIMIT $3",
                [queue, stored(begin), PAGE_ROWS + 1],
            )
        rows = [(lookup_id_of(signed), *rest) for signed, *rest in found]
        return RowPage(rows[:PAGE_ROWS], rows[-1][0] if len(rows) > PAGE_ROWS else None)

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.log<msmq.storage.readers.shape.StoreReader.log>}."""
        with self._reading() as link:
            sizes = link.rows(
                "SELECT sequence, log.size::bigint FROM log JOIN log_extent USING (queue) WHERE queue ="
                " (SELECT id FROM queue WHERE identifier = $1) AND sequence >= $2 AND sequence < $3"
                " AND sequence >= first ORDER BY sequence LIMIT $4",
                [queue, *within(begin, end), PAGE_ROWS + 1],
            )
            sizes = [(sequence, size) for sequence, size in sizes]
            count, is_more = one_page(sizes, bodies)
            if not count:
                return RowPage((), None)
            found = self._packets(link, _LOG, queue, sizes[:count], since, until, bodies)
        rows = [(sequence, lookup_id_of(signed), *rest) for sequence, signed, *rest in found]
        return RowPage(rows, sizes[count][0] if is_more else None)

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreReader.events<msmq.storage.readers.shape.StoreReader.events>}."""
        with self._reading() as link:
            rows = link.rows(
                "SELECT sequence, time, identity, event, reason, message_class::bigint, queue, checksum,"
                f" {IS_OLDER} FROM event"
                " WHERE sequence >= $1 AND sequence < $2 AND sequence >= (SELECT first_event FROM progress)"
                " ORDER BY sequence LIMIT $3",
                [*within(begin, end), PAGE_ROWS + 1],
            )
        for sequence, time, owner, event, reason, number, path, checksum, is_older in rows:
            expected = event_checksum(sequence, time, number, owner, event, reason, path)
            if not is_older and checksum != expected:
                where = f"{self.text}, table event, sequence {sequence}"
                raise RowDamaged(f"{where}: the checksum does not match; {VERIFY}", sequence)
        return events_of([row[:7] for row in rows], text_of)

    def message_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.message_cuts<msmq.storage.readers.shape.StoreReader.message_cuts>}."""
        cuts, rest = self._cuts("lookup_id FROM message", queue, stored(begin), stored(end), rows)
        return [lookup_id_of(cut) for cut in cuts], rest

    def log_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.log_cuts<msmq.storage.readers.shape.StoreReader.log_cuts>}."""
        first, last = within(begin, end)
        return self._cuts("sequence FROM log", queue, max(first, self.log_bounds(queue)[0]), last, rows)

    def places(self, kind: str, queue: UUID, begin: int, end: int) -> bytes:
        """See L{StoreReader.places<msmq.storage.readers.shape.StoreReader.places>}."""
        return b""

    def packets(self, places: Sequence[tuple[int, int, int]], bodies: bool) -> list[bytes]:
        """See L{StoreReader.packets<msmq.storage.readers.shape.StoreReader.packets>}."""
        raise NotImplementedError("packets have no places in a database")

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreReader.log_bounds<msmq.storage.readers.shape.StoreReader.log_bounds>}."""
        with self._reading() as link:
            found = link.rows(
                "SELECT first, coalesce((SELECT max(sequence) FROM log WHERE log.queue = e.queue), 0)"
                f" FROM log_extent AS e WHERE queue = {_QUEUE}",
                [queue],
            )
        if not found:
            return 1, 1
        [(first, last)] = found
        return first, max(first, last + 1)

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreReader.event_bounds<msmq.storage.readers.shape.StoreReader.event_bounds>}."""
        with self._reading() as link:
            first, last = link.row("SELECT first_event, (SELECT max(sequence) FROM event) FROM progress")
        return first, max(first, (last or 0) + 1)

    def log_end(self) -> int:
        """See L{StoreReader.log_end<msmq.storage.readers.shape.StoreReader.log_end>}."""
        with self._reading() as link:
            (last,) = link.row("SELECT last_entry FROM progress")
        return int(last) + 1

    def log_since(self, queue: UUID, time: float) -> int | None:
        """See L{StoreReader.log_since<msmq.storage.readers.shape.StoreReader.log_since>}."""
        with self._reading() as link:
            found = link.rows(
                f"SELECT sequence FROM log JOIN log_extent USING (queue) WHERE queue = {_QUEUE}"
                " AND sequence >= first AND arrived >= $2 ORDER BY sequence LIMIT 1",
                [queue, time],
            )
        return found[0][0] if found else None

    def event_since(self, time: float) -> int | None:
        """See L{StoreReader.event_since<msmq.storage.readers.shape.StoreReader.event_since>}."""
        with self._reading() as link:
            found = link.rows(
                "SELECT sequence FROM event WHERE time >= $1"
                " AND sequence >= (SELECT first_event FROM progress) ORDER BY sequence LIMIT 1",
                [time],
            )
        return found[0][0] if found else None

    def log_after(
        self, queues: Sequence[UUID], begin: int, rows: int | None, size: int | None = None
    ) -> int | None:
        """See L{StoreReader.log_after<msmq.storage.readers.shape.StoreReader.log_after>}."""
        with self._reading() as link:
            known = {
                identifier: row for row, identifier in link.rows("SELECT id::bigint, identifier FROM queue")
            }
            wanted = [bigints([known[queue] for queue in queues if queue in known]), within(begin, 0)[0]]
            entries = (
                "FROM log JOIN log_extent USING (queue) WHERE queue = ANY($1)"
                " AND sequence >= $2 AND sequence >= first"
            )
            if size is not None or rows is None:
                # Of a window ordered by its index, the server computes no more rows than it returns.
                found = link.rows(
                    "SELECT sequence FROM (SELECT sequence, sum(log.size) OVER before AS total,"
                    f" row_number() OVER before AS number {entries} WINDOW before AS (ORDER BY sequence"
                    " ROWS UNBOUNDED PRECEDING)) AS summed"
                    " WHERE number > 1 AND (total > $3 OR number > $4) ORDER BY sequence LIMIT 1",
                    [*wanted, LAST if size is None else size, LAST if rows is None else rows],
                )
            else:
                found = link.rows(
                    f"SELECT sequence {entries} ORDER BY sequence LIMIT 1 OFFSET $3", [*wanted, rows]
                )
        return found[0][0] if found else None

    def is_reusable(self) -> bool:
        """Whether the connection still works; each call reads what the database has then.

        See L{StoreReader.is_reusable<msmq.storage.readers.shape.StoreReader.is_reusable>}.
        """
        try:
            return self._link is not None and self._link.execute(b"SELECT 1").fetchone() is not None
        except psycopg.Error:
            return False

    def close(self) -> None:
        """See L{StoreReader.close<msmq.storage.readers.shape.StoreReader.close>}."""
        if self._link is not None:
            # The transaction of a held reader ends with its connection.
            self._held = None
            self._link.close()
            self._link = None

    def _packets(
        self,
        link: PostgresqlConnection,
        statements: tuple[str, str],
        queue: UUID,
        sizes: Sequence[Any],
        since: float | None,
        until: float | None,
        bodies: bool,
    ) -> list[Row]:
        """The rows of one page; of large packets only the beginning, if bodies are not needed."""
        everything, whole = statements
        limit = LAST if bodies else LARGE
        rows = link.rows(everything, [queue, sizes[0][0], sizes[-1][0], since, until, limit, HEAD])
        found: list[Row] = []
        for number, *facts, row, checksum, is_sound, size, packet in rows:
            self.bytes_read += len(packet)
            head, is_whole = packet, True
            if size >= limit:
                packet = without_body(head, size)
                is_whole = packet is None
                if packet is None:
                    [(packet,)] = link.rows(whole, [queue, number])
                    self.bytes_read += len(packet)
            values = (number, *facts, packet)
            check_packet(
                self.text,
                row,
                values,
                size,
                checksum,
                is_log=statements is _LOG,
                is_sound=is_sound,
                is_whole=is_whole,
            )
            found.append(values)
        return found

    def _cuts(self, what: str, queue: UUID, first: int, last: int, rows: int) -> tuple[list[int], int]:
        column, _, table = what.split()
        cuts: list[int] = []
        while True:
            with self._reading() as link:
                where = f"FROM {table} WHERE queue = {_QUEUE} AND {column} >= $2 AND {column} < $3"
                if table == "message":
                    where += f" AND {_IS_REACHABLE}"
                found = link.rows(
                    f"SELECT {column} {where} ORDER BY {column} LIMIT 1 OFFSET $4", [queue, first, last, rows]
                )
                if not found:
                    (rest,) = link.row(f"SELECT count(*) {where}", [queue, first, last])
                    return cuts, rest
            first = found[0][0]
            cuts.append(first)

    @contextmanager
    def _reading(self) -> Iterator[PostgresqlConnection]:
        """A connection in a read transaction, which sees one state of the database."""
        try:
            if self._link is None:
                link = connect(self._address, reads_only=True)
                try:
                    self._check(link)
                except BaseException:
                    link.close()
                    raise
                self._link = link
            if self._held is not None:
                yield self._link
                return
            with self._link.transaction():
                self._link.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                yield self._link
        except (psycopg.Error, ValueError) as error:
            self.close()
            raise failure(self._address, "read", error) from None

    def _check(self, link: PostgresqlConnection) -> None:
        """Check that the schema is a store of this version.

        @raise StorageError: it is not.
        """
        if not link.rows("SELECT 1 WHERE to_regclass('msmq_version') IS NOT NULL"):
            raise StorageError(f"{self.text}: there is no such store")
        (version,) = link.row("SELECT number FROM msmq_version")
        if version != SCHEMA.version:
            raise other_version(self.text, version, SCHEMA.version)


_IS_REACHABLE: Final = (
    "NOT EXISTS (SELECT 1 FROM unreachable AS u WHERE u.queue = message.queue"
    " AND u.lookup_id = message.lookup_id)"
)
"""Whether a message was not removed: a database whose files are damaged may keep the row."""
_QUEUE: Final = "(SELECT id FROM queue WHERE identifier = $1)"
_PACKET: Final = "size::bigint, CASE WHEN size < $6 THEN packet ELSE substr(packet, 1, $7::integer) END"
_WHEN: Final = (
    "($4::double precision IS NULL OR arrived >= $4) AND ($5::double precision IS NULL OR arrived < $5)"
)
_MESSAGES: Final = (
    f"SELECT lookup_id, arrived, aborts, moves, due, queue::bigint, checksum, {IS_SOUND} OR {IS_OLDER},"
    f" {_PACKET} FROM message"
    f" WHERE queue = {_QUEUE} AND lookup_id BETWEEN $2 AND $3 AND {_WHEN} AND {_IS_REACHABLE}"
    " ORDER BY lookup_id",
    f"SELECT packet FROM message WHERE queue = {_QUEUE} AND lookup_id = $2",
)
_LOG: Final = (
    f"SELECT sequence, lookup_id, arrived, queue::bigint, checksum, checksum IS NOT NULL OR {IS_OLDER},"
    f" {_PACKET} FROM log"
    f" WHERE queue = {_QUEUE} AND sequence BETWEEN $2 AND $3 AND {_WHEN} ORDER BY sequence",
    f"SELECT packet FROM log WHERE queue = {_QUEUE} AND sequence = $2",
)
