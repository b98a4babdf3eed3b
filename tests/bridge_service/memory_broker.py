"""A broker in memory, whose results come when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.bridge_service.brokers import (
    BrokerError,
    IBridgedBroker,
    IBrokerConnection,
    IConsumer,
    IDeadLetterPublisher,
    IPublisher,
    PublishResults,
)
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage


@implementer(IBridgedBroker, IBrokerConnection, IPublisher, IConsumer, IDeadLetterPublisher)
class MemoryBroker:
    """A broker with one connection, one publisher and one consumer.

    @ivar published: the bodies of all messages that were published.
    @ivar pending: tokens without a result.
    @ivar buried: the dead letters that were stored.
    @ivar burial_error: why dead letters cannot be stored; C{None} if they can.
    @ivar acknowledged: tags of the messages that the consumer has acknowledged.
    @ivar mistake: an unexpected error, with which connecting and publishing fail; C{None} for none.
    """

    nodes: Sequence[str] = ("memory",)
    is_working = False
    recognised: Mapping[str, int] = {}

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.pending: list[int] = []
        self.acknowledged: list[int] = []
        self.buried: list[AmqpMessage] = []
        self.burial_error: BrokerError | None = None
        self.mistake: Exception | None = None
        self._delivered: Callable[[int, AmqpMessage], None] | None = None
        self.closed: Deferred[BrokerError] = Deferred()
        self._results: PublishResults | None = None

    async def connect(self, node: str) -> IBrokerConnection:
        """See L{IBridgedBroker}."""
        self._fail()
        if self.closed.called:
            self.closed = Deferred()
        return self

    async def check(self, destination: str) -> None:
        """See L{IBrokerConnection}."""

    async def open_publisher(
        self, destination: str, results: PublishResults, blocked: Callable[[str], None]
    ) -> IPublisher:
        """See L{IBrokerConnection}."""
        self._results = results
        return self

    @property
    def is_consumed(self) -> bool:
        """Whether there is a consumer."""
        return self._delivered is not None

    async def open_consumer(
        self, source: str, prefetch: int, delivered: Callable[[int, AmqpMessage], None]
    ) -> IConsumer:
        """See L{IBrokerConnection}."""
        self._delivered = delivered
        return self

    def acknowledge(self, tags: Iterable[int]) -> None:
        """See L{IConsumer}."""
        self.acknowledged += tags

    def deliver(self, tag: int, message: AmqpMessage) -> None:
        """Deliver a message to the consumer."""
        assert self._delivered is not None
        self._delivered(tag, message)

    def dead_letters(self, name: str) -> IDeadLetterPublisher:
        """See L{IBrokerConnection}."""
        return self

    async def store(self, message: AmqpMessage) -> None:
        """See L{IDeadLetterPublisher}."""
        if self.burial_error is not None:
            raise self.burial_error
        self.buried.append(message)

    async def peek(self, source: str, count: int) -> Sequence[AmqpMessage]:
        """See L{IBrokerConnection}."""
        return ()

    async def close(self) -> None:
        """See L{IBrokerConnection}."""

    def keep(self, identifiers: Collection[str]) -> None:
        """See L{IPublisher}."""

    def publish(self, source: QueuedMessage, message: AmqpMessage, token: int) -> None:
        """See L{IPublisher}."""
        self._fail()
        self.published.append(message.body)
        self.pending.append(token)

    def removed(self, identifiers: Iterable[str]) -> None:
        """See L{IPublisher}."""

    def _fail(self) -> None:
        if self.mistake is not None:
            raise self.mistake

    def confirm(self) -> None:
        """Confirm everything that was published."""
        assert self._results is not None
        pending, self.pending = self.pending, []
        for token in pending:
            self._results.confirmed(token)

    def refuse(self, reason: str) -> None:
        """Refuse the first of what was published."""
        assert self._results is not None
        self._results.failed(self.pending.pop(0), reason)

    def refuse_for_now(self) -> None:
        """Refuse everything that was published for now."""
        assert self._results is not None
        pending, self.pending = self.pending, []
        for token in pending:
            self._results.nacked(token)
