"""Keytabs as bytes, by MIT Kerberos' description of the format."""

from __future__ import annotations

import struct

AES256: int = 18
"""RFC 3962 7 the encryption type aes256-cts-hmac-sha1-96."""


def keytab_entry(principal: str, key: bytes = b"k" * 32, version: int = 1) -> bytes:
    """One entry with its size in front."""
    name, _, realm = principal.rpartition("@")
    parts = [realm.encode(), *(part.encode() for part in name.split("/"))]
    entry = struct.pack(">H", len(parts) - 1)
    entry += b"".join(struct.pack(">H", len(part)) + part for part in parts)
    entry += struct.pack(">IIBHH", 1, 0, version & 0xFF, AES256, len(key)) + key + struct.pack(">I", version)
    return struct.pack(">i", len(entry)) + entry


def keytab(*entries: bytes) -> bytes:
    """A keytab of version 2."""
    return b"\x05\x02" + b"".join(entries)
