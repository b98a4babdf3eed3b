"""Stores with known contents, written by the very writers of the server."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.persistence.changes import AppendEvent, AppendLog, Change, PutMessage, PutQueue, PutState
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.storage.log import LogMessageStore
from msmq.storage.log.factory import DIRECTORY_NAME
from msmq.storage.postgresql.database import ServerDatabase as PostgresqlDatabase
from msmq.storage.sqlite.database import FileDatabase as SqliteDatabase
from msmq.testing.contracts.store_history import TurnedReactor
from tests.builders import ALPHA, BETA, user_packet
from tests.servers.postgresql import PostgresqlServer
from tests.storage.policies import policy_of
from tests.storage.postgresql.postgresql_support import address_of

ORDERS: Final = QueueDefinition(identifier=UUID(int=0xA), path="private$\\orders", number=16, log=True)
BILLS: Final = QueueDefinition(identifier=UUID(int=0xB), path="private$\\Bills", number=17, journal=True)
BILLS_JOURNAL: Final = QueueDefinition(
    identifier=UUID(int=0xC), path="private$\\Bills;journal", type=QueueType.SYSTEM, parent=BILLS.identifier
)
REPORTS: Final = QueueDefinition(identifier=UUID(int=0xD), path="private$\\reports", number=18)
DEAD: Final = QueueDefinition(identifier=UUID(int=0xE), path="system$;deadletter", type=QueueType.SYSTEM)
DEAD_TRANSACTIONAL: Final = QueueDefinition(
    identifier=UUID(int=0xF), path="system$;deadxact", type=QueueType.SYSTEM, transactional=True
)
JOURNAL: Final = QueueDefinition(identifier=UUID(int=0x10), path="system$;journal", type=QueueType.SYSTEM)
NOTIFY: Final = QueueDefinition(identifier=UUID(int=0x11), path="private$\\notify_queue$", number=4)
OUTGOING: Final = QueueDefinition(
    identifier=UUID(int=0x12), path="DIRECT=OS:beta\\private$\\orders", type=QueueType.OUTGOING
)
QUEUES: Final = (
    *(ORDERS, BILLS, BILLS_JOURNAL, REPORTS, DEAD, DEAD_TRANSACTIONAL, JOURNAL, NOTIFY, OUTGOING),
)
ARRIVED: Final = 1_700_000_000.25
SEGMENT: Final = 1024 * 1024
"""Bytes of a segment; a file is filled with zeros when it is made."""
DAMAGED: Final = b"no packet at all"


def lookup_id(number: int, priority: int = 3) -> int:
    """The LookupIdentifier of the message with this number."""
    return (7 - priority) << 56 | number


def packet(number: int, body: bytes = b"", *, priority: int = 3, message_class: int = 0) -> bytes:
    """A message with its number."""
    made = user_packet(
        body or b"body %d" % number,
        label=f"message {number}",
        message_id=number,
        priority=priority,
        recoverable=True,
        sent_time=1_700_000_000 + number,
        source=BETA,
    )
    if not message_class:
        return made
    # MessageClass stands behind the flags and the length of the label.
    place = made.index("message".encode("utf-16-le")) - 56 + 2
    return made[:place] + message_class.to_bytes(2, "little") + made[place + 2 :]


def put(
    number: int, queue: QueueDefinition = ORDERS, *, priority: int = 3, content: bytes | None = None
) -> PutMessage:
    """A message in a queue."""
    made = packet(number, priority=priority) if content is None else content
    place = lookup_id(number, priority)
    return PutMessage(queue.identifier, place, made, ARRIVED + number, aborts=1, moves=2)


def log(number: int, queue: QueueDefinition = ORDERS, *, priority: int = 3) -> AppendLog:
    """An entry in the message log of a queue."""
    return AppendLog(
        queue.identifier, lookup_id(number, priority), packet(number, priority=priority), ARRIVED + number
    )


def event(number: int) -> AppendEvent:
    """An event."""
    whose = BETA.bytes_le + number.to_bytes(4, "little")
    return AppendEvent(ARRIVED + number, whose, "expired", "too late", 0x8002, ORDERS.path)


def estate() -> list[Change]:
    """Something in every stream."""
    return [
        PutState("queue_manager", ALPHA.bytes),
        *map(PutQueue, QUEUES),
        *(put(number, priority=number % 8) for number in range(1, 21)),
        *(log(number, priority=number % 8) for number in range(1, 21)),
        put(30, BILLS),
        put(31, BILLS, content=DAMAGED),
        put(32, BILLS_JOURNAL),
        put(33, REPORTS),
        put(34, REPORTS, content=packet(34, message_class=1)),
        put(35, DEAD),
        put(36, DEAD_TRANSACTIONAL),
        put(37, JOURNAL),
        put(38, NOTIFY),
        put(39, OUTGOING),
        *map(event, range(1, 6)),
    ]


def write_sqlite(directory: Path, *batches: Sequence[Change]) -> Path:
    """Write these batches into the store of a data directory."""
    directory.mkdir(exist_ok=True, parents=True)
    path = directory / "msmq.sqlite"
    database = SqliteDatabase(path, policy_of(path))
    try:
        _check(database.write(batches))
    finally:
        database.close()
    return directory


def spoil_log(directory: Path, content: bytes) -> None:
    """Change a bit of each copy of this content that the record log of a data directory has."""
    # The end of a log whose last group is damaged was never confirmed, and is ignored.
    write_log(directory, [PutState("after", b"")])
    for path in (directory / DIRECTORY_NAME).iterdir():
        if path.is_file() and content in (data := path.read_bytes()):
            path.write_bytes(data.replace(content, bytes([content[0] ^ 1]) + content[1:]))


def write_log(directory: Path, *batches: Sequence[Change]) -> Path:
    """The same into a record log, the store of a server without a configuration."""
    directory.mkdir(exist_ok=True, parents=True)
    reactor = TurnedReactor()
    store = LogMessageStore(
        directory / DIRECTORY_NAME,
        policy_of(directory / DIRECTORY_NAME),
        clock=lambda: 0.0,
        segment_bytes=SEGMENT,
        reactor=reactor,
    )
    steps: list[Callable[[], Deferred[Any]]] = [store.open]
    steps += (partial(store.commit, batch) for batch in batches)
    for step in (*steps, store.close):
        outcome = reactor.outcome(step())
        if isinstance(outcome, Failure):
            outcome.raiseException()
    return directory


def write_postgresql(server: PostgresqlServer, schema: str, *batches: Sequence[Change]) -> str:
    """Write these batches into a schema; gives its URL."""
    # Of a schema that is written once there is nothing to be noticed.
    policy = policy_of(Path(tempfile.mkdtemp(dir=".")) / schema)
    database = PostgresqlDatabase(address_of(server, schema), policy)
    try:
        _check(database.write(batches))
    finally:
        database.close()
    return server.url(f"schema={schema}")


def _check(outcomes: Iterable[Exception | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
