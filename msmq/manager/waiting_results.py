"""Results of messages that left while the store was full or failed: they wait in memory until it works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.manager.performer import FIRST_RETRY, Performer
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

MOST_WAITING: Final = 10_000
"""Limit on results that wait; further ones are dropped."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""The same for the bytes of their packets."""

SENT_AT_ONCE: Final = 1000
"""Results that are stored with one commit when there is space."""


@attrs.frozen(eq=False)
class MessageResult:
    """A packet that reports the result of a message.

    @ivar queue: its destination queue.
    @ivar about: the message.
    @ivar message_class: the result.
    @ivar is_bound: the message left or has arrived; it was not refused on arrival.
    """

    queue: Queue
    view: UserMessageView
    about: UserMessageView
    message_class: MessageClass
    is_bound: bool


class WaitingResults:
    """Keeps results until the store has space, or no longer fails.

    A message that is received while the store is full leaves it, but its result needs space there; without it
    the sender of a transactional message, which gets its FinalAck only once, would wait in vain.
    A stop loses them.

    @param send: stores results, and sends them; those that the store does not take come back by L{add}.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, send: Callable[[Sequence[MessageResult]], object]) -> None:
        self._performer = performer
        self._send = send
        self._results: list[MessageResult] = []
        self._bytes = 0
        self._is_waiting = False

    def add(self, results: Iterable[MessageResult]) -> Sequence[MessageResult]:
        """Keep these results.

        @return: those beyond the limits, which are not kept.
        """
        excess: list[MessageResult] = []
        for result in results:
            size = result.view.size
            if len(self._results) >= MOST_WAITING or self._bytes + size > MOST_WAITING_BYTES:
                excess.append(result)
            else:
                self._results.append(result)
                self._bytes += size
        if self._results and not self._is_waiting:
            self._is_waiting = True
            Deferred.fromCoroutine(self._wait()).addErrback(
                lambda failure: self.log.failure("results of messages were not sent", failure)
            )
        return excess

    async def _wait(self) -> None:
        performer = self._performer
        try:
            # A store that fails for another reason refuses them at once.
            await performer.pause(FIRST_RETRY)
            await performer.retry(self._check_space, "results of messages that left a full store")
        finally:
            self._is_waiting = False
        results, self._results, self._bytes = self._results, [], 0
        for start in range(0, len(results), SENT_AT_ONCE):
            if start:
                await performer.next_turn()
            if performer.is_stopped:
                self.log.warn(
                    "the results of {count} message(s) were not sent: the store had failed until the stop",
                    count=len(results) - start,
                )
                break
            self._send(results[start : start + SENT_AT_ONCE])

    async def _check_space(self, attempt: int) -> None:
        if self._performer.model.storage.throttled:
            raise MQError(Status.MQ_ERROR_INSUFFICIENT_RESOURCES, "the store is full; they wait in memory")
