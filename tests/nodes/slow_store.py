"""A store that takes time, and loses with its host what it had not finished."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.interfaces.storage import (
    IMessageStore,
    LogEntry,
    LogExtent,
    StorageError,
    StoredEvent,
)
from msmq.persistence.changes import Change
from msmq.persistence.snapshot import Snapshot
from msmq.storage.memory import MemoryMessageStore


@implementer(IMessageStore)
class SlowStore:
    """One life of a store: the disk is the same in all, and what waits for it is lost with the host.

    @param disk: keeps what was finished.
    @param reactor: of the host; nothing happens once that is dead.
    @param delay: seconds that each thing takes.
    @ivar trouble: with which commits fail; C{None} if they do not.
    @ivar unreadable: with which reads fail; C{None} if they do not.
    """

    name = "slow"
    durable = True

    def __init__(self, disk: MemoryMessageStore, reactor: IReactorTime, delay: float) -> None:
        self._disk = disk
        self._reactor = reactor
        self._delay = delay
        self._asked: deque[tuple[Callable[[], Deferred[Any]], Deferred[Any]]] = deque()
        self._is_busy = False
        self.trouble: StorageError | None = None
        self.unreadable: StorageError | None = None

    def _ask(self, question: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self._asked.append((question, done))
        if not self._is_busy:
            self._is_busy = True
            self._reactor.callLater(self._delay, self._work)
        return done

    def _work(self) -> None:
        # Whatever has come until now is one group.
        group, self._asked = self._asked, deque()
        answers: list[tuple[Deferred[Any], object]] = []
        for question, done in group:
            question().addBoth(_note, done, answers)
        self._is_busy = False
        for done, answer in answers:
            if isinstance(answer, Failure):
                done.errback(answer)
            else:
                done.callback(answer)
        if self._asked and not self._is_busy:
            self._is_busy = True
            self._reactor.callLater(self._delay, self._work)

    def open(self) -> Deferred[Snapshot]:
        """Open the store with the batches that earlier instances had committed."""
        self._disk.close()
        return self._disk.open()

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""

        def commit() -> Deferred[None]:
            return self._disk.commit(changes) if self.trouble is None else fail(self.trouble)

        return self._ask(commit)

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""

        def read() -> Deferred[Sequence[bytes]]:
            return self._disk.read(queue, lookup_ids) if self.unreadable is None else fail(self.unreadable)

        return self._ask(read)

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._ask(lambda: self._disk.find(identity))

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._ask(lambda: self._disk.read_log(queue, after, limit))

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._ask(lambda: self._disk.log_extent(queue))

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._ask(lambda: self._disk.read_events(after, limit, identity))

    def close(self) -> Deferred[None]:
        """Closed once everything that was asked before is done; the disk stays as it is."""
        return self._ask(lambda: succeed(None))


def _note(answer: object, done: Deferred[Any], answers: list[tuple[Deferred[Any], object]]) -> None:
    answers.append((done, answer))
