r"""OrderAck and FinalAck as messages to the private queue C{order_queue$}.

Both consist of a BaseHeader, a UserHeader and a MessagePropertiesHeader with a body of 36 bytes.
They are distinguished from other messages by their destination, their label and the size of their body;
priority and an attached SessionHeader do not matter (see the readings on [MS-MQQB] 3.1.5.1.1).
"""

from __future__ import annotations

from collections.abc import Container
from struct import Struct
from typing import Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatNameId,
    QueueName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

LABEL: Final = "QM Ordering Ack"
BODY_SIZE: Final = 36
ORDER_QUEUE_NUMBER: Final = 4
"""The number of C{order_queue$} among the private queues of every queue manager."""
ORDER_QUEUE_PATH: Final = "PRIVATE$\\order_queue$"

_TAIL: Final = f"\\{ORDER_QUEUE_PATH}".lower()
_WIRE_TAIL: Final = f"{_TAIL}\0".encode("utf-16-le")
_FLAGS_AND_NAME: Final = Struct("<IHH")
_FLAGS_AT: Final = BaseHeader.SIZE + 44
_NAME_AT: Final = BaseHeader.SIZE + UserHeader.FIXED_SIZE
_DQ_PRIVATE: Final = QueueNameKind.PRIVATE_ON_DESTINATION << UserHeader.DQ_SHIFT
_DQ_DIRECT: Final = QueueNameKind.DIRECT << UserHeader.DQ_SHIFT


@attrs.frozen
class AckEnvelope:
    r"""Sender, destination and identifier of an OrderAck or a FinalAck. [MS-MQQB] 2.2.4 and 2.2.5.

    @ivar source_queue_manager: the one that acknowledges.
    @ivar destination: the queue manager to which it is sent: its GUID (DQ 3), or protocol and address of a
        direct name (DQ 7), such as C{TCP:10.0.0.5} or C{TCP:fe80::1}.
    @ivar message_id: of the acknowledgement itself, as of every message.
    @ivar sent_time: seconds since 1970-01-01 UTC.
    """

    source_queue_manager: UUID
    destination: UUID | str
    message_id: int = 0
    sent_time: int = 0

    def write(self, writer: Writer, *, message_class: int, is_recoverable: bool, body: bytes) -> None:
        """Write the whole packet with C{body} in it.

        @raise LocalProtocolError: a number that does not fit its field.
        """
        name: QueueName
        if isinstance(self.destination, UUID):
            kind, address = QueueNameKind.PRIVATE_ON_DESTINATION, self.destination
            name = PrivateQueueFormatNameId(ORDER_QUEUE_NUMBER)
        else:
            kind, address = QueueNameKind.DIRECT, NULL_GUID
            name = DirectQueueFormatName(f"{self.destination}\\{ORDER_QUEUE_PATH}")
        user = UserHeader(
            source_queue_manager=self.source_queue_manager,
            queue_manager_address=address,
            message_id=self.message_id,
            sent_time=self.sent_time,
            is_recoverable=is_recoverable,
            destination_kind=kind,
            destination_queue=name,
        ).to_bytes()
        properties = MessagePropertiesHeader(
            message_body=body, label=LABEL, message_class=message_class
        ).to_bytes()
        BaseHeader(BaseHeader.SIZE + len(user) + len(properties), priority=0).write(writer)
        writer.bytes(user)
        writer.bytes(properties)


def is_for_order_queue(packet: bytes) -> bool:
    r"""Whether a user packet is addressed to an C{order_queue$}: private queue 4, or a direct name that
    ends with C{\PRIVATE$\order_queue$} in any case.

    This reads a few bytes of a packet, of which at least 120 have to be there.
    """
    flags, low, high = _FLAGS_AND_NAME.unpack_from(packet, _FLAGS_AT)
    kind = flags & UserHeader.DQ
    if kind == _DQ_PRIVATE:
        return bool(low == ORDER_QUEUE_NUMBER and high == 0)
    if kind == _DQ_DIRECT:
        end = _NAME_AT + 2 + low
        return packet[end - len(_WIRE_TAIL) : end].lower() == _WIRE_TAIL
    return False


def read_acknowledgement(reader: Reader) -> tuple[AckEnvelope, MessagePropertiesHeader] | None:
    """Read a user packet from its BaseHeader on, if it may be an OrderAck or a FinalAck.

    C{None} if it has another destination or other headers than both; what follows its UserHeader is not
    validated then.

    @raise RemoteProtocolError: it is malformed.
    """
    start = reader.position
    base = BaseHeader.read(reader)
    if base.is_internal:
        with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
            raise reader.malformed("Flags", "IN is set", offset=start + 2)
    user = UserHeader.read(reader)
    destination = _destination(user)
    if destination is None or _has_other_headers(base, user):
        return None
    properties = MessagePropertiesHeader.read(reader)
    if properties.label != LABEL or len(properties.message_body) != BODY_SIZE:
        return None
    end = reader.position - start
    ends = (end, end + SessionHeader.SIZE) if base.has_session_header else (end,)
    if base.packet_size not in ends:
        with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
            rule = f"{base.packet_size} where the headers end at {end}"
            raise reader.malformed("PacketSize", rule, offset=start + 8)
    if base.has_session_header and reader.remaining:
        SessionHeader.read(reader)
    envelope = AckEnvelope(user.source_queue_manager, destination, user.message_id, user.sent_time)
    return envelope, properties


def expect_acknowledgement(
    reader: Reader, name: str, section: str, classes: Container[int]
) -> tuple[AckEnvelope, MessagePropertiesHeader]:
    """As L{read_acknowledgement}, but any packet except C{name}, with one of C{classes}, is an error.

    @raise RemoteProtocolError: it is malformed, or another packet.
    """
    start = reader.position
    found = read_acknowledgement(reader)
    if found is None or found[1].message_class not in classes:
        with reader.header(name, section):
            raise reader.malformed("MessageClass", f"the packet is not {name}", offset=start)
    return found


def write_acknowledged(writer: Writer, sequence: TxSequenceID, number: int, previous: int) -> None:
    """Write the sixteen bytes with which both bodies begin. [MS-MQQB] 2.2.4.1 and 2.2.5.1.

    @param number: the number of the acknowledged message in C{sequence}, 1 to 0xFFFFFFFF.
    @raise LocalProtocolError: a number that does not fit its field.
    """
    if not 1 <= number <= 0xFFFFFFFF:
        raise LocalProtocolError(f"TxSequenceNumber: {number} is not a sequence number")
    sequence.write(writer)
    writer.u32(number, "TxSequenceNumber")
    writer.u32(previous, "TxPreviousSequenceNumber")


def _has_other_headers(base: BaseHeader, user: UserHeader) -> bool:
    return (
        base.has_debug_header
        or user.has_transaction_header
        or user.has_security_header
        or user.has_soap_header
        or user.has_multi_queue_format_header
        or user.admin_kind is not QueueNameKind.NONE
        or user.response_kind is not QueueNameKind.NONE
    )


def _destination(user: UserHeader) -> UUID | str | None:
    match user.destination_queue:
        case PrivateQueueFormatNameId(number=number) if number == ORDER_QUEUE_NUMBER:
            return user.queue_manager_address
        case DirectQueueFormatName(text=text) if text.lower().endswith(_TAIL):
            bare = text[: -len(_TAIL)]
            return bare[7:] if bare[:7].upper() == "DIRECT=" else bare
    return None
