"""Statistics of transactional transfer for management. [MS-MQDMPR] 3.1.1.4, 3.1.1.5; [MS-MQQB] 3.1.1.2."""

from __future__ import annotations

from uuid import UUID

import attrs

from msmq.structures.identifiers import SequenceInfo, TxSequenceID

NO_SEQUENCE = SequenceInfo(0, 0, 0)


def sequence_info(sequence: int, number: int, previous: int) -> SequenceInfo:
    """SEQUENCE_INFO; its SeqID is signed, unlike the TxSequenceID that it holds. [MS-MQMQ] 2.2.5."""
    return SequenceInfo(sequence - (1 << 64) if sequence >> 63 else sequence, number, previous)


@attrs.frozen(kw_only=True)
class OutgoingTransferInfo:
    """OutgoingTransferInfo, with the values of [MS-MQQB] 3.1.5.6. [MS-MQDMPR] 3.1.1.4.

    @ivar eod_first_non_ack: the first message that was sent and is not order-acknowledged.
    @ivar eod_last_non_ack: the last such message.
    @ivar eod_last_ack: the last message that is order-acknowledged, as far as this session knows.
    @ivar eod_next_seq: the number of the next message, if none is acknowledged before.
    @ivar eod_no_ack_count: how many messages were sent and are not order-acknowledged.
    @ivar eod_no_read_count: how many of the sequence are order-acknowledged and wait for their FinalAck.
    @ivar eod_resend_count: ResendIntervalIndex, from 0.
    @ivar eod_resend_interval: seconds from one attempt to the next.
    @ivar eod_resend_time: when what is not acknowledged is sent again, seconds since 1970-01-01 UTC; 0 if
        nothing is to be.
    @ivar eod_last_ack_time: when the last OrderAck came, seconds since 1970-01-01 UTC.
    @ivar eod_last_ack_count: how many have come since the session began.
    """

    eod_first_non_ack: SequenceInfo
    eod_last_non_ack: SequenceInfo
    eod_last_ack: SequenceInfo
    eod_next_seq: SequenceInfo
    eod_no_ack_count: int
    eod_no_read_count: int
    eod_resend_count: int
    eod_resend_interval: float
    eod_resend_time: int
    eod_last_ack_time: int
    eod_last_ack_count: int


@attrs.frozen
class IncomingTransferInfo:
    """IncomingTransactionalTransferInfo. [MS-MQDMPR] 3.1.1.5.

    @ivar sender_identifier: SenderIdentifier, the first sender (reading 49).
    @ivar key: the bytes that identify the destination, as in the streams.
    @ivar sequence_identifier: SequenceIdentifier.
    @ivar sequence_number: SequenceNumber, of the last message that is stored or was permanently refused.
    @ivar last_access_time: LastAccessTime, seconds since 1970-01-01 UTC.
    @ivar reject_count: RejectCount, messages that were not accepted since the last that was.
    """

    sender_identifier: UUID
    key: bytes
    sequence_identifier: TxSequenceID
    sequence_number: int
    last_access_time: int
    reject_count: int
