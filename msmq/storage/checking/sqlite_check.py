"""Read-only verification of a SQLite store, with or without a running server."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.storage.checking.report import StoreReport, check_at_rest
from msmq.storage.checking.sqlite_repair import check_header
from msmq.storage.damage import DamagedRow
from msmq.storage.scrub_step import ScrubPosition
from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.file_ownership import APPLICATION_ID, one_line, pragma
from msmq.storage.sqlite.integrity.row_scrubber import BEGIN, scrub_rows
from msmq.storage.sqlite.integrity.start_check import small_problems
from msmq.storage.sqlite.integrity.verification import FileRowVerifier
from msmq.storage.sqlite.integrity.wal_check import lost_frame_at_rest
from msmq.storage.sqlite.schema import SCHEMA

STEP_BYTES = 4 * 1024 * 1024
"""Bytes of packets per read transaction; a longer one would keep a server from checkpointing its WAL."""


def check_file(path: Path, mark: Path) -> StoreReport:
    """Verify the whole content of the file.

    @param mark: the mark in the data directory.
    @raise StorageError: it is not a store, or of another version.
    """
    report = StoreReport(str(path))
    if not path.exists():
        raise StorageError(f"{path}: there is no such store")
    check_header(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as durable:
            durable.isolation_level = None
            _check(durable, path, mark, report)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        report.add(str(failure(path, "read", error)))
    return report


def _check(durable: sqlite3.Connection, path: Path, mark: Path, report: StoreReport) -> None:
    if pragma(durable, "application_id") != APPLICATION_ID:
        raise StorageError(f"{path}: this is not a store of msmq")
    version = pragma(durable, "user_version")
    if version != SCHEMA.version:
        raise StorageError(
            f"{path}: schema {version}, this version of msmq verifies {SCHEMA.version};"
            " the start of a server brings an older one up to date"
        )
    lock = path.with_name(f"{path.name}.lock")
    check_at_rest(lock, report, partial(_check_at_rest, durable, path, mark))
    for (found,) in durable.execute("PRAGMA quick_check(100)").fetchall():
        if found != "ok":
            report.add(f"{path}: {one_line(found)}")
    for problem in small_problems(durable, SCHEMA):
        report.add(f"{path}: {problem}")
    position: ScrubPosition | None = BEGIN
    while position is not None:
        damaged: list[DamagedRow] = []
        durable.execute("BEGIN")
        verifier = FileRowVerifier(durable, path, damaged, keeps=False)
        step = scrub_rows(durable, verifier, position, STEP_BYTES, damaged)
        durable.execute("COMMIT")
        report.add_step(step)
        position = step.position


def _check_at_rest(durable: sqlite3.Connection, path: Path, mark: Path, report: StoreReport) -> None:
    offset = lost_frame_at_rest(path, pragma(durable, "page_size"))
    if offset is not None:
        report.add(f"{path}-wal, offset {offset}: damaged in the middle, and confirmed transactions follow")
    store, number = durable.execute("SELECT store, number FROM generation").fetchone()
    report.compare(mark, store, number, older="an older copy, or incomplete: generation")
