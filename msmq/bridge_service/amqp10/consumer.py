"""A link that receives from one address: deliveries are settled when they are stored elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

from proton import Delivery, Link, Terminus
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge_service.amqp10.engine import EngineProtocol
from msmq.bridge_service.amqp10.messages import decode
from msmq.bridge_service.brokers import IN_FLIGHT, BrokerError, IConsumer
from msmq.interfaces.bridge_messages import AmqpMessage

FIRST_CREDIT: Final = 16
"""Credit before the size of any message is known."""

_DECAY: Final = 0.98
"""What is left of the size of the largest message with each message after it."""


@implementer(IConsumer)
class Amqp10Consumer:
    """Grants credit for as many messages as may be unsettled, by their number and their bytes.

    A credit is for a message of any size, so what the bytes allow depends on the largest message of late.
    When larger messages begin, credit that they would exceed the limit with is taken back; only what the
    broker has sent by then comes in addition.

    @param prefetch: limit on unsettled messages.
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
        self._unsettled: dict[int, tuple[Any, int]] = {}
        self._size = 0
        self._largest = 0.0
        self._link = engine.attach(self._make, self)

    async def open(self) -> None:
        """Wait for the answer of the broker, and grant credit.

        @raise BrokerError: it refuses the address.
        """
        await self._opened

    def acknowledge(self, tags: Iterable[int]) -> None:
        """See L{IConsumer}."""
        for tag in tags:
            found = self._unsettled.pop(tag, None)
            if found is not None:
                delivery, size = found
                self._size -= size
                delivery.update(Delivery.ACCEPTED)
                delivery.settle()
        if not self.closed.called:
            self._grant()
        self._engine.flush()

    def release(self) -> None:
        """Return all deliveries to the broker, and close the link."""
        for delivery, _ in self._unsettled.values():
            delivery.update(Delivery.RELEASED)
            delivery.settle()
        self._unsettled.clear()
        self._engine.detach(self._link)

    # LinkEvents.

    def link_opened(self) -> None:
        """See L{LinkEvents}; without a source the broker refuses, and the reason follows."""
        if self._link.remote_source.type == Terminus.UNSPECIFIED or self._opened.called:
            return
        self._grant()
        self._opened.callback(None)

    def link_flow(self) -> None:
        """See L{LinkEvents}."""

    def link_delivery(self, delivery: Any) -> None:
        """See L{LinkEvents}."""
        if delivery.aborted:
            delivery.settle()
            self._grant()
        elif delivery.readable and not delivery.partial:
            data = bytes(self._link.recv(delivery.pending) or b"")
            self._link.advance()
            tag = next(self._tags)
            self._unsettled[tag] = delivery, len(data)
            self._size += len(data)
            self._largest = max(len(data), _DECAY * self._largest)
            self._grant()
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

    def _grant(self) -> None:
        free = self._prefetch - len(self._unsettled)
        if self._largest:
            free = min(free, int((IN_FLIGHT - self._size) / self._largest))
        else:
            free = min(free, FIRST_CREDIT)
        if not self._unsettled:
            free = max(free, 1)
        # What is arriving has used its credit, so less is not possible; a negative number takes credit back.
        if (more := max(free, self._link.queued) - self._link.credit) != 0:
            self._link.flow(more)

    def _make(self, session: Any, name: str) -> Any:
        link = session.receiver(name)
        link.source.address = self._address
        link.target.address = name
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_FIRST
        return link
