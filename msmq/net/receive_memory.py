"""Limit on the memory of incomplete and unprocessed packets of all sessions.

A packet may have 4 MiB, and each of thousands of peers may have sent all of one but its last byte.
So the sessions report what they hold. Beyond the limit, sessions that would hold more than a small amount are
not read any more, and the kernel applies back-pressure to their peers.

Progress is guaranteed:

  - One suspended session is favoured: it continues until its packet is processed, then the next one, in the
    order in which they were suspended.  A packet larger than the limit is received likewise.
  - A suspended peer has more to send, so data comes at once when it is favoured.  One that sends nothing goes
    to the end of the queue, unless it has begun to use the memory reserved for the favoured session.
  - While a session waits for memory, a peer that did not send L{LEAST_RECEIVED} bytes in
    L{STALL_TIME} loses its session, until the rest fits: first the session that holds most, of the host that
    holds most.

The total is at most the limit, one packet, 272 KiB for each session, and 12 MiB for
L{large reads<msmq.net.transports.LargeReads>}.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.net.transports import READ_SIZE
from msmq.wire.addresses import connected_host

STALL_TIME: Final = 10.0
"""Seconds within which a peer has to send L{LEAST_RECEIVED} bytes while memory is short."""

LEAST_RECEIVED: Final = 64 * 1024
"""Bytes that a peer has to send in that time, unless its packet ends before."""

LITTLE: Final = 16 * 1024
"""Bytes that a session may always hold, so that small messages pass regardless of others."""

LARGEST_READ: Final = READ_SIZE
"""Bytes that may arrive beyond that before a session is suspended."""

TURN: Final = 0.25
"""Seconds between two checks for stalled peers."""


class Holder(Protocol):
    """The part of a session that this module uses."""

    received: int
    """Bytes that its peer has sent so far."""

    remote_address: str
    """The address of its peer."""

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for something other than its peer."""

    def stop_reading(self) -> None:
        """Stop reading from the connection."""

    def go_on_reading(self) -> None:
        """Resume reading from the connection."""

    def end_stalled(self) -> None:
        """End the session: its peer stalls while others wait for memory."""


@attrs.define(eq=False)
class _Held:
    """The memory of one session.

    @ivar seen: bytes received at the last check.
    @ivar silent_since: since when it could have continued and did not; C{None} while it does.
    @ivar mark: bytes received at that time.
    """

    size: int
    seen: int
    silent_since: float | None = None
    mark: int = 0


class ReceiveMemory:
    """The memory that all sessions use for received data.

    @param limit: bytes.
    @ivar used: bytes that are held now.
    @ivar peak: the maximum of C{used}.
    """

    def __init__(self, limit: int, reactor: IReactorTime) -> None:
        self._limit = limit
        self._reactor = reactor
        self._held: dict[Holder, _Held] = {}
        # Suspended sessions, in the order of their suspension.
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
        """The number of suspended sessions."""
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
            self._resume_stopped()

    def _resume_stopped(self) -> None:
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
        """End stalled sessions while others wait for memory."""
        self._look = None
        favoured = self._favoured
        is_wasted = favoured is not None and self._has_not_begun(favoured)
        for holder in _largest_first(self._stalled()):
            if self.used <= self._limit or not self._stopped:
                break
            holder.end_stalled()
        if is_wasted and favoured is self._favoured and favoured is not None:
            self._favoured = None
            self._stop(favoured)
        if self._stopped:
            self._resume_stopped()

    def _has_not_begun(self, favoured: Holder) -> bool:
        return not favoured.is_suspended and self._held[favoured].size == self._favoured_from

    def _stalled(self) -> list[tuple[_Held, Holder]]:
        """The sessions that could have continued and did not for too long."""
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


def _largest_first(stalled: Iterable[tuple[_Held, Holder]]) -> Iterator[Holder]:
    """The order in which sessions are ended: always one of the host whose remaining sessions hold most."""
    by_host: dict[str, list[tuple[int, Holder]]] = {}
    for held, holder in stalled:
        by_host.setdefault(connected_host(holder.remote_address), []).append((held.size, holder))
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
