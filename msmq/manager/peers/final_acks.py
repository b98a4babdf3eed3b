"""FinalAcks to the senders of transactional messages. [MS-MQQB] 3.1.7.2.2."""

from __future__ import annotations

from typing import ClassVar

from twisted.logger import Logger

from msmq.manager.peers.connectors import Connectors
from msmq.manager.performer import Performer
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import final_ack
from msmq.transfer.decisions.final_ack_decision import (
    FinalAckAddress,
    FinalAckFacts,
    UnsentFinalAck,
    decide_final_ack,
)
from msmq.transfer.incoming_streams import IncomingStreams
from msmq.wire.guid import NULL_GUID


class FinalAcks:
    """Creates the FinalAck of a message that was removed from its queue or refused.

    @param streams: has the addresses of the senders of sequences.
    @param connectors: finds the messages for foreign sites that this queue manager acknowledges.
    @param send_insecure: [MS-MQQB] 3.1.7.15 SendInsecureNacks: whether refusals are sent to the address of an
    unauthenticated sender.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, performer: Performer, streams: IncomingStreams, connectors: Connectors, *, send_insecure: bool
    ) -> None:
        self._performer = performer
        self._streams = streams
        self._send_insecure = send_insecure
        self._own = performer.model.identifier.bytes_le
        self._connectors = connectors
        self._for_us = (self._own, NULL_GUID.bytes_le)

    def configure(self, *, send_insecure: bool) -> None:
        """Change SendInsecureNacks."""
        self._send_insecure = send_insecure

    def final_ack(
        self, view: UserMessageView, message_class: MessageClass, is_refusal: bool, only_at: str | None = None
    ) -> tuple[FormatName, bytes] | None:
        """The FinalAck of a message, and the queue it goes to; C{None} if none is sent.

        @param is_refusal: the message was refused in sequence.
        @param only_at: the address that it came from, if its sender is not authenticated.
        """
        facts = FinalAckFacts(
            own=self._own,
            is_refusal=is_refusal,
            is_final_destination=view.queue_manager_address in self._for_us
            or self._connectors.queue_for(view) is not None,
            only_at=only_at,
            send_insecure=self._send_insecure,
            pending=self._pending,
        )
        decision = decide_final_ack(view, message_class, facts, self._streams)
        if isinstance(decision, FinalAckAddress):
            model = self._performer.model
            ack = final_ack(
                view,
                message_class,
                answer_to=decision.answer_to,
                source=model.identifier,
                message_id=model.take_message_ids(1),
                sent_time=self._performer.clock.now().unix_seconds,
            )
            return decision.queue, ack.to_bytes()
        if decision is UnsentFinalAck.ADDRESS_UNKNOWN:
            if (others := self._performer.peer_line("no FinalAck")) is not None:
                self.log.warn(
                    "no FinalAck for message {message}: {why}{others}",
                    message=view.identifier,
                    why=decision.value,
                    others=others,
                )
        return None

    def _pending(self, order_queue: FormatName) -> int:
        queue = self._performer.model.collection.find_outgoing(order_queue)
        return 0 if queue is None else queue.message_count
