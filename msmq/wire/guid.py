"""[MS-DTYP] 2.3.4 GUID: 16 bytes on the wire, the first three fields little-endian."""

from __future__ import annotations

import re
from uuid import UUID

NULL_GUID = UUID(int=0)
"""The GUID of sixteen zero bytes."""

GUID_TEXT = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def guid_from_bytes(data: bytes) -> UUID:
    """The GUID whose wire form is these 16 bytes."""
    return UUID(bytes_le=bytes(data))


def parse_guid(text: str) -> UUID:
    """Read a GUID as people and scripts write it: 8-4-4-4-12 hex digits, with or without braces.

    @raise ValueError: the text is anything else.
    """
    bare = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    if GUID_TEXT.fullmatch(bare) is None:
        raise ValueError(f"not a GUID: {text!r}")
    return UUID(bare)


def format_guid(guid: UUID) -> str:
    """The upper-case form without braces, as the documents print it inside format names."""
    return str(guid).upper()


def braced(guid: UUID) -> str:
    """The upper-case form in braces, as message identifiers print it."""
    return f"{{{str(guid).upper()}}}"
