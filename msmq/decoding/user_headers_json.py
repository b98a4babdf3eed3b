"""Converts the headers of a UserMessage, an OrderAck or a FinalAck to JSON objects, field by field.

Flags, reserved fields and sizes are given as they are in the packet; all other values come from the parsed
structures.
"""

from __future__ import annotations

from struct import unpack_from

from msmq.decoding.message_json import queue_text
from msmq.decoding.optional_headers_json import (
    debug_header_fields,
    multi_queue_format_header_fields,
    security_header_fields,
    soap_header_fields,
    transaction_header_fields,
)
from msmq.decoding.records import Record
from msmq.decoding.session_headers_json import base_header_fields, session_header_fields
from msmq.decoding.values import base64_text, correlation_text, guid_text, text_or_base64
from msmq.structures.internal.classification import PacketKind, classify_user_packet
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
    utf16_length,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.message_class import class_name
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.reader import Reader


def user_packet_fields(packet: bytes) -> tuple[str, Record]:
    """The name of a packet whose IN is clear, and an object for each of its headers.

    @param packet: the packet, with the SessionHeader that its flags announce.
    @raise RemoteProtocolError: it is malformed.
    """
    UserMessage.from_bytes(packet)
    reader = Reader(packet)
    base = BaseHeader.read(reader)
    headers: Record = {"BaseHeader": base_header_fields(packet)}
    start = reader.position
    user = UserHeader.read(reader)
    headers["UserHeader"] = _user_header(user, packet[start:])
    if user.has_transaction_header:
        start = reader.position
        transaction = TransactionHeader.read(reader)
        headers["TransactionHeader"] = transaction_header_fields(transaction, packet[start:])
    if user.has_security_header:
        start = reader.position
        headers["SecurityHeader"] = security_header_fields(SecurityHeader.read(reader), packet[start:])
    start = reader.position
    properties = MessagePropertiesHeader.read(reader)
    headers["MessagePropertiesHeader"] = _message_properties_header(properties, packet[start:])
    if base.has_debug_header:
        start = reader.position
        headers["DebugHeader"] = debug_header_fields(DebugHeader.read(reader), packet[start:])
    if user.has_soap_header:
        start = reader.position
        headers["SoapHeader"] = soap_header_fields(SoapHeader.read(reader), packet[start:])
    if user.has_multi_queue_format_header:
        start = reader.position
        lists = MultiQueueFormatHeader.read(reader)
        headers["MultiQueueFormatHeader"] = multi_queue_format_header_fields(lists, packet[start:])
    if base.has_session_header:
        headers["SessionHeader"] = session_header_fields(packet[reader.position :])
    kind = classify_user_packet(packet)
    if kind is PacketKind.ORDER_ACK:
        headers["OrderAckBody"] = _acknowledged(OrderAck.from_bytes(packet))
    elif kind is PacketKind.FINAL_ACK:
        headers["FinalAckBody"] = _final_ack_body(FinalAck.from_bytes(packet))
    return kind.value, headers


def _user_header(user: UserHeader, data: bytes) -> Record:
    (flags,) = unpack_from("<I", data, 44)
    fields: Record = {
        "SourceQueueManager": guid_text(user.source_queue_manager),
        "QueueManagerAddress": guid_text(user.queue_manager_address),
        "TimeToBeReceived": user.time_to_be_received,
        "SentTime": user.sent_time,
        "MessageID": user.message_id,
        "Flags": flags,
        "RC": user.hop_count,
        "DM": int(user.is_recoverable),
        "JN": int(user.dead_letter),
        "JP": int(user.journal),
        "DQ": int(user.destination_kind),
        "AQ": int(user.admin_kind),
        "RQ": int(user.response_kind),
        "SH": int(user.has_security_header),
        "TH": int(user.has_transaction_header),
        "MP": 1,
        "CQ": int(user.connector_type is not None),
        "MQ": int(user.has_multi_queue_format_header),
        "AH": int(user.is_over_http),
        "HH": int(user.has_soap_header),
    }
    for key, name, resolve in (
        ("DestinationQueue", user.destination_queue, user.resolve_destination),
        ("AdminQueue", user.admin_queue, user.resolve_admin_queue),
        ("ResponseQueue", user.response_queue, user.resolve_response_queue),
    ):
        if name is not None:
            fields[key] = _queue_name(name, queue_text(name, resolve))
    if user.connector_type is not None:
        fields["ConnectorType"] = guid_text(user.connector_type)
    return fields


def _queue_name(name: QueueName, text: str | None) -> Record:
    """A queue name as in its structure, and as the format name that it resolves to."""
    fields: Record = {"structure": type(name).__name__}
    match name:
        case PrivateQueueFormatNameId():
            fields["PrivateQueueIdentifier"] = name.number
        case PublicQueueFormatName():
            fields["PublicQueueIdentifier"] = guid_text(name.queue)
        case PrivateQueueFormatName():
            fields["SourceQueueManager"] = guid_text(name.queue_manager)
            fields["PrivateQueueIdentifier"] = name.number
        case DirectQueueFormatName():
            fields["Count"] = 2 * utf16_length(name.text) + 2
            fields["DirectFormatName"] = name.text
    fields["FormatName"] = text
    return fields


def _message_properties_header(properties: MessagePropertiesHeader, data: bytes) -> Record:
    flags = data[0]
    fields: Record = {
        "Flags": flags,
        "PA": flags & 1,
        "PR": flags >> 1 & 1,
        "NA": flags >> 2 & 1,
        "NR": flags >> 3 & 1,
        "LabelLength": data[1],
        "MessageClass": properties.message_class,
        "class_name": class_name(properties.message_class),
        "CorrelationID": correlation_text(properties.correlation_id),
        "BodyType": properties.body_type,
        "ApplicationTag": properties.application_tag,
        "MessageSize": len(properties.message_body),
        "AllocationBodySize": properties.allocation_body_size,
        "PrivacyLevel": properties.privacy_level,
        "HashAlgorithm": properties.hash_algorithm,
        "EncryptionAlgorithm": properties.encryption_algorithm,
        "ExtensionSize": len(properties.extension_data),
        "Label": properties.label,
    }
    if properties.extension_data:
        fields["ExtensionData_base64"] = base64_text(properties.extension_data)
    return fields | text_or_base64("MessageBody", properties.message_body)


def _acknowledged(ack: OrderAck | FinalAck) -> Record:
    return {
        "TxSequenceID": {
            "Ordinal": ack.tx_sequence_id.ordinal,
            "TimeStamp": ack.tx_sequence_id.timestamp,
        },
        "TxSequenceNumber": ack.tx_sequence_number,
        "TxPreviousSequenceNumber": ack.tx_previous_sequence_number,
    }


def _final_ack_body(ack: FinalAck) -> Record:
    return _acknowledged(ack) | {
        "SourceGUID": guid_text(ack.source_guid),
        "MessageID": ack.message_id,
    }
