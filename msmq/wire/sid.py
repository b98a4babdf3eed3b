"""SIDs: identifiers of accounts, as bytes and as text. [MS-DTYP] 2.4.2."""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from msmq.quoting import quoted

_HEAD: Final = Struct(">BBHI")
_MOST_SUB_AUTHORITIES: Final = 15
_TEXT: Final = re.compile(r"S-1-(0x[0-9A-Fa-f]{12}|[0-9]{1,15})((?:-[0-9]{1,10})*)", re.ASCII)


def format_sid(data: bytes) -> str:
    """The text of a SID, such as C{S-1-5-32-544}.

    An authority of 2**32 or more is printed as twelve hex digits ([MS-DTYP] 2.4.2.1).

    @raise ValueError: these bytes are not a SID.
    """
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes are not a SID")
    revision, count, high, low = _HEAD.unpack_from(data)
    if revision != 1 or count > _MOST_SUB_AUTHORITIES or len(data) != _HEAD.size + 4 * count:
        raise ValueError(f"{len(data)} bytes with revision {revision} and {count} parts are not a SID")
    authority = f"0x{high:04X}{low:08X}" if high else str(low)
    return "-".join(["S-1", authority, *(str(part) for part in Struct(f"<{count}I").unpack_from(data, 8))])


def parse_sid(text: str) -> bytes:
    """The bytes of a SID.

    @raise ValueError: the text is not a SID of revision 1.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a SID: {quoted(text)}")
    authority = int(match[1], 16 if match[1].startswith("0x") else 10)
    parts = [int(part) for part in match[2].split("-")[1:]]
    if authority >= 1 << 48 or len(parts) > _MOST_SUB_AUTHORITIES or max(parts, default=0) > 0xFFFFFFFF:
        raise ValueError(f"not a SID: {quoted(text)}")
    head = _HEAD.pack(1, len(parts), authority >> 32, authority & 0xFFFFFFFF)
    return head + Struct(f"<{len(parts)}I").pack(*parts)
