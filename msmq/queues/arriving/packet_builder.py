"""Builds UserMessage packets from messages and destinations. [MS-MQDMPR] 3.1.7.1.30 and 3.1.7.1.32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.arriving.send_run import SendRun
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import FormatName, PrivateFormatName, PublicFormatName
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import INFINITE, TIME_TO_REACH_QUEUE, BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.kept_packet import kept_headers
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import (
    MAXIMUM_ELEMENTS,
    ElementName,
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.packet_shape import PacketShape
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import NEVER, UserMessageView
from msmq.structures.status import MessageTooLarge, MQError, Status
from msmq.wire.guid import NULL_GUID
from msmq.wire.writer import Writer

_Key: TypeAlias = tuple[FormatName | None, FormatName | None, UUID | None, bool]

_SENDABLE: Final = frozenset({DirectProtocol.TCP, DirectProtocol.OS})
_NUMBER: Final = Struct("<I")
_MESSAGE_ID: Final = slice(56, 60)
_PADDING: Final = (b"", bytes(3), bytes(2), bytes(1))
_TRACE_FLAGS: Final = BaseHeader.TR | BaseHeader.DH
_UNNUMBERED: Final = TransactionHeader(TxSequenceID(0, 0), 1)

# Looked up once, not for every packet.
_VERSION_NUMBER: Final = BaseHeader.VERSION_NUMBER
_SIGNATURE: Final = BaseHeader.SIGNATURE
_MAXIMUM_PACKET_SIZE: Final = BaseHeader.MAXIMUM_PACKET_SIZE
_DM_RECOVERABLE: Final = UserHeader.DM_RECOVERABLE
_JP: Final = UserHeader.JP
_JN: Final = UserHeader.JN
_PROPERTIES_SIZE: Final = MessagePropertiesHeader.FIXED_SIZE


@attrs.frozen
class _Names:
    """The parts of a packet that depend only on the queue names of a message.

    @ivar layout: BaseHeader, UserHeader with its names, TransactionHeader, and the fixed part of the
        MessagePropertiesHeader.
    @ivar variable: the bytes between the fixed part of the UserHeader and the MessagePropertiesHeader.
    @ivar names_end: where the UserHeader ends.
    """

    flags: int
    variable: bytes
    layout: Struct
    names_end: int


class PacketBuilder:
    """Builds packets for one destination; their common parts are encoded once.

    They have no SecurityHeader and no SessionHeader.
    The TransactionHeader of a transactional message has number 1 of sequence 0 until the message gets its
    position in a sequence.

    @ivar time_to_reach_queue: default in seconds.
    """

    def __init__(
        self,
        destination: FormatName,
        *,
        source: UUID,
        destination_queue_manager: UUID | None = None,
        destinations: bytes = b"",
        time_to_reach_queue: int = TIME_TO_REACH_QUEUE,
    ) -> None:
        """Encode the common parts of all packets to C{destination}.

        @param source: the GUID of the sending queue manager.
        @param destination_queue_manager: the GUID of the queue manager that hosts the queue; needed for
            a public name, taken from a private one, and unused for a direct one.
        @param destinations: the result of L{list_of_destinations} for all names to which a message is sent,
            including this one; empty for a message to this name only.
        @param time_to_reach_queue: default in seconds.
        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION if no packet can go to such a name.
        """
        self._source = source
        self.time_to_reach_queue = time_to_reach_queue
        self._destinations = destinations
        self._kind, self._destination, self._host = _destination(destination, destination_queue_manager)
        self._source_bytes = source.bytes_le
        self._host_bytes = self._host.bytes_le
        self._last_key: _Key = (None, None, None, False)
        self._last = self._plain = self._make_names(*self._last_key)

    def build(self, message: Message, *, message_id: int, sent_time: int) -> bytes:
        """One packet, as of L{view}."""
        return self.view(message, message_id, sent_time).packet

    def view(
        self, message: Message, message_id: int, sent_time: int, body: bytes | None = None
    ) -> UserMessageView:
        """One packet, as a view with known offsets.

        @param message_id: MessageID, unsigned 32 bits; no other message of the source has it.
        @param sent_time: SentTime, seconds since 1970-01-01 UTC.
        @param body: C{None} for that of the message.
        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES if the packet would be larger than 4 MiB,
            MQ_ERROR_INSUFFICIENT_PROPERTIES if an acknowledgement is requested without an
                administration queue, MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION if the name of the
                administration or response queue cannot be sent.
        @raise LocalProtocolError: C{message_id} or C{sent_time} does not fit its field.
        """
        acknowledge = int(message.acknowledge)
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
        flags = names.flags
        is_recoverable = transactional or message.delivery is Delivery.RECOVERABLE
        if is_recoverable:
            flags |= _DM_RECOVERABLE
        if message.journal:
            flags |= _JP
        if message.dead_letter:
            flags |= _JN
        debug = b""
        if message.trace is not None:
            base_flags |= _TRACE_FLAGS
            debug = DebugHeader(message.trace if message.trace != NULL_GUID else None).to_bytes()
        destinations = self._destinations
        time_to_reach_queue = message.time_to_reach_queue
        if time_to_reach_queue is None:
            time_to_reach_queue = self.time_to_reach_queue
        if body is None:
            body = message.body
        extension = message.extension
        text = message.label
        label = (text + "\0").encode("utf-16-le", "surrogatepass") if text else b""
        body_size = len(body)
        extension_size = len(extension)
        label_size = len(label)
        layout = names.layout
        unpadded = layout.size + label_size + extension_size + body_size
        size = (unpadded + 3 & ~3) + len(debug) + len(destinations)
        if size > _MAXIMUM_PACKET_SIZE:
            raise _too_large(size, body_size)
        try:
            head = layout.pack(
                _VERSION_NUMBER,
                0,
                base_flags,
                _SIGNATURE,
                size,
                time_to_reach_queue,
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
                message.privacy_level,
                message.hash_algorithm,
                message.encryption_algorithm,
                extension_size,
            )
        except StructError as error:
            raise LocalProtocolError(
                f"MessageID {message_id} or SentTime {sent_time} does not fit 32 bits"
            ) from error
        packet = b"".join((head, label, extension, body, _PADDING[unpadded & 3], debug, destinations))
        if flags & _JN and message.dead_letter_queue:
            packet += kept_headers(message.dead_letter_queue)
        shape = PacketShape()
        shape.before = None
        shape.size = len(packet)
        shape.base_flags = base_flags
        shape.flags = flags
        shape.is_recoverable = is_recoverable
        shape.is_transactional = transactional
        shape.acknowledge = acknowledge & 0x0F
        shape.source_queue_manager = self._source_bytes
        shape.queue_manager_address = self._host_bytes
        shape.sent_time = sent_time
        shape.reach_limit = NEVER if time_to_reach_queue == INFINITE else sent_time + time_to_reach_queue + 1
        shape.message_class = message.message_class
        shape.body_size = body_size
        shape.extension_size = extension_size
        shape.label_length = label_size >> 1
        shape.names_end = names.names_end
        shape.properties = layout.size - _PROPERTIES_SIZE
        shape.body_start = layout.size + label_size + extension_size
        return UserMessageView.shaped(packet, shape)

    def views(self, messages: Sequence[Message], first: int, sent_time: int) -> list[UserMessageView]:
        """The packets of several messages with consecutive MessageIDs, as L{view} makes each.

        Consecutive ones that differ in their bodies alone, of which the sizes are equal, share their bytes
        and their shape.
        """
        if isinstance(messages, SendRun):
            bodies: Sequence[bytes] = messages.bodies
            templates: Iterable[Message] = repeat(messages.template, len(bodies))
        else:
            bodies, templates = [message.body for message in messages], messages
        views: list[UserMessageView] = []
        add, join, number_bytes, make = views.append, b"".join, _NUMBER.pack, UserMessageView.__new__
        last: Message | None = None
        size = -1
        begin = middle = end = b""
        shape: PacketShape | None = None
        for number, (message, body) in enumerate(zip(templates, bodies, strict=True), first):
            if message is not last or len(body) != size:
                view = self.view(message, number, sent_time, body)
                last, size = message, len(body)
                packet, shape = view.packet, view.shape
                begin, middle = packet[: _MESSAGE_ID.start], packet[_MESSAGE_ID.stop : shape.body_start]
                end = packet[shape.body_start + size :]
            else:
                view = make(UserMessageView)
                view.packet = join((begin, number_bytes(number), middle, body, end))
                view.shape = shape  # type: ignore[assignment]
            add(view)
        return views

    def _names(self, message: Message) -> _Names:
        admin = message.admin_queue if message.acknowledge else None
        if message.acknowledge and admin is None:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_PROPERTIES, "acknowledgements need an administration queue"
            )
        key = (admin, message.response_queue, message.connector_type, message.transactional)
        if key != self._last_key:
            self._last = self._make_names(*key)
            self._last_key = key
        return self._last

    def _make_names(
        self,
        admin: FormatName | None,
        response: FormatName | None,
        connector_type: UUID | None,
        transactional: bool,
    ) -> _Names:
        admin_kind, admin_queue = self._named("administration queue", admin)
        response_kind, response_queue = self._response(admin, response)
        writer = Writer()
        UserHeader(
            source_queue_manager=self._source,
            queue_manager_address=self._host,
            is_recoverable=transactional,
            destination_kind=self._kind,
            destination_queue=self._destination,
            admin_kind=admin_kind,
            admin_queue=admin_queue,
            response_kind=response_kind,
            response_queue=response_queue,
            connector_type=connector_type,
            has_transaction_header=transactional,
            has_multi_queue_format_header=bool(self._destinations),
        ).write(writer)
        names_end = BaseHeader.SIZE + len(writer.getvalue())
        if transactional:
            _UNNUMBERED.write(writer)
        header = writer.getvalue()
        *_, flags = UserHeader.LAYOUT.unpack_from(header)
        variable = header[UserHeader.FIXED_SIZE :]
        layout = Struct(f"<BBHIII16s16sIIII{len(variable)}sBBH20sIIIIIIII")
        return _Names(flags, variable, layout, names_end)

    def _response(
        self, admin: FormatName | None, response: FormatName | None
    ) -> tuple[QueueNameKind, QueueName | None]:
        if response is not None and response == admin:
            return QueueNameKind.SAME_AS_ADMIN_QUEUE, None
        kind, name = self._named("response queue", response)
        if (
            isinstance(name, PrivateQueueFormatName)
            and isinstance(admin, PrivateFormatName)
            and admin.queue_manager == name.queue_manager
        ):
            return QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST, PrivateQueueFormatNameId(name.number)
        return kind, name

    def _named(self, role: str, name: FormatName | None) -> tuple[QueueNameKind, QueueName | None]:
        match name:
            case None:
                return QueueNameKind.NONE, None
            case DirectFormatName():
                return QueueNameKind.DIRECT, DirectQueueFormatName(name.wire_text)
            case PublicFormatName(suffix=QueueSuffix.NONE):
                return QueueNameKind.PUBLIC, PublicQueueFormatName(name.queue)
            case PrivateFormatName(suffix=QueueSuffix.NONE):
                if name.queue_manager == self._source:
                    return QueueNameKind.PRIVATE_ON_SOURCE, PrivateQueueFormatNameId(name.number)
                if name.queue_manager == self._host:
                    return QueueNameKind.PRIVATE_ON_DESTINATION, PrivateQueueFormatNameId(name.number)
                return QueueNameKind.PRIVATE, PrivateQueueFormatName(name.queue_manager, name.number)
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
    """One packet, for a destination to which no more are sent; see L{PacketBuilder}."""
    builder = PacketBuilder(destination, source=source, destination_queue_manager=destination_queue_manager)
    return builder.build(message, message_id=message_id, sent_time=sent_time)


def list_of_destinations(names: Iterable[FormatName]) -> bytes:
    """DestinationMultiQueueFormatName: the header in each copy of a message. [MS-MQDMPR] 3.1.7.1.27.

    @param names: all names to which the message is sent, in order.
    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION if no packet can go to one of them, or if they
        are more than a list can have.
    """
    header = MultiQueueFormatHeader.of(map(_element, names))
    if header.destination.element_count > MAXIMUM_ELEMENTS:
        raise _unsupported(f"a message can be sent to at most {MAXIMUM_ELEMENTS} queues")
    return header.to_bytes()


def _element(name: FormatName) -> ElementName:
    match name:
        case DirectFormatName(suffix=QueueSuffix.NONE, subqueue=None) if name.protocol in _SENDABLE:
            return MQFDirectQueueFormatName(name.wire_text)
        case PrivateFormatName(suffix=QueueSuffix.NONE):
            return PrivateQueueFormatName(name.queue_manager, name.number)
        case PublicFormatName(suffix=QueueSuffix.NONE):
            return PublicQueueFormatName(name.queue)
    raise _unsupported(f"messages cannot be sent to {name}")


def _destination(name: FormatName, host: UUID | None) -> tuple[QueueNameKind, QueueName, UUID]:
    match name:
        case DirectFormatName(suffix=QueueSuffix.NONE, subqueue=None) if name.protocol in _SENDABLE:
            return QueueNameKind.DIRECT, DirectQueueFormatName(name.wire_text), NULL_GUID
        case PrivateFormatName(suffix=QueueSuffix.NONE):
            number = PrivateQueueFormatNameId(name.number)
            return QueueNameKind.PRIVATE_ON_DESTINATION, number, name.queue_manager
        case PublicFormatName(suffix=QueueSuffix.NONE):
            if host is None:
                raise _unsupported(f"the queue manager of {name} is unknown")
            return QueueNameKind.PUBLIC, PublicQueueFormatName(name.queue), host
    raise _unsupported(f"messages cannot be sent to {name}")


def _unsupported(problem: str) -> MQError:
    return MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, problem)


def _too_large(size: int, body_size: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"a body of {body_size} bytes makes a packet of {size} bytes;"
        f" the largest packet has {BaseHeader.MAXIMUM_PACKET_SIZE} bytes",
    )
