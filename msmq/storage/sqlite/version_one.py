"""Migration from version 1: columns that it lacked, derived from packets."""

from __future__ import annotations

import sqlite3
from struct import Struct
from typing import Final

from msmq.persistence.definition import QueueType
from msmq.storage.identity import identity_of
from msmq.storage.records import read_definition

_HEAD: Final = 60
# TimeToReachQueue, TimeToBeReceived, SentTime
_TIMES: Final = Struct("<12xI32xII").unpack_from
_FOREVER: Final = 0xFFFFFFFF


def fill_in_from_packets(connection: sqlite3.Connection) -> None:
    """Compute the expiry time and the identity of every message.

    @raise ValueError: a queue has no definition.
    """
    connection.create_function("due_of", 2, _due, deterministic=True)
    connection.create_function("identity_of", 1, identity_of, deterministic=True)
    for row, record in connection.execute("SELECT id, definition FROM queue").fetchall():
        kind = read_definition(record).type
        connection.execute(
            "UPDATE message SET due = due_of(head, ?), identity = identity_of(head)"
            f" FROM (SELECT id, substr(content, 1, {_HEAD}) AS head FROM packet) AS kept"
            " WHERE queue = ? AND kept.id = message.packet",
            (kind.value, row),
        )


def _due(head: bytes, kind: str) -> int | None:
    """Expiry time of a message, by the rules of L{msmq.queues.leaving.deadlines}."""
    if len(head) < _HEAD or kind == QueueType.SYSTEM.value:
        return None
    time_to_reach_queue, time_to_be_received, sent = _TIMES(head)
    is_outgoing = kind == QueueType.OUTGOING.value
    limit = time_to_reach_queue if is_outgoing else time_to_be_received
    # A message in transit expires only after the limit, not at it.
    return None if limit == _FOREVER else sent + limit + int(is_outgoing)
