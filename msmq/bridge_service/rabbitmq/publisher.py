"""Publishing with confirms, and messages that the broker returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import attrs
from pika.spec import Basic
from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.bridge_service.brokers import BrokerError, IPublisher, PublishResults
from msmq.bridge_service.rabbitmq.basic_properties import to_pika
from msmq.bridge_service.rabbitmq.channel import BrokerChannel
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage
from msmq.quoting import shown

_REFUSED_EXCHANGE: Final = frozenset({403, 404})
"""Reply codes for an exchange that the user may not use, or that is missing."""


@attrs.define
class _Unconfirmed:
    token: int
    exchange: str
    routing_key: str
    message_id: str | None
    is_returned: bool = False

    def is_of(self, method: Any, message_id: str | None) -> bool:
        return (
            not self.is_returned
            and self.message_id == message_id
            and self.exchange == method.exchange
            and self.routing_key == method.routing_key
        )


@implementer(IPublisher)
class ConfirmedPublisher:
    """Publishes on a channel in confirm mode, every message as mandatory.

    Consumers recognise what is published twice by its message-id; nothing is recognised here.

    @param exchange: that of the route; any other was chosen for one message.
    """

    recognised: Mapping[str, int] = {}

    def __init__(self, channel: BrokerChannel, results: PublishResults, exchange: str = "") -> None:
        self.closed: Deferred[BrokerError] = Deferred()
        channel.closed.addCallback(self._closed)
        self._exchange = exchange
        self._channel = channel
        self._results = results
        self._tag = 0
        self._unconfirmed: dict[int, _Unconfirmed] = {}

    async def start(self) -> None:
        """Switch the channel to confirm mode.

        @raise BrokerError: the channel or the connection was closed.
        """
        self._channel.channel.add_on_return_callback(self._returned)
        await self._channel.request("confirm_delivery", ack_nack_callback=self._answered)

    def keep(self, identifiers: Collection[str]) -> None:
        """See L{IPublisher}."""

    def removed(self, identifiers: Iterable[str]) -> None:
        """See L{IPublisher}."""

    def publish(self, source: QueuedMessage | None, message: AmqpMessage, token: int) -> None:
        """Publish a message.

        @param source: C{None} for a dead letter.
        @raise ValueError: it cannot be encoded; nothing was sent.
        """
        properties = to_pika(message.properties)
        try:
            self._channel.channel.basic_publish(
                message.exchange, message.routing_key, message.body, properties, mandatory=True
            )
        except (UnicodeError, OverflowError, TypeError, ArithmeticError) as error:
            raise ValueError(str(error)) from error
        self._tag += 1
        self._unconfirmed[self._tag] = _Unconfirmed(
            token, message.exchange, message.routing_key, message.properties.message_id
        )

    def _closed(self, error: BrokerError) -> None:
        if self._channel.close_code in _REFUSED_EXCHANGE and any(
            each.exchange != self._exchange for each in self._unconfirmed.values()
        ):
            error = BrokerError(str(error), is_message_to_blame=True)
        self.closed.callback(error)

    def _returned(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        # Equal messages are interchangeable here: the broker returns all of them, in their order.
        for each in self._unconfirmed.values():
            if each.is_of(method, properties.message_id):
                each.is_returned = True
                reason = shown(f"unroutable: {method.reply_text} ({method.reply_code})")
                self._results.returned(each.token, reason)
                return

    def _answered(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            # Tags are in order; 0 is all of them.
            last = method.delivery_tag or self._tag
            tags = []
            for tag in self._unconfirmed:
                if tag > last:
                    break
                tags.append(tag)
        report = self._results.confirmed if isinstance(method, Basic.Ack) else self._results.nacked
        for token in [each.token for tag in tags if (each := self._unconfirmed.pop(tag, None)) is not None]:
            report(token)
