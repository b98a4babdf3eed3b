"""Reads from an open PostgreSQL store, through a read-only connection; blocking, in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg

from msmq.interfaces.storage import LogEntry, LogExtent, MessageNotStored, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.storage.log_answer import LOG_BYTES
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.arrays import bigints
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import DatabaseUnreachable, away, failure, is_lost
from msmq.storage.postgresql.log_writer import text_of
from msmq.storage.postgresql.schema_ownership import is_at_work
from msmq.storage.records import lookup_id_of, stored_lookup_id

TOGETHER: Final = 500
"""Messages that are asked for with one statement."""

RETRY_SECONDS: Final = 0.5
"""From one attempt to connect again to the next."""

_LOG_ENTRIES: Final = 10_000
_LAST: Final = (1 << 63) - 1

_RESULT = TypeVar("_RESULT")


class DatabaseReader:
    """Reads; connects when it is first asked, and again when the connection was lost.

    While the database is away it tries again for as long as commits wait, and then fails at once.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._link: PostgresqlConnection | None = None
        self._absence: tuple[float, DatabaseUnreachable] | None = None
        self._next_attempt = 0.0
        self._is_ending = Event()

    def end(self) -> None:
        """Wait no longer for a database that is away; may be called in any thread."""
        self._is_ending.set()

    def try_again(self) -> None:
        """Connect when it is next asked, since the database is back; may be called in any thread."""
        self._next_attempt = 0.0

    def close(self) -> None:
        """Release the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """See L{msmq.interfaces.IMessageStore.read}."""
        packets: dict[int, bytes] = {}
        for start in range(0, len(lookup_ids), TOGETHER):
            ids = [stored_lookup_id(lookup_id) for lookup_id in lookup_ids[start : start + TOGETHER]]
            packets.update(self._rows(_PACKETS, queue, bigints(ids)))
        found = []
        for lookup_id in lookup_ids:
            packet = packets.get(stored_lookup_id(lookup_id))
            if packet is None:
                raise MessageNotStored(queue, lookup_id)
            found.append(packet)
        return found

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """See L{msmq.interfaces.IMessageStore.find}."""
        if not identity:
            return []
        return [(queue, lookup_id_of(stored)) for queue, stored in self._rows(_FOUND, identity)]

    def read_log(self, queue: UUID, after: int, limit: int) -> list[LogEntry]:
        """See L{msmq.interfaces.IMessageStore.read_log}."""
        number = max(0, min(limit, _LOG_ENTRIES))
        sizes = self._rows(_ENTRY_SIZES, queue, _within(after), number)
        last = total = 0
        for sequence, size in sizes:
            total += size
            if last and total > LOG_BYTES:
                break
            last = sequence
        if not last:
            return []
        return [
            LogEntry(sequence, lookup_id_of(stored), arrived, packet)
            for sequence, stored, arrived, packet in self._rows(_ENTRIES, queue, _within(after), last)
        ]

    def log_extent(self, queue: UUID) -> LogExtent:
        """See L{msmq.interfaces.IMessageStore.log_extent}."""
        rows = self._rows(_EXTENT, queue)
        return LogExtent(*rows[0]) if rows else LogExtent()

    def read_events(self, after: int, limit: int, identity: bytes | None) -> list[StoredEvent]:
        """See L{msmq.interfaces.IMessageStore.read_events}."""
        rows = self._rows(_EVENTS, _within(after), identity, max(0, min(limit, _LAST)))
        return [
            StoredEvent(
                sequence,
                AppendEvent(moment, whose, text_of(event), text_of(reason), message_class, text_of(queue)),
            )
            for sequence, moment, whose, event, reason, message_class, queue in rows
        ]

    def _rows(self, statement: str, *parameters: object) -> list[Any]:
        return self._with_link(lambda link: link.rows(statement, parameters))

    def _with_link(self, call: Callable[[PostgresqlConnection], _RESULT]) -> _RESULT:
        """Do something with the connection, and again with another one if it is lost meanwhile."""
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
_PACKETS: Final = " UNION ALL ".join(
    f"SELECT lookup_id, packet FROM {table} WHERE queue = {_QUEUE} AND lookup_id = ANY($2)"
    for table in ("express", "message")
)
_FOUND: Final = " UNION ALL ".join(
    f"SELECT q.identifier, m.lookup_id FROM {table} AS m JOIN queue AS q ON q.id = m.queue"
    " WHERE m.identity = $1"
    for table in ("message", "express")
)
_LATER: Final = (
    f"queue = {_QUEUE} AND sequence > $2"
    f" AND sequence >= (SELECT first FROM log_extent WHERE queue = {_QUEUE})"
)
_ENTRY_SIZES: Final = f"SELECT sequence, size FROM log WHERE {_LATER} ORDER BY sequence LIMIT $3"
_ENTRIES: Final = (
    "SELECT sequence, lookup_id, arrived, packet FROM log"
    f" WHERE {_LATER} AND sequence <= $3 ORDER BY sequence"
)
_EXTENT: Final = (
    "SELECT coalesce((SELECT min(sequence) FROM log WHERE log.queue = e.queue AND sequence >= e.first), 0),"
    " coalesce((SELECT max(sequence) FROM log WHERE log.queue = e.queue AND sequence >= e.first), 0),"
    f" entries, size FROM log_extent AS e WHERE e.queue = {_QUEUE}"
)
_EVENTS: Final = (
    "SELECT sequence, time, identity, event, reason, message_class, queue FROM event"
    " WHERE sequence > $1 AND sequence >= (SELECT first_event FROM progress)"
    " AND ($2::bytea IS NULL OR identity = $2) ORDER BY sequence LIMIT $3"
)
