"""The message logs of queues: kept within their limits, and sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.storage import LogEntry, LogExtent, StorageError
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.search import message_of
from msmq.manager.applications.targets import SendTarget
from msmq.manager.applications.transactions import Transactions
from msmq.manager.outbox import Outbox
from msmq.manager.performer import Performer
from msmq.moment import Moment
from msmq.persistence.changes import TrimLog
from msmq.persistence.definition import quota_in_bytes
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.queues.queue import Queue
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

TRIM_INTERVAL: Final = 60.0
"""Seconds between two looks at what message logs hold beyond their limits."""

PAGE: Final = 200
"""Entries that are read, and sent, together."""


@attrs.frozen
class LogPart:
    """A part of a message log.

    @ivar first: the smallest sequence number, as C{last} is the largest.
    @ivar since: the earliest arrival, as C{until} is the latest, seconds since 1970-01-01 UTC.
    """

    first: int = 0
    last: int | None = None
    since: float | None = None
    until: float | None = None

    def has(self, arrived: float) -> bool:
        """Whether what arrived then is within the times."""
        return (self.since is None or arrived >= self.since) and (self.until is None or arrived <= self.until)


class MessageLogs:
    """What the store keeps of everything that arrived in queues with a message log."""

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        destinations: Destinations,
        transactions: Transactions,
        reactor: IReactorTime,
        new_identifier: Callable[[], UUID],
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._destinations = destinations
        self._transactions = transactions
        self._new_identifier = new_identifier
        self._timer = DeadlineTimer(reactor, performer.clock, self._trim)

    def start(self) -> None:
        """Begin to keep the logs within their limits."""
        self._timer.set(self._performer.clock.now().monotonic + TRIM_INTERVAL)

    def stop(self) -> None:
        """Stop that."""
        self._timer.stop()

    def _trim(self, now: Moment) -> None:
        self._timer.set(now.monotonic + TRIM_INTERVAL)
        self.trim()

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

    async def replay(self, queue: Queue, into: str, part: LogPart, in_clear: bool = False) -> int:
        """Send copies of a part of the log, and answer how many these were.

        They ask for no acknowledgements and no copies, and expire no more.

        @param in_clear: nor do they ask to be encrypted.
        @raise MQError: as sending does; what was sent before stays sent.
        """
        # An invalid name is reported even if there is nothing to send.
        self._destinations.resolve(into)
        sent = 0
        portion: dict[int, Message] = {}
        async for entry in self._entries(queue, part):
            portion[entry.sequence] = _copy(entry, in_clear)
            if len(portion) == PAGE:
                await self._send(into, portion)
                sent += PAGE
                portion = {}
        if portion:
            await self._send(into, portion)
        return sent + len(portion)

    async def _send(self, into: str, messages: Mapping[int, Message]) -> None:
        targets = self._destinations.resolve(into)
        _check_privacy(messages, targets)
        is_transactional = any(target.queue.definition.transactional for target in targets)
        copies = [attrs.evolve(message, transactional=is_transactional) for message in messages.values()]
        for copy in copies:
            self._outbox.check([copy], targets)
        if is_transactional:
            async with self._transactions.begin(self._new_identifier()) as transaction:
                self._outbox.send_in(transaction.core, targets, copies)
        else:
            await self._outbox.put(targets, copies)

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


def _copy(entry: LogEntry, in_clear: bool) -> Message:
    """A message as it arrived, without what only concerned its own journey."""
    message = message_of(UserMessageView(entry.packet))
    return attrs.evolve(
        message,
        acknowledge=Acknowledge.NONE,
        admin_queue=None,
        journal=False,
        dead_letter=False,
        time_to_be_received=INFINITE,
        privacy_level=PrivacyLevel.NONE if in_clear else message.privacy_level,
    )


def _check_privacy(messages: Mapping[int, Message], targets: Sequence[SendTarget]) -> None:
    """See that what asks to be encrypted can be.

    It may not have been encrypted when it arrived; but a body for which its sender requested privacy is not
    sent unencrypted without an explicit request.

    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION.
    """
    direct = next((each.name for each in targets if each.has_no_key), None)
    asking = next((number for number, message in messages.items() if message.privacy_level), None)
    if direct is not None and asking is not None:
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
            f"entry {asking} of the log requests encryption, and {direct} is a direct name, for which"
            " there is none; replay it into a PUBLIC= or PRIVATE= name, or unencrypted with --in-clear",
        )


def _failed(error: StorageError) -> MQError:
    return MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error))
