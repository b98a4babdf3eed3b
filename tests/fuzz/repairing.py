"""Gives random bytes the beginning of a packet, so that a fuzzer need not find the signature each time."""

from __future__ import annotations

import struct


def repaired(flags: int, rest: bytes, *, counted: int | None = None) -> bytes:
    """A BaseHeader with these flags before C{rest}, which it counts.

    @param counted: as many bytes of C{rest} are counted instead.
    """
    size = 16 + (len(rest) if counted is None else counted)
    return struct.pack("<BBHIII", 0x10, 0, flags & 0xFFFF, 0x524F494C, size, 0xFFFFFFFF) + rest
