"""Publishing of one route in transactions, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge.committed_messages import CommittedMessages
from msmq.bridge_service.brokers import BrokerError, IPublisher, PublishResults
from msmq.bridge_service.kafka.client_thread import PAUSE, ClientThread
from msmq.bridge_service.kafka.errors import broker_error
from msmq.bridge_service.kafka.records import to_record
from msmq.bridge_service.kafka.transactions import (
    LARGEST_BATCH,
    LARGEST_BYTES,
    Publication,
    TransactionalProducer,
    TransactionResult,
)
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage


@implementer(IPublisher)
class KafkaPublisher:
    """Everything that is published while a transaction is committed goes into the next one.

    @param make: makes the producer, in the thread.
    @param topic: that of the route; any other was chosen for one message.
    """

    def __init__(
        self,
        reactor: Any,
        make: Callable[[], TransactionalProducer],
        results: PublishResults,
        topic: str,
    ) -> None:
        self.closed: Deferred[BrokerError] = Deferred()
        self._reactor = reactor
        self._make = make
        self._results = results
        self._topic = topic
        self._state = CommittedMessages()
        self._waiting: deque[Publication] = deque()
        self._tokens: dict[str, int] = {}
        self._alone = 0
        self._work: Deferred[None] | None = None
        self._producer: TransactionalProducer | None = None
        self._made: TransactionalProducer | None = None
        self._thread = ClientThread(reactor, self._idle, self._failed)

    async def start(self) -> None:
        """Make the producer, and read what was committed before.

        @raise BrokerError: the cluster refuses.
        """
        try:
            await self._thread.call(self._start)
        except CancelledError:
            raise
        except Exception as error:
            raise broker_error(error) from error
        self._producer = self._made
        assert self._producer is not None
        self._state = self._producer.state

    @property
    def recognised(self) -> Mapping[str, int]:
        """See L{IPublisher}."""
        return self._state.held

    def keep(self, identifiers: Collection[str]) -> None:
        """See L{IPublisher}."""
        self._state.keep(identifiers)

    def removed(self, identifiers: Iterable[str]) -> None:
        """See L{IPublisher}."""
        self._state.removed(identifiers)

    def publish(self, source: QueuedMessage, message: AmqpMessage, token: int) -> None:
        """See L{IPublisher}."""
        identifier = source.identifier
        if identifier in self._state.held:
            self._reactor.callLater(0, self._results.confirmed, token)
            return
        if identifier in self._tokens:
            # The queue manager has delivered it again before its transaction had a result.
            self._tokens[identifier] = token
            return
        record = to_record(message)
        lookup = int(source.properties["lookup_id"])
        self._tokens[identifier] = token
        is_chosen = record.topic != self._topic
        self._waiting.append(Publication(token, identifier, lookup, record, is_chosen))
        if self._work is None:
            self._work = Deferred.fromCoroutine(self._run())
            self._work.addErrback(self._ended)

    async def close(self) -> None:
        """End the producer and its thread."""
        self._failed(BrokerError("the connection was closed"))
        await self._thread.stop(self._close)

    async def _run(self) -> None:
        try:
            # What is published in the same iteration of the reactor goes into one transaction.
            await deferLater(self._reactor, 0)
            while self._waiting and not self.closed.called:
                await self._publish(self._next_batch())
        finally:
            self._work = None

    def _next_batch(self) -> list[Publication]:
        if self._alone:
            self._alone -= 1
            return [self._waiting.popleft()]
        size = 0
        number = 0
        for each in islice(self._waiting, LARGEST_BATCH):
            size += each.record.size
            if number and size > LARGEST_BYTES:
                break
            number += 1
        return [self._waiting.popleft() for _ in range(number)]

    async def _publish(self, batch: list[Publication]) -> None:
        producer, state = self._producer, CommittedMessages(dict(self._state.held))
        assert producer is not None
        done: TransactionResult = await self._thread.call(lambda: producer.publish(batch, state))
        self._state.committed({each.identifier: each.lookup for each in done.committed})
        if done.again:
            self._waiting.extendleft(reversed(done.again))
            # One of them is to blame, and is found when it is alone.
            self._alone = max(self._alone, len(done.again))
        # By the last token of each message.
        for each in done.committed:
            self._results.confirmed(self._tokens.pop(each.identifier))
        identifiers = {each.token: each.identifier for each in batch}
        for token, reason in done.refused.items():
            self._results.failed(self._tokens.pop(identifiers[token]), reason)

    def _ended(self, failure: Failure) -> None:
        self._failed(RuntimeError() if failure.value is None else failure.value)

    # In the thread.

    def _start(self) -> None:
        self._made = self._make()
        self._made.start()

    def _idle(self) -> float:
        if self._made is not None:
            self._made.serve()
        return PAUSE

    def _close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _failed(self, error: BaseException) -> None:
        if not self.closed.called:
            self.closed.callback(broker_error(error))
