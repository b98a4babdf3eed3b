"""Reads rows and verifies them; keeps in quarantine what is left of those that are damaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final
from uuid import UUID
from zlib import crc32

import psycopg
from twisted.logger import Logger

from msmq.interfaces.storage import LogEntry, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.storage.checksums import entry_checksum, event_checksum
from msmq.storage.damage import DamagedRow, RowKind, keep
from msmq.storage.identity import identity_of
from msmq.storage.postgresql.arrays import bigints
from msmq.storage.postgresql.connection import PostgresqlConnection
from msmq.storage.postgresql.log_writer import text_of
from msmq.storage.postgresql.sums import IS_OLDER, IS_SOUND
from msmq.storage.records import lookup_id_of, read_definition

DAMAGED_STATES: Final = ("XX000", "XX001", "XX002")
"""SQLSTATE of what the database reports about damage of its own files."""


def is_damage(error: psycopg.Error) -> bool:
    """Whether the database says that its files are damaged."""
    return error.sqlstate in DAMAGED_STATES


class SchemaRowVerifier:
    """Reads through a connection.

    @param place: the store, as people may read it.
    @param quarantine: the directory for what is left of damaged rows; C{None} keeps nothing.
    @param damaged: takes what is damaged.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, link: PostgresqlConnection, place: str, quarantine: Path | None, damaged: list[DamagedRow]
    ) -> None:
        self._link = link
        self._place = place
        self._quarantine = quarantine
        self._damaged = damaged

    def packets(self, table: str, row: int, stored: Sequence[int]) -> dict[int, bytes]:
        """The packets of those of these messages that are kept and are sound.

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
                problem = _problem(packet, checksum, is_sound, size, identity)
                if problem is None:
                    packets[lookup_id] = packet
                    continue
            packet, owner = (found[0], bytes(found[4])) if found is not None else (b"", b"")
            owner = owner if len(owner) == 20 else b""
            self._keep(kind, row, lookup_id_of(lookup_id), packet, owner, problem)
        return packets

    def entries(self, row: int, sequences: Sequence[int]) -> list[LogEntry]:
        """Those of these entries of a message log that are sound."""
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
                problem = _MISMATCH
            self._keep(RowKind.LOG_ENTRY, row, sequence, packet, b"", problem)
        return entries

    def events(self, sequences: Sequence[int]) -> list[StoredEvent]:
        """Those of these events that are sound."""
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
                problem = _MISMATCH
            self._keep(RowKind.EVENT, None, sequence, said, b"", problem)
        return events

    def _rows(
        self, select: str, row: int, keys: Sequence[int]
    ) -> Iterable[tuple[int, tuple[Any, ...] | None, str | None]]:
        """Each row that there is by its key, or what is wrong with one that cannot be read."""
        try:
            for key, *found in self._link.rows(select, (row, bigints(keys))):
                yield key, tuple(found), None
            return
        except psycopg.Error as error:
            if not is_damage(error):
                raise
        # One of them cannot be read: which one shows when each is read alone.
        for key in keys:
            try:
                rows = self._link.rows(select, (row, bigints([key])))
            except psycopg.Error as error:
                if not is_damage(error):
                    raise
                yield key, None, f"the row cannot be read: {error.diag.message_primary}"
            else:
                yield from ((found[0], tuple(found[1:]), None) for found in rows)

    def _keep(
        self, kind: RowKind, row: int | None, key: int, content: bytes, identity: bytes, problem: str | None
    ) -> None:
        where = f"{self._place}, {_TABLES[kind]}" + (f", queue {row}" if row is not None else "")
        said = f"{where}: {problem}"
        if self._quarantine is not None:
            target = self._quarantine / f"{kind.name.lower()}-{row or 0}-{key}"
            self.log.error("{said}; what is left is in {target}", said=said, target=target)
            try:
                keep(target, content)
            except OSError as error:
                self.log.error("{target}: cannot write: {error}", target=target, error=error)
        queue, path = self._queue(row)
        self._damaged.append(DamagedRow(kind, queue, path, key, identity, said))

    def _queue(self, row: int | None) -> tuple[UUID | None, str]:
        if row is None:
            return None, ""
        found = self._link.rows("SELECT identifier, definition FROM queue WHERE id = $1", [row])
        try:
            return (found[0][0], read_definition(found[0][1]).path) if found else (None, "")
        except ValueError:
            return None, ""


def _problem(packet: bytes, checksum: int | None, is_sound: bool, size: int, identity: bytes) -> str | None:
    """What is wrong with a message; C{None} for nothing."""
    if not is_sound:
        return "the checksum of the row does not match"
    if len(packet) != size or (checksum is not None and crc32(packet) != checksum):
        return "the checksum of the packet does not match"
    if identity != identity_of(packet):
        return "the identity is not that of the packet"
    return None


_MISMATCH: Final = "the checksum does not match"
_TABLES: Final[dict[RowKind, str]] = {
    RowKind.MESSAGE: "table message",
    RowKind.EXPRESS: "table express",
    RowKind.LOG_ENTRY: "table log",
    RowKind.EVENT: "table event",
}
