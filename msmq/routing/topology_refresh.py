"""[MS-MQBR] 3.1.2, 3.1.3 and 3.1.6 refresh of the topology; the last good one stays until then."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.routing.next_hops import NoRoute, next_hops
from msmq.routing.problems import EnterpriseProblem
from msmq.routing.table import EMPTY_TABLE, RoutingTable, routing_table
from msmq.routing.topology import Topology
from msmq.routing.topology_builder import Enterprise

QUERY_TIME: Final = 3600.0
"""[MS-MQBR] 3.1.3 QueueManager Query Timer, in seconds."""

SHORTEST_TIME: Final = 60.0
"""Minimum seconds between two readings because a message has no route."""


@attrs.frozen
class RoutingTimes:
    """How long routing waits, in seconds.

    @ivar query: [MS-MQBR] 3.1.2.1 QueueManager Query Timer.
    @ivar shortest: between two readings that were not due.
    """

    query: float = QUERY_TIME
    shortest: float = SHORTEST_TIME


@attrs.frozen
class RoutingSnapshot:
    """An enterprise that was read, and the routing table that one queue manager made of it.

    @ivar own: QueueManager.Identifier of that queue manager.
    """

    own: UUID
    enterprise: Enterprise = attrs.field(factory=lambda: Enterprise(Topology()))
    table: RoutingTable = EMPTY_TABLE

    @classmethod
    def of(cls, enterprise: Enterprise, own: UUID) -> RoutingSnapshot:
        """[MS-MQBR] 3.1.3.1 RoutingTable Initialization, with the site gates read again.

        It takes as long as L{routing_table}, so a reactor does it in a thread.
        """
        return cls(own, enterprise, routing_table(enterprise.topology, own))


@attrs.frozen
class ReadTopology:
    """Read all sites, routing links and queue managers, unfiltered, and make a L{RoutingSnapshot} of them.

    Then call L{RoutingCore.topology_read} or L{RoutingCore.reading_failed}, exactly once.
    """


@attrs.frozen
class TopologyTaken:
    """A new routing table takes effect.

    @ivar is_changed: it differs from the previous one, so that messages without a route are tried again.
    """

    snapshot: RoutingSnapshot
    is_changed: bool


@attrs.frozen
class TopologyRefused:
    """What was read is not taken, and what was known before goes on to hold.

    @ivar detail: why, in words.
    @ivar problems: what is wrong with it; empty if it could not be read at all.
    """

    detail: str
    problems: tuple[EnterpriseProblem, ...] = ()


RoutingEffect = ReadTopology | TopologyTaken | TopologyRefused


class RoutingCore:
    """What one queue manager knows of the enterprise, and when it reads it anew.

    A reading with faults does not replace one without: routing keeps the last good one.
    As long as there has been none without, the newest is better than nothing, and what is wrong in it is left
    out.
    A reading that fails changes nothing.

    @ivar snapshot: by which messages are routed.
    @ivar is_reading: a L{ReadTopology} is not answered yet.
    @ivar has_read: the enterprise was read since the start.
    @ivar refused: why the last reading was not taken; C{None} if it was.
    """

    def __init__(self, own: UUID, times: RoutingTimes | None = None) -> None:
        self.snapshot = RoutingSnapshot(own)
        self.is_reading = False
        self.refused: TopologyRefused | None = None
        self._times = times or RoutingTimes()
        self._is_running = False
        self._has_read = False
        self._deadline: float | None = None
        self._last_read: float | None = None

    @property
    def has_read(self) -> bool:
        """See above."""
        return self._has_read

    @property
    def deadline(self) -> float | None:
        """When the QueueManager Query Timer expires, in seconds of the monotonic clock; C{None} if never."""
        return self._deadline

    def start(self, now: Moment) -> list[RoutingEffect]:
        """[MS-MQBR] 3.1.3 Initialization: read the enterprise, and start the timer."""
        self._is_running = True
        return self._read(now)

    def stop(self) -> None:
        """Stop reading; the result of a pending reading is ignored."""
        self._is_running = False
        self.is_reading = False
        self._deadline = None

    def expire(self, now: Moment) -> list[RoutingEffect]:
        """[MS-MQBR] 3.1.6.1 QueueManager Query Timer Event, if the deadline has come."""
        if self._deadline is None or now.monotonic < self._deadline:
            return []
        return self._read(now)

    def refresh(self, now: Moment) -> list[RoutingEffect]:
        """Read now, as requested by an administrator or after a detected change."""
        return self._read(now)

    def route_missing(self, now: Moment) -> list[RoutingEffect]:
        """A message has no route: read the topology again, which may be outdated, at most once a minute."""
        if self._last_read is not None and now.monotonic < self._last_read + self._times.shortest:
            return []
        return self._read(now)

    def topology_read(self, snapshot: RoutingSnapshot, now: Moment) -> list[RoutingEffect]:
        """The enterprise was read to its end."""
        if not self._ended(now):
            return []
        faults = snapshot.enterprise.faults
        if faults and self._has_read and not self.snapshot.enterprise.faults:
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            return self._refuse(TopologyRefused(f"{faults[0]}{more}", snapshot.enterprise.problems))
        is_changed = not self._has_read or (
            snapshot.enterprise.topology != self.snapshot.enterprise.topology
            or snapshot.table != self.snapshot.table
        )
        self._has_read = True
        self.snapshot = snapshot
        self.refused = None
        return [TopologyTaken(snapshot, is_changed)]

    def restored(self, snapshot: RoutingSnapshot) -> list[RoutingEffect]:
        """[MS-MQOD] 2.7.4: what was known before a restart holds until the enterprise is read."""
        if self._has_read or not self._is_running:
            return []
        self.snapshot = snapshot
        return [TopologyTaken(snapshot, True)]

    def reading_failed(self, detail: str, now: Moment) -> list[RoutingEffect]:
        """The enterprise could not be read, or not to its end.

        @param detail: why, in words.
        """
        return self._refuse(TopologyRefused(detail)) if self._ended(now) else []

    def next_hops(self, destination: UUID) -> tuple[UUID, ...]:
        """[MS-MQBR] 3.1.5.1 GetNextHops, from this queue manager.

        @raise NoRoute: there is none, and what was wrong with the last reading; then L{route_missing} is
            worth a call.
        """
        snapshot = self.snapshot
        try:
            return next_hops(snapshot.enterprise.topology, snapshot.own, destination, snapshot.table)
        except NoRoute as missing:
            if self.refused is not None:
                detail = f"{missing.detail}; the last reading was not taken: {self.refused.detail}"
            elif not self._has_read:
                detail = f"{missing.detail}; the enterprise was not read yet"
            else:
                raise
            raise NoRoute(missing.rule, detail) from None

    def _read(self, now: Moment) -> list[RoutingEffect]:
        if not self._is_running or self.is_reading:
            return []
        self.is_reading = True
        self._deadline = None
        self._last_read = now.monotonic
        return [ReadTopology()]

    def _ended(self, now: Moment) -> bool:
        """Restart the timer after a reading, whatever its result; false if its result is no longer needed."""
        if not self.is_reading:
            return False
        self.is_reading = False
        self._deadline = now.monotonic + self._times.query
        return True

    def _refuse(self, refused: TopologyRefused) -> list[RoutingEffect]:
        self.refused = refused
        return [refused]
