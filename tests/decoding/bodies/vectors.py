"""Bodies that .NET wrote; C{tests/vectors/bodies.cs} says how."""

from __future__ import annotations

from pathlib import Path

from msmq.interfaces.decoding import Body

_FILE = Path(__file__).resolve().parents[2] / "vectors" / "bodies.txt"


def vectors() -> dict[str, Body]:
    """All of them, by their names."""
    found = {}
    for line in _FILE.read_text(encoding="ascii").splitlines():
        name, body_type, data = line.split()
        found[name] = Body(bytes.fromhex(data), int(body_type))
    return found
