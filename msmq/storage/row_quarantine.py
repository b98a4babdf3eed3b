"""Quarantine of damaged database rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final
from uuid import UUID
from zlib import crc32

from twisted.logger import Logger

from msmq.storage.damage import DamagedRow, RowKind, keep
from msmq.storage.identity import identity_of
from msmq.storage.records import read_definition

MISMATCH: Final = "the checksum does not match"


class RowQuarantine:
    """Writes the remaining data of damaged rows to files of a directory, and lists the rows.

    @param store: the name of the store, for people.
    @param directory: C{None} to write and log nothing.
    @param tables: the table of each kind of row.
    @param queue_of: the identifier and the definition of the queue with a row number; C{None} if there is
        none.
    @param damaged: receives the damaged rows.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        store: str,
        directory: Path | None,
        tables: Mapping[RowKind, str],
        queue_of: Callable[[int], tuple[UUID, bytes] | None],
        damaged: list[DamagedRow],
    ) -> None:
        self._place = store
        self._directory = directory
        self._tables = tables
        self._queue_of = queue_of
        self._damaged = damaged

    def put(
        self, kind: RowKind, row: int | None, key: int, content: bytes, identity: bytes, problem: str
    ) -> None:
        """Put a row into quarantine.

        @param row: of its queue; C{None} for an event.
        @param key: the LookupIdentifier, or the sequence.
        @param identity: of its message, if that is known; empty otherwise.
        """
        where = f"{self._place}, {self._tables[kind]}" + (f", queue {row}" if row is not None else "")
        said = f"{where}: {problem}"
        is_kept = True
        if self._directory is not None:
            is_kept = self._keep(self._directory / f"{kind.name.lower()}-{row or 0}-{key}", content, said)
        queue, path = self._queue(row)
        self._damaged.append(DamagedRow(kind, queue, path, key, identity, said, is_kept))

    def _keep(self, target: Path, content: bytes, said: str) -> bool:
        """Write what is left to a file, and log it, unless an earlier read has done so.

        @return: whether it is there.
        """
        found, number = target, 1
        try:
            while found.exists():
                if found.read_bytes() == content:
                    return True
                # The number of a queue may be that of an earlier one.
                number += 1
                found = target.with_name(f"{target.name}-{number}")
            keep(found, content)
        except OSError as error:
            self.log.error(
                "{said}; what is left of it stays there: {target}: cannot write: {error}",
                said=said,
                target=found,
                error=error.strerror or error,
            )
            return False
        self.log.error("{said}; what is left is in {target}", said=said, target=found)
        return True

    def _queue(self, row: int | None) -> tuple[UUID | None, str]:
        try:
            found = None if row is None else self._queue_of(row)
            return (None, "") if found is None else (found[0], read_definition(found[1]).path)
        except ValueError:
            return None, ""


def packet_problem(
    packet: bytes, checksum: int | None, is_sound: bool, size: int, identity: object
) -> str | None:
    """The problem of a message; C{None} if it is intact.

    @param checksum: of the packet; C{None} if there is none.
    @param is_sound: whether the checksum of the row matches.
    """
    if not is_sound:
        return "the checksum of the row does not match"
    if len(packet) != size or (checksum is not None and crc32(packet) != checksum):
        return "the checksum of the packet does not match"
    if identity != identity_of(packet):
        return "the identity is not that of the packet"
    return None
