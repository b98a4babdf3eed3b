"""Periodic refresh of the topology from the directory. [MS-MQBR] 3.1.2, 3.1.3, 3.1.6."""

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
"""QueueManager Query Timer, in seconds. [MS-MQBR] 3.1.3."""

SHORTEST_TIME: Final = 60.0
"""Minimum seconds between two reads caused by messages without a route."""


@attrs.frozen
class RoutingTimes:
    """Intervals of topology reads, in seconds.

    @ivar query: [MS-MQBR] 3.1.2.1 QueueManager Query Timer.
    @ivar shortest: minimum between two unscheduled reads.
    """

    query: float = QUERY_TIME
    shortest: float = SHORTEST_TIME


@attrs.frozen
class RoutingSnapshot:
    """An enterprise as read, with the routing table of one queue manager.

    @ivar own: QueueManager.Identifier of that queue manager.
    """

    own: UUID
    enterprise: Enterprise = attrs.field(factory=lambda: Enterprise(Topology()))
    table: RoutingTable = EMPTY_TABLE

    @classmethod
    def of(cls, enterprise: Enterprise, own: UUID) -> RoutingSnapshot:
        """RoutingTable Initialization, with the site gates read again. [MS-MQBR] 3.1.3.1.

        It takes as long as L{routing_table}; call it in a worker thread.
        """
        return cls(own, enterprise, routing_table(enterprise.topology, own))


@attrs.frozen
class ReadTopology:
    """Effect: read all sites, routing links and queue managers, unfiltered, into a L{RoutingSnapshot}.

    Then call L{RoutingCore.topology_read} or L{RoutingCore.reading_failed}, exactly once.
    """


@attrs.frozen
class TopologyTaken:
    """Effect: a new routing table is in use.

    @ivar is_changed: it differs from the previous one, so that messages without a route are retried.
    """

    snapshot: RoutingSnapshot
    is_changed: bool


@attrs.frozen
class TopologyRefused:
    """Effect: the topology that was read is rejected, and the previous one stays in use.

    @ivar detail: why, in words.
    @ivar problems: the problems of the topology; empty if the read failed.
    """

    detail: str
    problems: tuple[EnterpriseProblem, ...] = ()


RoutingEffect = ReadTopology | TopologyTaken | TopologyRefused


class RoutingCore:
    """Topology state of one queue manager, and its refresh schedule.

    A topology with faults does not replace one without: routing keeps the last good one.
    Until there is one without faults the newest is used, without its faulty objects.
    A read that fails changes nothing.
    A change that is reported during a read may be missing from its result, so another read follows.

    @ivar snapshot: the topology and table in use.
    @ivar is_reading: a L{ReadTopology} is pending.
    @ivar has_read: the enterprise was read since the start.
    @ivar refused: why the last read was rejected; C{None} if it was not.
    """

    def __init__(self, own: UUID, times: RoutingTimes | None = None) -> None:
        self.snapshot = RoutingSnapshot(own)
        self.is_reading = False
        self.refused: TopologyRefused | None = None
        self._times = times or RoutingTimes()
        self._is_running = False
        self._has_read = False
        self._is_outdated = False
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
        """Initialization: read the enterprise, and start the timer. [MS-MQBR] 3.1.3."""
        self._is_running = True
        return self._read(now)

    def stop(self) -> None:
        """Stop reading; the result of a pending read is ignored."""
        self._is_running = False
        self.is_reading = self._is_outdated = False
        self._deadline = None

    def expire(self, now: Moment) -> list[RoutingEffect]:
        """QueueManager Query Timer Event, if the deadline has come. [MS-MQBR] 3.1.6.1."""
        if self._deadline is None or now.monotonic < self._deadline:
            return []
        return self._read(now)

    def refresh(self, now: Moment) -> list[RoutingEffect]:
        """Read now, on request of an administrator or after a detected change; after a pending read again."""
        self._is_outdated = self.is_reading
        return self._read(now)

    def route_missing(self, now: Moment) -> list[RoutingEffect]:
        """Handle a message without a route: read the topology again, at most once a minute."""
        if self._last_read is not None and now.monotonic < self._last_read + self._times.shortest:
            return []
        return self._read(now)

    def topology_read(self, snapshot: RoutingSnapshot, now: Moment) -> list[RoutingEffect]:
        """Handle a complete read of the enterprise."""
        if not self._ended(now):
            return []
        return [*self._taken(snapshot), *self._again(now)]

    def _taken(self, snapshot: RoutingSnapshot) -> list[RoutingEffect]:
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
        """Use the topology of before a restart until the enterprise is read. [MS-MQOD] 2.7.4."""
        if self._has_read or not self._is_running:
            return []
        self.snapshot = snapshot
        return [TopologyTaken(snapshot, True)]

    def reading_failed(self, detail: str, now: Moment) -> list[RoutingEffect]:
        """Handle a failed or incomplete read of the enterprise.

        @param detail: why, in words.
        """
        if not self._ended(now):
            return []
        return [*self._refuse(TopologyRefused(detail)), *self._again(now)]

    def next_hops(self, destination: UUID) -> tuple[UUID, ...]:
        """GetNextHops, from this queue manager. [MS-MQBR] 3.1.5.1.

        @raise NoRoute: there is none; the text includes the problem of the last read. Then call
            L{route_missing}.
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
            raise NoRoute(missing.reason, detail) from None

    def _read(self, now: Moment) -> list[RoutingEffect]:
        if not self._is_running or self.is_reading:
            return []
        self.is_reading = True
        self._deadline = None
        self._last_read = now.monotonic
        return [ReadTopology()]

    def _again(self, now: Moment) -> list[RoutingEffect]:
        """Read again, if a change was reported during the read that has ended."""
        is_outdated, self._is_outdated = self._is_outdated, False
        return self._read(now) if is_outdated else []

    def _ended(self, now: Moment) -> bool:
        """Restart the timer after a read; false if its result is no longer needed."""
        if not self.is_reading:
            return False
        self.is_reading = False
        self._deadline = now.monotonic + self._times.query
        return True

    def _refuse(self, refused: TopologyRefused) -> list[RoutingEffect]:
        self.refused = refused
        return [refused]
