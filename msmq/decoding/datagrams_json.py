"""Pings and topology packets as JSON objects, field by field under the documents' names."""

from __future__ import annotations

from struct import unpack_from

from msmq.decoding.records import Record
from msmq.decoding.values import guid_text
from msmq.discovery.packets import (
    TopologyClientRequest,
    TopologyPacketHeader,
    TopologyServerReply,
    read_topology_packet,
)
from msmq.structures.internal.ping import Ping


def ping_record(data: bytes, offset: int) -> Record:
    """The line for a Ping Packet. [MS-MQQB] 2.2.7.

    @raise RemoteProtocolError: it is not a Ping Packet.
    """
    ping = Ping.from_bytes(data)
    (flags,) = unpack_from("<H", data)
    return {
        "offset": offset,
        "packet": "Ping",
        "size": len(data),
        "PingPacket": {
            "Flags": flags,
            "RC": int(ping.is_workstation),
            "RF": int(ping.is_refused),
            "Signature": Ping.SIGNATURE,
            "Cookie": ping.cookie,
            "QMGuid": guid_text(ping.qm_guid),
        },
    }


def topology_record(data: bytes, offset: int) -> Record:
    """The line for a topology packet. [MS-MQSD] 2.2.

    @raise RemoteProtocolError: it is neither of the two.
    """
    packet = read_topology_packet(data)
    version, number, reserved = TopologyPacketHeader.LAYOUT.unpack_from(data)
    name = type(packet).__name__
    fields = _request(packet) if isinstance(packet, TopologyClientRequest) else _reply(packet, data)
    return {
        "offset": offset,
        "packet": name,
        "size": len(data),
        "TopologyPacketHeader": {"Version": version, "Type": number, "Reserved": reserved},
        name: fields,
    }


def _request(packet: TopologyClientRequest) -> Record:
    return {
        "EnterpriseID": guid_text(packet.enterprise_id),
        "RequestID": guid_text(packet.request_id),
        "SiteID": guid_text(packet.site_id),
    }


def _reply(packet: TopologyServerReply, data: bytes) -> Record:
    fields: Record = {
        "CorrelationID": guid_text(packet.correlation_id),
        "ConnectedNetworkCount": len(packet.connected_networks),
        "ConnectedNetworkMask": packet.connected_network_mask,
        "DirectoryServiceServerSize": unpack_from("<I", data, 28)[0],
        "ConnectedNetworkArray": [guid_text(network) for network in packet.connected_networks],
    }
    if packet.responding_site_id is not None:
        fields["RespondingSiteID"] = guid_text(packet.responding_site_id)
        fields["DirectoryServiceServerArray"] = [
            {"name": server.name, "IP": int(server.supports_ip), "IPX": int(server.supports_ipx)}
            for server in packet.servers
        ]
    return fields
