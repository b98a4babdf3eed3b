"""[MS-MQDMPR] 3.1.7.1.30 and 3.1.7.1.32: a UserMessage packet made of a message and its destination."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.queues.message import Acknowledge, Message
from msmq.structures.base_header import BaseHeader
from msmq.structures.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.format_name import FormatName, PrivateFormatName, PublicFormatName
from msmq.structures.name_text import QueueSuffix
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

_NUMBER: Final = Struct("<I")
_COUNT: Final = Struct("<H")
_TRANSACTION: Final = Struct("<IIIII")
_DEBUG: Final = Struct("<HH")

# The UserHeader flags ([MS-MQMQ] 2.2.19.2) that a sender sets.
_RECOVERABLE: Final = 0x00000020
_NEGATIVE_JOURNALING: Final = 0x00000100
_POSITIVE_JOURNALING: Final = 0x00000200
_DQ_SHIFT: Final = 10
_AQ_SHIFT: Final = 13
_RQ_SHIFT: Final = 16
_TRANSACTION_HEADER: Final = 0x00100000
_MESSAGE_PROPERTIES_HEADER: Final = 0x00200000
_CONNECTOR_TYPE: Final = 0x00400000

_SAME_AS_ADMIN: Final = 1
_ON_SOURCE: Final = 2
_ON_DESTINATION: Final = 3
_ON_ADMIN: Final = 4
_PUBLIC: Final = 5
_ELSEWHERE: Final = 6
_DIRECT: Final = 7

_SENDABLE: Final = frozenset({DirectProtocol.TCP, DirectProtocol.OS})
_PADDING: Final = (b"", bytes(3), bytes(2), bytes(1))
_TRACE_FLAGS: Final = BaseHeader.TR | BaseHeader.DH
_NO_NAMES: Final = (None, None, None, False, False)


@attrs.frozen
class _Names:
    """What depends on the queues that a message names, and on nothing else in it.

    @ivar layout: BaseHeader, UserHeader with its names, TransactionHeader, and the fixed part of the
        MessagePropertiesHeader.
    @ivar variable: what stands between the fixed part of the UserHeader and the MessagePropertiesHeader.
    """

    flags: int
    variable: bytes
    layout: Struct


class PacketBuilder:
    """Makes packets for one destination; what they have in common is laid out once.

    No SecurityHeader is written, nor a SessionHeader.
    The TransactionHeader of a transactional message says number 1 of sequence 0 until the message
    gets its place in a sequence.
    """

    def __init__(
        self,
        destination: FormatName,
        *,
        source: UUID,
        destination_queue_manager: UUID | None = None,
    ) -> None:
        """Lay out what all packets to C{destination} have in common.

        @param source: the GUID of the queue manager that sends.
        @param destination_queue_manager: the GUID of the queue manager that hosts the queue; needed for
            a public name, taken from a private one, and unused for a direct one.
        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION if no packet can go to such a name.
        """
        self._source = source
        kind, host, encoded = _destination(destination, destination_queue_manager)
        self._host = host
        self._flags = _MESSAGE_PROPERTIES_HEADER | kind << _DQ_SHIFT
        self._destination = encoded
        self._source_bytes = source.bytes_le
        self._host_bytes = (host or NULL_GUID).bytes_le
        self._plain = self._make_names(*_NO_NAMES)
        self._last_key: tuple[FormatName | None, FormatName | None, UUID | None, bool, bool] = _NO_NAMES
        self._last = self._plain

    def build(self, message: Message, *, message_id: int, sent_time: int) -> bytes:
        """One packet.

        @param message_id: MessageID, unsigned 32 bits; no other message of the source has it.
        @param sent_time: SentTime, seconds since 1970-01-01 UTC.
        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES if the packet would be larger than 4 MiB,
            MQ_ERROR_INSUFFICIENT_PROPERTIES if an acknowledgement is asked for without an
            administration queue, MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION if the administration or
            response queue cannot be told to anyone.
        @raise LocalProtocolError: C{message_id} or C{sent_time} does not fit its field.
        """
        acknowledge = message.acknowledge
        transactional = message.transactional
        if (
            acknowledge
            or transactional
            or message.response_queue is not None
            or message.connector_type is not None
        ):
            names = self._names(message)
        else:
            names = self._plain
        base_flags = 0 if transactional else message.priority
        flags = self._flags | names.flags
        if message.is_recoverable:
            flags |= _RECOVERABLE
        if message.journal:
            flags |= _POSITIVE_JOURNALING
        if message.dead_letter:
            flags |= _NEGATIVE_JOURNALING
        debug = b""
        if message.trace is not None:
            base_flags |= _TRACE_FLAGS
            debug = _debug_header(message.trace)
        body = message.body
        extension = message.extension
        text = message.label
        label = (text + "\0").encode("utf-16-le", "surrogatepass") if text else b""
        body_size = len(body)
        extension_size = len(extension)
        label_size = len(label)
        layout = names.layout
        unpadded = layout.size + label_size + extension_size + body_size
        size = (unpadded + 3 & ~3) + len(debug)
        if size > BaseHeader.MAXIMUM_PACKET_SIZE:
            raise _too_large(size, body_size)
        try:
            head = layout.pack(
                BaseHeader.VERSION_NUMBER,
                0,
                base_flags,
                BaseHeader.SIGNATURE,
                size,
                message.time_to_reach_queue,
                self._source_bytes,
                self._host_bytes,
                message.time_to_be_received,
                sent_time,
                message_id,
                flags,
                names.variable,
                acknowledge,
                label_size >> 1,
                message.message_class,
                message.correlation_id,
                message.body_type,
                message.application_tag,
                body_size,
                body_size,
                0,
                message.hash_algorithm,
                message.encryption_algorithm,
                extension_size,
            )
        except StructError as error:
            raise LocalProtocolError(
                f"MessageID {message_id} or SentTime {sent_time} does not fit 32 bits"
            ) from error
        return b"".join((head, label, extension, body, _PADDING[unpadded & 3], debug))

    def _names(self, message: Message) -> _Names:
        acknowledged = message.acknowledge != Acknowledge.NONE
        admin = message.admin_queue if acknowledged else None
        if acknowledged and admin is None:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_PROPERTIES, "acknowledgements need an administration queue"
            )
        response = message.response_queue
        key = (admin, response, message.connector_type, acknowledged, message.transactional)
        if key != self._last_key:
            self._last = self._make_names(*key)
            self._last_key = key
        return self._last

    def _make_names(
        self,
        admin: FormatName | None,
        response: FormatName | None,
        connector_type: UUID | None,
        acknowledged: bool,
        transactional: bool,
    ) -> _Names:
        flags = 0
        parts = [self._destination]
        if admin is not None:
            kind, encoded = self._named("administration queue", admin)
            flags |= kind << _AQ_SHIFT
            parts.append(encoded)
        if response is not None:
            kind, encoded = self._response(admin, response)
            flags |= kind << _RQ_SHIFT
            parts.append(encoded)
        if connector_type is not None:
            flags |= _CONNECTOR_TYPE
            parts.append(connector_type.bytes_le)
        if transactional:
            flags |= _TRANSACTION_HEADER
            parts.append(_TRANSACTION.pack(0, 0, 0, 1, 0))
        variable = b"".join(parts)
        layout = Struct(f"<BBHIII16s16sIIII{len(variable)}sBBH20sIIIIIIII")
        return _Names(flags, variable, layout)

    def _response(self, admin: FormatName | None, response: FormatName) -> tuple[int, bytes]:
        if response == admin:
            return _SAME_AS_ADMIN, b""
        kind, encoded = self._named("response queue", response)
        if (
            kind == _ELSEWHERE
            and isinstance(admin, PrivateFormatName)
            and isinstance(response, PrivateFormatName)
            and admin.queue_manager == response.queue_manager
        ):
            return _ON_ADMIN, _NUMBER.pack(response.number)
        return kind, encoded

    def _named(self, role: str, name: FormatName) -> tuple[int, bytes]:
        match name:
            case DirectFormatName():
                return _DIRECT, _direct(name)
            case PublicFormatName(suffix=QueueSuffix.NONE):
                return _PUBLIC, name.queue.bytes_le
            case PrivateFormatName(suffix=QueueSuffix.NONE):
                number = _NUMBER.pack(name.number)
                if name.queue_manager == self._source:
                    return _ON_SOURCE, number
                if name.queue_manager == self._host:
                    return _ON_DESTINATION, number
                return _ELSEWHERE, name.queue_manager.bytes_le + number
        raise _unsupported(f"{name} cannot be the {role} of a message")


def build_packet(
    message: Message,
    destination: FormatName,
    *,
    source: UUID,
    destination_queue_manager: UUID | None = None,
    message_id: int,
    sent_time: int,
) -> bytes:
    """One packet, for a destination to which no more are sent: L{PacketBuilder} explains all."""
    builder = PacketBuilder(destination, source=source, destination_queue_manager=destination_queue_manager)
    return builder.build(message, message_id=message_id, sent_time=sent_time)


def _destination(name: FormatName, host: UUID | None) -> tuple[int, UUID | None, bytes]:
    match name:
        case DirectFormatName(suffix=QueueSuffix.NONE, subqueue=None) if name.protocol in _SENDABLE:
            return _DIRECT, None, _direct(name)
        case PrivateFormatName(suffix=QueueSuffix.NONE):
            return _ON_DESTINATION, name.queue_manager, _NUMBER.pack(name.number)
        case PublicFormatName(suffix=QueueSuffix.NONE):
            if host is None:
                raise _unsupported(f"nobody knows which queue manager hosts {name}")
            return _PUBLIC, host, name.queue.bytes_le
    raise _unsupported(f"messages cannot be sent to {name}")


def _direct(name: DirectFormatName) -> bytes:
    text = (name.wire_text + "\0").encode("utf-16-le", "surrogatepass")
    encoded = _COUNT.pack(len(text)) + text
    return encoded + _PADDING[len(encoded) & 3]


def _debug_header(trace: UUID) -> bytes:
    if trace == NULL_GUID:
        return _DEBUG.pack(0, 0)
    return _DEBUG.pack(1, 0) + trace.bytes_le


def _unsupported(problem: str) -> MQError:
    return MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, problem)


def _too_large(size: int, body_size: int) -> MQError:
    return MQError(
        Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
        f"a body of {body_size} bytes makes a packet of {size} bytes;"
        f" the largest packet has {BaseHeader.MAXIMUM_PACKET_SIZE} bytes",
    )
