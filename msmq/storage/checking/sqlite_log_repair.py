"""Repair of the logs in a rebuilt SQLite store: removes damaged entries, and fills gaps of the event log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from msmq.persistence.changes import AppendEvent
from msmq.storage.checking.lost_packets import MOST_EVENTS
from msmq.storage.checksums import entry_checksum
from msmq.storage.damage import DAMAGED, EVENT_LOST, REPAIRED, keep
from msmq.storage.row_quarantine import MISMATCH
from msmq.storage.sqlite.integrity.checksum_fill import EVENT_COLUMNS, checksum_of_event, is_event_sound
from msmq.storage.sqlite.integrity.verification import quarantine_path
from msmq.storage.sqlite.text import stored_text

LONGEST_GAP: Final = 100_000
"""Limit on the missing events in a row that are replaced; with more, the numbers themselves are damaged."""


def repair_message_logs(copy: sqlite3.Connection, path: Path, lines: list[str], *, is_checked: bool) -> None:
    """Remove damaged entries, whose bytes are quarantined, and count the others anew.

    @param is_checked: whether a row without a checksum is damaged.
    """
    damaged: list[int] = []
    # One row at a time, since the logs may be larger than memory.
    for sequence, row, place, arrived, size, packet, checksum in copy.execute(
        "SELECT sequence, queue, lookup_id, arrived, size, packet, checksum FROM log ORDER BY sequence"
    ):
        is_older = checksum is None and not is_checked
        values = (row, sequence, place, arrived, packet)
        if isinstance(packet, bytes) and len(packet) == size and (is_older or _matches(checksum, values)):
            continue
        damaged.append(sequence)
        content = packet if isinstance(packet, bytes) else b""
        keep(quarantine_path(path) / f"log_entry-{row}-{sequence}", content)
        lines.append(f"{path}: {removed_entry(sequence)} {MISMATCH}; removed, see quarantine")
    copy.executemany("DELETE FROM log WHERE sequence = ?", [(sequence,) for sequence in damaged])
    copy.execute(
        "INSERT INTO log_extent SELECT queue, min(sequence), 0, 0 FROM log"
        " WHERE queue IN (SELECT id FROM queue) AND queue NOT IN (SELECT queue FROM log_extent)"
        " GROUP BY queue"
    )
    counted = "FROM log WHERE log.queue = log_extent.queue AND sequence >= log_extent.first"
    copy.execute(
        f"UPDATE log_extent SET entries = (SELECT count(*) {counted}),"
        f" size = (SELECT coalesce(sum(log.size), 0) {counted})"
    )


def removed_entry(sequence: int) -> str:
    """What the event of a repair says of an entry that it has removed."""
    return f"table log, sequence {sequence}:"


def repair_events(copy: sqlite3.Connection, path: Path, lines: list[str], *, is_checked: bool) -> None:
    """Replace damaged and missing events, since the numbers of events have no gaps."""
    first, assigned = copy.execute("SELECT first, last FROM sequence WHERE name = 'event'").fetchone()
    lost: list[tuple[int, float]] = []
    following, time = first, 0.0
    for sequence, *row, checksum in copy.execute(
        f"SELECT sequence, {EVENT_COLUMNS}, checksum FROM event WHERE sequence >= ? ORDER BY sequence",
        (first,),
    ):
        if sequence - following > LONGEST_GAP:
            lines.append(f"{path}: the event log begins with event {sequence}; those before it are lost")
            first, lost = sequence, []
        else:
            lost += [(missing, time) for missing in range(following, sequence)]
        following = sequence + 1
        time = row[0] if isinstance(row[0], float) else time
        if (checksum is None and not is_checked) or is_event_sound(checksum, sequence, row):
            continue
        lost.append((sequence, time))
        keep(quarantine_path(path) / f"event-0-{sequence}", b"; ".join(filter(_is_bytes, row)))
    if assigned - following < LONGEST_GAP:
        lost += [(missing, time) for missing in range(following, assigned + 1)]
        following = max(following, assigned + 1)
    _put(copy, ((sequence, AppendEvent(time, b"", DAMAGED, EVENT_LOST)) for sequence, time in lost))
    copy.execute(
        "UPDATE sequence SET first = ?, last = ? WHERE name = 'event'", (first, max(first, following) - 1)
    )
    if lost:
        lines.append(f"{path}: {len(lost)} events of the event log are lost")


def append_repairs(copy: sqlite3.Connection, lines: Sequence[str], now: float) -> None:
    """Append an event for each line, up to a limit."""
    said = list(lines[:MOST_EVENTS])
    if len(lines) > MOST_EVENTS:
        said.append(f"and {len(lines) - MOST_EVENTS} more")
    (last,) = copy.execute("SELECT last FROM sequence WHERE name = 'event'").fetchone()
    _put(copy, enumerate((AppendEvent(now, b"", REPAIRED, text) for text in said), last + 1))


def _put(copy: sqlite3.Connection, events: Iterable[tuple[int, AppendEvent]]) -> None:
    for sequence, one in events:
        reason = stored_text(one.reason)
        values = one.time, one.identity, one.event, reason, one.message_class, one.queue
        copy.execute(
            "INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (sequence, *values, checksum_of_event(sequence, *values)),
        )


def _matches(checksum: object, values: tuple[Any, ...]) -> bool:
    try:
        return entry_checksum(*values) == checksum
    except Exception:
        # A value has another type than the one that was written.
        return False


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)
