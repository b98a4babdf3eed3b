"""Ownership of a store: refuses the store of another queue manager."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.persistence.changes import Change, PutState
from msmq.persistence.migration_mark import MARK, MigrationRole, read_mark
from msmq.persistence.owner_mark import OWNER
from msmq.persistence.snapshot import Snapshot
from msmq.wire.guid import braced


async def check_owner(store: IMessageStore, snapshot: Snapshot, identifier: UUID) -> None:
    """Check that a store that was just opened belongs to this queue manager, or is new.

    Another queue manager would reuse MessageIDs, and acknowledge messages that were not sent to it.

    @param identifier: [MS-MQDMPR] 3.1.1.1 QueueManager.Identifier.
    @raise StorageError: it belongs to another; it is closed, and nothing relevant was changed.
    """
    owner = snapshot.state.get(OWNER)
    if owner is None or owner == identifier.bytes:
        return
    await store.close()
    raise StorageError(
        f"the store {store.name} is that of queue manager {_named(owner)}, and this is {braced(identifier)}:"
        " restore its identity.json, or use another store"
    )


async def check_migration(store: IMessageStore, snapshot: Snapshot) -> None:
    """Check that a store that was just opened is neither the source nor the incomplete target of a migration.

    @raise StorageError: it is; it is closed, and nothing was changed.
    """
    try:
        mark = read_mark(snapshot.state.get(MARK))
        if mark is None:
            return
        if mark.role is MigrationRole.TARGET:
            problem = (
                f"a migration from {mark.other} has begun to fill it and has not ended: repeat msmq store"
            )
            problem += " migrate, or use the other store"
        else:
            problem = f"it was moved to {mark.other}: set [storage] backend to that one, or migrate it back"
    except ValueError as error:
        problem = str(error)
    await store.close()
    raise StorageError(f"the store {store.name} cannot be used: {problem}")


def claim(store: IMessageStore, snapshot: Snapshot, identifier: UUID) -> list[Change]:
    """The change that assigns a new store to this queue manager."""
    if OWNER in snapshot.state or not store.durable:
        return []
    return [PutState(OWNER, identifier.bytes)]


def _named(owner: bytes) -> str:
    return braced(UUID(bytes=owner)) if len(owner) == 16 else owner.hex()
