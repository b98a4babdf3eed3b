"""Where queues and recoverable messages are kept."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from msmq.errors import MsmqError
from msmq.queues.changes import Change
from msmq.queues.snapshot import Snapshot


class StorageError(MsmqError):
    """The store could not do what it was asked; nothing of the batch was done."""


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


class IMessageStore(Interface):
    """Keeps the queues of one queue manager, its messages, and a few values of its own.

    Batches are done in the order in which they were handed over, each whole or not at all; any number
    may be under way.
    Reading sees every batch that was handed over before.
    Every failure is a L{StorageError}.
    It is not promised that two queue managers may use one store.
    """

    name: str = Attribute("What it is called in configuration and status, C{sqlite} for example.")

    durable: bool = Attribute(
        "Whether what was committed is there again after the process, or the machine, was killed."
    )

    def open() -> Deferred[Snapshot]:
        """Make ready and tell what is kept; only once before the next L{close}."""

    def commit(changes: Sequence[Change]) -> Deferred[None]:
        """Do these changes, in their order, all of them or none.

        The Deferred fires once they are done, and on stable storage if the store is durable; cancelling
        it undoes nothing.
        A change to something that is kept already replaces it, and removing what is not kept does
        nothing, so that a batch may be done twice.

        @raise UnknownQueue: (through the Deferred) a L{msmq.queues.changes.PutMessage} for a queue that is
            not kept, nor put earlier in the batch.
        @raise StoreNotOpen: (through the Deferred) before L{open} or after L{close}.
        """

    def read(queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """The packets of these messages, in the order in which they are asked for.

        @raise MessageNotStored: (through the Deferred) one of them is not kept.
        @raise StoreNotOpen: (through the Deferred) before L{open} or after L{close}.
        """

    def close() -> Deferred[None]:
        """Finish every batch that was handed over and let go of all resources; closing again does nothing."""
