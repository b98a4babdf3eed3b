"""The frames that the benchmarks move, made from the byte layouts alone."""

from __future__ import annotations

import struct

SESSION_ACK_EVERY = 32
"""Messages to an acknowledgement: half of the usual window."""
WINDOW = 64
"""WindowSize, as peers advertise it."""

_SIGNATURE = 0x524F494C
_SOURCE = bytes(range(16))


def user_message(body_size: int = 1024, *, queue: str = "OS:beta\\private$\\orders") -> bytes:
    """[MS-MQMQ] 2.2.20 UserMessage of an express message to a direct format name, with a label."""
    name = (queue + "\0").encode("utf-16-le")
    names = struct.pack("<H", len(name)) + name
    names += bytes(-len(names) % 4)
    label = "order 4711\0".encode("utf-16-le")
    # The destination is direct (DQ = 7), and there is a MessagePropertiesHeader (MP).
    user_flags = 7 << 10 | 1 << 21
    user = struct.pack("<16s16sIIII", _SOURCE, bytes(16), 0xFFFFFFFF, 1_700_000_000, 17, user_flags) + names
    properties = struct.pack(
        "<BBH20sIIIIIIII", 0, len(label) // 2, 0, bytes(20), 0, 0, body_size, body_size, 0, 0, 0, 0
    )
    rest = user + properties + label + bytes(body_size)
    rest += bytes(-len(rest) % 4)
    return struct.pack("<BBHIII", 0x10, 0, 3, _SIGNATURE, 16 + len(rest), 0xFFFFFFFF) + rest


def session_ack(received: int) -> bytes:
    """[MS-MQQB] 2.2.6 SessionAck, 36 bytes."""
    base = struct.pack("<BBHIII", 0x10, 0, 0x001B, _SIGNATURE, 36, 0xFFFFFFFF)
    return base + struct.pack("<HH", 0, 1) + struct.pack("<HHIHHHH", received & 0xFFFF, 0, 0, 0, 0, WINDOW, 0)


def establish_connection(client: bytes, server: bytes) -> bytes:
    """[MS-MQQB] 2.2.3 EstablishConnection, 572 bytes, from and to these GUIDs of 16 bytes."""
    base = struct.pack("<BBHIII", 0x10, 0, 0x000B, _SIGNATURE, 572, 0xFFFFFFFF)
    return base + struct.pack("<HH", 0, 2) + client + server + struct.pack("<IHH", 0, 0x0110, 0) + bytes(512)


def connection_parameters() -> bytes:
    """[MS-MQQB] 2.2.2 ConnectionParameters, 32 bytes."""
    base = struct.pack("<BBHIII", 0x10, 0, 0x000B, _SIGNATURE, 32, 0xFFFFFFFF)
    return base + struct.pack("<HH", 0, 3) + struct.pack("<IIHH", 500, 20000, 0, WINDOW)
