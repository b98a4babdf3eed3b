"""Sends OrderAcks to the senders of transactional messages. [MS-MQQB] 3.1.7.17."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.deadline_timer import DeadlineTimer
from msmq.manager.outbox import Outbox
from msmq.manager.peers.ack_sessions import AckSessions
from msmq.manager.performer import Performer
from msmq.moment import Moment
from msmq.structures.status import MQError
from msmq.transfer.acknowledgements import order_ack, order_queue
from msmq.transfer.incoming_streams import IncomingStreams, OwedOrderAck


class OrderAcks:
    """Sends OrderAcks, over any session that leads to the sender.

    They are express messages to C{order_queue$}, since a later OrderAck replaces a lost one.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        streams: IncomingStreams,
        acks: AckSessions,
        reactor: IReactorTime,
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._streams = streams
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)
        self._acks = acks

    def schedule(self, deadline: float | None) -> None:
        """Schedule the next OrderAck at this monotonic second; C{None} for none."""
        self._timer.set(deadline)

    def stop(self) -> None:
        """Stop sending OrderAcks."""
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        """Order Ack Send Timer Event. [MS-MQQB] 3.1.6.9."""
        for owed in self._streams.expire(now):
            self._begin(self._order_ack(owed, now), "an order acknowledgement")
        self.schedule(self._streams.deadline)

    async def _order_ack(self, owed: OwedOrderAck, now: Moment) -> None:
        model = self._performer.model
        message_id = model.take_message_ids(1)
        self._acks.order_ack(message_id, owed.source)
        ack = order_ack(
            owed,
            source=model.identifier,
            message_id=message_id,
            sent_time=now.unix_seconds,
        )
        await self._outbox.put_packet(order_queue(owed.answer_to), ack.to_bytes(), owed.source.bytes_le)
        self._outbox.acknowledgements["order"] += 1

    def _begin(self, sending: Coroutine[Deferred[Any], Any, None], what: str) -> None:
        Deferred.fromCoroutine(sending).addErrback(self._not_sent, what)

    def _not_sent(self, failure: Failure, what: str) -> None:
        failure.trap(MQError)
        if (others := self._performer.peer_line("order acknowledgement")) is not None:
            self.log.warn(
                "{what} is not sent: {error}{others}",
                what=what,
                error=failure.value,
                others=others,
            )
