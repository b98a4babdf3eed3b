"""A second, naive encoder of packets, so that no codec is tested with itself.

Written from the byte layouts alone, with nothing of the package in it.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any
from uuid import UUID

ALPHA = UUID("a1fa0000-0000-4000-8000-000000000001")
BETA = UUID("be7a0000-0000-4000-8000-000000000002")
GAMMA = UUID("6a33a000-0000-4000-8000-000000000003")
NULL = UUID(int=0)


def base_header(flags: int, size: int, time_to_reach_queue: int = 0xFFFFFFFF) -> bytes:
    """[MS-MQMQ] 2.2.19.1."""
    return struct.pack("<BBHIII", 0x10, 0, flags, 0x524F494C, size, time_to_reach_queue)


def establish(
    client: UUID,
    server: UUID = NULL,
    *,
    time_stamp: int = 0,
    operating_system: int = 0x0110,
    refused: bool = False,
    padding: bytes = b"\x5a" * 512,
) -> bytes:
    """[MS-MQQB] 2.2.3, 572 bytes."""
    return (
        base_header(0x000B, 572)
        + struct.pack("<HH", 0, 0x0012 if refused else 0x0002)
        + client.bytes_le
        + server.bytes_le
        + struct.pack("<IHH", time_stamp, operating_system, 0)
        + padding
    )


def established(client: UUID, server: UUID, **fields: Any) -> bytes:
    """[MS-MQQB] 2.2.3, the response, as in frame 4 of 4.1: Reserved of the BaseHeader is 0x5A."""
    packet = establish(client, server, **fields)
    return packet[:1] + b"\x5a" + packet[2:]


def parameters(
    recoverable_ack_timeout: int = 500,
    ack_timeout: int = 20000,
    window_size: int = 64,
    *,
    refused: bool = False,
) -> bytes:
    """[MS-MQQB] 2.2.2, 32 bytes."""
    return (
        base_header(0x000B, 32)
        + struct.pack("<HH", 0, 0x0013 if refused else 0x0003)
        + struct.pack("<IIHH", recoverable_ack_timeout, ack_timeout, 0, window_size)
    )


def session_header(
    received: int = 0,
    sent: int = 0,
    *,
    recoverable_base: int = 0,
    recoverable_flags: int = 0,
    recoverable_sent: int = 0,
    window_size: int = 64,
) -> bytes:
    """[MS-MQMQ] 2.2.20.4, 16 bytes."""
    return struct.pack(
        "<HHIHHHH", received, recoverable_base, recoverable_flags, sent, recoverable_sent, window_size, 0
    )


def session_ack(header: bytes) -> bytes:
    """[MS-MQQB] 2.2.6, 36 bytes."""
    return base_header(0x001B, 36) + struct.pack("<HH", 0, 0x0001) + header


def direct_name(text: str) -> bytes:
    """[MS-MQMQ] 2.2.18.1.5.2 a DirectQueueFormatName, padded to four bytes; lone surrogates are kept."""
    encoded = (text + "\0").encode("utf-16-le", "surrogatepass")
    name = struct.pack("<H", len(encoded)) + encoded
    return name + b"\0" * (-len(name) % 4)


def user_packet(
    body: bytes = b"",
    *,
    destination: str = "OS:beta\\private$\\orders",
    label: str = "",
    recoverable: bool = False,
    priority: int = 3,
    message_id: int = 1,
    source: UUID = ALPHA,
    sent_time: int = 0,
    user_flags: int = 0,
    header: bytes | None = None,
    header_is_counted: bool = False,
    private_number: int | None = None,
    queue_manager: UUID = NULL,
) -> bytes:
    """[MS-MQMQ] 2.2.20: a message to a direct name, or to a private queue of the destination.

    @param header: a SessionHeader to attach.
    @param header_is_counted: whether PacketSize counts it, as some peers do.
    """
    flags = 0x00200000 | user_flags | (0x20 if recoverable else 0)
    if private_number is None:
        name = direct_name(destination)
        flags |= 7 << 10
    else:
        name = struct.pack("<I", private_number)
        flags |= 3 << 10
    user = source.bytes_le + queue_manager.bytes_le
    user += struct.pack("<IIII", 0xFFFFFFFF, sent_time, message_id, flags) + name
    text = (label + "\0").encode("utf-16-le", "surrogatepass") if label else b""
    properties = struct.pack("<BBH", 0, len(text) // 2, 0) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0x800E, 0x6610, 0)
    properties += text + body
    properties += b"\0" * (-len(properties) % 4)
    size = 16 + len(user) + len(properties)
    attached = header or b""
    base = base_header(
        priority | (0x10 if header is not None else 0),
        size + (len(attached) if header_is_counted else 0),
    )
    return base + user + properties + attached


_NUMBERS = itertools.count(1_000_000)


def numbered_packet(body: bytes = b"", *, message_id: int | None = None, **kwargs: Any) -> bytes:
    """The same with a MessageID that no other has: one that came before is not delivered."""
    return user_packet(body, message_id=next(_NUMBERS) if message_id is None else message_id, **kwargs)


def patched(packet: bytes, offset: int, replacement: bytes) -> bytes:
    """The packet with other bytes from C{offset} on; its length stays the same."""
    return packet[:offset] + replacement + packet[offset + len(replacement) :]


def with_security(
    packet: bytes,
    security_id: bytes = b"",
    *,
    flags: int | None = None,
    encryption_key: bytes = b"",
    signature: bytes = b"",
    certificate: bytes = b"",
    hash_algorithm: int = 0x800E,
) -> bytes:
    """[MS-MQMQ] 2.2.20.6: a message to a direct name, without a SessionHeader, with a SecurityHeader put in.

    @param flags: by default ST 1 if there is an identifier, and DE and AI if there is more.
    @param hash_algorithm: for the MessagePropertiesHeader.
    """
    user_flags = struct.unpack_from("<I", packet, 60)[0]
    place = 64
    for shift in (10, 13, 16):
        kind = user_flags >> shift & 7
        assert kind in (0, 3, 7), "no other names are used here"
        if kind == 7:
            place += (2 + struct.unpack_from("<H", packet, place)[0] + 3) & ~3
        elif kind == 3:
            place += 4 if shift == 10 else 20
    place += 16 if user_flags & 0x00400000 else 0
    place += 20 if user_flags & 0x00100000 else 0
    if flags is None:
        flags = bool(security_id) | (0xC0 if encryption_key or signature or certificate else 0)
    header = struct.pack(
        "<HHHHII", flags, len(security_id), len(encryption_key), len(signature), len(certificate), 0
    )
    for item in (security_id, encryption_key, signature, certificate):
        header += item + b"\0" * (-len(item) % 4)
    properties = packet[place : place + 44] + struct.pack("<I", hash_algorithm) + packet[place + 48 :]
    size = struct.pack("<I", len(packet) + len(header))
    user_flags = struct.pack("<I", user_flags | 0x00080000)
    return packet[:8] + size + packet[12:60] + user_flags + packet[64:place] + header + properties
