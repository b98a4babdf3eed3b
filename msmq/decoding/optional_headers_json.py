"""Converts the optional headers of a UserMessage to JSON objects, field by field.

Each function takes the value that was read, and the packet from the header's first byte on for what
the value does not keep: flags, reserved fields and sizes as they were sent.
"""

from __future__ import annotations

from struct import unpack_from

from msmq.decoding.records import Record
from msmq.decoding.values import base64_text, guid_text
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.multi_queue_format_header import (
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFFormatNameElement,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.status import MQError
from msmq.wire.sid import format_sid


def transaction_header_fields(header: TransactionHeader, data: bytes) -> Record:
    """TransactionHeader. [MS-MQMQ] 2.2.20.5."""
    (flags,) = unpack_from("<I", data)
    fields: Record = {
        "Flags": flags,
        "CG": flags & 1,
        "FA": int(header.is_final_ack_wanted),
        "FM": int(header.is_first),
        "LM": int(header.is_last),
        "ID": header.transaction_id,
        "TxSequenceID": {
            "Ordinal": header.tx_sequence_id.ordinal,
            "TimeStamp": header.tx_sequence_id.timestamp,
        },
        "TxSequenceNumber": header.tx_sequence_number,
        "PreviousTxSequenceNumber": header.previous_tx_sequence_number,
    }
    if header.connector_qm_guid is not None:
        fields["ConnectorQMGuid"] = guid_text(header.connector_qm_guid)
    return fields


def security_header_fields(header: SecurityHeader, data: bytes) -> Record:
    """SecurityHeader; a SID is given as text, binary values in base64. [MS-MQMQ] 2.2.20.6."""
    flags, *sizes = SecurityHeader.LAYOUT.unpack_from(data)
    names = ("SenderIdSize", "EncryptionKeySize", "SignatureSize", "SenderCertSize", "ProviderInfoSize")
    return {
        "Flags": flags,
        "ST": flags & SecurityHeader.ST,
        "AU": flags >> 4 & 1,
        "EB": int(header.is_body_encrypted),
        "DE": int(header.is_default_provider),
        "AI": flags >> 7 & 1,
        "AS": flags >> 8 & 0xF,
        **dict(zip(names, sizes, strict=True)),
        "SecurityData": _security_data(header),
    }


def _security_data(header: SecurityHeader) -> Record:
    fields: Record = {}
    if header.security_id:
        text = _sender(header)
        if text is None:
            fields["SecurityID_base64"] = base64_text(header.security_id)
        else:
            fields["SecurityID"] = text
    for key, item in (
        ("EncryptionKey_base64", header.encryption_key),
        ("Signature_base64", header.signature),
        ("SenderCert_base64", header.sender_cert),
    ):
        if item:
            fields[key] = base64_text(item)
    if header.provider_info is not None:
        provider: Record = {
            "ProviderType": header.provider_info.provider_type,
            "ProviderName": header.provider_info.provider_name,
        }
        if header.provider_info.surplus:
            provider["Surplus_base64"] = base64_text(header.provider_info.surplus)
        fields["ProviderInfo"] = provider
    return fields


def _sender(header: SecurityHeader) -> str | None:
    """The text of a SID or a GUID; C{None} if the bytes do not match ST."""
    if header.sender_id_type == SenderIdType.SID:
        try:
            return format_sid(header.security_id)
        except ValueError:
            return None
    if header.sender_id_type == SenderIdType.QUEUE_MANAGER and len(header.security_id) == 16:
        return guid_text(header.security_id)
    return None


def debug_header_fields(header: DebugHeader, data: bytes) -> Record:
    """DebugHeader. [MS-MQMQ] 2.2.20.8."""
    flags, reserved = DebugHeader.LAYOUT.unpack_from(data)
    fields: Record = {"Flags": flags, "QT": flags & DebugHeader.QT, "Reserved": reserved}
    if header.queue_identifier is not None:
        fields["QueueIdentifier"] = guid_text(header.queue_identifier)
    return fields


def soap_header_fields(header: SoapHeader, data: bytes) -> Record:
    """SoapHeader. [MS-MQMQ] 2.2.20.7."""
    section, reserved, length = SoapHeader.LAYOUT.unpack_from(data)
    body_at = SoapHeader.LAYOUT.size + 2 * length + -2 * length % 4
    body_section, body_reserved, body_length = SoapHeader.LAYOUT.unpack_from(data, body_at)
    return {
        "HeaderSectionID": section,
        "Reserved": reserved,
        "HeaderDataLength": length,
        "Header": header.header,
        "BodySectionID": body_section,
        "Reserved1": body_reserved,
        "BodyDataLength": body_length,
        "Body": header.body,
    }


def multi_queue_format_header_fields(header: MultiQueueFormatHeader, data: bytes) -> Record:
    """MultiQueueFormatHeader. [MS-MQMQ] 2.2.20.1."""
    position = 0
    fields: Record = {}
    for key, part in (
        ("Destination", header.destination),
        ("Administration", header.administration),
        ("Response", header.response),
    ):
        size, header_id, reserved, count = MQFAddressHeader.LAYOUT.unpack_from(data, position)
        fields[key] = {
            "HeaderSize": size,
            "HeaderID": header_id,
            "Reserved": reserved,
            "ElementCount": count,
            "FormatNameList": [_element(element) for element in part.elements],
        }
        position += size + -size % 4
    identifier, reserved, size = unpack_from("<HHI", data, position)
    fields["Signature"] = {
        "ID": identifier,
        "Reserved": reserved,
        "Size": size,
        "Signature_base64": base64_text(header.signature.signature),
    }
    return fields


def _element(element: MQFFormatNameElement) -> Record:
    try:
        text = str(element.resolve())
    except MQError:
        name = element.format_name
        text = name.text if isinstance(name, MQFDirectQueueFormatName) else ""
    return {"FormatType": int(element.format_type), "FormatName": text}
