"""A link that sends to one address."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

from proton import Delivery, Terminus
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from msmq.bridge_service.amqp10.engine import EngineProtocol
from msmq.bridge_service.amqp10.errors import text_of
from msmq.bridge_service.brokers import BrokerError, PublishResults

NO_CREDIT = "the broker grants no credit"
NO_SETTLEMENT = "the broker settles no messages"
"""Reasons of a broker that accepts nothing."""


class SenderLink:
    """Sends messages as far as the broker grants credit, each unsettled until the broker has settled it.

    @param results: called for every message; one that is released is refused for now.
    @ivar closed: fires with the reason when the link is closed.
    """

    def __init__(
        self, engine: EngineProtocol, address: str, results: PublishResults, reactor: IReactorTime
    ) -> None:
        self.closed: Deferred[BrokerError] = Deferred()
        self.address = address
        self._engine = engine
        self._results = results
        self._reactor = reactor
        self._opened: Deferred[None] = Deferred()
        self._tags = count(1)
        self._queued: deque[tuple[int, bytes]] = deque()
        self._unsettled: dict[str, tuple[int, Any]] = {}
        self._stall_time = 0.0
        self._blocked: Any = None
        self._is_blocked = False
        self._stall: IDelayedCall | None = None
        self._link = engine.attach(self._make, self)

    async def open(self) -> None:
        """Wait for the answer of the broker.

        @raise BrokerError: it refuses the address.
        """
        await self._opened

    def watch(self, stall_time: float, blocked: Any) -> None:
        """Report a broker that accepts nothing for a time."""
        self._stall_time, self._blocked = stall_time, blocked

    @property
    def outstanding(self) -> int:
        """Messages that are not settled."""
        return len(self._queued) + len(self._unsettled)

    def send(self, data: bytes, token: int) -> None:
        """Send an encoded message.

        @raise ValueError: it is larger than the address accepts; nothing was sent.
        """
        largest = self._link.remote_max_message_size
        if largest and len(data) > largest:
            raise ValueError(f"it has {len(data)} bytes, and the address accepts {largest}")
        self._queued.append((token, data))
        self._send_queued()
        self._watch()

    def detach(self) -> None:
        """Close the link."""
        self._stop_watching()
        self._engine.detach(self._link)

    # LinkEvents.

    def link_opened(self) -> None:
        """See L{LinkEvents}; without a target the broker refuses, and the reason follows."""
        if self._link.remote_target.type != Terminus.UNSPECIFIED and not self._opened.called:
            self._opened.callback(None)

    def link_flow(self) -> None:
        """See L{LinkEvents}."""
        if self._queued and self._link.credit > 0:
            self._progress()
        self._send_queued()
        self._watch()

    def link_delivery(self, delivery: Any) -> None:
        """See L{LinkEvents}."""
        if not (delivery.updated and (delivery.remote_state or delivery.settled)):
            return
        if delivery.remote_state == Delivery.RECEIVED and not delivery.settled:
            # No outcome: the broker has a part of the message. [AMQP] 3.4.1.
            return
        found = self._unsettled.pop(delivery.tag, None)
        if found is None:
            return
        state, condition = delivery.remote_state, delivery.remote.condition
        undeliverable = state == Delivery.MODIFIED and delivery.remote.undeliverable
        delivery.settle()
        self._progress()
        token = found[0]
        if state == Delivery.ACCEPTED:
            self._results.confirmed(token)
        elif state == Delivery.REJECTED:
            self._results.failed(token, f"rejected: {text_of(condition, 'without a reason')}")
        elif undeliverable:
            self._results.failed(token, f"address {self.address}: modified as undeliverable here")
        else:
            # Released, modified, or settled without an outcome.
            self._results.nacked(token)
        self._watch()

    def link_ended(self, error: BrokerError) -> None:
        """See L{LinkEvents}."""
        self._stop_watching()
        if not self._opened.called:
            self._opened.errback(Failure(error))
        if not self.closed.called:
            self.closed.callback(error)

    def link_abandoned(self) -> None:
        """See L{LinkEvents}."""
        self._stop_watching()
        # An answer that is waited for has a time limit.
        self._opened.cancel()

    # Within.

    def _make(self, session: Any, name: str) -> Any:
        link = session.sender(name)
        link.target.address = self.address
        # A broker that creates what is missing creates what survives its restart.
        link.target.durability = Terminus.DELIVERIES
        link.source.address = name
        return link

    def _send_queued(self) -> None:
        while self._queued and self._link.credit > 0:
            token, data = self._queued.popleft()
            delivery = self._link.delivery(str(next(self._tags)))
            self._unsettled[delivery.tag] = (token, delivery)
            self._link.stream(data)
            self._link.advance()
        self._engine.flush()

    def _progress(self) -> None:
        self._stop_watching()
        if self._is_blocked:
            self._is_blocked = False
            self._blocked("")

    def _watch(self) -> None:
        if self._blocked is not None and self.outstanding and self._stall is None and not self._is_blocked:
            self._stall = self._reactor.callLater(self._stall_time, self._stalled)

    def _stop_watching(self) -> None:
        if self._stall is not None and self._stall.active():
            self._stall.cancel()
        self._stall = None

    def _stalled(self) -> None:
        self._stall = None
        self._is_blocked = True
        self._blocked(NO_CREDIT if self._queued else NO_SETTLEMENT)
