"""[MS-MQQB] 3.1.7.17: what is told to the senders of transactional messages."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.deadline_timer import DeadlineTimer
from msmq.manager.ack_sessions import AckSessions
from msmq.manager.outbox import Outbox
from msmq.manager.performing import Performer
from msmq.moment import Moment
from msmq.session.ordering.acknowledgements import final_ack, order_ack, order_queue, wants_final_ack
from msmq.session.ordering.incoming_streams import IncomingStreams, OwedOrderAck
from msmq.structures.format_name import FormatName
from msmq.structures.message_class import MessageClass
from msmq.structures.queue_names import QueueNameKind
from msmq.structures.status import MQError
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID

MOST_FOR_STRANGERS: Final = 1000
"""FinalAcks that may wait for one address of which nothing tells who is there."""


class OrderAcks:
    """Sends OrderAcks and FinalAcks, over any session that leads to the sender.

    They are messages to C{order_queue$}: an OrderAck is express, since its loss is made good by another;
    a FinalAck is recoverable.
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
        own_address = performer.model.identifier.bytes_le
        self._own = own_address
        self._for_us = (own_address, NULL_GUID.bytes_le)
        outbox.final_ack = self.final_ack

    def schedule(self) -> None:
        """Call this after the streams have changed: an OrderAck may be owed earlier."""
        self._timer.set(self._streams.deadline)

    def stop(self) -> None:
        """Send no OrderAck any more."""
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        """[MS-MQQB] 3.1.6.9 Order Ack Send Timer Event."""
        for owed in self._streams.expire(now):
            self._begin(self._order_ack(owed, now), "an order acknowledgement")
        self.schedule()

    def final_ack(
        self, view: UserMessageView, message_class: MessageClass, is_refusal: bool, only_at: str | None = None
    ) -> tuple[FormatName, bytes] | None:
        """[MS-MQQB] 3.1.7.2.2 the FinalAck of a message that has left its queue, and the queue it goes to.

        @param is_refusal: the message was refused in its turn: its sender is told in any case (reading 51).
        @param only_at: the address that it came from, if nothing else tells who sent it.
        @return: C{None} if its sender does not want to know.
        """
        if message_class is MessageClass.ACK_REACH_QUEUE or not (is_refusal or wants_final_ack(view)):
            return None
        if view.source_queue_manager == self._own:
            return None
        if not is_refusal and view.queue_manager_address not in self._for_us:
            return None
        if only_at is None:
            answer_to = self._streams.answer_to(view)
        elif view.destination_kind is QueueNameKind.DIRECT and self._outbox.send_insecure:
            answer_to = f"TCP:{only_at}"
        else:
            # Another name leads to the queue manager that somebody says he is.
            return None
        if answer_to is None:
            self.log.warn(
                "nobody knows where to tell what became of message {message}", message=view.identifier
            )
            return None
        model = self._performer.model
        name = order_queue(answer_to)
        if only_at is not None:
            waiting = model.collection.find_outgoing(name)
            if waiting is not None and waiting.message_count >= MOST_FOR_STRANGERS:
                # It comes again with what it was not told of.
                return None
        ack = final_ack(
            view,
            message_class,
            answer_to=answer_to,
            source=model.identifier,
            message_id=model.take_message_ids(1),
            sent_time=self._performer.clock.now().unix_seconds,
        )
        return name, ack.to_bytes()

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

    def _begin(self, sending: Coroutine[Deferred[Any], Any, None], what: str) -> None:
        Deferred.fromCoroutine(sending).addErrback(self._not_sent, what)

    def _not_sent(self, failure: Failure, what: str) -> None:
        failure.trap(MQError)
        self.log.warn("{what} is not sent: {error}", what=what, error=failure.value)
