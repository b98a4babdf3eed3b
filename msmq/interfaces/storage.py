"""IMessageStore: stores queues, recoverable messages, logs and state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from msmq.errors import MsmqError
from msmq.persistence.changes import AppendEvent, Change
from msmq.persistence.snapshot import Snapshot


class StorageError(MsmqError):
    """The store could not do what it was asked; nothing of the batch was done."""


class StorageFull(StorageError):
    """There is no space for what was to be kept; removing still works."""


class StoreIncomplete(StorageError):
    """The store is not the one last used here: something is missing, or it is an older copy."""


class StoreNotOpen(StorageError):
    """The store was not opened yet, or was closed."""


class UnknownQueue(StorageError):
    """A message was to be kept, or read, for a queue that the store does not keep.

    @ivar queue: the identifier of the queue.
    """

    def __init__(self, queue: UUID) -> None:
        super().__init__(f"the store keeps no queue {queue}")
        self.queue = queue


class MessageNotStored(StorageError):
    """A message was to be read that the store does not keep.

    @ivar queue: the identifier of its queue.
    @ivar lookup_id: its LookupIdentifier.
    """

    def __init__(self, queue: UUID, lookup_id: int) -> None:
        super().__init__(f"the store keeps no message {lookup_id:#018x} of queue {queue}")
        self.queue = queue
        self.lookup_id = lookup_id


@attrs.frozen
class LogEntry:
    """One message in the message log of a queue.

    @ivar sequence: its number; larger than that of every entry before it, in all queues.
    """

    sequence: int
    lookup_id: int
    arrived: float
    packet: bytes = attrs.field(repr=False)


@attrs.frozen
class LogExtent:
    """What the message log of a queue holds.

    @ivar first: the number of the oldest entry; 0 if there is none.
    @ivar last: the number of the newest; 0 if there is none.
    @ivar size: bytes of the packets.
    """

    first: int = 0
    last: int = 0
    entries: int = 0
    size: int = 0


@attrs.frozen
class StoredEvent:
    """One entry of the event log, under its number."""

    sequence: int
    event: AppendEvent


class IStoreFiles(Interface):
    """What a store that is in files provides too, so that their size can be watched."""

    def files() -> Sequence[Path]:
        """The files that it has now; some may be gone by the time they are looked at."""


class IMessageRuns(Interface):
    """A store whose C{commit} also takes L{PutMessages<msmq.persistence.changes.PutMessages>}.

    Any other store gets a L{PutMessage<msmq.persistence.changes.PutMessage>} for each message.
    """


class IStoreVerification(Interface):
    """What a store that verifies in the background what it has stored provides too."""

    def verified_bytes() -> int:
        """Bytes of packets that were verified since the store was opened."""

    def damaged() -> int:
        """What was found damaged since the store was opened, by readers too."""


class IMessageStore(Interface):
    """Keeps the queues of one queue manager, its messages, its logs, and a few values of its own.

    Batches are done in the order in which they were handed over, each whole or not at all; any number
    may be under way.
    Reading sees every batch that was handed over before.
    Every failure is a L{StorageError}.
    After a failure of the backend that passes (a full disk, a database that was away) the store works
    again without being opened anew.
    It is not promised that two queue managers may use one store.
    """

    name: str = Attribute("What it is called in configuration and status, C{sqlite} for example.")

    durable: bool = Attribute(
        "Whether what was committed is there again after the process, or the machine, was killed."
    )

    def open() -> Deferred[Snapshot]:
        """Open the store and return its content; only once before the next L{close}."""

    def commit(changes: Sequence[Change]) -> Deferred[None]:
        """Do these changes, in their order, all of them or none.

        The Deferred fires once they are done, and on stable storage if the store is durable; cancelling
        it undoes nothing.
        A change to something that is kept already replaces it, and removing what is not kept does
        nothing; what is appended twice is there twice.
        A batch that holds only express messages, and changes to such, is not on stable storage then, and
        what is express is gone when the store is opened next.

        @raise UnknownQueue: (through the Deferred) a L{msmq.persistence.changes.PutMessage}, the target of a
            L{msmq.persistence.changes.MoveMessage} or a L{msmq.persistence.changes.AppendLog} for a queue
            that is
            not kept, nor put earlier in the batch.
        @raise StorageFull: (through the Deferred) there is no space.
        @raise StoreNotOpen: (through the Deferred) before L{open} or after L{close}.
        """

    def read(queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """The packets of these messages, in the order in which they are asked for.

        @raise MessageNotStored: (through the Deferred) one of them is not kept.
        @raise StoreNotOpen: (through the Deferred) before L{open} or after L{close}.
        """

    def find(identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """Queue and LookupIdentifier of every message that has this identity, in no order.

        It may have to look at the index of every message, but never holds up a commit for that.

        @param identity: as of L{msmq.persistence.changes.AppendEvent}.
        """

    def read_log(queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """Entries of the message log of a queue, the oldest first.

        @param after: only entries with larger numbers; 0 for all.
        @param limit: the most entries; there may be fewer when their packets are large, but one at least.
        """

    def log_extent(queue: UUID) -> Deferred[LogExtent]:
        """What the message log of a queue holds; nothing for a queue that is not kept."""

    def read_events(after: int, limit: int, identity: bytes | None = None) -> Deferred[Sequence[StoredEvent]]:
        """Entries of the event log, the oldest first.

        @param after: only entries with larger numbers; 0 for all.
        @param limit: the most entries.
        @param identity: only those of this message.
        """

    def close() -> Deferred[None]:
        """Finish every pending batch and release all resources; closing again does nothing."""
