"""The worked examples of the documents, byte for byte: one file per packet, with its address."""

from __future__ import annotations

from pathlib import Path


def vector(name: str) -> bytes:
    """The bytes of C{name}.hex beside this module; lines that begin with C{#} say what they are."""
    lines = (Path(__file__).parent / f"{name}.hex").read_text(encoding="ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
