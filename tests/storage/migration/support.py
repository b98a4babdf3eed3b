"""Stores with a little of everything, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import UUID

import attrs

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    TrimEvents,
    TrimLog,
)
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.migration_mark import MARK
from msmq.persistence.snapshot import Snapshot
from msmq.storage.migration.digest import StoreDigest, digest_of
from msmq.storage.migration.migration import Migration, MigrationProgress, MigrationSummary
from msmq.storage.migration.store_locations import StoreLocation
from msmq.testing.contracts.store_contract import BILLS, HIGHEST, ORDERS, REMOTE
from tests.builders import user_packet

NOW = 1_700_000_000.0
MIGRATION = UUID(int=0x3141)
QUEUES = (ORDERS, REMOTE, BILLS)


def everything(messages: int = 12) -> list[list[Change]]:
    """Batches that leave a store with trimmed logs and events, gaps, subqueues, counts and odd texts."""
    packets = [user_packet(b"%d" % number * 50, message_id=number) for number in range(messages)]
    subqueue = QueueDefinition(identifier=UUID(int=0xE), path="private$\\orders;late", number=17)
    logged: list[list[Change]] = [
        [AppendLog(queue.identifier, n, packets[n], float(n)) for queue in (BILLS, ORDERS)] for n in range(5)
    ]
    return [
        [*map(PutQueue, QUEUES), PutQueue(subqueue)],
        [PutMessage(ORDERS.identifier, HIGHEST - n, packet, n / 4) for n, packet in enumerate(packets)],
        [PutMessage(subqueue.identifier, 1, packets[0], 2.5, 1_800_000_000, 3, 4)],
        [PutMessage(REMOTE.identifier, n, packet, 1.0, n, n, n) for n, packet in enumerate(packets)],
        [RemoveMessages(REMOTE.identifier, (0, 2))],
        *logged,
        [TrimLog(ORDERS.identifier, before=3.0), TrimLog(BILLS.identifier, keep_bytes=0)],
        [AppendEvent(float(n), bytes(20), f"event {n}", "half a \ud83d", n, "a\0b") for n in range(9)],
        [
            TrimEvents(4),
            PutState("queue_manager", bytes(16)),
            PutState("Ströme/1", b""),
            PutState("b", b"\0" * 9),
        ],
    ]


async def filled(place: StoreLocation, batches: list[list[Change]] | None = None) -> None:
    """Have a store hold all this, closed."""
    store = place.make_store()
    await store.open()
    for batch in everything() if batches is None else batches:
        await store.commit(batch)
    await store.close()


async def snapshot_of(place: StoreLocation) -> Snapshot:
    """The snapshot that a server reads."""
    store = place.make_store()
    snapshot = await store.open()
    await store.close()
    return snapshot


def digest(place: StoreLocation) -> StoreDigest:
    """A digest of everything that a reader returns."""
    reader = place.make_reader()
    try:
        return digest_of(reader, lambda rows: None)
    finally:
        reader.close()


def without_mark(snapshot: Snapshot) -> Snapshot:
    """The same without the mark of a migration, and without empty lists."""
    state: Mapping[str, bytes] = {name: value for name, value in snapshot.state.items() if name != MARK}
    messages = {queue: list(found) for queue, found in snapshot.messages.items() if found}
    return attrs.evolve(snapshot, queues=tuple(snapshot.queues), messages=messages, state=state)


def migrated(
    source: StoreLocation,
    target: StoreLocation,
    report: Callable[[MigrationProgress], object] = lambda progress: None,
) -> Coroutine[Any, Any, MigrationSummary]:
    """Move everything."""
    from twisted.internet import reactor

    return Migration(
        source,
        target,
        reactor,  # type: ignore[arg-type]
        accepts_loss=False,
        now=lambda: NOW,
        new_identifier=lambda: MIGRATION,
        report=report,
    ).run()
