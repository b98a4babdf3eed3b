"""One direction of a captured TCP connection: its bytes, in order and each once."""

from __future__ import annotations

from heapq import heappop, heappush

import attrs

LARGEST_BACKLOG = 4 * 1024 * 1024
"""Bytes held behind a hole before the hole is given up; more than a TCP window commonly leaves open."""

_HALF = 0x80000000
_MASK = 0xFFFFFFFF


@attrs.frozen
class Piece:
    """What comes next in the stream: C{missing} bytes that the capture does not have, then C{data}."""

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
        """Take a segment whose first byte has this sequence number; give what can now be read."""
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
        """Wait for nothing any more: give all that is held, with the holes before it."""
        pieces: list[Piece] = []
        while self._held:
            missing = max(self._held[0][0] - self._position, 0)
            self._position += missing
            pieces += self._follow([], missing)
        return pieces

    def _follow(self, parts: list[bytes], missing: int) -> list[Piece]:
        """Give C{parts}, and what is held right behind them."""
        self._position += sum(map(len, parts))
        while self._held and self._held[0][0] <= self._position:
            start, data = heappop(self._held)
            self._held_bytes -= len(data)
            rest = data[self._position - start :]
            parts.append(rest)
            self._position += len(rest)
        joined = b"".join(parts)
        return [Piece(missing, joined)] if joined else []
