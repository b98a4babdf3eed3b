"""The router of a queue manager in a directory, whose topology it reads and refreshes. [MS-MQBR] 2.3.

Direct names need no routing (1.4); routing has no messages of its own (2.1).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Any, ClassVar, Final, Protocol, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.clock import IClock
from msmq.interfaces.routing import IRouter
from msmq.manager.membership.kept_topology import KeptTopology
from msmq.membership.access import DirectoryAccess
from msmq.membership.attributes import DirectoryObject
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import ConnectedNetworkObject, QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.membership.requests import Outcome, Procedure
from msmq.moment import Moment
from msmq.routing.alternates import Alternates
from msmq.routing.next_hops import Decision, NoRoute, next_hops
from msmq.routing.route import Route, route
from msmq.routing.topology import QueueManager, Topology
from msmq.routing.topology_builder import Enterprise, TopologyBuilder
from msmq.routing.topology_refresh import (
    ReadTopology,
    RoutingCore,
    RoutingEffect,
    RoutingSnapshot,
    RoutingTimes,
    TopologyRefused,
    TopologyTaken,
)

R = TypeVar("R")

_AT_ONCE: Final = 100
"""How many objects are read in one iteration of the reactor."""


class ProcedureRunner(Protocol):
    """L{msmq.manager.membership.procedure_runner.DirectoryRunner.run}."""

    def __call__(self, procedure: Procedure[R]) -> Awaitable[R]:
        """Run a procedure; the result is what it returns."""


@implementer(IRouter)
class DirectoryRouter:
    """Router of a queue manager: reads the enterprise periodically, routes by that topology. [MS-MQBR] 3.1.

    @ivar core: the topology, and when it is read again.
    @param own: QueueManager.Identifier of the queue manager.
    @param run: runs the procedures of C{access}.
    @param kept: the topology of the last run, used until the directory can be read.
    @param was_read: called with the time at which the topology in use was read, in seconds since 1970-01-01
    UTC.
    @param add_objects: passes objects of the directory to a builder.
    @param changed: called after routes have changed, so that waiting messages are tried again.
    @param in_thread: calls a function in a worker thread.
    """

    name = "directory"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        own: UUID,
        access: DirectoryAccess,
        run: ProcedureRunner,
        reactor: IReactorTime,
        clock: IClock,
        *,
        kept: KeptTopology,
        was_read: Callable[[float], None],
        add_objects: Callable[[TopologyBuilder, Iterable[DirectoryObject]], None],
        changed: Callable[[], None],
        in_thread: Callable[..., Deferred[Any]],
        times: RoutingTimes | None = None,
    ) -> None:
        self.core = RoutingCore(own, times)
        self._access = access
        self._run = run
        self._reactor = reactor
        self._clock = clock
        self._kept = kept
        self._was_read = was_read
        self._has_restored = False
        self._add_objects = add_objects
        self._changed = changed
        self._in_thread = in_thread
        self._alternates = Alternates(self.topology)
        self._timer = DeadlineTimer(reactor, clock, self._expire)

    # IRouter

    @property
    def topology(self) -> Topology:
        """See L{IRouter.topology}."""
        return self.core.snapshot.enterprise.topology

    def open(self) -> Deferred[None]:
        """See L{IRouter.open}: fires when the enterprise was read, or reading it failed."""
        return Deferred.fromCoroutine(self._perform(self.core.start(self._clock.now())))

    def next_hops(
        self, source: UUID, destination: UUID, unreachable: Set[UUID] = frozenset()
    ) -> Deferred[Sequence[QueueManager]]:
        """Get Next Hops; see L{IRouter.next_hops}. [MS-MQQB] 3.1.7.5."""
        if unreachable:
            return Deferred.fromCoroutine(self._ways_around(source, destination, frozenset(unreachable)))
        return execute(self._next_hops, source, destination)

    def route(self, source: UUID, destination: UUID, down: Set[UUID] = frozenset()) -> Deferred[Route]:
        """See L{IRouter.route}; it takes as long as computing the tables of all gates on the route."""
        answer: Deferred[Route] = self._in_thread(
            route, self.core.snapshot.enterprise.topology, source, destination, down
        )
        return answer

    def close(self) -> Deferred[None]:
        """See L{IRouter.close}."""
        self._timer.stop()
        self.core.stop()
        return succeed(None)

    # More

    def refresh(self) -> Deferred[None]:
        """Read the enterprise now; fires when that is done, or at once if a read is in progress,
        which another one follows then.
        """
        return Deferred.fromCoroutine(self._perform(self.core.refresh(self._clock.now())))

    def refresh_later(self) -> None:
        """As L{refresh}, without waiting for it; a failure is logged."""
        self.refresh().addErrback(
            lambda failure: self.log.failure("the enterprise could not be read again", failure)
        )

    # Effects of the core

    def _next_hops(self, source: UUID, destination: UUID) -> Sequence[QueueManager]:
        topology = self.core.snapshot.enterprise.topology
        try:
            if source == self.core.snapshot.own:
                identifiers = self.core.next_hops(destination)
            else:
                identifiers = next_hops(topology, source, destination)
        except NoRoute:
            self._start(self.core.route_missing(self._clock.now()))
            raise
        # All are known: a builder leaves out unknown servers and gates.
        found = [topology.queue_manager(identifier) for identifier in identifiers]
        return [machine for machine in found if machine is not None]

    async def _ways_around(
        self, source: UUID, destination: UUID, unreachable: frozenset[UUID]
    ) -> Sequence[QueueManager]:
        snapshot = self.core.snapshot
        topology = snapshot.enterprise.topology
        if self._alternates.topology is not topology:
            self._alternates = Alternates(topology)
        table = snapshot.table if source == snapshot.own else None
        asked = source, destination, unreachable, table
        decision: Decision
        if table is not None and self._alternates.is_quick(destination):
            decision = self._alternates.decide(*asked)
        else:
            decision = await self._in_thread(self._alternates.decide, *asked)
        if not decision.hops:
            return self._next_hops(source, destination)
        found = [topology.queue_manager(identifier) for identifier in decision.hops]
        return [machine for machine in found if machine is not None]

    def _expire(self, now: Moment) -> None:
        self._start(self.core.expire(now))
        self._timer.set(self.core.deadline)

    def _start(self, effects: Sequence[RoutingEffect]) -> None:
        if effects:
            Deferred.fromCoroutine(self._perform(effects)).addErrback(
                lambda failure: self.log.failure("the router has stopped", failure)
            )

    async def _perform(self, effects: Sequence[RoutingEffect]) -> None:
        pending = list(effects)
        for effect in pending:
            match effect:
                case ReadTopology():
                    found = await self._read()
                    await self._perform([each for each in found if not isinstance(each, ReadTopology)])
                    # Last, and not in a call of this one, since it may happen again and again.
                    pending += [each for each in found if isinstance(each, ReadTopology)]
                    if not self.core.has_read and not self._has_restored:
                        self._has_restored = True
                        await self._restore()
                case TopologyTaken(snapshot, is_changed):
                    self._report(snapshot.enterprise)
                    if is_changed:
                        self._changed()
                case TopologyRefused(detail):
                    self.log.warn("The enterprise is routed as before: {detail}", detail=detail)
        self._timer.set(self.core.deadline)

    async def _read(self) -> list[RoutingEffect]:
        """Read the topology, and compute the table in a worker thread."""
        try:
            objects = await self._read_objects()
            if isinstance(objects, Outcome):
                return self.core.reading_failed(
                    f"the directory could not be read: {objects.detail or objects.result.name}",
                    self._clock.now(),
                )
            read = self._clock.now().wall
            snapshot: RoutingSnapshot = await self._in_thread(self._snapshot, objects)
            if not snapshot.enterprise.faults:
                await self._kept.keep(objects, read)
                self._was_read(read)
        except Exception as error:
            self.log.failure("The enterprise could not be read.")
            return self.core.reading_failed(f"{type(error).__name__}: {error}", self._clock.now())
        return self.core.topology_read(snapshot, self._clock.now())

    async def _restore(self) -> None:
        """Use the stored topology while the directory is unreachable."""
        held = await self._kept.load()
        if held is None:
            return
        snapshot: RoutingSnapshot = await self._in_thread(self._snapshot, held.objects)
        effects = self.core.restored(snapshot)
        if effects:
            self._was_read(held.read)
            await self._perform(effects)

    async def _read_objects(self) -> list[DirectoryObject] | Outcome:
        """All objects of each type, or the outcome of the first read that fails.

        Connected networks, which a directory that speaks LDAP does not hold, are not needed.
        """
        found: list[DirectoryObject] = []
        for of in (SiteObject, RoutingLinkObject, QueueManagerObject, ConnectedNetworkObject):
            objects = await self._get_directory_data(of)
            if isinstance(objects, list):
                found += objects
            elif of is not ConnectedNetworkObject:
                return objects
        return found

    async def _get_directory_data(self, of: type[DirectoryObject]) -> list[DirectoryObject] | Outcome:
        """GetDirectoryData, without a filter; instead of Nothing the failed result. [MS-MQBR] 3.1.5.9.

        A directory that answers synchronously must not block the reactor.
        """
        begun = await self._run(self._access.read_directory_begin(of))
        if not begun.succeeded:
            return begun
        found: list[DirectoryObject] = []
        while (following := await self._run(self._access.read_directory_next(begun.value))).succeeded:
            found.append(following.value.object)
            if len(found) % _AT_ONCE == 0:
                await deferLater(self._reactor, 0)
        await self._run(self._access.read_directory_end(begun.value))
        return found if following.result is DirectoryOperationResult.END_OF_DATA else following

    def _snapshot(self, objects: Sequence[DirectoryObject]) -> RoutingSnapshot:
        builder = TopologyBuilder()
        self._add_objects(builder, objects)
        return RoutingSnapshot.of(builder.build(), self.core.snapshot.own)

    def _report(self, enterprise: Enterprise) -> None:
        for problem in enterprise.problems:
            self.log.warn("In the enterprise: {problem}", problem=str(problem))
        if enterprise.problems_left_out:
            self.log.warn("and {count} problems more", count=enterprise.problems_left_out)
