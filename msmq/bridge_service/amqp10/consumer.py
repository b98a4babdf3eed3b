"""A link that receives from one address: deliveries are settled when they are stored elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from proton import Delivery, Link, Terminus
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge_service.amqp10.engine import EngineProtocol
from msmq.bridge_service.amqp10.messages import decode
from msmq.bridge_service.brokers import BrokerError, IConsumer
from msmq.interfaces.bridge_messages import AmqpMessage


@implementer(IConsumer)
class Amqp10Consumer:
    """Grants credit for as many messages as may be unsettled.

    @param prefetch: the credit.
    """

    def __init__(
        self,
        engine: EngineProtocol,
        address: str,
        prefetch: int,
        delivered: Callable[[int, AmqpMessage], None],
    ) -> None:
        self.closed: Deferred[BrokerError] = Deferred()
        self._engine = engine
        self._address = address
        self._prefetch = prefetch
        self._delivered = delivered
        self._opened: Deferred[None] = Deferred()
        self._tags = count(1)
        self._unsettled: dict[int, Any] = {}
        self._link = engine.attach(self._make, self)

    async def open(self) -> None:
        """Wait for the answer of the broker, and grant credit.

        @raise BrokerError: it refuses the address.
        """
        await self._opened

    def acknowledge(self, tags: Iterable[int]) -> None:
        """See L{IConsumer}."""
        number = 0
        for tag in tags:
            delivery = self._unsettled.pop(tag, None)
            if delivery is not None:
                delivery.update(Delivery.ACCEPTED)
                delivery.settle()
                number += 1
        if number:
            self._link.flow(number)
        self._engine.flush()

    def release(self) -> None:
        """Return all deliveries to the broker, and close the link."""
        for delivery in self._unsettled.values():
            delivery.update(Delivery.RELEASED)
            delivery.settle()
        self._unsettled.clear()
        self._engine.detach(self._link)

    # LinkEvents.

    def link_opened(self) -> None:
        """See L{LinkEvents}; without a source the broker refuses, and the reason follows."""
        if self._link.remote_source.type == Terminus.UNSPECIFIED or self._opened.called:
            return
        self._link.flow(self._prefetch)
        self._opened.callback(None)

    def link_flow(self) -> None:
        """See L{LinkEvents}."""

    def link_delivery(self, delivery: Any) -> None:
        """See L{LinkEvents}."""
        if delivery.aborted:
            delivery.settle()
            self._link.flow(1)
        elif delivery.readable and not delivery.partial:
            data = bytes(self._link.recv(delivery.pending) or b"")
            self._link.advance()
            tag = next(self._tags)
            self._unsettled[tag] = delivery
            self._delivered(tag, decode(data, self._address))

    def link_ended(self, error: BrokerError) -> None:
        """See L{LinkEvents}."""
        self._unsettled.clear()
        if not self._opened.called:
            self._opened.errback(Failure(error))
        if not self.closed.called:
            self.closed.callback(error)

    def link_abandoned(self) -> None:
        """See L{LinkEvents}."""

    # Within.

    def _make(self, session: Any, name: str) -> Any:
        link = session.receiver(name)
        link.source.address = self._address
        link.target.address = name
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_FIRST
        return link
