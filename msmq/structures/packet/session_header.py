"""SessionHeader: the acknowledgements of a session, alone or attached to a message. [MS-MQMQ] 2.2.20.4."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


@attrs.frozen
class SessionHeader(WholeStructure):
    """SessionHeader. [MS-MQMQ] 2.2.20.4.

    Counts are kept modulo 65536.
    Reserved is sent as 0 and ignored on receipt.

    @ivar ack_sequence_number: how many UserMessages the sender of this header has received.
    @ivar recoverable_msg_ack_seq_number: the number of the first recoverable message that is
        acknowledged here for the first time; 0 without any flag acknowledges nothing.
    @ivar recoverable_msg_ack_flags: bit C{k} acknowledges the recoverable message whose number is
        C{recoverable_msg_ack_seq_number + k}; 32 bits.
    @ivar user_msg_sequence_number: how many UserMessages the sender of this header has sent.
    @ivar recoverable_msg_seq_number: how many of those were recoverable.
    @ivar window_size: how many messages may be unacknowledged, 1 to 0xFFFF; a received 0, which is kept
        here, counts as 1.
    """

    NAME: ClassVar[str] = "SessionHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.4"
    END_FIELD: ClassVar[str] = "Reserved"
    LAYOUT: ClassVar[Struct] = Struct("<HHIHHHH")
    SIZE: ClassVar[int] = LAYOUT.size
    FIELDS: ClassVar[tuple[str, ...]] = (
        "AckSequenceNumber",
        "RecoverableMsgAckSeqNumber",
        "RecoverableMsgAckFlags",
        "UserMsgSequenceNumber",
        "RecoverableMsgSeqNumber",
        "WindowSize",
        "Reserved",
    )

    ack_sequence_number: int
    recoverable_msg_ack_seq_number: int
    recoverable_msg_ack_flags: int
    user_msg_sequence_number: int
    recoverable_msg_seq_number: int
    window_size: int

    @classmethod
    def read(cls, reader: Reader) -> SessionHeader:
        """Read the sixteen bytes.

        @raise RemoteProtocolError: it is truncated.
        """
        with reader.header(cls.NAME, cls.SECTION):
            return cls(*reader.unpack(cls.LAYOUT, "AckSequenceNumber")[:6])

    def write(self, writer: Writer) -> None:
        """Write the sixteen bytes.

        @raise LocalProtocolError: a number that does not fit its field, or a WindowSize of 0.
        """
        if self.window_size == 0:
            raise LocalProtocolError("WindowSize: 0 is never sent")
        writer.numbers(
            self.LAYOUT,
            self.FIELDS,
            self.ack_sequence_number,
            self.recoverable_msg_ack_seq_number,
            self.recoverable_msg_ack_flags,
            self.user_msg_sequence_number,
            self.recoverable_msg_seq_number,
            self.window_size,
            0,
        )
