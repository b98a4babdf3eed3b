"""Consuming a topic for one route."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge_service.brokers import BrokerError, IConsumer
from msmq.bridge_service.kafka.client_thread import ClientThread
from msmq.bridge_service.kafka.errors import broker_error
from msmq.bridge_service.kafka.records import from_record
from msmq.bridge_service.kafka.subscription import Subscription
from msmq.interfaces.bridge_messages import AmqpMessage

WAIT: Final = 0.05
"""Seconds that the thread waits for records before it looks for acknowledgements."""


@implementer(IConsumer)
class KafkaConsumer:
    """Records are consumed in a thread; their number is bounded by the prefetch limit.

    @param make: makes the subscription, in the thread.
    """

    def __init__(
        self, reactor: Any, make: Callable[[], Subscription], delivered: Callable[[int, AmqpMessage], None]
    ) -> None:
        self.closed: Deferred[BrokerError] = Deferred()
        self._reactor = reactor
        self._make = make
        self._delivered = delivered
        self._subscription: Subscription | None = None
        self._acknowledged: list[int] = []
        self._committing = False
        self._thread = ClientThread(reactor, self._consume, self._failed)

    async def start(self) -> None:
        """Subscribe.

        @raise BrokerError: the configuration is refused.
        """
        try:
            await self._thread.call(self._subscribe)
        except CancelledError:
            raise
        except Exception as error:
            raise broker_error(error) from error

    def acknowledge(self, tags: Iterable[int]) -> None:
        """See L{IConsumer}."""
        self._acknowledged += tags
        if not self._committing and not self.closed.called:
            self._committing = True
            self._thread.call(self._acknowledge).addErrback(self._ended)

    async def close(self) -> None:
        """Leave the group, and end the thread."""
        self._failed(BrokerError("the connection was closed"))
        await self._thread.stop(self._close)

    def _ended(self, failure: Failure) -> None:
        self._failed(RuntimeError() if failure.value is None else failure.value)

    # In the thread.

    def _subscribe(self) -> None:
        self._subscription = self._make()

    def _consume(self) -> float:
        if self._subscription is None:
            return WAIT
        records = self._subscription.next_records(WAIT)
        if records:
            messages = [(tag, from_record(record)) for tag, record in records]
            self._thread.report(lambda: self._deliver(messages))
        # An acknowledgement ends the wait.
        return WAIT if self._subscription.is_full else 0

    def _acknowledge(self) -> None:
        # Tags that are added meanwhile are committed with the next call.
        self._committing = False
        tags, self._acknowledged = self._acknowledged, []
        assert self._subscription is not None
        self._subscription.acknowledge(tags)

    def _deliver(self, messages: Sequence[tuple[int, AmqpMessage]]) -> None:
        if not self.closed.called:
            for tag, message in messages:
                self._delivered(tag, message)

    def _close(self) -> None:
        if self._subscription is not None:
            if self._acknowledged:
                self._acknowledge()
            self._subscription.close()

    def _failed(self, error: BaseException) -> None:
        if not self.closed.called:
            self.closed.callback(broker_error(error))
