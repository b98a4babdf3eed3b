"""Reads from an open PostgreSQL store, through a read-only connection; blocking, in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg

from msmq.interfaces.storage import LogEntry, LogExtent, MessageNotStored, StoredEvent
from msmq.storage.damage import DamagedRow, PacketDamaged, VerifiedRows
from msmq.storage.log_answer import LOG_BYTES
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import DatabaseUnreachable, away, failure, is_lost
from msmq.storage.postgresql.row_scrubber import scrub
from msmq.storage.postgresql.schema_ownership import is_at_work
from msmq.storage.postgresql.verification import SchemaRowVerifier
from msmq.storage.records import lookup_id_of, stored_lookup_id
from msmq.storage.scrub_step import ScrubPosition, ScrubStep

TOGETHER: Final = 500
"""Messages per statement."""

RETRY_SECONDS: Final = 0.5
"""Seconds between reconnection attempts."""

_LOG_ENTRIES: Final = 10_000
_LAST: Final = (1 << 63) - 1

_RESULT = TypeVar("_RESULT")


class DatabaseReader:
    """Reader that connects at the first read, and reconnects after a lost connection.

    While the database is unavailable it retries for as long as commits wait, then fails at once.

    @param quarantine: the quarantine directory for damaged rows.
    """

    def __init__(self, address: Address, quarantine: Path) -> None:
        self.address = address
        self._quarantine = quarantine
        self._link: PostgresqlConnection | None = None
        self._absence: tuple[float, DatabaseUnreachable] | None = None
        self._next_attempt = 0.0
        self._is_ending = Event()

    def end(self) -> None:
        """Stop waiting for an unavailable database; thread-safe."""
        self._is_ending.set()

    def try_again(self) -> None:
        """Reconnect at the next read, since the database is back; thread-safe."""
        self._next_attempt = 0.0

    def close(self) -> None:
        """Release the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """See L{msmq.interfaces.IMessageStore.read}; each packet is verified.

        @raise PacketDamaged: some of them are damaged, and what is left of them is in quarantine.
        """
        damaged: list[DamagedRow] = []
        packets: dict[int, bytes] = {}
        for start in range(0, len(lookup_ids), TOGETHER):
            ids = [stored_lookup_id(lookup_id) for lookup_id in lookup_ids[start : start + TOGETHER]]
            packets.update(self._with_link(partial(self._packets, queue, ids, damaged)))
        if damaged:
            raise PacketDamaged(queue, damaged)
        found = []
        for lookup_id in lookup_ids:
            packet = packets.get(stored_lookup_id(lookup_id))
            if packet is None:
                raise MessageNotStored(queue, lookup_id)
            found.append(packet)
        return found

    def _packets(
        self, queue: UUID, ids: Sequence[int], damaged: list[DamagedRow], link: PostgresqlConnection
    ) -> dict[int, bytes]:
        verification = self._verification(link, damaged)
        packets: dict[int, bytes] = {}
        for (row,) in link.rows("SELECT id FROM queue WHERE identifier = $1", [queue]):
            packets = verification.packets("message", row, ids)
            gone = {stored_lookup_id(one.key) for one in damaged}
            missing = [stored for stored in ids if stored not in packets and stored not in gone]
            if missing:
                packets.update(verification.packets("express", row, missing))
        return packets

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """See L{msmq.interfaces.IMessageStore.find}."""
        if not identity:
            return []
        return [(queue, lookup_id_of(stored)) for queue, stored in self._rows(_FOUND, identity)]

    def read_log(self, queue: UUID, after: int, limit: int) -> VerifiedRows[LogEntry]:
        """See L{msmq.interfaces.IMessageStore.read_log}; entries that are damaged are left out."""
        number = max(0, min(limit, _LOG_ENTRIES))
        damaged: list[DamagedRow] = []
        while True:
            wanted: list[int] = []
            total = 0
            sizes = self._rows(_ENTRY_SIZES, queue, _within(after), number)
            for _, sequence, size in sizes:
                total += size
                if wanted and total > LOG_BYTES:
                    break
                wanted.append(sequence)
            if not wanted:
                return VerifiedRows([], damaged)
            entries = self._with_link(partial(self._some_entries, sizes[0][0], wanted, damaged))
            if entries:
                return VerifiedRows(entries, damaged)
            # An empty page is the end of a log.
            after = wanted[-1]

    def log_extent(self, queue: UUID) -> LogExtent:
        """See L{msmq.interfaces.IMessageStore.log_extent}."""
        rows = self._rows(_EXTENT, queue)
        return LogExtent(*rows[0]) if rows else LogExtent()

    def read_events(self, after: int, limit: int, identity: bytes | None) -> VerifiedRows[StoredEvent]:
        """See L{msmq.interfaces.IMessageStore.read_events}; events that are damaged are left out."""
        damaged: list[DamagedRow] = []
        events: list[StoredEvent] = []
        while True:
            rows = self._rows(_EVENTS, _within(after), identity, max(0, min(limit, _LAST)))
            wanted = [sequence for (sequence,) in rows]
            for start in range(0, len(wanted), TOGETHER):
                some = wanted[start : start + TOGETHER]
                events += self._with_link(partial(self._some_events, some, damaged))
            if events or not wanted:
                return VerifiedRows(events, damaged)
            # An empty page is the end of the log.
            after = wanted[-1]

    def scrub(self, position: ScrubPosition | None, size: int) -> ScrubStep:
        """Verify about this many bytes of packets after a position; C{None} for the beginning."""
        name = self.address.text
        return self._with_link(lambda link: scrub(link, name, self._quarantine, position, size))

    def _some_entries(
        self, row: int, wanted: Sequence[int], damaged: list[DamagedRow], link: PostgresqlConnection
    ) -> list[LogEntry]:
        return self._verification(link, damaged).entries(row, wanted)

    def _some_events(
        self, wanted: Sequence[int], damaged: list[DamagedRow], link: PostgresqlConnection
    ) -> list[StoredEvent]:
        return self._verification(link, damaged).events(wanted)

    def _verification(self, link: PostgresqlConnection, damaged: list[DamagedRow]) -> SchemaRowVerifier:
        return SchemaRowVerifier(link, self.address.text, self._quarantine, damaged)

    def _rows(self, statement: str, *parameters: object) -> list[Any]:
        return self._with_link(lambda link: link.rows(statement, parameters))

    def _with_link(self, call: Callable[[PostgresqlConnection], _RESULT]) -> _RESULT:
        """Run a function with the connection, and retry with a new one if it is lost."""
        while True:
            try:
                link = self._connected()
                try:
                    result = call(link)
                except psycopg.Error as error:
                    if not is_lost(link, error):
                        raise failure(self.address, "read", error) from None
                    self.close()
                    raise away(self.address, error) from None
            except DatabaseUnreachable as error:
                now = time.monotonic()
                since, _ = self._absence or (now, error)
                self._absence = since, error
                if now >= since + self.address.wait or self._is_ending.wait(RETRY_SECONDS):
                    raise
            else:
                self._absence = None
                return result

    def _connected(self) -> PostgresqlConnection:
        if self._link is not None and not self._link.is_alive():
            self.close()
        if self._link is None:
            if self._absence is not None and time.monotonic() < self._next_attempt:
                raise self._absence[1]
            try:
                self._link = connect(self.address, reads_only=True)
            finally:
                self._next_attempt = time.monotonic() + RETRY_SECONDS
            self._link.supervise(partial(is_at_work, self.address, self._link.info.backend_pid))
        return self._link


def _within(number: int) -> int:
    return max(-1, min(number, _LAST))


_QUEUE: Final = "(SELECT id FROM queue WHERE identifier = $1)"
_FOUND: Final = " UNION ALL ".join(
    f"SELECT q.identifier, m.lookup_id FROM {table} AS m JOIN queue AS q ON q.id = m.queue"
    f" WHERE m.identity = $1{where}"
    for table, where in (
        (
            "message",
            " AND NOT EXISTS (SELECT 1 FROM unreachable AS u"
            " WHERE u.queue = m.queue AND u.lookup_id = m.lookup_id)",
        ),
        ("express", ""),
    )
)
_LATER: Final = (
    f"queue = {_QUEUE} AND sequence > $2"
    f" AND sequence >= (SELECT first FROM log_extent WHERE queue = {_QUEUE})"
)
_ENTRY_SIZES: Final = (
    f"SELECT queue, sequence, size::bigint FROM log WHERE {_LATER} ORDER BY sequence LIMIT $3"
)
_EXTENT: Final = (
    "SELECT coalesce((SELECT min(sequence) FROM log WHERE log.queue = e.queue AND sequence >= e.first), 0),"
    " coalesce((SELECT max(sequence) FROM log WHERE log.queue = e.queue AND sequence >= e.first), 0),"
    f" entries, size, first - 1 FROM log_extent AS e WHERE e.queue = {_QUEUE}"
)
_EVENTS: Final = (
    "SELECT sequence FROM event WHERE sequence > $1 AND sequence >= (SELECT first_event FROM progress)"
    " AND ($2::bytea IS NULL OR identity = $2) ORDER BY sequence LIMIT $3"
)
