"""Converts the headers of internal packets of a session to JSON objects, field by field."""

from __future__ import annotations

from struct import unpack_from
from typing import Final

from msmq.decoding.records import Record
from msmq.decoding.values import guid_text, text_or_base64
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.internal_header import InternalHeader, InternalPacketType
from msmq.structures.packet.session_header import SessionHeader
from msmq.wire.reader import Reader

_AFTER_BASE: Final = BaseHeader.SIZE
_AFTER_INTERNAL: Final = BaseHeader.SIZE + InternalHeader.SIZE


def internal_packet_fields(packet: bytes) -> tuple[str, Record]:
    """The name of a packet whose IN is set, and an object for each of its headers.

    @raise RemoteProtocolError: it is malformed.
    """
    reader = Reader(packet)
    BaseHeader.read(reader)
    kind = InternalHeader.read(reader).packet_type
    headers: Record = {"BaseHeader": base_header_fields(packet), "InternalHeader": _internal_header(packet)}
    match kind:
        case InternalPacketType.ESTABLISH_CONNECTION:
            headers |= _establish_connection(EstablishConnection.from_bytes(packet), packet)
            return "EstablishConnection", headers
        case InternalPacketType.CONNECTION_PARAMETERS:
            headers |= _connection_parameters(ConnectionParameters.from_bytes(packet), packet)
            return "ConnectionParameters", headers
        case InternalPacketType.SESSION_ACK:
            SessionAck.from_bytes(packet)
            headers["SessionHeader"] = session_header_fields(packet[_AFTER_INTERNAL:])
            return "SessionAck", headers


def base_header_fields(packet: bytes) -> Record:
    """The fields of the BaseHeader with which C{packet} begins. [MS-MQMQ] 2.2.19.1."""
    version, reserved, flags, signature, size, time_to_reach_queue = BaseHeader.LAYOUT.unpack_from(packet)
    return {
        "VersionNumber": version,
        "Reserved": reserved,
        "Flags": flags,
        "PR": flags & BaseHeader.PR,
        "IN": int(bool(flags & BaseHeader.IN)),
        "SH": int(bool(flags & BaseHeader.SH)),
        "DH": int(bool(flags & BaseHeader.DH)),
        "TR": int(bool(flags & BaseHeader.TR)),
        "Signature": signature,
        "PacketSize": size,
        "TimeToReachQueue": time_to_reach_queue,
    }


def session_header_fields(data: bytes) -> Record:
    """The fields of a SessionHeader. [MS-MQMQ] 2.2.20.4."""
    fields = SessionHeader.LAYOUT.unpack_from(data)
    names = (
        "AckSequenceNumber",
        "RecoverableMsgAckSeqNumber",
        "RecoverableMsgAckFlags",
        "UserMsgSequenceNumber",
        "RecoverableMsgSeqNumber",
        "WindowSize",
        "Reserved",
    )
    return dict(zip(names, fields, strict=True))


def _internal_header(packet: bytes) -> Record:
    reserved, flags = InternalHeader.LAYOUT.unpack_from(packet, _AFTER_BASE)
    return {
        "Reserved": reserved,
        "Flags": flags,
        "PT": flags & InternalHeader.PT,
        "CS": int(bool(flags & InternalHeader.CS)),
    }


def _establish_connection(value: EstablishConnection, packet: bytes) -> Record:
    system, reserved = unpack_from("<HH", packet, _AFTER_INTERNAL + 36)
    if value.padding == bytes([value.padding[0]]) * len(value.padding):
        padding = {"Padding": f"{len(value.padding)} bytes 0x{value.padding[0]:02X}"}
    else:
        padding = text_or_base64("Padding", value.padding)
    return {
        "EstablishConnectionHeader": {
            "ClientGuid": guid_text(value.client_guid),
            "ServerGuid": guid_text(value.server_guid),
            "TimeStamp": value.time_stamp,
            "OperatingSystem": system,
            "RE": system & 0xFF,
            "SE": int(value.is_without_ping),
            "OS": int(value.is_server),
            "QS": int(value.has_gqos),
            "Reserved": reserved,
            **padding,
        }
    }


def _connection_parameters(value: ConnectionParameters, packet: bytes) -> Record:
    (reserved,) = unpack_from("<H", packet, _AFTER_INTERNAL + 8)
    return {
        "ConnectionParametersHeader": {
            "RecoverableAckTimeout": value.recoverable_ack_timeout,
            "AckTimeout": value.ack_timeout,
            "Reserved": reserved,
            "WindowSize": value.window_size,
        }
    }
