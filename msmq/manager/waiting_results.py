"""Results of messages that left while the store was full or failed: they wait in memory until it works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.background import run_in_background
from msmq.manager.performer import FIRST_RETRY, Performer
from msmq.manager.result_records import (
    LARGEST_RECORDED,
    MOST_RECORDED_BYTES,
    MessageResult,
    ResultRecords,
    numbered_name,
    record_name,
)
from msmq.persistence.changes import Change, RemoveState
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

MOST_WAITING: Final = 10_000
"""Limit on results that wait; further ones are dropped. Records have the same limit of their own."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""The same for the bytes of their packets."""

SENT_AT_ONCE: Final = 1000
"""Results that are stored with one commit when there is space."""

BYTES_AT_ONCE: Final = 512 * 1024
"""The same for the bytes of their packets; a single one may have more. They fit where a probe for space of
L{msmq.manager.flow_control} did."""


class WaitingResults:
    """Keeps results until the store has space, or no longer fails.

    A message that is received while the store is full leaves it, but its result needs space there; without it
    the sender of a transactional message, which gets its FinalAck only once, would wait in vain.
    They are sent in their order. Those of transactional messages have L{records<ResultRecords>} in the store,
    as far as these are small, so that neither a stop nor a kill loses them. A stop stores the others if there
    is space by then, and loses them otherwise, as a kill does.

    @param send: stores results, and sends them; raises L{MQError} if the store failed, and has sent none. The
        flag says that it tries also if the store was full the last time.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, performer: Performer, send: Callable[[Sequence[MessageResult], bool], Awaitable[None]]
    ) -> None:
        self._performer = performer
        self._send = send
        self._records = ResultRecords(performer.model)
        self._stale: Sequence[Change] = ()
        self._results: list[MessageResult] = []
        self._bytes = 0
        # The sizes of the packets in all records, also in those that are being stored, by number.
        self._recorded: dict[int, int] = {}
        self._recorded_bytes = 0
        # How many of the first ones are being stored.
        self._storing = 0
        self._is_waiting = False

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load those that waited when the process ended.

        @raise msmq.persistence.state_records.StateError: a value is damaged.
        """
        self._results, self._stale = self._records.load(state, self._performer.clock.now())
        self._bytes = sum(result.view.size for result in self._results)
        self._recorded = {result.record: result.view.size for result in self._results}
        self._recorded_bytes = self._bytes

    def start(self) -> None:
        """Send these."""
        stale, self._stale = self._stale, ()
        if stale:
            self._performer.commit_later(stale, "results for queues that were deleted")
        self._begin()

    def recorded(self, results: Sequence[MessageResult]) -> tuple[list[MessageResult], list[Change]]:
        """The results of messages that are about to leave, and what to store with that, so that a crash does
        not lose them: the records of those that senders wait for, within the limits.

        Either L{add} or L{withdraw} has to follow.
        """
        found: list[MessageResult] = []
        changes: list[Change] = []
        for result in results:
            if result.is_awaited and self._has_capacity(result.view.size):
                result, change = self._records.recorded(result)
                self._count(result.record, result.view.size)
                changes.append(change)
            found.append(result)
        return found, changes

    def _has_capacity(self, size: int) -> bool:
        return (
            size <= LARGEST_RECORDED
            and len(self._recorded) < MOST_WAITING
            and self._recorded_bytes + size <= min(MOST_RECORDED_BYTES, MOST_WAITING_BYTES)
        )

    def _count(self, record: int, size: int) -> None:
        self._recorded[record] = size
        self._recorded_bytes += size

    def recorded_name(
        self, name: FormatName, view: UserMessageView, about: bytes, message_class: MessageClass
    ) -> tuple[int, Sequence[Change]]:
        """The record of a result for a queue that is being looked up, and what to store with its cause.

        After a crash it is sent to the outgoing queue of this name, where it waits for the look-up.
        Either L{stored_name} or L{withdraw_record} has to follow.

        @return: also the number of the record; 0, and nothing to store, beyond the limits.
        """
        if not self._has_capacity(view.size):
            return 0, ()
        record, change = self._records.record(str(name), NULL_GUID, view, about, message_class)
        self._count(record, view.size)
        return record, (change,)

    def stored_name(self, record: int) -> int:
        """What was to be stored with a record of L{recorded_name} is stored.

        @return: the number of the record; 0 if it had no space.
        """
        if record and self._performer.is_left_out(numbered_name(record)):
            self.withdraw_record(record)
            return 0
        return record

    def withdraw(self, results: Iterable[MessageResult]) -> None:
        """The records of these results were not stored, or are removed."""
        for result in results:
            self.withdraw_record(result.record)

    def withdraw_record(self, record: int) -> None:
        """A record was not stored, or is removed."""
        self._recorded_bytes -= self._recorded.pop(record, 0)

    def drop_record(self, record: int) -> None:
        """The result of this record is not sent."""
        if record:
            self.withdraw_record(record)
            self._performer.commit_later(
                (RemoveState(numbered_name(record)),), "the end of an acknowledgement that is not sent"
            )

    def add(self, results: Iterable[MessageResult]) -> Sequence[MessageResult]:
        """Keep these results.

        @return: those beyond the limits, which are not kept.
        """
        excess: list[MessageResult] = []
        for result in map(self._truly_recorded, results):
            size = result.view.size
            is_excess = len(self._results) >= MOST_WAITING or self._bytes + size > MOST_WAITING_BYTES
            if is_excess and not result.record:
                excess.append(result)
            else:
                self._results.append(result)
                self._bytes += size
        self._begin()
        return excess

    def _truly_recorded(self, result: MessageResult) -> MessageResult:
        """A result whose record had no space has none."""
        if result.record and self._performer.is_left_out(record_name(result)):
            self.withdraw((result,))
            return attrs.evolve(result, record=0)
        return result

    def _begin(self) -> None:
        if self._results and not self._is_waiting:
            self._is_waiting = True
            Deferred.fromCoroutine(self._send_all()).addErrback(
                lambda failure: self.log.failure("results of messages were not sent", failure)
            )

    def stop(self) -> None:
        """Store them now, since the queue manager stops: the last probe may have been before there was space.

        Those of one portion are stored together, and each portion whether the others are stored or not.
        """
        waiting, self._results = self._results[self._storing :], self._results[: self._storing]
        self._bytes = sum(result.view.size for result in self._results)
        if not waiting or self._performer.is_stopped:
            return
        for portion in _portions(waiting):
            run_in_background(self._send_last(portion), "storing results of messages")

    async def _send_last(self, results: Sequence[MessageResult]) -> None:
        try:
            await self._send(results, True)
        except MQError:
            self._report_lost(results)

    def _report_lost(self, results: Sequence[MessageResult]) -> None:
        if count := sum(not result.record for result in results):
            self.log.warn(
                "the results of {count} message(s) were not sent: the store had failed until the stop",
                count=count,
            )

    async def _send_all(self) -> None:
        performer = self._performer
        try:
            if not performer.is_stopped:
                # A store that has failed for another reason than its space would fail again at once.
                await performer.pause(FIRST_RETRY)
            while self._results:
                if not await performer.retry(self._send_next, "results of messages"):
                    lost, self._results, self._bytes = self._results, [], 0
                    self._report_lost(lost)
                    return
                await performer.next_turn()
        finally:
            self._is_waiting = False

    async def _send_next(self, attempt: int) -> None:
        """Send the first ones; they are kept until the store has them."""
        if self._performer.model.storage.throttled:
            raise MQError(Status.MQ_ERROR_INSUFFICIENT_RESOURCES, "the store is full; they wait in memory")
        results = next(_portions(self._results))
        self._storing = len(results)
        try:
            await self._send(results, False)
        finally:
            self._storing = 0
        del self._results[: len(results)]
        self._bytes -= sum(result.view.size for result in results)
        self.withdraw(results)


def _portions(results: Sequence[MessageResult]) -> Iterator[Sequence[MessageResult]]:
    """The results that are stored with one commit, in order."""
    start = size = 0
    for end, result in enumerate(results):
        size += result.view.size
        if end > start and (end - start >= SENT_AT_ONCE or size > BYTES_AT_ONCE):
            yield results[start:end]
            start, size = end, result.view.size
    if start < len(results):
        yield results[start:]
