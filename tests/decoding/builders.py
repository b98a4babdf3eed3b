"""Capture files, written naively and independently of what reads them."""

from __future__ import annotations

from ipaddress import ip_address
from struct import pack


def ip(
    source: str, destination: str, protocol: int, payload: bytes, *, more_fragments: bool = False
) -> bytes:
    """An IPv4 or IPv6 packet."""
    here, there = ip_address(source), ip_address(destination)
    if here.version == 6:
        return pack(">IHBB", 6 << 28, len(payload), protocol, 64) + here.packed + there.packed + payload
    flags = 0x2000 if more_fragments else 0
    fixed = pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, flags, 64, protocol, 0)
    return fixed + here.packed + there.packed + payload


def tcp(
    source: tuple[str, int],
    destination: tuple[str, int],
    sequence: int,
    payload: bytes = b"",
    *,
    syn: bool = False,
) -> bytes:
    """An IP packet with a TCP segment."""
    flags = 0x5000 | (0x02 if syn else 0x18)
    header = pack(">HHIIHHHH", source[1], destination[1], sequence & 0xFFFFFFFF, 0, flags, 0xFFFF, 0, 0)
    return ip(source[0], destination[0], 6, header + payload)


def udp(source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> bytes:
    """An IP packet with a UDP datagram."""
    header = pack(">HHHH", source[1], destination[1], 8 + len(payload), 0)
    return ip(source[0], destination[0], 17, header + payload)


def link(link_type: int, packet: bytes) -> bytes:
    """A frame of the link type with the IP packet in it; a short one is padded as on a wire."""
    ether_type = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    if link_type == 1:
        return (bytes(12) + ether_type + packet).ljust(60, b"\xee")
    if link_type == 113:
        return bytes(14) + ether_type + packet
    if link_type == 276:
        return ether_type + bytes(18) + packet
    if link_type == 0:
        return (b"\x1e\0\0\0" if packet[0] >> 4 == 6 else b"\x02\0\0\0") + packet
    return packet


def pcap(
    frames: list[bytes],
    link_type: int = 1,
    *,
    order: str = "<",
    nanoseconds: bool = False,
    first: float = 1e9,
) -> bytes:
    """A pcap file whose frames are a millisecond apart."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    data = pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)
    for number, frame in enumerate(frames):
        fraction = number * (1_000_000 if nanoseconds else 1_000)
        data += pack(order + "IIII", int(first), fraction, len(frame), len(frame)) + frame
    return data


def block(order: str, kind: int, body: bytes) -> bytes:
    """A block of a pcapng file."""
    body += bytes(-len(body) % 4)
    length = pack(order + "I", 12 + len(body))
    return pack(order + "I", kind) + length + body + length


def pcapng(frames: list[tuple[int, bytes]], link_types: list[int], *, order: str = "<") -> bytes:
    """A pcapng file with nanosecond interfaces; each frame names its interface."""
    data = block(order, 0x0A0D0D0A, pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    for link_type in link_types:
        option = pack(order + "HHBxxx", 9, 1, 9) + pack(order + "HH", 0, 0)
        data += block(order, 1, pack(order + "HHI", link_type, 0, 65535) + option)
    data += block(order, 5, bytes(12))
    for number, (interface, frame) in enumerate(frames):
        time = 1_000_000_000_000_000_000 + number * 1_000_000
        fixed = pack(order + "IIIII", interface, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame))
        data += block(order, 6, fixed + frame)
    return data
