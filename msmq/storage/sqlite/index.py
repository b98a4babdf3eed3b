"""Index that a start reads: everything except packets and logs."""

from __future__ import annotations

import sqlite3

from msmq.persistence.snapshot import Snapshot, StoredMessage
from msmq.storage.records import lookup_id_of, read_definition


def read_snapshot(connection: sqlite3.Connection) -> Snapshot:
    """Queues, state, and the index of the messages.

    @raise sqlite3.Error: it cannot be read.
    @raise ValueError: the definition of a queue is invalid.
    """
    execute = connection.execute
    queues = [
        (row, read_definition(record))
        for row, record in execute("SELECT id, definition FROM queue ORDER BY id").fetchall()
    ]
    messages = {definition.identifier: _messages(connection, row) for row, definition in queues}
    state = dict(execute("SELECT name, value FROM state").fetchall())
    return Snapshot(tuple(definition for _, definition in queues), messages, state)


def read_rows(connection: sqlite3.Connection) -> tuple[dict[int, int], int]:
    """The row of each queue by its identifier, and the first unused row number.

    @raise sqlite3.Error: it cannot be read.
    """
    known = {
        int.from_bytes(identifier, "big"): row
        for row, identifier in connection.execute("SELECT id, identifier FROM queue")
    }
    (last,) = connection.execute("SELECT max(id) FROM removed_queue").fetchone()
    return known, max((last or 0, *known.values())) + 1


def _messages(connection: sqlite3.Connection, row: int) -> list[StoredMessage]:
    select = (
        "SELECT lookup_id & 0x7fffffffffffffff, size, arrived, due, aborts, moves FROM main.message"
        " WHERE queue = ? AND lookup_id {} 0 ORDER BY lookup_id"
    )
    # Stored minus 2**63: the mask restores identifiers below 2**63, the others are converted.
    messages: list[StoredMessage] = connection.execute(select.format("<"), (row,)).fetchall()
    beyond = connection.execute(select.format(">="), (row,)).fetchall()
    messages += [(lookup_id_of(lookup_id), *rest) for lookup_id, *rest in beyond]
    return messages
