"""Limit on the memory of incomplete and unprocessed packets of all sessions.

A packet may have 4 MiB, and each of thousands of peers may have sent all of one but its last byte.
So the sessions report what they hold, and once that is more than the limit those that would hold more than
a little are read from no further; the kernel then makes their peers wait.

Nothing can stand still for ever by that:

- One of those that wait is favoured: it goes on until its packet is done with, then the next one does, in
  the order in which they had to stop.  A packet larger than the limit is received likewise.
- A peer that had to stop has more to send, so it shows at once when it is favoured.  Who does not goes
  behind all others, unless it has begun to use the room that is kept for the favoured.
- While a session waits for memory, a peer that did not send L{LEAST_RECEIVED} bytes in
  L{STALL_TIME} loses its session, until the rest fits: of the host that holds most with those, the one that
  holds most.

The total is at most the limit, one packet, and 80 KiB for each session.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.wire.addresses import counted_host

STALL_TIME: Final = 10.0
"""Seconds in which a peer has to send something while memory is short."""

LEAST_RECEIVED: Final = 64 * 1024
"""Bytes that it has to send in that time, or else the end of its packet."""

LITTLE: Final = 16 * 1024
"""Bytes that a session may always hold, so that small messages pass whatever others do."""

LARGEST_READ: Final = 64 * 1024
"""Bytes that a session may get beyond that before it can be stopped."""

TURN: Final = 0.25
"""Seconds between two checks for stalled peers."""


class Holder(Protocol):
    """What this module needs of a session."""

    received: int
    """Bytes that its peer has sent so far."""

    remote_address: str
    """Where its peer is."""

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for something else than its peer."""

    def stop_reading(self) -> None:
        """Take nothing more from the connection."""

    def go_on_reading(self) -> None:
        """Take again what comes."""

    def end_stalled(self) -> None:
        """End: its peer stands still while others have no room."""


@attrs.define(eq=False)
class _Held:
    """What one session holds.

    @ivar seen: what it had received at the last look.
    @ivar silent_since: when it first was free to go on and did not; C{None} while it does.
    @ivar mark: what it had received then.
    """

    size: int
    seen: int
    silent_since: float | None = None
    mark: int = 0


class ReceiveMemory:
    """How much all sessions hold of what they receive.

    @param limit: bytes.
    @ivar used: bytes that are held now.
    @ivar peak: the most that were ever held.
    """

    def __init__(self, limit: int, reactor: IReactorTime) -> None:
        self._limit = limit
        self._reactor = reactor
        self._held: dict[Holder, _Held] = {}
        # Those that were stopped, in the order in which they were.
        self._stopped: dict[Holder, None] = {}
        self._favoured: Holder | None = None
        self._favoured_from = 0
        self._look: IDelayedCall | None = None
        self.used = 0
        self.peak = 0

    def configure(self, limit: int) -> None:
        """Apply another limit, in bytes, from the next change on."""
        self._limit = limit

    @property
    def stopped(self) -> int:
        """How many sessions are not read from."""
        return len(self._stopped)

    def changed(self, holder: Holder, size: int) -> None:
        """Record the bytes that a session holds now; 0 when it has ended."""
        held = self._held.get(holder)
        before = 0 if held is None else held.size
        if held is None:
            held = self._held[holder] = _Held(0, holder.received)
        held.size = size
        self.used += size - before
        self.peak = max(self.peak, self.used)
        if size < before and holder is self._favoured:
            self._favoured = None
        if not size:
            del self._held[holder]
            if holder in self._stopped:
                del self._stopped[holder]
                holder.go_on_reading()
        elif size > LITTLE and self.used > self._limit and holder is not self._favoured:
            self._stop(holder)
        if self._stopped:
            self._let_go()

    def _let_go(self) -> None:
        """Resume the sessions for which there is memory, and the favoured one in any case."""
        room = self._limit - self.used
        while self._stopped and room > 0:
            self._release(next(iter(self._stopped)))
            room -= LARGEST_READ
        if self._stopped and self._favoured is None:
            self._favoured = next(
                (holder for holder in self._stopped if self._held[holder].silent_since is None),
                next(iter(self._stopped)),
            )
            self._favoured_from = self._held[self._favoured].size
            self._release(self._favoured)
        if self._look is None and self._stopped:
            self._look = self._reactor.callLater(TURN, self._watch)

    def _stop(self, holder: Holder) -> None:
        if holder not in self._stopped:
            self._stopped[holder] = None
            holder.stop_reading()

    def _release(self, holder: Holder) -> None:
        del self._stopped[holder]
        self._held[holder].seen = holder.received
        holder.go_on_reading()

    def _watch(self) -> None:
        """End those that stand still, while others have to wait for them."""
        self._look = None
        favoured = self._favoured
        is_wasted = favoured is not None and self._has_not_begun(favoured)
        for holder in _greediest_first(self._stalled()):
            if self.used <= self._limit or not self._stopped:
                break
            holder.end_stalled()
        if is_wasted and favoured is self._favoured and favoured is not None:
            self._favoured = None
            self._stop(favoured)
        if self._stopped:
            self._let_go()

    def _has_not_begun(self, favoured: Holder) -> bool:
        return not favoured.is_suspended and self._held[favoured].size == self._favoured_from

    def _stalled(self) -> list[tuple[_Held, Holder]]:
        """Those that were free to go on and did not for too long."""
        now = self._reactor.seconds()
        stalled = []
        for holder, held in self._held.items():
            if holder in self._stopped or holder.is_suspended:
                continue
            if held.silent_since is None:
                if held.seen == holder.received:
                    held.silent_since, held.mark = now, holder.received
            elif holder.received - held.mark >= LEAST_RECEIVED:
                held.silent_since = None
            elif now - held.silent_since >= STALL_TIME:
                stalled.append((held, holder))
            held.seen = holder.received
        return stalled


def _greediest_first(stalled: Iterable[tuple[_Held, Holder]]) -> Iterator[Holder]:
    """In which order sessions end: always one of the host that holds most with those that are left."""
    by_host: dict[str, list[tuple[int, Holder]]] = {}
    for held, holder in stalled:
        by_host.setdefault(counted_host(holder.remote_address), []).append((held.size, holder))
    hosts = []
    for number, sessions in enumerate(by_host.values()):
        sessions.sort(key=itemgetter(0))
        hosts.append((-sum(size for size, _ in sessions), number, sessions))
    heapq.heapify(hosts)
    while hosts:
        total, number, sessions = hosts[0]
        size, holder = sessions.pop()
        if sessions:
            heapq.heapreplace(hosts, (total + size, number, sessions))
        else:
            heapq.heappop(hosts)
        yield holder
