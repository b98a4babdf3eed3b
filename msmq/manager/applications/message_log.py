"""Message logs of queues: retention limits and replay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.manager.received_messages import LoggedMessage
from msmq.interfaces.storage import LogEntry, LogExtent, StorageError
from msmq.manager.applications.message_copies import CopySender, copy_of
from msmq.manager.performer import Performer
from msmq.moment import Moment
from msmq.persistence.changes import TrimLog
from msmq.persistence.definition import quota_in_bytes
from msmq.queues.arriving.message import Message
from msmq.queues.queue import Queue
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

TRIM_INTERVAL: Final = 60.0
"""Seconds between two checks of the retention limits."""

PAGE: Final = 200
"""Entries of a replay that are read and sent in one batch."""


@attrs.frozen
class LogPart:
    """A part of a message log.

    @ivar first: the first sequence number; C{last} is the last.
    @ivar since: the earliest arrival time; C{until} is the latest; seconds since 1970-01-01 UTC.
    """

    first: int = 0
    last: int | None = None
    since: float | None = None
    until: float | None = None

    def has(self, arrived: float) -> bool:
        """Whether an arrival time is within the bounds."""
        return (self.since is None or arrived >= self.since) and (self.until is None or arrived <= self.until)


class MessageLogs:
    """The message logs of a queue manager."""

    def __init__(
        self,
        performer: Performer,
        copies: CopySender,
        reactor: IReactorTime,
    ) -> None:
        self._performer = performer
        self._copies = copies
        self._timer = DeadlineTimer(reactor, performer.clock, self._trim)

    def start(self) -> None:
        """Begin to enforce the limits."""
        self._timer.set(self._performer.clock.now().monotonic + TRIM_INTERVAL)

    def stop(self) -> None:
        """Stop that."""
        self._timer.stop()

    def _trim(self, now: Moment) -> None:
        self._timer.set(now.monotonic + TRIM_INTERVAL)
        self.trim()

    def trim(self) -> None:
        """Remove entries beyond the limits; they also apply to a log that was switched off."""
        now = self._performer.clock.now().wall
        changes = []
        for queue in self._performer.model.queues():
            definition = queue.definition
            before = now - definition.log_age if definition.log_age else None
            keep = quota_in_bytes(definition.log_size)
            if before is not None or keep is not None:
                changes.append(TrimLog(definition.identifier, before, keep))
        self._performer.commit_later(changes, "the trimming of message logs")

    async def extent(self, queue: Queue) -> LogExtent:
        """The extent of a queue's log."""
        try:
            return await self._performer.store.log_extent(queue.definition.identifier)
        except StorageError as error:
            raise _failed(error) from error

    async def page(self, queue: Queue, after: int, count: int) -> list[LoggedMessage]:
        """Entries of a queue's log, the oldest first.

        @param after: only those with larger sequence numbers.
        """
        try:
            entries = await self._performer.store.read_log(queue.definition.identifier, after, count)
        except StorageError as error:
            raise _failed(error) from error
        return [LoggedMessage(each.sequence, each.arrived, UserMessageView(each.packet)) for each in entries]

    async def replay(self, queue: Queue, into: str, part: LogPart, in_clear: bool = False) -> int:
        """Send copies of a part of the log, and return their number.

        They request no acknowledgements and no copies, and do not expire.

        @param in_clear: send them unencrypted.
        @raise MQError: as sending does; copies sent before stay sent.
        """
        # An invalid name is reported even if there is nothing to send.
        self._copies.check_name(into)
        sent = 0
        portion: dict[str, Message] = {}
        async for entry in self._entries(queue, part):
            copy = copy_of(UserMessageView(entry.packet), in_clear)
            portion[f"entry {entry.sequence} of the log"] = copy
            if len(portion) == PAGE:
                await self._copies.send(into, portion)
                sent += PAGE
                portion = {}
        if portion:
            await self._copies.send(into, portion)
        return sent + len(portion)

    async def _entries(self, queue: Queue, part: LogPart) -> AsyncIterator[LogEntry]:
        after = max(part.first - 1, 0)
        end = (await self.extent(queue)).last if part.last is None else part.last
        while after < end:
            try:
                page = await self._performer.store.read_log(queue.definition.identifier, after, PAGE)
            except StorageError as error:
                raise _failed(error) from error
            if not page:
                return
            for entry in page:
                if entry.sequence > end:
                    return
                if part.has(entry.arrived):
                    yield entry
            after = page[-1].sequence


def _failed(error: StorageError) -> MQError:
    return MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error))
