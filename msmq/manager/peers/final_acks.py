"""[MS-MQQB] 3.1.7.2.2: the FinalAcks that the senders of transactional messages get."""

from __future__ import annotations

from typing import ClassVar, Final

from twisted.logger import Logger

from msmq.manager.peers.connectors import Connectors
from msmq.manager.performer import Performer
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import final_ack, order_queue, wants_final_ack
from msmq.transfer.incoming_streams import IncomingStreams
from msmq.wire.guid import NULL_GUID

MOST_FOR_STRANGERS: Final = 1000
"""The limit on pending FinalAcks for one unverified address."""


class FinalAcks:
    """Makes the FinalAck of a message that has reached its queue, left it, or was refused.

    @param streams: know where the sender of a sequence is to be told.
    @param connectors: know the messages for foreign sites that this queue manager acknowledges.
    @param send_insecure: [MS-MQQB] 3.1.7.15 SendInsecureNacks: whether a refusal is told to an address at
        which nothing proves who is there.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, performer: Performer, streams: IncomingStreams, connectors: Connectors, *, send_insecure: bool
    ) -> None:
        self._performer = performer
        self._streams = streams
        self._send_insecure = send_insecure
        own_address = performer.model.identifier.bytes_le
        self._own = own_address
        self._connectors = connectors
        self._for_us = (own_address, NULL_GUID.bytes_le)

    def configure(self, *, send_insecure: bool) -> None:
        """Change SendInsecureNacks."""
        self._send_insecure = send_insecure

    def final_ack(
        self, view: UserMessageView, message_class: MessageClass, is_refusal: bool, only_at: str | None = None
    ) -> tuple[FormatName, bytes] | None:
        """[MS-MQQB] 3.1.7.2.2 the FinalAck of a message that has left its queue, and the queue it goes to.

        @param is_refusal: the message was refused in its turn: its sender is told in any case (reading 51).
        @param only_at: the address that it came from, if the sender is not known otherwise.
        @return: C{None} if its sender does not want to know.
        """
        if message_class is MessageClass.ACK_REACH_QUEUE or not (is_refusal or wants_final_ack(view)):
            return None
        if view.source_queue_manager == self._own:
            return None
        if not is_refusal and view.queue_manager_address not in self._for_us:
            if self._connectors.queue_for(view) is None:
                return None
        if only_at is None:
            answer_to = self._streams.answer_to(view)
        elif view.destination_kind is QueueNameKind.DIRECT and self._send_insecure:
            answer_to = f"TCP:{only_at}"
        else:
            # Another name leads to a queue manager whose identity is only claimed.
            return None
        if answer_to is None:
            self.log.warn(
                "no FinalAck for message {message}: the address of its sender is unknown",
                message=view.identifier,
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
