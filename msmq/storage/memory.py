"""A message store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from msmq.interfaces.storage import IMessageStore, MessageNotStored, StorageError, StoreNotOpen, UnknownQueue
from msmq.queues.changes import Change, PutMessage, PutQueue, PutState, RemoveMessages, RemoveQueue
from msmq.queues.definition import QueueDefinition
from msmq.queues.snapshot import Snapshot, StoredMessage


@attrs.define
class _Contents:
    queues: dict[UUID, QueueDefinition] = attrs.field(factory=dict)
    messages: dict[UUID, dict[int, tuple[bytes, float]]] = attrs.field(factory=dict)
    state: dict[str, bytes] = attrs.field(factory=dict)

    def check(self, changes: Sequence[Change]) -> None:
        """Find what cannot be done before anything is done."""
        known = set(self.queues)
        for change in changes:
            match change:
                case PutQueue():
                    known.add(change.definition.identifier)
                case RemoveQueue():
                    known.discard(change.identifier)
                case PutMessage():
                    if change.queue not in known:
                        raise UnknownQueue(change.queue)

    def perform(self, change: Change) -> None:
        match change:
            case PutQueue(definition):
                self.queues[definition.identifier] = definition
                self.messages.setdefault(definition.identifier, {})
            case RemoveQueue(identifier):
                self.queues.pop(identifier, None)
                self.messages.pop(identifier, None)
            case PutMessage():
                self.messages[change.queue][change.lookup_id] = (change.packet, change.arrived)
            case RemoveMessages(queue, lookup_ids):
                kept = self.messages.get(queue, {})
                for lookup_id in lookup_ids:
                    kept.pop(lookup_id, None)
            case PutState(name, value):
                self.state[name] = value

    def snapshot(self) -> Snapshot:
        return Snapshot(
            queues=tuple(self.queues.values()),
            messages={queue: _index(kept) for queue, kept in self.messages.items() if kept},
            state=dict(self.state),
        )


@implementer(IMessageStore)
class MemoryMessageStore:
    """Keeps everything for as long as it is open, and is done at once.

    @param durable: keep it for as long as the object lives, closed or open, as a disk outlives a process;
        for tests of what happens at a restart.
    """

    name = "memory"

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self._contents = _Contents()
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
        kept = self._contents.messages.get(queue, {})
        packets: list[bytes] = []
        for lookup_id in lookup_ids:
            if lookup_id not in kept:
                return fail(MessageNotStored(queue, lookup_id))
            packets.append(kept[lookup_id][0])
        return succeed(packets)

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        self._is_open = False
        if not self.durable:
            self._contents = _Contents()
        return succeed(None)


def _index(kept: dict[int, tuple[bytes, float]]) -> list[StoredMessage]:
    return [(lookup_id, len(packet), arrived) for lookup_id, (packet, arrived) in sorted(kept.items())]


def _not_open() -> StoreNotOpen:
    return StoreNotOpen("the memory store is not open")
