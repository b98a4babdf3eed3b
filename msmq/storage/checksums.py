"""Checksums of database rows: the packet and the other columns.

The checksum of a packet is its CRC-32.
The checksum of the row of a message is a sum, modulo a prime, of a multiple of each of its values; any
single wrong bit changes it.  A database computes it itself, and because it is a sum, a move changes it by a
difference: a row that was damaged before the move is still damaged after it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final
from zlib import crc32

PRIME: Final = (1 << 31) - 1
"""Modulus of the sum: a prime, so that any flipped bit of a value changes the sum."""

TICKS: Final = 1 << 22
"""Units per second in which an ArrivalTime enters the sum: 1/4,194,304 s."""

_NO_DUE: Final = 1_234_567
_LIMIT: Final = (1 << 63) - 1

_PLACE: Final = {"queue": 912_271, "lookup_id": 747_953, "due": 585_727, "aborts": 403_831, "moves": 271_829}
"""Factor of each column; a move changes only some columns."""
_SIZE: Final = 824_633
_PACKET: Final = 649_321
_CHECKSUM: Final = 536_441
_ARRIVED: Final = 314_159

_ENTRY: Final = struct.Struct("<qqqd")
_EVENT: Final = struct.Struct("<qdq")
_LENGTH: Final = struct.Struct("<q")


def message_sum(
    queue: int,
    lookup_id: int,
    size: int,
    arrived: float,
    packet: int,
    due: int | None,
    aborts: int,
    moves: int,
    checksum: int,
) -> int:
    """Compute the checksum of a message row; equal to L{sum_in_sql}.

    @param queue: the row of the queue.
    @param lookup_id: in stored form, signed.
    @param packet: the number of the packet.
    @param checksum: of the packet.
    """
    return (
        queue * _PLACE["queue"]
        + lookup_id * _PLACE["lookup_id"]
        + (_NO_DUE if due is None else due) * _PLACE["due"]
        + aborts * _PLACE["aborts"]
        + moves * _PLACE["moves"]
        + size * _SIZE
        + packet * _PACKET
        + checksum * _CHECKSUM
        + _ticks(arrived) * _ARRIVED
    ) % PRIME


def sum_in_sql(arrived: str, *, packet: str | None, integer: str = "") -> str:
    """SQL expression of the checksum of a row of the table C{message}.

    @param arrived: an expression for the ArrivalTime as an integer.
    @param packet: the column with the number of the packet, if there is one.
    @param integer: the type for the products, in databases whose integers overflow.
    """
    terms = [
        *_place_terms("", {}, integer),
        _term("size", _SIZE, integer),
        _term("checksum", _CHECKSUM, integer),
    ]
    terms.append(_term(arrived, _ARRIVED, integer))
    if packet is not None:
        terms.append(_term(packet, _PACKET, integer))
    return _normal(" + ".join(terms))


def sum_after_move(row: str, change: Mapping[str, str], integer: str = "") -> str:
    """SQL expression of the checksum of a row after some of its values change.

    @param row: the alias of the updated row.
    @param change: by changed column, the expression of its new value.
    """
    changed = {column: factor for column, factor in _PLACE.items() if column in change}
    before = " + ".join(_place_terms(f"{row}.", {}, integer, changed))
    after = " + ".join(_place_terms("", change, integer, changed))
    return _normal(f"{row}.row_checksum % {PRIME} + ({after}) - ({before})")


def entry_checksum(queue: int, sequence: int, lookup_id: int, arrived: float, packet: bytes) -> int:
    """Checksum of a message log entry, over its whole row."""
    return crc32(packet, crc32(_ENTRY.pack(queue, sequence, lookup_id, arrived)))


def event_checksum(
    sequence: int, time: float, message_class: int, identity: bytes, event: bytes, reason: bytes, queue: bytes
) -> int:
    """Checksum of an event, over its whole row; texts as UTF-8 with surrogates passed."""
    return record_checksum(_EVENT.pack(sequence, time, message_class), identity, event, reason, queue)


def queue_checksum(row: int, identifier: bytes, definition: bytes) -> int:
    """The checksum of the row of a queue."""
    return record_checksum(row.to_bytes(8, "little", signed=True), identifier, definition)


def record_checksum(*parts: bytes) -> int:
    """Checksum of several byte strings, each with its length."""
    found = 0
    for part in parts:
        found = crc32(part, crc32(_LENGTH.pack(len(part)), found))
    return found


def _ticks(arrived: float) -> int:
    """Convert as SQLite casts: towards zero, within 64 bits."""
    try:
        return max(-_LIMIT - 1, min(_LIMIT, int(arrived * TICKS)))
    except OverflowError:
        return _LIMIT if arrived > 0 else -_LIMIT - 1


def _place_terms(
    prefix: str, change: Mapping[str, str], integer: str, factors: Mapping[str, int] = _PLACE
) -> list[str]:
    terms = []
    for column, factor in factors.items():
        value = change.get(column, f"{prefix}{column}")
        terms.append(_term(f"coalesce({value}, {_NO_DUE})" if column == "due" else value, factor, integer))
    return terms


def _term(value: str, factor: int, integer: str) -> str:
    left = f"({value} % {PRIME})"
    return f"{left}{f'::{integer}' if integer else ''} * {factor}"


def _normal(total: str) -> str:
    return f"((({total}) % {PRIME} + {PRIME}) % {PRIME})"
