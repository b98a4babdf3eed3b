"""Packets whose contents and identities are replaced, field by field; their sizes stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import unpack_from
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.decoding.anonymising.pseudonyms import Pseudonyms
from msmq.decoding.packet_fields import packet_fields
from msmq.discovery.packets import (
    TopologyClientRequest,
    TopologyPacketHeader,
    TopologyServerReply,
    read_topology_packet,
)
from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import LABEL
from msmq.structures.internal.ping import Ping
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.multi_queue_format_header import FormatType, end_of_text
from msmq.structures.packet.security_header import SenderIdType
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.sid import format_sid

Replacement: TypeAlias = Callable[[Pseudonyms, bytes], bytes]

_FRAMING: Final = frozenset({"BaseHeader", "InternalHeader", "SessionHeader"})
_NUMBER: Final = 4
"""Fields up to this size are numbers, which stay."""
_SENDER_TYPE: Final = 0x0F
_VALUES: Final = frozenset({*range(2, 8), 10, 11, 14, *range(16, 24), 64, 72})
"""The body types of numbers, times, truth values and GUIDs. [MS-MQMQ] 2.2.12 and [MS-OAUT] 2.2.7."""
_PING_GUID: Final = 8
_FINAL_ACK_GUID: Final = 16
_ELEMENT_TYPES: Final[Mapping[int, int]] = {
    FormatType.PUBLIC: 16,
    FormatType.PRIVATE: 20,
    FormatType.DISTRIBUTION_LIST: 16,
}
"""Bytes of the elements of a list of names that begin with a GUID, by FormatType. [MS-MQMQ] 2.2.18.1.4."""
_TOPOLOGY_HEADER: Final = TopologyPacketHeader.LAYOUT.size
_ACK_LABEL: Final = f"{LABEL}\0".encode("utf-16-le")


def anonymised_packet(packet: bytes, names: Pseudonyms) -> bytes:
    """A packet of a session, with the SessionHeader that its flags announce.

    Numbers, flags, times and message numbers stay, also in order and final acknowledgements. A field that is
    not known, or whose replacement has another size, is cleared.

    @raise RemoteProtocolError: it is malformed.
    """
    found = bytearray(packet)
    sender_type = body_type = 0
    for field in packet_fields(packet):
        if field.header in _FRAMING:
            continue
        end = field.offset + field.size
        data = packet[field.offset : end]
        known = _FIELDS.get(field.name.rpartition(".")[2])
        if field.header == "SecurityHeader" and field.name == "Flags":
            sender_type = data[0] & _SENDER_TYPE
            other = data
        elif field.name == "BodyType":
            body_type = int.from_bytes(data, "little")
            other = data
        elif field.name == "MessageBody":
            other = names.opaque(data) if body_type in _VALUES else _body(packet, data, names)
        elif field.name == "SecurityID":
            other = _sender(names, sender_type, data)
        elif field.name.endswith("FormatNameList"):
            other = _elements(packet, field.offset, end, names)
        elif known is not None:
            other = known(names, data)
        else:
            other = data if field.size <= _NUMBER else b""
        found[field.offset : end] = other if len(other) == field.size else bytes(field.size)
    return bytes(found)


def anonymised_ping(packet: bytes, names: Pseudonyms) -> bytes:
    """A Ping Packet. [MS-MQQB] 2.2.7.

    @raise RemoteProtocolError: it is malformed.
    """
    Ping.from_bytes(packet)
    end = _PING_GUID + 16
    return packet[:_PING_GUID] + names.guid(packet[_PING_GUID:end]) + bytes(len(packet) - end)


def anonymised_topology(packet: bytes, names: Pseudonyms) -> bytes:
    """A packet of directory server discovery. [MS-MQSD] 2.2.

    @raise RemoteProtocolError: it is malformed.
    """
    read = read_topology_packet(packet)
    if isinstance(read, TopologyClientRequest):
        other: TopologyClientRequest | TopologyServerReply = _other_request(read, names)
    else:
        other = _other_reply(read, names)
    try:
        found = other.to_bytes()
    except LocalProtocolError as error:
        raise RemoteProtocolError("[MS-MQSD] 2.2", type(read).__name__, "packet", 0, str(error)) from error
    return packet[:_TOPOLOGY_HEADER] + found[_TOPOLOGY_HEADER:].ljust(len(packet) - _TOPOLOGY_HEADER, b"\0")


def _other_request(request: TopologyClientRequest, names: Pseudonyms) -> TopologyClientRequest:
    return TopologyClientRequest(
        _other_guid(request.enterprise_id, names),
        _other_guid(request.request_id, names),
        _other_guid(request.site_id, names),
    )


def _other_reply(reply: TopologyServerReply, names: Pseudonyms) -> TopologyServerReply:
    site = reply.responding_site_id
    return TopologyServerReply(
        _other_guid(reply.correlation_id, names),
        tuple(_other_guid(network, names) for network in reply.connected_networks),
        None if site is None else _other_guid(site, names),
        tuple(attrs.evolve(server, name=names.text(server.name)) for server in reply.servers),
        reply.connected_network_mask,
    )


def _other_guid(guid: UUID, names: Pseudonyms) -> UUID:
    return guid_from_bytes(names.guid(guid.bytes_le))


def _body(packet: bytes, body: bytes, names: Pseudonyms) -> bytes:
    plain = packet[: BaseHeader.read(Reader(packet)).packet_size]
    try:
        FinalAck.from_bytes(plain)
    except RemoteProtocolError:
        try:
            OrderAck.from_bytes(plain)
        except RemoteProtocolError:
            return names.data(body)
        return body
    end = _FINAL_ACK_GUID + 16
    return body[:_FINAL_ACK_GUID] + names.guid(body[_FINAL_ACK_GUID:end]) + body[end:]


def _elements(packet: bytes, begin: int, end: int, names: Pseudonyms) -> bytes:
    """A list of names, each with its type before it; what follows an unknown type is cleared."""
    found = bytearray(packet[begin:end])
    position = begin
    while position + 2 <= end:
        (kind,) = unpack_from("<H", packet, position)
        position += 2
        if kind == FormatType.DIRECT:
            stop = position
            while stop + 2 <= end and packet[stop : stop + 2] != b"\0\0":
                stop += 2
            found[position - begin : stop - begin] = names.utf16(packet[position:stop])
            position = stop + 2
        elif kind in _ELEMENT_TYPES:
            position += -position % 4
            at = position - begin
            found[at : at + 16] = names.guid(packet[position : position + 16])
            position += _ELEMENT_TYPES[kind]
        else:
            found[position - begin :] = bytes(end - position)
            break
    return bytes(found)


def _sender(names: Pseudonyms, sender_type: int, data: bytes) -> bytes:
    """Peers may send any bytes under any type; what is not of its type is replaced whole."""
    if sender_type == SenderIdType.QUEUE_MANAGER and len(data) == 16:
        return names.guid(data)
    if sender_type == SenderIdType.SID:
        try:
            format_sid(data)
        except ValueError:
            pass
        else:
            return names.sid(data)
    return names.opaque(data)


def _guid(names: Pseudonyms, data: bytes) -> bytes:
    return names.guid(data)


def _correlation(names: Pseudonyms, data: bytes) -> bytes:
    return names.guid(data[:16]) + data[16:]


def _label(names: Pseudonyms, data: bytes) -> bytes:
    """That of order and final acknowledgements stays, since they are recognised by it."""
    return data if data == _ACK_LABEL else names.utf16(data)


def _provider(names: Pseudonyms, data: bytes) -> bytes:
    """The providers of Windows stay, since they decide which algorithms are meant.

    What follows the name is the second part of a double signature (reading 109).
    """
    end = end_of_text(data, 0, len(data))
    name = data[:end]
    is_kept = name.decode("utf-16-le", "surrogatepass").startswith("Microsoft ")
    return (name if is_kept else names.utf16(name)) + names.opaque(data[end:])


def _padding(names: Pseudonyms, data: bytes) -> bytes:
    """A filling of one repeated byte stays, since implementations differ in it."""
    return data if not data.strip(data[:1]) else bytes(len(data))


_FIELDS: Final[Mapping[str, Replacement]] = {
    **dict.fromkeys(
        (
            *("SourceQueueManager", "QueueManagerAddress", "PublicQueueIdentifier", "ConnectorType"),
            *("ConnectorQMGuid", "QueueIdentifier", "ClientGuid", "ServerGuid"),
        ),
        _guid,
    ),
    "CorrelationID": _correlation,
    "DirectFormatName": Pseudonyms.utf16,
    "Label": _label,
    "ExtensionData": Pseudonyms.data,
    **dict.fromkeys(("Header", "Body"), Pseudonyms.utf16),
    **dict.fromkeys(("Signature", "EncryptionKey", "SenderCert"), Pseudonyms.opaque),
    "ProviderName": _provider,
    "Padding": _padding,
}
"""What becomes of the fields that are no numbers, by their names in the documents."""
