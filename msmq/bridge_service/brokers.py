"""What a route needs of a broker: one package for each family of brokers provides it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from msmq.errors import MsmqError
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage
from msmq.quoting import shown

LONGEST_REASON = 300
"""The longest reason of a broker, in characters."""

IN_FLIGHT: Final = 32 * 1024 * 1024
"""Limit on the bytes of messages in flight on one route, in addition to its window; a single message may have
more.
"""


class BrokerError(MsmqError):
    """The broker cannot be used at present.

    @ivar is_message_to_blame: one of the messages that were published last has caused it.
    @ivar is_of_queue: it is the queue manager that cannot be used, and the reason names the queue.
    """

    def __init__(self, reason: str, is_message_to_blame: bool = False, is_of_queue: bool = False) -> None:
        super().__init__(shown(" ".join(reason.split()), LONGEST_REASON))
        self.is_message_to_blame = is_message_to_blame
        self.is_of_queue = is_of_queue


class DeadLetterError(BrokerError):
    """A dead letter cannot be encoded, or is too large with its properties."""


@attrs.frozen(kw_only=True)
class PublishResults:
    """What becomes of published messages, by their tokens.

    @ivar confirmed: the broker is responsible for a message, or, if it was returned, has no queue for it.
    @ivar returned: no queue takes a message, for a reason; L{confirmed} follows.
    @ivar nacked: the broker refuses a message for now.
    @ivar failed: the broker refuses a message permanently, for a reason.
    """

    confirmed: Callable[[int], None]
    returned: Callable[[int, str], None]
    nacked: Callable[[int], None]
    failed: Callable[[int, str], None]


class IPublisher(Interface):
    """Publishes the messages of one route."""

    closed: Deferred[BrokerError] = Attribute("Fires with the reason when nothing can be published any more.")

    recognised: Mapping[str, int] = Attribute(
        "Messages that the broker has confirmed before, and whose removal from the queue is not known:"
        " identifiers, and the LookupIdentifiers in the queue."
    )

    def keep(identifiers: Collection[str]) -> None:
        """Forget those of L{recognised} that are not among these."""

    def publish(source: QueuedMessage, message: AmqpMessage, token: int) -> None:
        """Publish a message; one of L{recognised} is confirmed without being published.

        @raise ValueError: it cannot be encoded; nothing was sent.
        """

    def removed(identifiers: Iterable[str]) -> None:
        """Messages are durably removed from the queue, and are not received again."""


class IConsumer(Interface):
    """Consumes messages for one route."""

    closed: Deferred[BrokerError] = Attribute("Fires with the reason when nothing is delivered any more.")

    def acknowledge(tags: Iterable[int]) -> None:
        """Acknowledge messages; no effect if the consumer is closed."""


class IDeadLetterPublisher(Interface):
    """Stores the dead letters of a route at the broker that is its source."""

    def store(message: AmqpMessage) -> Awaitable[None]:
        """Publish a dead letter; done when the broker has confirmed it.

        @raise DeadLetterError: it cannot be published as it is.
        @raise BrokerError: it is not stored.
        """


class IBrokerConnection(Interface):
    """A connection to a broker.

    Every failure is a L{BrokerError}.
    """

    is_working: bool = Attribute("Whether a message has gone through; the back-off begins anew then.")

    def check(destination: str) -> Awaitable[None]:
        """Look whether messages can be published to a destination; empty for none in particular."""

    def open_publisher(
        destination: str, results: PublishResults, blocked: Callable[[str], None]
    ) -> Awaitable[IPublisher]:
        """Begin to publish.

        @param destination: as of L{check}.
        @param blocked: called with the reason when the broker accepts no messages, and with an empty text
            when it does again.
        """

    def open_consumer(
        source: str, prefetch: int, delivered: Callable[[int, AmqpMessage], None]
    ) -> Awaitable[IConsumer]:
        """Begin to consume.

        @param prefetch: limit on messages that are delivered and not acknowledged.
        @param delivered: called with a tag and the message.
        """

    def dead_letters(name: str) -> IDeadLetterPublisher:
        """Where dead letters are stored.

        @param name: of the queue, address or topic.
        """

    def peek(source: str, count: int) -> Awaitable[Sequence[AmqpMessage]]:
        """The first messages of a source, which stay there."""

    def close() -> Awaitable[None]:
        """Close it; done when it is closed."""


class IBridgedBroker(Interface):
    """A broker with the settings of one route."""

    nodes: Sequence[str] = Attribute("Its nodes, which are tried in order.")

    def connect(node: str) -> Awaitable[IBrokerConnection]:
        """Connect to a node, and log in.

        @raise BrokerError: it cannot be reached, or refuses the login.
        """
