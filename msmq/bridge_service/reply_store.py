"""Where replies go, kept so that neither a restart nor a takeover loses the addresses of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from twisted.internet.defer import DeferredLock

from msmq.bridge.replies import PendingReplies, ReplyAddress
from msmq.bridge_service.reply_records import ReplyRecord, StoredRequest


class ReplyStore:
    """The requests of one route that may still be answered, in memory and on stable storage.

    A request is stored before it is acknowledged at the broker.

    @param record: where they are stored; C{None} keeps them in memory alone.
    @param now: seconds since 1970-01-01 UTC.
    @ivar last_addition: the number of the addition that began last.
    """

    def __init__(self, record: ReplyRecord | None, now: Callable[[], float]) -> None:
        self._record = record
        self._now = now
        self._pending = PendingReplies()
        self._lock = DeferredLock()
        self._adding: set[int] = set()
        self.last_addition = 0

    def load(self) -> None:
        """Read what is stored; call this first.

        @raise OSError: it cannot be read.
        """
        if self._record is not None:
            for request in self._record.load():
                self._pending.add(*request)

    @property
    def is_moving(self) -> bool:
        """Whether the next L{add} also stores what an earlier version has stored elsewhere."""
        return self._record is not None and self._record.is_moving

    def is_adding(self, last: int) -> bool:
        """Whether requests are being sent whose addresses are added then.

        @param last: the last addition that counts, a L{last_addition} of before.
        """
        return any(each <= last for each in self._adding)

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Requests are sent, and their addresses added, inside this context."""
        self.last_addition += 1
        number = self.last_addition
        self._adding.add(number)
        try:
            yield
        finally:
            self._adding.discard(number)

    def find(self, correlation_id: str | None) -> ReplyAddress | None:
        """The request that a message answers."""
        return self._pending.find(correlation_id, self._now())

    async def add(self, requests: Sequence[StoredRequest]) -> None:
        """Keep the addresses of requests, by the identifiers of their messages; done when they are stored.

        @raise OSError: they cannot be written.
        @raise MQError: the queue manager cannot store them.
        """
        await self._lock.acquire()
        try:
            for identifier, address in requests:
                self._pending.add(identifier, address)
            if self._record is not None:
                await self._record.add(requests, self._pending, self._now())
        finally:
            self._lock.release()
