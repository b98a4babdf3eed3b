"""Event log: messages removed without being received, and events of the server."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from msmq.background import run_in_background
from msmq.manager.performer import Performer
from msmq.persistence.changes import AppendEvent, Change, RemoveUnread, TrimEvents
from msmq.structures.status import MQError

PENDING = 10_000
"""Limit on events that wait for the store; beyond it the oldest are dropped, and counted."""

PORTION = 1_000
"""Limit on events in one commit."""


class EventLog:
    """Appends to the event log of the store, and trims it.

    @param keep: how many events the store keeps.
    @ivar counts: events since the process began, by name: those of L{record} stored or not, others stored or
        being stored.
    @ivar dropped: events that were not stored: they came faster than the store could write them, or it failed
    for too long.
    """

    def __init__(self, performer: Performer, keep: int) -> None:
        self._performer = performer
        self._keep = keep
        self._pending: deque[AppendEvent] = deque()
        self._is_storing = False
        # The number of earlier events is unknown, so the first commit trims too.
        self._appended = keep
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()

    def totals(self) -> Counter[str]:
        """The counts for metrics, which never decrease: a decrease would be taken for a restart.

        An event that was counted while it was being stored, and then was not, stays until it is tried again.
        """
        self._reported |= self.counts
        return Counter(self._reported)

    def configure(self, keep: int) -> None:
        """Keep another number of events from the next commit on."""
        self._keep = keep

    def record(self, event: AppendEvent) -> None:
        """Append an event without waiting for its commit."""
        self.counts[event.event] += 1
        self._pending.append(event)
        if len(self._pending) > PENDING:
            self._pending.popleft()
            self.dropped += 1
        if not self._is_storing:
            self._is_storing = True
            run_in_background(self._store(), "storing events")

    def stop(self) -> None:
        """Commit all events that wait in one batch, since the queue manager stops.

        One whose store was never opened cannot store them; they are counted as dropped.
        """
        pending, self._pending = list(self._pending), deque()
        if self._performer.is_stopped:
            self.dropped += len(pending)
        elif pending:
            self._performer.commit_later(self._bounded(pending), "events")

    def trim(self, changes: Sequence[Change]) -> list[Change]:
        """These changes, with a trim of the log if one is due."""
        for change in changes:
            if isinstance(change, AppendEvent):
                self.counts[change.event] += 1
            elif isinstance(change, RemoveUnread):
                self.counts[change.event.event] += len(change.lookup_ids)
        return self._bounded(changes)

    def not_stored(self, changes: Iterable[Change]) -> None:
        """The changes of L{trim} are not stored: it is called again for the next attempt, if there is one."""
        for change in changes:
            if isinstance(change, AppendEvent):
                self.counts[change.event] -= 1
            elif isinstance(change, RemoveUnread):
                self.counts[change.event.event] -= len(change.lookup_ids)

    def _bounded(self, changes: Sequence[Change]) -> list[Change]:
        for change in changes:
            if isinstance(change, AppendEvent):
                self._appended += 1
            elif isinstance(change, RemoveUnread):
                self._appended += len(change.lookup_ids)
        # Rarely, since it has a cost; the log may exceed its limit in between.
        if self._appended < max(self._keep // 16, PORTION):
            return list(changes)
        self._appended = 0
        return [*changes, TrimEvents(self._keep)]

    async def _store(self) -> None:
        try:
            while self._pending:
                if not await self._performer.retry(self._append, "events"):
                    self.dropped += len(self._pending)
                    self._pending.clear()
        finally:
            self._is_storing = False

    async def _append(self, attempt: int) -> None:
        """Store the oldest of the events that wait.

        @raise MQError: they are not stored; they wait again, within the limit.
        """
        portion = [self._pending.popleft() for _ in range(min(PORTION, len(self._pending)))]
        try:
            await self._performer.commit(self._bounded(portion))
        except MQError:
            capacity = PENDING - len(self._pending)
            self.dropped += max(0, len(portion) - capacity)
            self._pending.extendleft(reversed(portion[-capacity:] if capacity else ()))
            raise
