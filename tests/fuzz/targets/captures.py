"""Any input of C{msmq decode}."""

from __future__ import annotations

import json

from msmq.decoding.captures import decode


def captures(data: bytes) -> None:
    """A line for each packet, each malformed packet and each gap, and nothing raised.

    The first byte says whether the rest is hex text.
    """
    if not data:
        return
    for record in decode(data[1:], is_hex=bool(data[0] & 1)):
        json.dumps(record).encode("ascii")
