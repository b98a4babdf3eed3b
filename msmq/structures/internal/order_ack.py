"""OrderAck Packet: acknowledges transactional messages up to a sequence number. [MS-MQQB] 2.2.4."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

import attrs

from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.order_queue import AckEnvelope, expect_acknowledgement, write_acknowledged
from msmq.structures.packet.base_header import Packet
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


@attrs.frozen
class OrderAck(Packet):
    """OrderAck Packet with its OrderAck Body, an internal acknowledgment. [MS-MQQB] 2.2.4, 2.2.4.1, 1.3.5.1.

    It is sent express: a lost one is repeated in response to a resent message.

    @ivar tx_sequence_id: of the acknowledged message.
    @ivar tx_sequence_number: of the acknowledged message, 1 to 0xFFFFFFFF.
    @ivar tx_previous_sequence_number: one less, whatever the number of the previous message was.
    """

    LAYOUT: ClassVar[Struct] = Struct("<IIII20s")

    envelope: AckEnvelope
    tx_sequence_id: TxSequenceID
    tx_sequence_number: int
    tx_previous_sequence_number: int = attrs.field()

    @tx_previous_sequence_number.default
    def _one_less(self) -> int:
        return self.tx_sequence_number - 1

    @classmethod
    def for_message(cls, envelope: AckEnvelope, transaction: TransactionHeader) -> OrderAck:
        """The acknowledgement of the message with this TransactionHeader, and of those before it."""
        return cls(envelope, transaction.tx_sequence_id, transaction.tx_sequence_number)

    @classmethod
    def read(cls, reader: Reader) -> OrderAck:
        """Read the packet from its BaseHeader on; the reserved bytes of the body are ignored.

        @raise RemoteProtocolError: it is malformed, or another packet.
        """
        envelope, properties = expect_acknowledgement(
            reader, "OrderAck", "[MS-MQQB] 2.2.4", (MessageClass.ORDER_ACK,)
        )
        ordinal, timestamp, number, previous, _ = cls.LAYOUT.unpack(properties.message_body)
        return cls(envelope, TxSequenceID(ordinal, timestamp), number, previous)

    def write(self, writer: Writer) -> None:
        """Write the packet with its BaseHeader.

        @raise LocalProtocolError: a number that does not fit its field.
        """
        body = Writer()
        write_acknowledged(
            body, self.tx_sequence_id, self.tx_sequence_number, self.tx_previous_sequence_number
        )
        body.bytes(bytes(20))
        self.envelope.write(
            writer, message_class=MessageClass.ORDER_ACK, is_recoverable=False, body=body.getvalue()
        )
