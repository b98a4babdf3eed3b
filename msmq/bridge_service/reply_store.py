"""Where replies go, kept so that neither a restart nor a takeover loses the addresses of requests."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import DeferredLock

from msmq.bridge.replies import PendingReplies, ReplyAddress
from msmq.bridge_service.reply_records import ReplyRecord, RequestsOfSent, SendMessages


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
        """Whether L{move} has something to do."""
        return self._record is not None and self._record.is_moving

    def is_adding(self, last: int) -> bool:
        """Whether requests are being sent whose addresses are added then.

        @param last: the last addition that counts, a L{last_addition} of before.
        """
        return any(each <= last for each in self._adding)

    def find(self, correlation_id: str | None) -> ReplyAddress | None:
        """The request that a message answers."""
        return self._pending.find(correlation_id, self._now())

    async def send(self, send: SendMessages, requests: RequestsOfSent) -> None:
        """Send messages, and keep the addresses of the requests among them; done when both are stored.

        @raise OSError: they cannot be written.
        @raise MQError: the queue manager cannot store them, or as C{send}.
        """
        self.last_addition += 1
        number = self.last_addition
        self._adding.add(number)
        try:
            await self._lock.acquire()
            try:
                if self._record is not None:
                    await self._record.send(send, requests, self._pending, self._now())
                else:
                    for request in requests(await send(None)):
                        self._pending.add(*request)
            finally:
                self._lock.release()
        finally:
            self._adding.discard(number)

    async def move(self) -> None:
        """Store where this version does what an earlier one has stored elsewhere.

        @raise MQError: the queue manager cannot store it.
        """
        await self._lock.acquire()
        try:
            if self._record is not None:
                await self._record.move(self._pending, self._now())
        finally:
            self._lock.release()
