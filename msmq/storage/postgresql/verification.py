"""Verified reads of PostgreSQL rows, with quarantine of damaged ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg

from msmq.interfaces.storage import LogEntry, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.storage.checksums import entry_checksum, event_checksum
from msmq.storage.damage import DamagedRow, RowKind
from msmq.storage.postgresql.arrays import bigints
from msmq.storage.postgresql.connection import PostgresqlConnection
from msmq.storage.postgresql.log_writer import text_of
from msmq.storage.postgresql.sums import IS_OLDER, IS_SOUND
from msmq.storage.records import lookup_id_of
from msmq.storage.row_quarantine import MISMATCH, RowQuarantine, packet_problem

DAMAGED_STATES: Final = ("XX000", "XX001", "XX002")
"""SQLSTATE codes with which the database reports damage of its own files."""


def is_damage(error: psycopg.Error) -> bool:
    """Whether an error reports damage of the database's files."""
    return error.sqlstate in DAMAGED_STATES


class SchemaRowVerifier:
    """Verified reads through a connection.

    @param place: the name of the store, for people.
    @param quarantine: the directory for the bytes of damaged rows; C{None} keeps none.
    @param damaged: receives the damaged rows.
    """

    def __init__(
        self, link: PostgresqlConnection, place: str, quarantine: Path | None, damaged: list[DamagedRow]
    ) -> None:
        self._link = link
        self._quarantine = RowQuarantine(place, quarantine, _TABLES, self._queue, damaged)

    def packets(self, table: str, row: int, stored: Sequence[int]) -> dict[int, bytes]:
        """The packets of the stored and intact messages among these.

        @param table: C{message} or C{express}.
        """
        select = (
            f"SELECT lookup_id, packet, checksum, {IS_SOUND} OR {IS_OLDER}, size::bigint, identity"
            f" FROM {table} WHERE queue = $1::integer AND lookup_id = ANY($2)"
        )
        kind = RowKind.EXPRESS if table == "express" else RowKind.MESSAGE
        packets: dict[int, bytes] = {}
        for lookup_id, found, problem in self._rows(select, row, stored):
            if found is not None:
                packet, checksum, is_sound, size, identity = found
                wrong = packet_problem(packet, checksum, is_sound, size, identity)
                if wrong is None:
                    packets[lookup_id] = packet
                    continue
                problem = wrong
            packet, owner = (found[0], bytes(found[4])) if found is not None else (b"", b"")
            owner = owner if len(owner) == 20 else b""
            self._quarantine.put(kind, row, lookup_id_of(lookup_id), packet, owner, problem)
        return packets

    def entries(self, row: int, sequences: Sequence[int]) -> list[LogEntry]:
        """The intact entries among these of a message log."""
        select = (
            f"SELECT sequence, lookup_id, arrived, size::bigint, packet, checksum, {IS_OLDER} FROM log"
            " WHERE queue = $1::integer AND sequence = ANY($2) ORDER BY sequence"
        )
        entries: list[LogEntry] = []
        for sequence, found, problem in self._rows(select, row, sequences):
            packet = b""
            if found is not None:
                place, arrived, size, packet, checksum, is_older = found
                is_sound = is_older or checksum == entry_checksum(row, sequence, place, arrived, packet)
                if is_sound and len(packet) == size:
                    entries.append(LogEntry(sequence, lookup_id_of(place), arrived, packet))
                    continue
                problem = MISMATCH
            self._quarantine.put(RowKind.LOG_ENTRY, row, sequence, packet, b"", problem)
        return entries

    def events(self, sequences: Sequence[int]) -> list[StoredEvent]:
        """The intact events among these."""
        select = (
            "SELECT sequence, time, identity, event, reason, message_class::bigint, queue, checksum,"
            f" {IS_OLDER} FROM event WHERE $1::integer = 0 AND sequence = ANY($2) ORDER BY sequence"
        )
        events: list[StoredEvent] = []
        for sequence, found, problem in self._rows(select, 0, sequences):
            said = b""
            if found is not None:
                time, owner, event, reason, message_class, queue, checksum, is_older = found
                said = b"; ".join((event, reason, queue))
                texts = bytes(event), bytes(reason), bytes(queue)
                if is_older or checksum == event_checksum(sequence, time, message_class, owner, *texts):
                    name, why, path = map(text_of, texts)
                    stored = AppendEvent(time, owner, name, why, message_class, path)
                    events.append(StoredEvent(sequence, stored))
                    continue
                problem = MISMATCH
            self._quarantine.put(RowKind.EVENT, None, sequence, said, b"", problem)
        return events

    def _rows(
        self, select: str, row: int, keys: Sequence[int]
    ) -> Iterable[tuple[int, tuple[Any, ...] | None, str]]:
        """The existing rows by key; in place of an unreadable row its problem."""
        try:
            for key, *found in self._link.rows(select, (row, bigints(keys))):
                yield key, tuple(found), ""
            return
        except psycopg.Error as error:
            if not is_damage(error):
                raise
        # One row cannot be read; reading each alone finds it.
        for key in keys:
            try:
                rows = self._link.rows(select, (row, bigints([key])))
            except psycopg.Error as error:
                if not is_damage(error):
                    raise
                yield key, None, f"the row cannot be read: {error.diag.message_primary}"
            else:
                yield from ((found[0], tuple(found[1:]), "") for found in rows)

    def _queue(self, row: int) -> tuple[UUID, bytes] | None:
        found = self._link.rows("SELECT identifier, definition FROM queue WHERE id = $1", [row])
        return (found[0][0], found[0][1]) if found else None


_TABLES: Final[dict[RowKind, str]] = {
    RowKind.MESSAGE: "table message",
    RowKind.EXPRESS: "table express",
    RowKind.LOG_ENTRY: "table log",
    RowKind.EVENT: "table event",
}
