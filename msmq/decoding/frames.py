"""TCP segments and UDP datagrams in captured frames, extracted by dpkt."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import TypeAlias

import attrs
from dpkt import Packet
from dpkt.ethernet import Ethernet
from dpkt.ip import IP, IP_PROTO_GRE
from dpkt.ip6 import IP6
from dpkt.loopback import Loopback
from dpkt.sll import SLL
from dpkt.sll2 import SLL2
from dpkt.tcp import TCP, TH_SYN
from dpkt.udp import UDP

_LINKS = {0: Loopback, 1: Ethernet, 108: Loopback, 113: SLL, 228: IP, 229: IP6, 276: SLL2}
_RAW_IP = frozenset({12, 14, 101})
_IP6_HEADER = 40
_LARGEST_PACKET = 0xFFFF
_NO_OPERATION = b"\x01"
"""The option of IPv4 and of TCP that is padding."""

Address: TypeAlias = tuple[str, int]
"""An IP address as text, and a port."""


@attrs.frozen
class TcpSegment:
    """The TCP or UDP payload of one frame.

    @ivar data: the payload, as much of it as was captured.
    @ivar sequence: the TCP sequence number of the payload's first byte; C{None} for a UDP datagram.
    @ivar starts: TCP SYN is set: the payload's first byte is the connection's first in this direction.
    """

    source: Address
    destination: Address
    data: bytes = attrs.field(repr=False)
    sequence: int | None = None
    starts: bool = False


def is_known_link(link_type: int) -> bool:
    """Whether frames of this LINKTYPE_ number are understood."""
    return link_type in _LINKS or link_type in _RAW_IP


def read_segment(link_type: int, data: bytes) -> TcpSegment | None:
    """The TCP segment or UDP datagram in a frame; C{None} if it carries something else.

    IP fragments are not reassembled.
    """
    try:
        return _read_segment(link_type, data)
    except Exception:
        # dpkt's parsers raise arbitrary exceptions for a damaged frame, not only their own error.
        return None


def rewritten_frame(
    link_type: int, data: bytes, address: Callable[[str], str], payload: bytes
) -> bytes | None:
    """The IP packet of a frame with another payload and other addresses, and checksums that fit.

    Options of IP and TCP, which can contain addresses, are replaced by padding, and extension headers of IPv6
    are left out.

    @param data: a frame for which L{read_segment} returns a segment.
    @param address: the other address for one.
    @return: C{None} if IP cannot express its length, as that of segments joined by the network card.
    """
    packet = _ip_packet(link_type, data)
    assert packet is not None, "it has a segment"
    carried = packet.data
    if isinstance(carried, TCP):
        carried.opts = _NO_OPERATION * len(carried.opts)
    packet.src = ip_address(address(str(ip_address(packet.src)))).packed
    packet.dst = ip_address(address(str(ip_address(packet.dst)))).packed
    carried.data = payload
    carried.sum = 0
    if isinstance(packet, IP):
        packet.opts = _NO_OPERATION * len(packet.opts)
        packet.sum = 0
    else:
        packet.nxt = packet.p
        packet.extension_hdrs, packet.all_extension_headers = {}, []
    if len(packet) > _LARGEST_PACKET:
        return None
    if isinstance(carried, UDP):
        carried.ulen = len(carried)
    if isinstance(packet, IP6):
        packet.plen = len(packet) - _IP6_HEADER
    return bytes(packet)


def is_tunnelled(link_type: int, data: bytes) -> bool:
    """Whether a frame carries an IP packet whose content is a GRE tunnel."""
    try:
        packet = _ip_packet(link_type, data)
    except Exception:
        return False
    return packet is not None and packet.p == IP_PROTO_GRE


def _ip_packet(link_type: int, data: bytes) -> IP | IP6 | None:
    if link_type in _RAW_IP:
        return IP6(data) if data[0] >> 4 == 6 else IP(data)
    packet = _LINKS[link_type](data)
    while not isinstance(packet, IP | IP6):
        if not isinstance(packet, Packet):
            return None
        packet = packet.data
    return packet


def _read_segment(link_type: int, data: bytes) -> TcpSegment | None:
    packet = _ip_packet(link_type, data)
    if packet is None or (isinstance(packet, IP) and packet.mf):
        return None
    carried = packet.data
    if not isinstance(carried, TCP | UDP):
        return None
    source = str(ip_address(packet.src)), int(carried.sport)
    destination = str(ip_address(packet.dst)), int(carried.dport)
    payload = bytes(carried.data)
    if isinstance(carried, UDP):
        return TcpSegment(source, destination, payload)
    starts = bool(carried.flags & TH_SYN)
    return TcpSegment(source, destination, payload, (carried.seq + starts) & 0xFFFFFFFF, starts)
