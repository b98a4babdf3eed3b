"""Common parts of the contract tests of L{IMessageStore}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from msmq.interfaces import IMessageRuns, IMessageStore, MessageNotStored, StorageError
from msmq.persistence.changes import Change, PutMessage, RemoveMessages, single_changes
from msmq.persistence.definition import QueueDefinition, QueuePrivacy, QueueType
from msmq.persistence.snapshot import Snapshot

Refused = TypeVar("Refused", bound=StorageError)

ORDERS = QueueDefinition(identifier=UUID(int=0xA), path="private$\\orders", number=16)
BILLS = QueueDefinition(
    identifier=UUID(int=0xB),
    path="private$\\Rechnungen für Ämter",
    number=0xFFFFFFFF,
    label="Bills \N{SNOWMAN}",
    transactional=True,
    journal=True,
    log=True,
    quota=1024,
    journal_quota=0,
    authenticate=True,
    privacy=QueuePrivacy.BODY,
    application_type=UUID(int=0xC),
    created=1_700_000_000,
    modified=0xFFFFFFFF,
    security=bytes(range(256)),
)
REMOTE = QueueDefinition(identifier=UUID(int=0xD), path="DIRECT=OS:beta\\q", type=QueueType.OUTGOING)
HIGHEST = (7 << 56) | ((1 << 56) - 1)


ARRIVED = 1_700_000_000.25


def put(
    lookup_id: int,
    packet: bytes = b"packet",
    *,
    queue: QueueDefinition = ORDERS,
    due: int | None = None,
    aborts: int = 0,
    moves: int = 0,
    is_express: bool = False,
) -> PutMessage:
    """Create a change that puts a message in a queue."""
    return PutMessage(queue.identifier, lookup_id, packet, ARRIVED, due, aborts, moves, is_express)


def remove(*lookup_ids: int, queue: QueueDefinition = ORDERS, is_express: bool = False) -> RemoveMessages:
    """Create a change that removes messages from a queue."""
    return RemoveMessages(queue.identifier, lookup_ids, is_express)


def packet_of(source: UUID, message_id: int, rest: bytes = b"") -> bytes:
    """The beginning of a UserMessage packet, which identifies its message."""
    return bytes(16) + source.bytes_le + bytes(24) + message_id.to_bytes(4, "little") + rest


def identity(source: UUID, message_id: int) -> bytes:
    """The bytes of a message identifier: GUID of the source queue manager, and a number."""
    return source.bytes_le + message_id.to_bytes(4, "little")


if TYPE_CHECKING:
    _Base = TestCase
else:
    _Base = object


def accepted_changes(store: IMessageStore, changes: Sequence[Change]) -> Sequence[Change]:
    """The changes as a queue manager passes them to a store: runs, which are optional, only if it takes
    them.
    """
    return changes if IMessageRuns.providedBy(store) else list(single_changes(changes))


class StoreContract(_Base):
    """Fixtures of every part of the contract."""

    def make_store(self) -> IMessageStore:
        """Create a store that is not open; all stores of one test have the same location."""
        raise NotImplementedError

    async def opened(self, *changes: Change) -> IMessageStore:
        """An open store in which these changes were committed, one batch each."""
        store = self.make_store()
        await store.open()
        self.addCleanup(store.close)
        for change in changes:
            await store.commit([change])
        return store

    async def reopened(self, store: IMessageStore) -> tuple[IMessageStore, Snapshot]:
        """The snapshot of the store after a restart of the queue manager."""
        await store.close()
        again = self.make_store()
        snapshot = await again.open()
        self.addCleanup(again.close)
        return again, snapshot

    async def packets(self, store: IMessageStore, *lookup_ids: int) -> Sequence[bytes]:
        return await store.read(ORDERS.identifier, lookup_ids)

    async def refused(self, asked: Deferred[Any], kind: type[Refused]) -> Refused:
        """The error of a failed request."""
        try:
            await asked
        except kind as error:
            return error
        raise AssertionError(f"{kind.__name__} was expected")

    async def snapshot(self, store: IMessageStore) -> Snapshot:
        """The snapshot after a restart of the queue manager; empty if the store is not durable."""
        return (await self.reopened(store))[1]

    async def assert_missing(self, store: IMessageStore, lookup_id: int) -> None:
        error = await self.refused(store.read(ORDERS.identifier, [lookup_id]), MessageNotStored)
        self.assertEqual((error.queue, error.lookup_id), (ORDERS.identifier, lookup_id))
