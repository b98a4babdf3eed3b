"""Where the fuzzing of queue managers and of the control API begins: a step of each kind, right and wrong."""

from __future__ import annotations

from collections.abc import Iterable

from tests.fuzz.targets.control_requests import ROUTES

_OFFSETS = (2, 8, 12, 16, 40, 56, 60, 64, 90, 100)
"""Of fields: Flags, sizes, identifiers, names, and the headers behind them."""


def queue_managers() -> Iterable[bytes]:
    """Each step among messages of all kinds; each field of a message with another value."""
    messages = bytes((0, 0, 1, 0, 2, 0, 3, 0x84))
    for mode in (0, 1):
        for kind in range(16):
            yield bytes((mode,)) + messages + bytes((kind, 0x47)) + messages + bytes((8, 1)) + messages
    for number, offset in enumerate(_OFFSETS):
        for kind in (0, 1, 2, 3, 5, 7):
            yield bytes((number & 1,)) + messages + bytes((0x80 | kind, 0, offset, 0, 0x21, 1)) + messages


def control_requests() -> Iterable[bytes]:
    """Each route, with its first name and with others, and streams in both directions."""
    for route in range(len(ROUTES)):
        yield bytes((1, route)) + b"\0" * 12
        yield bytes((1, route)) + b"\1\1" * 10
        yield bytes((0, route)) + b"\3\1\2\1\0" * 5 + b"\1\x10\0\x23\7"
    for way in (0, 1):
        yield (
            bytes((4, way, 0, 40, 3))
            + b"\1\1\4abcd\0" * 3
            + b"\0"
            + b"\6\1"
            + bytes((5, 2))
            + b"\1\1\2ab\0" * 2
        )
