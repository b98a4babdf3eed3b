"""UserHeader: sender, queues, time limit and delivery mode of a message. [MS-MQMQ] 2.2.19.2."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import quoted
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.queue_names import (
    STRUCTURE_OF_KIND,
    QueueName,
    QueueNameKind,
    read_queue_name,
    resolve_queue_name,
)
from msmq.structures.packet.base_header import INFINITE
from msmq.wire.guid import NULL_GUID, guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

__all__ = ["MAXIMUM_HOP_COUNT", "QueueNameKind", "UserHeader"]

MAXIMUM_HOP_COUNT = 0x1D
"""How many routing servers a message may have passed."""

_DESTINATION_KINDS = frozenset(
    {QueueNameKind.NONE, QueueNameKind.PRIVATE_ON_DESTINATION, QueueNameKind.PUBLIC, QueueNameKind.DIRECT}
)
_ADMIN_KINDS = frozenset(QueueNameKind) - {
    QueueNameKind.SAME_AS_ADMIN_QUEUE,
    QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST,
}


@attrs.frozen
class UserHeader(Structure):
    """UserHeader. [MS-MQMQ] 2.2.19.2.

    The flag bits X1 to X4 are sent as 0 and ignored on receipt.

    @ivar source_queue_manager: the first sender; no hop changes it.
    @ivar queue_manager_address: the queue manager of the destination; null for a direct name.
    @ivar message_id: 32 bits, unique among the messages of C{source_queue_manager}.
    @ivar sent_time: seconds since 1970-01-01 UTC.
    @ivar time_to_be_received: seconds, or L{INFINITE}.
    @ivar hop_count: RC, how many routing servers the message has passed, 0 to 0x1D.
    @ivar is_recoverable: DM, it survives a restart of a queue manager.
    @ivar dead_letter: JN, the sender keeps a copy if delivery fails.
    @ivar journal: JP, the sender keeps a copy if it is delivered.
    @ivar destination_kind: DQ.
    @ivar destination_queue: the structure for C{destination_kind}.
    @ivar admin_kind: AQ.
    @ivar admin_queue: the queue for acknowledgements.
    @ivar response_kind: RQ.
    @ivar response_queue: the queue for responses of an application.
    @ivar connector_type: CQ; opaque to a queue manager.
    @ivar has_security_header: SH.
    @ivar has_transaction_header: TH; only if C{is_recoverable}.
    @ivar has_multi_queue_format_header: MQ.
    @ivar has_soap_header: HH.
    @ivar is_over_http: AH, the message was received over HTTP; read, and never written.
    """

    NAME: ClassVar[str] = "UserHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.19.2"
    LAYOUT: ClassVar[Struct] = Struct("<16s16sIIII")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    RC: ClassVar[int] = 0x0000001F
    DM: ClassVar[int] = 0x00000060
    DM_RECOVERABLE: ClassVar[int] = 0x00000020
    JN: ClassVar[int] = 0x00000100
    JP: ClassVar[int] = 0x00000200
    DQ: ClassVar[int] = 0x00001C00
    AQ: ClassVar[int] = 0x0000E000
    RQ: ClassVar[int] = 0x00070000
    SH: ClassVar[int] = 0x00080000
    TH: ClassVar[int] = 0x00100000
    MP: ClassVar[int] = 0x00200000
    CQ: ClassVar[int] = 0x00400000
    MQ: ClassVar[int] = 0x00800000
    AH: ClassVar[int] = 0x02000000
    HH: ClassVar[int] = 0x10000000
    DQ_SHIFT: ClassVar[int] = 10
    AQ_SHIFT: ClassVar[int] = 13
    RQ_SHIFT: ClassVar[int] = 16

    source_queue_manager: UUID
    queue_manager_address: UUID = NULL_GUID
    message_id: int = 0
    sent_time: int = 0
    time_to_be_received: int = INFINITE
    hop_count: int = 0
    is_recoverable: bool = False
    dead_letter: bool = False
    journal: bool = False
    destination_kind: QueueNameKind = QueueNameKind.NONE
    destination_queue: QueueName | None = None
    admin_kind: QueueNameKind = QueueNameKind.NONE
    admin_queue: QueueName | None = None
    response_kind: QueueNameKind = QueueNameKind.NONE
    response_queue: QueueName | None = None
    connector_type: UUID | None = None
    has_security_header: bool = False
    has_transaction_header: bool = False
    has_multi_queue_format_header: bool = False
    has_soap_header: bool = False
    is_over_http: bool = False

    @classmethod
    def read(cls, reader: Reader) -> UserHeader:
        """Read the fixed part, the names that the flags announce, and ConnectorType.

        @raise RemoteProtocolError: the flags are invalid, or a name is malformed.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            source, address, time_to_be_received, sent_time, message_id, flags = reader.unpack(
                cls.LAYOUT, "SourceQueueManager"
            )
            problem = cls._flags_problem(flags)
            if problem is not None:
                raise reader.malformed("Flags", problem, offset=start + 44)
            destination_kind = QueueNameKind((flags & cls.DQ) >> cls.DQ_SHIFT)
            admin_kind = QueueNameKind((flags & cls.AQ) >> cls.AQ_SHIFT)
            response_kind = QueueNameKind((flags & cls.RQ) >> cls.RQ_SHIFT)
            return cls(
                source_queue_manager=guid_from_bytes(source),
                queue_manager_address=guid_from_bytes(address),
                message_id=message_id,
                sent_time=sent_time,
                time_to_be_received=time_to_be_received,
                hop_count=flags & cls.RC,
                is_recoverable=bool(flags & cls.DM_RECOVERABLE),
                dead_letter=bool(flags & cls.JN),
                journal=bool(flags & cls.JP),
                destination_kind=destination_kind,
                destination_queue=read_queue_name(destination_kind, reader),
                admin_kind=admin_kind,
                admin_queue=read_queue_name(admin_kind, reader),
                response_kind=response_kind,
                response_queue=read_queue_name(response_kind, reader),
                connector_type=reader.guid("ConnectorType") if flags & cls.CQ else None,
                has_security_header=bool(flags & cls.SH),
                has_transaction_header=bool(flags & cls.TH),
                has_multi_queue_format_header=bool(flags & cls.MQ),
                has_soap_header=bool(flags & cls.HH),
                is_over_http=bool(flags & cls.AH),
            )

    @classmethod
    def _flags_problem(cls, flags: int) -> str | None:
        if not flags & cls.MP:
            return "MP is not set"
        if flags & cls.DM > cls.DM_RECOVERABLE:
            return f"DM {(flags & cls.DM) >> 5} is not a delivery mode"
        if flags & cls.RC > MAXIMUM_HOP_COUNT:
            return f"RC {flags & cls.RC:#04x} is more than {MAXIMUM_HOP_COUNT:#04x}"
        if (flags & cls.DQ) >> cls.DQ_SHIFT not in _DESTINATION_KINDS:
            return f"DQ {(flags & cls.DQ) >> cls.DQ_SHIFT} names no destination queue"
        if (flags & cls.AQ) >> cls.AQ_SHIFT not in _ADMIN_KINDS:
            return f"AQ {(flags & cls.AQ) >> cls.AQ_SHIFT} names no admin queue"
        if flags & cls.TH and not flags & cls.DM:
            return "TH in an express message"
        return None

    @property
    def flags(self) -> int:
        """Flags as it is sent: MP is set, AH is not."""
        return (
            self.MP
            | self.hop_count
            | self.DM_RECOVERABLE * self.is_recoverable
            | self.JN * self.dead_letter
            | self.JP * self.journal
            | self.destination_kind << self.DQ_SHIFT
            | self.admin_kind << self.AQ_SHIFT
            | self.response_kind << self.RQ_SHIFT
            | self.CQ * (self.connector_type is not None)
            | self.SH * self.has_security_header
            | self.TH * self.has_transaction_header
            | self.MQ * self.has_multi_queue_format_header
            | self.HH * self.has_soap_header
        )

    @property
    def identifier(self) -> MessageIdentifier:
        """The identifier of the message."""
        return MessageIdentifier(self.source_queue_manager, self.message_id)

    def write(self, writer: Writer) -> None:
        """Write the fixed part, the names and ConnectorType; C{writer} is at a multiple of four bytes.

        @raise LocalProtocolError: a value is invalid, or a name is not of its kind.
        """
        if not 0 <= self.hop_count <= MAXIMUM_HOP_COUNT:
            raise LocalProtocolError(f"Flags.RC: {self.hop_count} is not within 0 to {MAXIMUM_HOP_COUNT}")
        problem = self._flags_problem(self.flags)
        if problem is not None:
            raise LocalProtocolError(f"UserHeader.Flags: {problem}")
        writer.guid(self.source_queue_manager)
        writer.guid(self.queue_manager_address)
        writer.u32(self.time_to_be_received, "TimeToBeReceived")
        writer.u32(self.sent_time, "SentTime")
        writer.u32(self.message_id, "MessageID")
        writer.u32(self.flags, "Flags")
        for field, kind, name in (
            ("DestinationQueue", self.destination_kind, self.destination_queue),
            ("AdminQueue", self.admin_kind, self.admin_queue),
            ("ResponseQueue", self.response_kind, self.response_queue),
        ):
            structure = STRUCTURE_OF_KIND.get(kind)
            if type(name) is not (structure or type(None)):
                raise LocalProtocolError(f"{field}: {quoted(name)} is not a name of kind {kind.name}")
            if name is not None:
                name.write(writer)
        if self.connector_type is not None:
            writer.guid(self.connector_type)

    def resolve_destination(self) -> FormatName | None:
        """The destination queue; see L{resolve_queue_name}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME.
        """
        return self._resolve(self.destination_kind, self.destination_queue, None)

    def resolve_admin_queue(self) -> FormatName | None:
        """The queue for acknowledgements; see L{resolve_queue_name}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME.
        """
        return self._resolve(self.admin_kind, self.admin_queue, None)

    def resolve_response_queue(self) -> FormatName | None:
        """The queue for responses; see L{resolve_queue_name}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME.
        """
        admin_queue = None
        if self.response_kind in (
            QueueNameKind.SAME_AS_ADMIN_QUEUE,
            QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST,
        ):
            admin_queue = self.resolve_admin_queue()
        return self._resolve(self.response_kind, self.response_queue, admin_queue)

    def _resolve(
        self, kind: QueueNameKind, name: QueueName | None, admin_queue: FormatName | None
    ) -> FormatName | None:
        return resolve_queue_name(
            kind,
            name,
            source_queue_manager=self.source_queue_manager,
            queue_manager_address=self.queue_manager_address,
            admin_queue=admin_queue,
        )
