"""The worked examples of the documents, byte for byte: one file per packet, with its address."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

INITIATOR = UUID("557358D1-9150-9595-4997-B6E611EA26C6")
"""The queue manager that dials in the worked examples of [MS-MQQB]."""
INITIATOR_HEX = "d1587355509195954997b6e611ea26c6"
"""Its bytes on the wire."""
ACCEPTOR = UUID("43CD8907-394C-8F11-4445-9078909EA0FC")
"""The queue manager that is dialled there."""


def vector(name: str) -> bytes:
    """The bytes of C{name}.hex next to this module; lines that begin with C{#} are comments."""
    lines = (Path(__file__).parent / f"{name}.hex").read_text(encoding="ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
