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
    """A request to the store failed; no change of the batch was made."""


class StorageFull(StorageError):
    """The store has no space for new data; removals still work."""


class StoreIncomplete(StorageError):
    """The store is not the one last used here: something is missing, or it is an older copy."""


class StoreNotOpen(StorageError):
    """The store was not opened yet, or was closed."""


class UnknownQueue(StorageError):
    """A message is to be stored or read for a queue that is not in the store.

    @ivar queue: the identifier of the queue.
    """

    def __init__(self, queue: UUID) -> None:
        super().__init__(f"the store keeps no queue {queue}")
        self.queue = queue


class MessageNotStored(StorageError):
    """A message is to be read that is not in the store.

    @ivar queue: the identifier of its queue.
    @ivar lookup_id: its LookupIdentifier.
    """

    def __init__(self, queue: UUID, lookup_id: int, problem: str | None = None) -> None:
        super().__init__(problem or f"the store keeps no message {lookup_id:#018x} of queue {queue}")
        self.queue = queue
        self.lookup_id = lookup_id


class DamagedMessageKept(MessageNotStored):
    """A message that is to be read is damaged, and what is left of it could not be put into quarantine.

    The store keeps it until a later read succeeds in that, as when the disk has space again, and raises
    L{MessageNotStored} then. If the message is removed before, what is left of it is lost.

    @param where: where its bytes are, and what is wrong with them.
    """

    def __init__(self, queue: UUID, lookup_id: int, where: str = "") -> None:
        super().__init__(
            queue,
            lookup_id,
            f"message {lookup_id:#018x} of queue {queue} is damaged, and stays in the store until what is"
            " left of it can be put into quarantine" + (f" ({where})" if where else ""),
        )


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
    """The extent of a queue's message log.

    @ivar first: the number of the oldest entry; 0 if there is none.
    @ivar last: the number of the newest; 0 if there is none.
    @ivar size: bytes of the packets.
    @ivar trimmed: the number of the newest entry that was trimmed, so that a reader that continues from a
        smaller one detects that it has missed entries; 0 if none was, or the store does not keep it.
    """

    first: int = 0
    last: int = 0
    entries: int = 0
    size: int = 0
    trimmed: int = 0


@attrs.frozen
class StoredEvent:
    """One entry of the event log, under its number."""

    sequence: int
    event: AppendEvent


class IStoreFiles(Interface):
    """Provided by a store in files, so that their size can be monitored."""

    def files() -> Sequence[Path]:
        """Its current files; some may be deleted before the caller opens them."""


@attrs.frozen
class CommitTimes:
    """Durations of the latest commits, from the request to stable storage, in seconds.

    @ivar commits: commits that succeeded since the start.
    @ivar failures: commits that failed since the start.
    @ivar measured: the number of commits that the others are of: the latest of the last ten minutes.
    @ivar p99: the duration that 1 % of them exceed.
    @ivar since_failure: seconds since the latest commit failed; C{None} if it succeeded.
    @ivar pending: how long the oldest commit that has not ended takes so far; C{None} if there is none.
    """

    commits: int
    failures: int
    measured: int
    median: float | None
    p99: float | None
    longest: float | None
    since_failure: float | None
    pending: float | None


class ICommitTimes(Interface):
    """Provided by a store whose commits are measured."""

    def commit_times() -> CommitTimes:
        """The durations of the latest commits."""


class IMessageRuns(Interface):
    """A store whose C{commit} also takes L{PutMessages<msmq.persistence.changes.PutMessages>} and
    L{RemoveUnread<msmq.persistence.changes.RemoveUnread>}.

    Any other store gets a L{PutMessage<msmq.persistence.changes.PutMessage>} for each message, and an
    L{AppendEvent<msmq.persistence.changes.AppendEvent>} for each that is removed unread.
    """


class IStoreVerification(Interface):
    """Provided by a store that verifies stored data in the background."""

    def verified_bytes() -> int:
        """Bytes of packets that were verified since the store was opened."""

    def damaged() -> int:
        """Damaged packets found since the store was opened, also by readers."""


class IMessageStore(Interface):
    """Stores the queues of one queue manager, their messages, logs, and named values.

    Batches are committed in the order of the calls, each atomically; any number may be pending.
    A read sees every batch of an earlier call.
    Every failure is a L{StorageError}; the queue manager counts any other error, a cancellation by the store
    among them, as one.
    Cancelling a request ends the wait for it, and does not affect other requests.
    After a temporary failure (a full disk, an unavailable database) the store works again without being
    reopened.
    Not promised: that two queue managers may use one store.
    """

    name: str = Attribute("Its name in configuration and status, C{sqlite} for example.")

    durable: bool = Attribute("Whether committed data survives a kill of the process or the machine.")

    def open() -> Deferred[Snapshot]:
        """Open the store and return its content; only once before the next L{close}.

        The order of its queues is that of L{Snapshot<msmq.persistence.snapshot.Snapshot>}.

        @raise StorageError: (through the Deferred) it is open.
        """

    def commit(changes: Sequence[Change]) -> Deferred[None]:
        """Commit these changes in order, all or none.

        The Deferred fires once they are made, and on stable storage if the store is durable; cancelling it
        does not undo them.
        Putting an existing item replaces it, removing a missing one has no effect, and an item that is
        appended twice is stored twice.
        A batch of express messages and changes to them need not be on stable storage; express messages are
        lost when the store is next opened.

        @raise UnknownQueue: (through the Deferred) a L{msmq.persistence.changes.PutMessage}, the target of a
            L{msmq.persistence.changes.MoveMessage} or a L{msmq.persistence.changes.AppendLog} for a queue
            that is
            not stored, nor put earlier in the batch.
        @raise StorageFull: (through the Deferred) there is no space.
        @raise StoreNotOpen: (through the Deferred) before L{open} or after L{close}.
        """

    def read(queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """The packets of these messages, in the order of the request.

        @raise MessageNotStored: (through the Deferred) one of them is not stored.
        @raise DamagedMessageKept: (through the Deferred) one of them is damaged, and still stored.
        @raise StoreNotOpen: (through the Deferred) before L{open} or after L{close}.
        """

    def find(identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """Queue and LookupIdentifier of every message that has exactly this identity, in no order.

        Nothing is found for C{b""}, also if packets without an identity are stored, nor for another length.

        It may have to scan the index of all messages, but does not delay commits for that.

        @param identity: as of L{msmq.persistence.changes.AppendEvent}.
        """

    def read_log(queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """Entries of the message log of a queue, the oldest first.

        @param after: only entries with larger numbers; 0 for all.
        @param limit: the maximum number of entries; there may be fewer when their packets are large, but one
        at least.
        """

    def log_extent(queue: UUID) -> Deferred[LogExtent]:
        """What the message log of a queue holds; empty for an unknown queue."""

    def read_events(after: int, limit: int, identity: bytes | None = None) -> Deferred[Sequence[StoredEvent]]:
        """Entries of the event log, the oldest first.

        @param after: only entries with larger numbers; 0 for all.
        @param limit: the maximum number of entries.
        @param identity: only those of this message.
        """

    def close() -> Deferred[None]:
        """Finish every pending batch and release all resources; closing again does nothing."""


def storage_error(error: BaseException) -> StorageError:
    """Convert any exception to a storage error, since a provider may raise others by mistake.

    @param error: may be a cancellation, of Twisted or of asyncio.
    """
    return (
        error
        if isinstance(error, StorageError)
        else StorageError(f"the store failed: {type(error).__name__}: {error}")
    )
