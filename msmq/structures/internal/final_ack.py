"""FinalAck Packet: the final result of a transactional message. [MS-MQQB] 2.2.5."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.order_queue import AckEnvelope, expect_acknowledgement, write_acknowledged
from msmq.structures.packet.base_header import Packet
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

LOWEST_CLASS = 0x4000
"""No FinalAck has a class below this one. [MS-MQQB] 3.1.5.1.1."""

_CLASSES: Final = range(LOWEST_CLASS, 0x10000)


@attrs.frozen
class FinalAck(Packet):
    """FinalAck Packet with its FinalAck Body. [MS-MQQB] 2.2.5 and 2.2.5.1.

    It is sent recoverable, because a lost one is never requested again.

    @ivar message_class: ACK_RECEIVE, or the class of the failure; not less than 0x4000.
    @ivar tx_sequence_id: of the acknowledged message.
    @ivar tx_sequence_number: of the acknowledged message, 1 to 0xFFFFFFFF.
    @ivar tx_previous_sequence_number: the previous sequence number in the acknowledged message.
    @ivar source_guid: the queue manager that sent the acknowledged message first.
    @ivar message_id: of the acknowledged message.
    """

    LAYOUT: ClassVar[Struct] = Struct("<IIII16sI")

    envelope: AckEnvelope
    message_class: int
    tx_sequence_id: TxSequenceID
    tx_sequence_number: int
    tx_previous_sequence_number: int
    source_guid: UUID
    message_id: int

    @property
    def is_positive(self) -> bool:
        """Whether an application received the message; every other class is a failure."""
        return self.message_class == MessageClass.ACK_RECEIVE

    @classmethod
    def for_message(
        cls, envelope: AckEnvelope, message_class: int, user: UserHeader, transaction: TransactionHeader
    ) -> FinalAck:
        """The acknowledgement of the message with these headers."""
        return cls(
            envelope,
            message_class,
            transaction.tx_sequence_id,
            transaction.tx_sequence_number,
            transaction.previous_tx_sequence_number,
            user.source_queue_manager,
            user.message_id,
        )

    @classmethod
    def read(cls, reader: Reader) -> FinalAck:
        """Read the packet from its BaseHeader on.

        @raise RemoteProtocolError: it is malformed, or another packet.
        """
        envelope, properties = expect_acknowledgement(reader, "FinalAck", "[MS-MQQB] 2.2.5", _CLASSES)
        ordinal, timestamp, number, previous, source, message_id = cls.LAYOUT.unpack(properties.message_body)
        return cls(
            envelope,
            properties.message_class,
            TxSequenceID(ordinal, timestamp),
            number,
            previous,
            guid_from_bytes(source),
            message_id,
        )

    def write(self, writer: Writer) -> None:
        """Write the packet with its BaseHeader.

        @raise LocalProtocolError: a number that does not fit its field, or a class below 0x4000.
        """
        if self.message_class < LOWEST_CLASS:
            raise LocalProtocolError(
                f"MessageClass: {self.message_class:#06x} is not the class of a FinalAck"
            )
        body = Writer()
        write_acknowledged(
            body, self.tx_sequence_id, self.tx_sequence_number, self.tx_previous_sequence_number
        )
        body.guid(self.source_guid)
        body.u32(self.message_id, "MessageID")
        self.envelope.write(
            writer, message_class=self.message_class, is_recoverable=True, body=body.getvalue()
        )
