"""Upgrade from version 1: computes missing row checksums, a few rows per step."""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import attrs

from msmq.storage.checksums import entry_checksum, event_checksum, queue_checksum, record_checksum
from msmq.storage.postgresql.arrays import bigints, integers
from msmq.storage.postgresql.connection import PostgresqlConnection
from msmq.storage.postgresql.sums import SUM

STEP_ROWS: Final = 200
"""Rows per step."""
STEP_BYTES: Final = 1024 * 1024
"""Bytes of packets after which a step ends."""

_FIRST: Final = (-(1 << 31), -(1 << 63))


def fill_in_small_tables(link: PostgresqlConnection) -> None:
    """Compute the checksums of all queues and state values."""
    for row, identifier, definition in link.rows("SELECT id, identifier, definition FROM queue"):
        checksum = queue_checksum(row, identifier.bytes, definition)
        link.rows("UPDATE queue SET checksum = $1 WHERE id = $2 RETURNING 1", [checksum, row])
    for name, value in link.rows("SELECT name, value FROM state"):
        checksum = record_checksum(name, value)
        link.rows("UPDATE state SET checksum = $1 WHERE name = $2 RETURNING 1", [checksum, name])


@attrs.define
class SchemaChecksumFill:
    """Computes the checksums of messages, message log entries and events.

    @ivar is_done: whether every row has its checksums.
    """

    is_done: bool
    _tables: list[str] = attrs.field(factory=lambda: ["message", "log", "event"])
    _after: tuple[int, int] = _FIRST

    def step(self, link: PostgresqlConnection) -> bool:
        """Do one step in its own transaction; returns whether more work is pending.

        @raise psycopg.Error: it failed, and nothing was changed.
        """
        if self.is_done:
            return False
        if not self._tables:
            link.execute(b"UPDATE progress SET is_checked = true")
            self.is_done = True
            return False
        with link.transaction():
            last = self._fill(link, self._tables[0])
        if last is not None:
            self._after = last
            return True
        self._tables.pop(0)
        self._after = _FIRST
        return True

    def _fill(self, link: PostgresqlConnection, table: str) -> tuple[int, int] | None:
        if table == "event":
            rows = link.rows(
                "SELECT sequence, time, message_class::bigint, identity, event, reason, queue FROM event"
                f" WHERE sequence > $1 AND checksum IS NULL ORDER BY sequence LIMIT {STEP_ROWS}",
                [self._after[1]],
            )
            checksums = [event_checksum(*row) for row in rows]
            self._set(link, table, [(0, row[0]) for row in rows], checksums)
            return (0, rows[-1][0]) if rows else None
        key = "sequence" if table == "log" else "lookup_id"
        sizes = link.rows(
            f"SELECT queue, {key}, size::bigint FROM {table} WHERE (queue, {key}) > ($1::integer, $2)"
            f" AND checksum IS NULL ORDER BY queue, {key} LIMIT {STEP_ROWS}",
            self._after,
        )
        total = 0
        some: list[Any] = []
        for row in sizes:
            total += row[2]
            if some and total > STEP_BYTES:
                break
            some.append(row)
        if not some:
            return None
        places = [(queue, number) for queue, number, _ in some]
        rows = link.rows(
            f"SELECT queue, {key}, lookup_id, arrived, packet FROM {table} JOIN unnest($1::integer[],"
            f" $2::bigint[]) AS w (q, k) ON queue = q AND {key} = k",
            [integers([queue for queue, _ in places]), bigints([number for _, number in places])],
        )
        checksums = [
            entry_checksum(queue, number, lookup_id, arrived, packet) if table == "log" else crc32(packet)
            for queue, number, lookup_id, arrived, packet in rows
        ]
        self._set(link, table, [row[:2] for row in rows], checksums)
        return places[-1]

    def _set(self, link: PostgresqlConnection, table: str, places: list[Any], checksums: list[int]) -> None:
        if not places:
            return
        key = "lookup_id" if table == "message" else "sequence"
        queue = "" if table == "event" else "t.queue = w.q AND"
        arrays = [integers([row for row, _ in places]), bigints([number for _, number in places])]
        link.rows(
            f"UPDATE {table} AS t SET checksum = w.c FROM unnest($1::integer[], $2::bigint[], $3::bigint[])"
            f" AS w (q, k, c) WHERE {queue} t.{key} = w.k RETURNING 1",
            [*arrays, bigints(checksums)],
        )
        if table == "message":
            link.rows(
                f"UPDATE message AS t SET row_checksum = {SUM} WHERE (queue, lookup_id) IN"
                " (SELECT * FROM unnest($1::integer[], $2::bigint[])) AND size = length(packet) RETURNING 1",
                arrays,
            )
