"""TCP reassembly of one direction of a captured connection."""

from __future__ import annotations

from heapq import heappop, heappush

import attrs

LARGEST_BACKLOG = 4 * 1024 * 1024
"""Limit on bytes buffered after a gap before the gap is skipped; more than a common TCP window."""

_HALF = 0x80000000
_MASK = 0xFFFFFFFF


@attrs.frozen
class Piece:
    """The next part of the stream: C{missing} bytes that were not captured, then C{data}."""

    missing: int
    data: bytes = attrs.field(repr=False)


@attrs.define
class TcpDirection:
    """Reassembles segments in order: late ones wait, repeated ones are dropped, gaps are reported.

    @ivar first: the sequence number of the first byte.

    """

    first: int

    _position: int = 0
    _held: list[tuple[int, bytes]] = attrs.field(factory=list, repr=False)
    _held_bytes: int = 0

    def add(self, sequence: int, data: bytes) -> list[Piece]:
        """Add a segment, whose first byte has this sequence number; returns the parts now in order."""
        distance = sequence - self.first - self._position
        ahead = ((distance + _HALF) & _MASK) - _HALF
        if ahead > 0:
            if data:
                heappush(self._held, (self._position + ahead, data))
                self._held_bytes += len(data)
            return self.give_up() if self._held_bytes > LARGEST_BACKLOG else []
        fresh = data[-ahead:]
        return self._follow([fresh], 0) if fresh else []

    def give_up(self) -> list[Piece]:
        """Return all buffered segments, with the gaps before them."""
        pieces: list[Piece] = []
        while self._held:
            missing = max(self._held[0][0] - self._position, 0)
            self._position += missing
            pieces += self._follow([], missing)
        return pieces

    def _follow(self, parts: list[bytes], missing: int) -> list[Piece]:
        """Return C{parts}, and the buffered segments that follow them directly."""
        self._position += sum(map(len, parts))
        while self._held and self._held[0][0] <= self._position:
            start, data = heappop(self._held)
            self._held_bytes -= len(data)
            rest = data[self._position - start :]
            parts.append(rest)
            self._position += len(rest)
        joined = b"".join(parts)
        return [Piece(missing, joined)] if joined else []
