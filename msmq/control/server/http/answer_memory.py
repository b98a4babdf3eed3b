"""Memory of the packets in answers whose readers have not read them yet, over all connections."""

from __future__ import annotations

from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

_INTERVAL: Final = 1.0
"""Seconds after which readers are examined again while answers wait."""


class PacketAnswer(Protocol):
    """An answer that holds packets until its reader has read them."""

    @property
    def is_behind(self) -> bool:
        """Whether the reader has many bytes still to read."""

    def cut(self) -> None:
        """Close the connection at once."""


@attrs.define
class _Holding:
    """What one answer holds.

    @ivar since: when its reader last read something, in seconds of the monotonic clock.
    """

    size: int
    since: float


class AnswerMemory:
    """Limits the bytes of the packets that answers hold together, by loading no further ones.

    An answer waits in L{room} before it loads packets, and says with L{take} how many bytes it has loaded.
    So the total exceeds the limit by one load of each connection at most.
    While others wait, answers whose readers have read nothing for some time are cut, the longest first.

    @param limit: in bytes.
    @param patience: how long a reader may read nothing while others wait for memory, in seconds.
    @ivar used: bytes that are held.
    """

    def __init__(self, limit: int, patience: float, clock: IReactorTime) -> None:
        self._limit = limit
        self._patience = patience
        self._clock = clock
        self.used = 0
        self._held: dict[PacketAnswer, _Holding] = {}
        self._waiting: dict[Deferred[None], None] = {}
        self._is_watched = False

    async def room(self) -> None:
        """Wait until answers hold no more than the limit."""
        while self.used > self._limit:
            waiting: Deferred[None] = Deferred(lambda cancelled: self._waiting.pop(cancelled, None))
            self._waiting[waiting] = None
            self._watch()
            await waiting

    def take(self, answer: PacketAnswer, size: int) -> None:
        """An answer has loaded packets of this size, in addition to those that it holds."""
        holding = self._held.setdefault(answer, _Holding(0, 0.0))
        holding.size += size
        holding.since = self._clock.seconds()
        self.used += size

    def read(self, answer: PacketAnswer) -> None:
        """The reader of an answer has read something."""
        if answer in self._held:
            self._held[answer].since = self._clock.seconds()

    def release(self, answer: PacketAnswer) -> None:
        """An answer holds no packets any more; may be called again."""
        holding = self._held.pop(answer, None)
        if holding is None:
            return
        self.used -= holding.size
        if self.used <= self._limit:
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                # One that goes on may have cancelled another.
                if not each.called:
                    each.callback(None)

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._clock.callLater(_INTERVAL, self._cut_longest_behind)

    def _cut_longest_behind(self) -> None:
        """Cut answers until those left are within the limit; the connections report their end later."""
        self._is_watched = False
        if not self._waiting:
            return
        self._watch()
        surplus = self.used - self._limit
        last = self._clock.seconds() - self._patience
        behind = [
            (holding.since, number, answer, holding.size)
            for number, (answer, holding) in enumerate(self._held.items())
            if answer.is_behind and holding.since <= last
        ]
        for _, _, answer, size in sorted(behind):
            if surplus <= 0:
                break
            surplus -= size
            answer.cut()
