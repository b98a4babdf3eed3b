"""Read-only verification of a PostgreSQL store, with or without a running server."""

from __future__ import annotations

from pathlib import Path

import psycopg

from msmq.interfaces.storage import StorageError
from msmq.storage.checking.report import StoreReport
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import failure
from msmq.storage.postgresql.row_scrubber import scrub
from msmq.storage.postgresql.schema import SCHEMA
from msmq.storage.postgresql.start_check import small_problems
from msmq.storage.scrub_step import ScrubPosition

STEP_BYTES = 4 * 1024 * 1024
"""Bytes of packets per fetch."""


def check_schema(address: Address, mark: Path) -> StoreReport:
    """Verify the whole content of the schema.

    @param mark: the mark in the data directory.
    @raise StorageError: the database cannot be reached, or has no store of this version.
    """
    report = StoreReport(address.text)
    link = connect(address, reads_only=True)
    try:
        _check(link, address, mark, report)
    except psycopg.Error as error:
        report.add(str(failure(address, "read", error)))
    finally:
        link.close()
    return report


def _check(link: PostgresqlConnection, address: Address, mark: Path, report: StoreReport) -> None:
    if not link.rows("SELECT 1 WHERE to_regclass('msmq_version') IS NOT NULL"):
        raise StorageError(f"{address.text}: there is no such store")
    (version,) = link.row("SELECT number FROM msmq_version")
    if version != SCHEMA.version:
        raise StorageError(
            f"{address.text}: schema {version}, this version of msmq verifies {SCHEMA.version};"
            " the start of a server brings an older one up to date"
        )
    store, number = link.row("SELECT store, number FROM progress")
    report.compare(mark, store.bytes, number, older="an older copy: group")
    for problem in small_problems(link):
        report.add(f"{address.text}: {problem}")
    position: ScrubPosition | None = None
    while True:
        step = scrub(link, address.text, None, position, STEP_BYTES)
        report.add_step(step)
        position = step.position
        if position is None:
            return
