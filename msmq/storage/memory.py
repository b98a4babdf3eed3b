"""Message store in memory, without durability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from msmq.interfaces.storage import (
    IMessageStore,
    LogEntry,
    LogExtent,
    MessageNotStored,
    StorageError,
    StoredEvent,
    StoreNotOpen,
    UnknownQueue,
)
from msmq.persistence.changes import Change
from msmq.persistence.snapshot import Snapshot
from msmq.storage.memory_contents import Contents

Answer = TypeVar("Answer")


@implementer(IMessageStore)
class MemoryMessageStore:
    """Message store in memory: contents last while it is open, commits complete at once.

    @param durable: keep the contents over close and open, for tests of restarts.
    """

    name = "memory"

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self._contents = Contents()
        self._is_open = False

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}."""
        if self._is_open:
            return fail(StorageError("the memory store is open already"))
        self._is_open = True
        return succeed(self._contents.snapshot())

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        if not self._is_open:
            return fail(_not_open())
        try:
            self._contents.check(changes)
        except UnknownQueue as error:
            return fail(error)
        for change in changes:
            self._contents.perform(change)
        return succeed(None)

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        if not self._is_open:
            return fail(_not_open())
        packets: list[bytes] = []
        for lookup_id in lookup_ids:
            packet = self._contents.packet(queue, lookup_id)
            if packet is None:
                return fail(MessageNotStored(queue, lookup_id))
            packets.append(packet)
        return succeed(packets)

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._answer(lambda contents: contents.find(identity))

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._answer(lambda contents: list(contents.log(queue).read(after, limit)))

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._answer(lambda contents: contents.log(queue).extent())

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._answer(lambda contents: contents.events.read(after, limit, identity))

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        self._is_open = False
        self._contents.express.clear()
        if not self.durable:
            self._contents = Contents()
        return succeed(None)

    def _answer(self, ask: Callable[[Contents], Answer]) -> Deferred[Answer]:
        return succeed(ask(self._contents)) if self._is_open else fail(_not_open())


def _not_open() -> StoreNotOpen:
    return StoreNotOpen("the memory store is not open")
