"""Packets of directory service discovery, one per datagram. [MS-MQSD] 2.2 Message Syntax.

[MS-MQSD] 1.7 and 1.8: the version in the header is not negotiated, and no field is extensible by vendors.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import quoted
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

MAXIMUM_NETWORKS = 32
"""Maximum number of networks in a request or a reply; the minimum is 1. [MS-MQSD] 2.2.2, 2.2.3."""


class TopologyPacketType(IntEnum):
    """TopologyPacketHeader.Type. [MS-MQSD] 2.2.1."""

    CLIENT_REQUEST = 1
    SERVER_REPLY = 2


@attrs.frozen
class TopologyPacketHeader:
    """TopologyPacketHeader. [MS-MQSD] 2.2.1.

    Version and Reserved are sent as 0 and ignored on receipt; an undefined Type is malformed.
    """

    LAYOUT: ClassVar[Struct] = Struct("<BBH")

    type: TopologyPacketType

    @classmethod
    def read(cls, reader: Reader) -> TopologyPacketHeader:
        """Read the four bytes.

        @raise RemoteProtocolError: fewer than four bytes, or an undefined Type.
        """
        with reader.header("TopologyPacketHeader", "[MS-MQSD] 2.2.1") as start:
            _version, number, _reserved = reader.unpack(cls.LAYOUT, "Version")
            rule = f"{number} is neither 1 nor 2"
            return cls(reader.member(TopologyPacketType, number, "Type", rule, offset=start + 1))

    @classmethod
    def expect(cls, reader: Reader, wanted: TopologyPacketType) -> None:
        """Read the four bytes, and require the packet type C{wanted}."""
        start = reader.position
        if cls.read(reader).type is not wanted:
            with reader.header("TopologyPacketHeader", "[MS-MQSD] 2.2.1"):
                raise reader.malformed("Type", f"should be {wanted.value}", offset=start + 1)

    def write(self, writer: Writer) -> None:
        """Write the four bytes."""
        writer.bytes(self.LAYOUT.pack(0, self.type, 0))


@attrs.frozen
class TopologyClientRequest(Structure):
    """TopologyClientRequest. [MS-MQSD] 2.2.2.

    @ivar enterprise_id: the enterprise that the client belongs to.
    @ivar request_id: unique to the request; the reply repeats it as CorrelationID.
    @ivar site_id: the site that the client belongs to, or the null GUID.
    @ivar ipx_networks: network numbers, on IPX only, 1 to 32 of them; empty on IP.
    """

    SIZE: ClassVar[int] = 52

    enterprise_id: UUID
    request_id: UUID
    site_id: UUID
    ipx_networks: tuple[int, ...] = ()

    @classmethod
    def read(cls, reader: Reader, *, is_ipx: bool = False) -> TopologyClientRequest:
        """Read one request; the bytes after it are ignored.

        @param is_ipx: received over IPX, where IPXNetworkCount and its array follow unless the datagram is
            shorter than 60 bytes.
        @raise RemoteProtocolError: it is shorter than 52 bytes, of another Type, or lists fewer
            than 1 or more than 32 IPX networks.
        """
        length = reader.remaining
        with reader.header("TopologyClientRequest", "[MS-MQSD] 2.2.2"):
            TopologyPacketHeader.expect(reader, TopologyPacketType.CLIENT_REQUEST)
            enterprise = reader.guid("EnterpriseID")
            request = reader.guid("RequestID")
            site = reader.guid("SiteID")
            networks: tuple[int, ...] = ()
            if is_ipx and length >= 60:
                count = _read_count(reader, "IPXNetworkCount")
                networks = tuple(reader.u32("IPXNetworkNumberArray") for _ in range(count))
            reader.skip(reader.remaining, "trailing bytes")
        return cls(enterprise, request, site, networks)

    @classmethod
    def from_bytes(cls, data: bytes, *, is_ipx: bool = False) -> TopologyClientRequest:
        """Read one datagram; see L{read}."""
        return cls.read(Reader(data), is_ipx=is_ipx)

    def write(self, writer: Writer) -> None:
        """Write the request.

        @raise LocalProtocolError: there are more than 32 IPX networks.
        """
        if len(self.ipx_networks) > MAXIMUM_NETWORKS:
            raise LocalProtocolError(f"IPXNetworkCount: {len(self.ipx_networks)} exceed {MAXIMUM_NETWORKS}")
        TopologyPacketHeader(TopologyPacketType.CLIENT_REQUEST).write(writer)
        writer.guid(self.enterprise_id)
        writer.guid(self.request_id)
        writer.guid(self.site_id)
        if self.ipx_networks:
            writer.u32(len(self.ipx_networks), "IPXNetworkCount")
            for network in self.ipx_networks:
                writer.u32(network, "IPXNetworkNumberArray")


@attrs.frozen
class DirectoryServer:
    """Entry of DirectoryServiceServerArray. [MS-MQSD] 2.2.3.

    @ivar name: a machine name of at least one character, without commas or NULs.
    """

    name: str
    supports_ip: bool = True
    supports_ipx: bool = False


@attrs.frozen
class TopologyServerReply(Structure):
    """TopologyServerReply. [MS-MQSD] 2.2.3.

    A reply from the client's own site lists no servers and has no responding site.

    @ivar correlation_id: the RequestID of the answered request.
    @ivar connected_networks: identifiers of the server's connected networks, 1 to 32 of them.
    @ivar responding_site_id: the server's site, present exactly when servers are listed.
    @ivar servers: the directory servers of that site.
    @ivar connected_network_mask: 0 on IP; on IPX the number of set bits is the number of listed networks.
        Carried as received.
    """

    SIZE: ClassVar[int] = 32
    """Size of the fields before ConnectedNetworkArray, in bytes."""

    correlation_id: UUID
    connected_networks: tuple[UUID, ...]
    responding_site_id: UUID | None = None
    servers: tuple[DirectoryServer, ...] = ()
    connected_network_mask: int = 0

    @classmethod
    def read(cls, reader: Reader) -> TopologyServerReply:
        """Read one reply; the bytes after it are ignored.

        @raise RemoteProtocolError: it is cut short, of another Type, lists fewer than 1 or more
            than 32 networks, or its server list does not follow its grammar.
        """
        with reader.header("TopologyServerReply", "[MS-MQSD] 2.2.3"):
            TopologyPacketHeader.expect(reader, TopologyPacketType.SERVER_REPLY)
            correlation = reader.guid("CorrelationID")
            count = _read_count(reader, "ConnectedNetworkCount")
            mask = reader.u32("ConnectedNetworkMask")
            size_at = reader.position
            size = reader.u32("DirectoryServiceServerSize")
            if size and (size < 8 or size % 2):
                raise reader.malformed(
                    "DirectoryServiceServerSize", f"{size} bytes hold no server entry", offset=size_at
                )
            networks = tuple(reader.guid("ConnectedNetworkArray") for _ in range(count))
            site = reader.guid("RespondingSiteID") if size else None
            servers = _read_servers(reader, size) if size else ()
            reader.skip(reader.remaining, "trailing bytes")
        return cls(correlation, networks, site, servers, mask)

    @classmethod
    def from_bytes(cls, data: bytes) -> TopologyServerReply:
        """Read one datagram; see L{read}."""
        return cls.read(Reader(data))

    def write(self, writer: Writer) -> None:
        """Write the reply.

        @raise LocalProtocolError: the packet cannot express the number of networks, the mask, the servers or
            a server's name.
        """
        count = len(self.connected_networks)
        if not 1 <= count <= MAXIMUM_NETWORKS:
            raise LocalProtocolError(f"ConnectedNetworkCount: {count} is not within 1 to {MAXIMUM_NETWORKS}")
        if self.connected_network_mask and self.connected_network_mask.bit_count() != count:
            raise LocalProtocolError("ConnectedNetworkMask: has not one bit for each network")
        if (self.responding_site_id is None) == bool(self.servers):
            raise LocalProtocolError("RespondingSiteID: is there exactly when servers are listed")
        text = b"".join(_server_text(self.servers))
        TopologyPacketHeader(TopologyPacketType.SERVER_REPLY).write(writer)
        writer.guid(self.correlation_id)
        writer.u32(count, "ConnectedNetworkCount")
        writer.u32(self.connected_network_mask, "ConnectedNetworkMask")
        writer.u32(len(text), "DirectoryServiceServerSize")
        for network in self.connected_networks:
            writer.guid(network)
        if self.responding_site_id is not None:
            writer.guid(self.responding_site_id)
            writer.bytes(text)


def read_topology_packet(data: bytes) -> TopologyClientRequest | TopologyServerReply:
    """Read one datagram as the packet that its Type announces. [MS-MQSD] 2.2.1.

    @raise RemoteProtocolError: it is neither a request nor a reply.
    """
    if TopologyPacketHeader.read(Reader(data)).type is TopologyPacketType.CLIENT_REQUEST:
        return TopologyClientRequest.from_bytes(data)
    return TopologyServerReply.from_bytes(data)


def _read_count(reader: Reader, field: str) -> int:
    start = reader.position
    count = reader.u32(field)
    if not 1 <= count <= MAXIMUM_NETWORKS:
        raise reader.malformed(field, f"{count} is not within 1 to {MAXIMUM_NETWORKS}", offset=start)
    return count


def _read_servers(reader: Reader, size: int) -> tuple[DirectoryServer, ...]:
    field = "DirectoryServiceServerArray"
    start = reader.position
    text = reader.bytes(size, field).decode("utf-16-le", "surrogatepass")
    if not text.endswith("\0"):
        raise reader.malformed(field, "does not end with a NUL", offset=start)
    servers = []
    for entry in text.split("\0", 1)[0].split(","):
        if len(entry) < 3 or entry[0] not in "01" or entry[1] not in "01":
            raise reader.malformed(field, "an entry is not two flags 0 or 1 and a name", offset=start)
        servers.append(DirectoryServer(entry[2:], entry[0] == "1", entry[1] == "1"))
    return tuple(servers)


def is_server_name(name: str) -> bool:
    """Whether a server list can have this name: commas separate its entries, and a NUL ends it."""
    return bool(name) and "," not in name and "\0" not in name


def _server_text(servers: tuple[DirectoryServer, ...]) -> list[bytes]:
    if not servers:
        return []
    entries = []
    for server in servers:
        if not is_server_name(server.name):
            raise LocalProtocolError(
                f"DirectoryServiceServerArray: {quoted(server.name)} is not a server name"
            )
        entries.append(f"{server.supports_ip:d}{server.supports_ipx:d}{server.name}")
    return [(",".join(entries) + "\0").encode("utf-16-le", "surrogatepass")]
