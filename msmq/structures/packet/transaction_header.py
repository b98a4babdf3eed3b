"""TransactionHeader: sequence and transaction of a message, and its position in both. [MS-MQMQ] 2.2.20.5."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer


@attrs.frozen
class TransactionHeader(Structure):
    """TransactionHeader. [MS-MQMQ] 2.2.20.5.

    Reserved flag bits are sent as 0 and ignored on receipt.

    @ivar tx_sequence_id: the sequence.
    @ivar tx_sequence_number: the number of the message in it, 1 to 0xFFFFFFFF.
    @ivar previous_tx_sequence_number: the number of the previous message, 0 if there is none.
    @ivar is_final_ack_wanted: FA.
    @ivar is_first: FM, the first message of its transaction.
    @ivar is_last: LM, the last message of its transaction.
    @ivar transaction_id: ID, 20 bits, the same for all messages of a transaction.
    @ivar connector_qm_guid: CG; opaque to a queue manager.
    """

    NAME: ClassVar[str] = "TransactionHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.5"
    LAYOUT: ClassVar[Struct] = Struct("<IIIII")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    CG: ClassVar[int] = 0x00000001
    FA: ClassVar[int] = 0x00000002
    FM: ClassVar[int] = 0x00000004
    LM: ClassVar[int] = 0x00000008
    ID: ClassVar[int] = 0x00FFFFF0
    ID_SHIFT: ClassVar[int] = 4

    tx_sequence_id: TxSequenceID
    tx_sequence_number: int
    previous_tx_sequence_number: int = 0
    is_final_ack_wanted: bool = False
    is_first: bool = False
    is_last: bool = False
    transaction_id: int = 0
    connector_qm_guid: UUID | None = None

    @classmethod
    def read(cls, reader: Reader) -> TransactionHeader:
        """Read the header.

        @raise RemoteProtocolError: it is truncated, or TxSequenceNumber is 0.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            flags, ordinal, timestamp, number, previous = reader.unpack(cls.LAYOUT, "Flags")
            if number == 0:
                raise reader.malformed("TxSequenceNumber", "0 is not a sequence number", offset=start + 12)
            return cls(
                tx_sequence_id=TxSequenceID(ordinal, timestamp),
                tx_sequence_number=number,
                previous_tx_sequence_number=previous,
                is_final_ack_wanted=bool(flags & cls.FA),
                is_first=bool(flags & cls.FM),
                is_last=bool(flags & cls.LM),
                transaction_id=(flags & cls.ID) >> cls.ID_SHIFT,
                connector_qm_guid=reader.guid("ConnectorQMGuid") if flags & cls.CG else None,
            )

    def write(self, writer: Writer) -> None:
        """Write the header.

        @raise LocalProtocolError: a number that does not fit its field, or a TxSequenceNumber of 0.
        """
        if not 0 <= self.transaction_id <= self.ID >> self.ID_SHIFT:
            raise LocalProtocolError(f"Flags.ID: {self.transaction_id} does not fit 20 bits")
        if self.tx_sequence_number == 0:
            raise LocalProtocolError("TxSequenceNumber: 0 is not a sequence number")
        flags = (
            self.CG * (self.connector_qm_guid is not None)
            | self.FA * self.is_final_ack_wanted
            | self.FM * self.is_first
            | self.LM * self.is_last
            | self.transaction_id << self.ID_SHIFT
        )
        writer.u32(flags, "Flags")
        self.tx_sequence_id.write(writer)
        writer.u32(self.tx_sequence_number, "TxSequenceNumber")
        writer.u32(self.previous_tx_sequence_number, "PreviousTxSequenceNumber")
        if self.connector_qm_guid is not None:
            writer.guid(self.connector_qm_guid)
