"""Packets from the file, through a connection that only reads; it blocks, and belongs to one thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from msmq.interfaces.storage import MessageNotStored
from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.records import stored_lookup_id
from msmq.storage.sqlite.schema import connect

TOGETHER = 64
"""Messages that are asked for with one statement."""


class PacketReader:
    """Reads packets; connects when it is first asked, and again after a failure.

    @param path: the file, which the writer has made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """The packets of these messages, in this order, all as of one moment.

        @raise MessageNotStored: one of them is not kept.
        @raise StorageError: they cannot be read.
        """
        try:
            return self._read(queue, lookup_ids)
        except MessageNotStored:
            raise
        except Exception as error:
            self.close()
            raise failure(self.path, "read", error) from error

    def close(self) -> None:
        """Let go of the file until the next read."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        if self._connection is None:
            self._connection = connect(self.path)
            self._connection.execute("PRAGMA query_only = ON")
        execute = self._connection.execute
        packets: dict[int, bytes] = {}
        execute("BEGIN")
        try:
            row = execute("SELECT id FROM queue WHERE identifier = ?", (queue.bytes,)).fetchone()
            wanted = [stored_lookup_id(lookup_id) for lookup_id in lookup_ids] if row is not None else []
            for start in range(0, len(wanted), TOGETHER):
                ids = wanted[start : start + TOGETHER]
                # The last piece is filled up, so that there is one statement, which stays prepared.
                ids += ids[-1:] * (TOGETHER - len(ids))
                packets.update(execute(_SELECT, (*row, *ids)).fetchall())
        finally:
            execute("COMMIT")
        found = []
        for lookup_id in lookup_ids:
            packet = packets.get(stored_lookup_id(lookup_id))
            if packet is None:
                raise MessageNotStored(queue, lookup_id)
            found.append(packet)
        return found


_SELECT = (
    "SELECT lookup_id, content FROM message JOIN packet ON packet.id = message.packet"
    f" WHERE queue = ? AND lookup_id IN ({', '.join('?' * TOGETHER)})"
)
