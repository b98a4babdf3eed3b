"""Packets whose contents and identities are replaced, field by field; their sizes stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import unpack_from
from typing import Final, TypeAlias

import attrs

from msmq.decoding.anonymising.pseudonyms import Pseudonyms
from msmq.decoding.packet_fields import packet_fields
from msmq.discovery.packets import TopologyClientRequest, read_topology_packet
from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import LABEL
from msmq.structures.internal.ping import Ping
from msmq.structures.packet.base_header import BaseHeader
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader

Replacement: TypeAlias = Callable[[Pseudonyms, bytes], bytes]

_FRAMING: Final = frozenset({"BaseHeader", "InternalHeader", "SessionHeader"})
_NUMBER: Final = 4
"""Fields up to this size are numbers, which stay."""
_PING_GUID: Final = 8
_FINAL_ACK_GUID: Final = 16
_ELEMENT_TYPES: Final = {1: 16, 2: 20, 4: 16}
"""Bytes of the elements of a list of names that begin with a GUID, by FormatType. [MS-MQMQ] 2.2.18.1.4."""
_DIRECT: Final = 3
_ACK_LABEL: Final = f"{LABEL}\0".encode("utf-16-le")


def anonymised_packet(packet: bytes, names: Pseudonyms) -> bytes:
    """A packet of a session, with the SessionHeader that its flags announce.

    Numbers, flags, times and message numbers stay, also in order and final acknowledgements. A field that is
    not known is cleared.

    @raise RemoteProtocolError: it is malformed.
    """
    found = bytearray(packet)
    for field in packet_fields(packet):
        if field.header in _FRAMING:
            continue
        end = field.offset + field.size
        data = packet[field.offset : end]
        if field.name == "MessageBody":
            found[field.offset : end] = _body(packet, data, names)
        elif field.name == "SecurityID":
            found[field.offset : end] = names.guid(data) if len(data) == 16 else names.sid(data)
        elif field.name.endswith("FormatNameList"):
            _replace_elements(found, field.offset, end, names)
        else:
            known = _FIELDS.get(field.name.rpartition(".")[2])
            if known is not None:
                found[field.offset : end] = known(names, data)
            elif field.size > _NUMBER:
                found[field.offset : end] = bytes(field.size)
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

    def other(guid: object) -> object:
        return guid_from_bytes(names.guid(guid.bytes_le)) if hasattr(guid, "bytes_le") else guid

    fields = {name: other(value) for name, value in attrs.asdict(read, recurse=False).items()}
    if not isinstance(read, TopologyClientRequest):
        fields["connected_networks"] = tuple(map(other, read.connected_networks))
        fields["servers"] = tuple(attrs.evolve(each, name=names.text(each.name)) for each in read.servers)
    try:
        found = type(read)(**fields).to_bytes()  # type: ignore[arg-type]
    except LocalProtocolError as error:
        raise RemoteProtocolError("[MS-MQSD] 2.2", type(read).__name__, "packet", 0, str(error)) from error
    return packet[:4] + found[4 : len(packet)] + bytes(max(0, len(packet) - len(found)))


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


def _replace_elements(packet: bytearray, position: int, end: int, names: Pseudonyms) -> None:
    """The names of a list, each with its type before it."""
    while position + 2 <= end:
        (kind,) = unpack_from("<H", packet, position)
        position += 2
        if kind == _DIRECT:
            stop = position
            while packet[stop : stop + 2] != b"\0\0" and stop + 2 <= end:
                stop += 2
            packet[position:stop] = names.utf16(bytes(packet[position:stop]))
            position = stop + 2
        elif kind in _ELEMENT_TYPES:
            position += -position % 4
            packet[position : position + 16] = names.guid(bytes(packet[position : position + 16]))
            position += _ELEMENT_TYPES[kind]
        else:
            packet[position:end] = bytes(end - position)
            return


def _guid(names: Pseudonyms, data: bytes) -> bytes:
    return names.guid(data)


def _correlation(names: Pseudonyms, data: bytes) -> bytes:
    return names.guid(data[:16]) + data[16:]


def _label(names: Pseudonyms, data: bytes) -> bytes:
    """That of order and final acknowledgements stays, since they are recognised by it."""
    return data if data == _ACK_LABEL else names.utf16(data)


def _kept(names: Pseudonyms, data: bytes) -> bytes:
    return data


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
    **dict.fromkeys(("ExtensionData", "Header", "Body"), Pseudonyms.data),
    **dict.fromkeys(("Signature", "EncryptionKey", "SenderCert"), Pseudonyms.opaque),
    "ProviderName": _kept,
    "Padding": _padding,
}
"""What becomes of the fields that are no numbers, by their names in the documents."""
