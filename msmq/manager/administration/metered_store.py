"""Message store wrapper that measures the number and the duration of commits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import alsoProvides, implementer

from msmq.interfaces.storage import (
    CommitTimes,
    ICommitTimes,
    IMessageRuns,
    IMessageStore,
    IStoreFiles,
    IStoreVerification,
    LogEntry,
    LogExtent,
    StoredEvent,
)
from msmq.persistence.changes import Change
from msmq.persistence.snapshot import Snapshot

MEASURED: Final = 1000
"""The latest commits, whose durations are kept."""

RECENT: Final = 600.0
"""Seconds after which a commit is not among the latest any more, however few have followed."""


@implementer(ICommitTimes, IMessageStore)
class MeteredStore:
    """Delegates to a store, and measures each commit from the request to its completion.

    @param clock: monotonic seconds.
    @ivar commits: commits that succeeded.
    @ivar failures: commits that failed.
    @ivar failed_at: when the latest commit failed, by C{clock}; C{None} if it succeeded, or there was none.
    """

    def __init__(self, store: IMessageStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._observe: Callable[[float], object] | None = None
        # Each with the time of its end.
        self._latest: deque[tuple[float, float]] = deque(maxlen=MEASURED)
        self._clock = clock
        # When those that have not ended began, by their numbers, in their order.
        self._pending: dict[int, float] = {}
        self._number = 0
        self.name = store.name
        self.durable = store.durable
        self.commits = 0
        self.failures = 0
        self.failed_at: float | None = None
        for interface in (IMessageRuns, IStoreFiles, IStoreVerification):
            if interface.providedBy(store):
                alsoProvides(self, interface)

    def observe(self, observe: Callable[[float], object]) -> None:
        """Report each successful commit from now on.

        @param observe: is called with the duration of a commit, in seconds; it replaces the former one.
        """
        self._observe = observe

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        began = self._clock()
        committed = self._store.commit(changes)
        self._number += 1
        self._pending[self._number] = began
        return committed.addCallbacks(
            self._done, self._failed, callbackArgs=(self._number,), errbackArgs=(self._number,)
        )

    def _done(self, result: None, number: int) -> None:
        began = self._pending.pop(number)
        self.commits += 1
        self.failed_at = None
        now = self._clock()
        seconds = now - began
        self._latest.append((now, seconds))
        if self._observe is not None:
            self._observe(seconds)
        return result

    def _failed(self, failure: Failure, number: int) -> Failure:
        del self._pending[number]
        self.failures += 1
        self.failed_at = self._clock()
        return failure

    def commit_times(self) -> CommitTimes:
        """See L{ICommitTimes.commit_times}."""
        now = self._clock()
        since = now - RECENT
        oldest = next(iter(self._pending.values()), None)
        latest = sorted(seconds for ended, seconds in self._latest if ended >= since)
        return CommitTimes(
            commits=self.commits,
            failures=self.failures,
            measured=len(latest),
            median=latest[len(latest) // 2] if latest else None,
            p99=latest[len(latest) * 99 // 100] if latest else None,
            longest=latest[-1] if latest else None,
            since_failure=None if self.failed_at is None else now - self.failed_at,
            pending=None if oldest is None else now - oldest,
        )

    def files(self) -> Sequence[Path]:
        """See L{IStoreFiles.files}; provided if the store is in files."""
        files: Sequence[Path] = IStoreFiles(self._store).files()
        return files

    def verified_bytes(self) -> int:
        """See L{IStoreVerification.verified_bytes}; provided if the store verifies itself."""
        count: int = IStoreVerification(self._store).verified_bytes()
        return count

    def damaged(self) -> int:
        """See L{IStoreVerification.damaged}; provided if the store verifies itself."""
        count: int = IStoreVerification(self._store).damaged()
        return count

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
