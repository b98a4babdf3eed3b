"""Message store wrapper that measures the number and the duration of commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from prometheus_client import Histogram
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import alsoProvides, implementer

from msmq.interfaces.storage import IMessageRuns, IMessageStore, LogEntry, LogExtent, StoredEvent
from msmq.persistence.changes import Change
from msmq.persistence.snapshot import Snapshot


@implementer(IMessageStore)
class MeteredStore:
    """Delegates to a store, and measures each commit from the request to its completion.

    @param seconds: records the duration of each successful commit.
    @param clock: monotonic seconds.
    @ivar commits: commits that succeeded.
    @ivar failures: commits that failed.
    @ivar failed_at: when the latest commit failed, by C{clock}; C{None} if it succeeded, or there was none.
    """

    def __init__(self, store: IMessageStore, seconds: Histogram, clock: Callable[[], float]) -> None:
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self.name = store.name
        self.durable = store.durable
        self.commits = 0
        self.failures = 0
        self.failed_at: float | None = None
        if IMessageRuns.providedBy(store):
            alsoProvides(self, IMessageRuns)

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        return self._store.commit(changes).addCallbacks(
            self._done, self._failed, callbackArgs=(self._clock(),)
        )

    def _done(self, result: None, began: float) -> None:
        self.commits += 1
        self.failed_at = None
        self._seconds.observe(self._clock() - began)
        return result

    def _failed(self, failure: Failure) -> Failure:
        self.failures += 1
        self.failed_at = self._clock()
        return failure

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}."""
        return self._store.open()

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        return self._store.read(queue, lookup_ids)

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._store.find(identity)

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._store.read_log(queue, after, limit)

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._store.log_extent(queue)

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._store.read_events(after, limit, identity)

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        return self._store.close()
