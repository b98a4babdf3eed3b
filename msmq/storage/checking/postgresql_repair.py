"""Repair of the logs in a PostgreSQL store: removes damaged entries, replaces damaged events; blocking."""

from __future__ import annotations

from pathlib import Path

import psycopg

from msmq.storage.checking.postgresql_check import STEP_BYTES
from msmq.storage.checksums import event_checksum
from msmq.storage.damage import DAMAGED, EVENT_LOST, DamagedRow, RowKind
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.arrays import bigints
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import failure
from msmq.storage.postgresql.row_scrubber import scrub
from msmq.storage.postgresql.schema_ownership import lock
from msmq.storage.scrub_step import ScrubPosition


def repair_logs(address: Address, quarantine: Path) -> list[str]:
    """Remove damaged entries of message logs, and replace damaged events, whose numbers have no gaps.

    What is left of them is in quarantine; a row of which it cannot be written stays.

    @param quarantine: the directory for what is left of damaged rows.
    @return: what is lost, one line each.
    @raise StorageError: a queue manager uses the schema, or the database refuses.
    """
    link = connect(address)
    try:
        lock(link, address)
        damaged = [one for one in _damaged(link, address, quarantine) if one.is_kept]
        entries = [one.key for one in damaged if one.kind is RowKind.LOG_ENTRY]
        events = [one.key for one in damaged if one.kind is RowKind.EVENT]
        with link.transaction():
            if entries:
                link.rows("DELETE FROM log WHERE sequence = ANY($1) RETURNING 1", [bigints(entries)])
                link.execute(_COUNT)
            for sequence in events:
                _replace(link, sequence)
    except psycopg.Error as error:
        raise failure(address, "repair", error) from None
    finally:
        link.close()
    lost = [f"entry {number} of the message log" for number in entries]
    return [f"{address.text}: {what} is lost" for what in (*lost, *(f"event {number}" for number in events))]


def _damaged(link: PostgresqlConnection, address: Address, quarantine: Path) -> list[DamagedRow]:
    found: list[DamagedRow] = []
    position: ScrubPosition | None = None
    while True:
        step = scrub(link, address.text, quarantine, position, STEP_BYTES)
        found += step.damaged
        position = step.position
        if position is None:
            return found


def _replace(link: PostgresqlConnection, sequence: int) -> None:
    for (time,) in link.rows("SELECT time FROM event WHERE sequence = $1", [sequence]):
        texts = DAMAGED.encode(), EVENT_LOST.encode(), b""
        checksum = event_checksum(sequence, time, 0, b"", *texts)
        link.rows(
            "UPDATE event SET identity = '', event = $2, reason = $3, message_class = 0, queue = $4,"
            " checksum = $5 WHERE sequence = $1 RETURNING 1",
            [sequence, *texts, checksum],
        )


_COUNT = (
    b"UPDATE log_extent AS e SET"
    b" entries = (SELECT count(*) FROM log WHERE log.queue = e.queue AND sequence >= e.first),"
    b" size = (SELECT coalesce(sum(log.size), 0) FROM log WHERE log.queue = e.queue AND sequence >= e.first)"
)
