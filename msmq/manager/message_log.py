"""The message logs of queues: kept within their limits, and sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from msmq.interfaces.storage import LogEntry, LogExtent, StorageError
from msmq.manager.outbox import Outbox
from msmq.manager.performing import Performer
from msmq.manager.searching import message_of
from msmq.manager.targets import destinations
from msmq.manager.transactions import Transactions
from msmq.queues.changes import TrimLog
from msmq.queues.definition import quota_in_bytes
from msmq.queues.message import Acknowledge, Message
from msmq.queues.queue import Queue
from msmq.structures.base_header import INFINITE
from msmq.structures.status import MQError, Status
from msmq.structures.user_message_view import UserMessageView

TRIM_INTERVAL: Final = 60.0
"""Seconds between two looks at what message logs hold beyond their limits."""

PAGE: Final = 200
"""Entries that are read, and sent, together."""


class MessageLogs:
    """What the store keeps of everything that arrived in queues with a message log."""

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        transactions: Transactions,
        reactor: IReactorTime,
        new_identifier: Callable[[], UUID],
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._transactions = transactions
        self._new_identifier = new_identifier
        self._trimming = LoopingCall(self.trim)
        self._trimming.clock = reactor

    def start(self) -> None:
        """Begin to keep the logs within their limits."""
        self._trimming.start(TRIM_INTERVAL, now=False)

    def stop(self) -> None:
        """Stop that."""
        if self._trimming.running:
            self._trimming.stop()

    def trim(self) -> None:
        """Forget what the limits do not allow; a log that was switched off keeps what it has by them."""
        now = self._performer.clock.now().wall
        changes = []
        for queue in self._performer.model.queues():
            definition = queue.definition
            before = now - definition.log_age if definition.log_age else None
            keep = quota_in_bytes(definition.log_size)
            if before is not None or keep is not None:
                changes.append(TrimLog(definition.identifier, before, keep))
        self._performer.commit_later(changes, "that message logs are shorter")

    async def extent(self, queue: Queue) -> LogExtent:
        """What the log of a queue holds."""
        try:
            return await self._performer.store.log_extent(queue.definition.identifier)
        except StorageError as error:
            raise _failed(error) from error

    async def replay(
        self,
        queue: Queue,
        into: str,
        *,
        first: int,
        last: int | None,
        since: float | None,
        until: float | None,
    ) -> int:
        """Send copies of the entries within these bounds, and answer how many these were.

        They ask for no acknowledgements and no copies, and expire no more.

        @raise MQError: as sending does; what was sent before stays sent.
        """
        # A name that is wrong is told of even when there is nothing to send there.
        destinations(self._performer.model, into, self._performer.clock.now())
        sent = 0
        portion: list[Message] = []
        async for entry in self._entries(queue, first, last, since, until):
            portion.append(_copy(entry))
            if len(portion) == PAGE:
                await self._send(into, portion)
                sent += PAGE
                portion = []
        if portion:
            await self._send(into, portion)
        return sent + len(portion)

    async def _send(self, into: str, messages: list[Message]) -> None:
        performer = self._performer
        targets = destinations(performer.model, into, performer.clock.now())
        is_transactional = any(target.queue.definition.transactional for target in targets)
        copies = [attrs.evolve(message, transactional=is_transactional) for message in messages]
        for copy in copies:
            self._outbox.check([copy], targets)
        if is_transactional:
            async with self._transactions.begin(self._new_identifier()) as transaction:
                self._outbox.send_in(transaction.core, targets, copies)
        else:
            await self._outbox.put(targets, copies)

    async def _entries(
        self, queue: Queue, first: int, last: int | None, since: float | None, until: float | None
    ) -> AsyncIterator[LogEntry]:
        after = max(first - 1, 0)
        end = (await self.extent(queue)).last if last is None else last
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
                if (since is None or entry.arrived >= since) and (until is None or entry.arrived <= until):
                    yield entry
            after = page[-1].sequence


def _copy(entry: LogEntry) -> Message:
    """A message as it arrived, without what only concerned its own journey."""
    return attrs.evolve(
        message_of(UserMessageView(entry.packet)),
        acknowledge=Acknowledge.NONE,
        admin_queue=None,
        journal=False,
        dead_letter=False,
        time_to_be_received=INFINITE,
    )


def _failed(error: StorageError) -> MQError:
    return MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error))
