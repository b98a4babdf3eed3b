"""Background verification of the rows of a schema, a few at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from msmq.storage.damage import DamagedRow
from msmq.storage.postgresql.connection import PostgresqlConnection
from msmq.storage.postgresql.verification import SchemaRowVerifier
from msmq.storage.scrub_step import ScrubPosition, ScrubStep

STEP_ROWS: Final = 100
"""Rows per step."""

_FIRST: Final = -(1 << 63)
_FIRST_ROW: Final = -(1 << 31)
_TABLES: Final = ("message", "express", "log", "event")
_COUNTS: Final = {
    "log": "AND sequence >= (SELECT first FROM log_extent AS e WHERE e.queue = log.queue)",
    "message": "AND (queue, lookup_id) NOT IN (SELECT queue, lookup_id FROM unreachable)",
}
"""By table, which rows were not removed."""


def scrub(
    link: PostgresqlConnection, name: str, quarantine: Path | None, position: ScrubPosition | None, size: int
) -> ScrubStep:
    """Verify rows after a position, about this number of bytes of packets.

    @param name: the name of the store, for people.
    @raise psycopg.Error: it cannot be read.
    """
    damaged: list[DamagedRow] = []
    verification = SchemaRowVerifier(link, name, quarantine, damaged)
    position = position or ScrubPosition(0, _FIRST_ROW, _FIRST)
    table = _TABLES[position.table]
    if table == "event":
        rows = link.rows(
            "SELECT 0::bigint, sequence, 0::bigint FROM event WHERE sequence > $1"
            f" AND sequence >= (SELECT first_event FROM progress) ORDER BY sequence LIMIT {STEP_ROWS}",
            [position.key],
        )
    else:
        key = "sequence" if table == "log" else "lookup_id"
        counts = _COUNTS.get(table, "")
        rows = link.rows(
            f"SELECT queue::bigint, {key}, size::bigint FROM {table} WHERE (queue, {key}) > ($1::integer, $2)"
            f" AND queue IN (SELECT id FROM queue) {counts} ORDER BY queue, {key} LIMIT {STEP_ROWS}",
            [position.queue, position.key],
        )
    some, length = _some(rows, size)
    by_row: dict[int, list[int]] = {}
    for row, number, _ in some:
        by_row.setdefault(row, []).append(number)
    for row, numbers in by_row.items():
        if table == "event":
            verification.events(numbers)
        elif table == "log":
            verification.entries(row, numbers)
        else:
            verification.packets(table, row, numbers)
    following: ScrubPosition | None = None
    if some:
        following = ScrubPosition(position.table, some[-1][0], some[-1][1])
    elif position.table + 1 < len(_TABLES):
        following = ScrubPosition(position.table + 1, _FIRST_ROW, _FIRST)
    return ScrubStep(following, len(some), length, damaged)


def _some(rows: list[Any], most: int) -> tuple[list[Any], int]:
    total = 0
    for count, (_, _, size) in enumerate(rows, 1):
        total += size
        if total >= most:
            return rows[:count], total
    return rows, total
