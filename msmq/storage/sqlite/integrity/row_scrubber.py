"""Background verification of the rows of a file on disk, a few at a time."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from msmq.storage.damage import DamagedRow
from msmq.storage.scrub_step import ScrubPosition, ScrubStep
from msmq.storage.sqlite.express import express_path
from msmq.storage.sqlite.file_ownership import connect
from msmq.storage.sqlite.integrity.verification import FileRowVerifier

STEP_ROWS: Final = 100
"""Rows per step."""

_FIRST: Final = -(1 << 63)
BEGIN: Final = ScrubPosition(0, _FIRST, _FIRST)
"""The position before the first row."""
_TABLES: Final = ("message", "express", "log", "event")


def scrub(path: Path, position: ScrubPosition | None, size: int) -> ScrubStep:
    """Verify rows after a position, about this number of bytes of packets.

    The first step drops the cached pages of the file, so that the disk is verified.

    @raise sqlite3.Error: it cannot be read.
    """
    if position is None:
        position = BEGIN
        with suppress(OSError):
            _forget(path)
    damaged: list[DamagedRow] = []
    with closing(connect(path)) as durable:
        durable.execute("PRAGMA query_only = ON")
        durable.execute("BEGIN")
        if _TABLES[position.table] != "express":
            return scrub_rows(durable, FileRowVerifier(durable, path, damaged), position, size, damaged)
        with closing(connect(express_path(path))) as express:
            express.execute("BEGIN")
            verifier = FileRowVerifier(durable, path, damaged, express)
            return _messages(express, verifier, position, size, damaged)


def scrub_rows(
    durable: sqlite3.Connection,
    verifier: FileRowVerifier,
    position: ScrubPosition,
    size: int,
    damaged: list[DamagedRow],
) -> ScrubStep:
    """Verify rows after a position in the file of the store, in an open transaction.

    @raise sqlite3.Error: it cannot be read.
    """
    if _TABLES[position.table] == "express":
        return ScrubStep(ScrubPosition(position.table + 1, _FIRST, _FIRST), 0, 0, [])
    step = _messages if _TABLES[position.table] == "message" else _entries
    return step(durable, verifier, position, size, damaged)


def _messages(
    connection: sqlite3.Connection,
    verification: FileRowVerifier,
    position: ScrubPosition,
    most: int,
    damaged: list[DamagedRow],
) -> ScrubStep:
    found = connection.execute(
        "SELECT queue, lookup_id, size FROM message WHERE (queue, lookup_id) > (?, ?)"
        " ORDER BY queue, lookup_id LIMIT ?",
        (position.queue, position.key, STEP_ROWS),
    ).fetchall()
    size = count = 0
    by_row: dict[int, list[int]] = {}
    for row, lookup_id, length in found:
        by_row.setdefault(row, []).append(lookup_id)
        # A damaged row may have a size of another type.
        size += length if isinstance(length, int) else 0
        count += 1
        if size >= most:
            break
    for row, ids in by_row.items():
        verification.packets(row, ids)
    return _step(position, found[count - 1][:2] if found else None, count, size, damaged)


def _entries(
    connection: sqlite3.Connection,
    verification: FileRowVerifier,
    position: ScrubPosition,
    most: int,
    damaged: list[DamagedRow],
) -> ScrubStep:
    table = _TABLES[position.table]
    columns, counts = (
        ("log.queue, sequence, log.size", "JOIN log_extent USING (queue) WHERE sequence >= first AND")
        if table == "log"
        else ("0, sequence, 0", "WHERE sequence >= (SELECT first FROM sequence WHERE name = 'event') AND")
    )
    found = connection.execute(
        f"SELECT {columns} FROM {table} {counts} sequence > ? ORDER BY sequence LIMIT ?",
        (position.key, STEP_ROWS),
    ).fetchall()
    size = count = 0
    for *_, length in found:
        # A damaged row may have a size of another type.
        size += length if isinstance(length, int) else 0
        count += 1
        if size >= most:
            break
    if table == "log":
        verification.numbered_entries([row[:2] for row in found[:count]])
    else:
        verification.numbered_events([sequence for _, sequence, _ in found[:count]])
    return _step(position, (0, found[count - 1][1]) if found else None, count, size, damaged)


def _step(
    position: ScrubPosition, last: tuple[int, int] | None, count: int, size: int, damaged: list[DamagedRow]
) -> ScrubStep:
    following: ScrubPosition | None
    if last is not None:
        following = ScrubPosition(position.table, *last)
    else:
        following = (
            ScrubPosition(position.table + 1, _FIRST, _FIRST) if position.table + 1 < len(_TABLES) else None
        )
    return ScrubStep(following, count, size, damaged)


def _forget(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
