"""What both directions of routes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.bridge.flight import RouteFlight, RouteSteps
from msmq.bridge_service.brokers import BrokerError, IBrokerConnection
from msmq.bridge_service.claim_files import ClaimFiles
from msmq.bridge_service.families import open_broker
from msmq.bridge_service.queues import IBridgedQueues
from msmq.bridge_service.route_state import RouteCondition, RouteCounts
from msmq.bridge_service.settings import RouteSettings
from msmq.bridge_service.supervision import ConnectionReports, supervise
from msmq.interfaces.bridge_messages import MappingError

REFUSED_AGAIN: Final = 1.0
"""Seconds until a message is sent again that was refused for now, or a dead letter that was not stored."""

INTERNAL_ERROR: Final = "an internal error, which the log has; the route starts again by itself"
"""The reason while a route waits after an error that no part of it expects."""


def broker_reason(node: str, error: BrokerError) -> str:
    """The reason of a broker, with the node: a route has two ends, and either may refuse a connection."""
    return f"broker {node}: {error}"


class BridgeRoute(ABC):
    """One route of a bridge.

    The flight decides what is to be done; a subclass does it.

    @ivar counts: what it has done.
    @ivar node: that of the broker to which it is connected; C{None} if it is not.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        settings: RouteSettings,
        queues: IBridgedQueues,
        reactor: IReactorTime,
        wall: Callable[[], float],
    ) -> None:
        self.name = settings.name
        self.counts = RouteCounts()
        self.node: str | None = None
        self._common = settings
        self._broker = open_broker(settings.broker, reactor)
        self._queues = queues
        self._reactor = reactor
        self._wall = wall
        self._claims: ClaimFiles | None = None
        if settings.claims is not None:
            self._claims = ClaimFiles(settings.claims, settings.claim_lifetime, wall)
        self._flight = RouteFlight(settings.window, settings.stops_at_failure)
        self._tasks: list[Deferred[None]] = []
        self._problem = ""
        self._blockage = ""
        self._logged = ""
        self._dead_letter_problem = ""
        self._is_pumping = False
        self._is_stopped = False
        self._has_failed = False
        self._restarting: Deferred[None] | None = None
        self._restart_delay = settings.broker.retry
        self._began = 0.0
        self._again: IDelayedCall | None = None
        self._soon: IDelayedCall | None = None
        self._failed_dead_letters: set[int] = set()

    # For operators.

    @property
    def condition(self) -> RouteCondition:
        """The condition of the route."""
        if self._flight.is_paused:
            return RouteCondition.PAUSED
        if self._flight.stop_reason:
            return RouteCondition.STOPPED
        if self._problem or self._dead_letter_problem:
            return RouteCondition.WAITING
        if self._flight.is_blocked:
            return RouteCondition.BLOCKED
        return RouteCondition.RUNNING if self.counts.connections else RouteCondition.STARTING

    @property
    def reason(self) -> str:
        """The reason of the condition; empty if there is none."""
        if self._flight.stop_reason:
            return self._flight.stop_reason
        found = self._problem or self._dead_letter_problem
        return found or (self._blockage if self._flight.is_blocked else "")

    @property
    def in_flight(self) -> int:
        """Messages that are taken from the source and not removed from it yet."""
        return len(self._flight)

    def pause(self) -> None:
        """Forward nothing more until L{resume}."""
        self._flight.pause()
        self._pump()

    def resume(self) -> None:
        """Forward messages again; one at which the route has stopped is tried again."""
        self._flight.resume()
        self._pump()

    # The service.

    @property
    def suspicion(self) -> str:
        """Why the queue manager may be a clone; empty if it is not."""
        return self._queues.suspicion()

    def wait_for(self, reason: str) -> None:
        """Show operators why it has not begun."""
        self._fails(reason)

    def start(self) -> None:
        """Begin."""
        self._problem = ""
        self._begin()

    def _begin(self) -> None:
        self._has_failed = False
        self._began = self._reactor.seconds()
        self._tasks = [Deferred.fromCoroutine(self._guarded(each)) for each in self._work()]

    async def stop(self) -> None:
        """End everything under way; messages in flight return to their source."""
        self._is_stopped = True
        for call in (self._again, self._soon):
            if call is not None and call.active():
                call.cancel()
        tasks, self._tasks = self._tasks, []
        if self._restarting is not None:
            tasks.append(self._restarting)
        for task in tasks:
            task.cancel()
        await DeferredList(tasks)

    @abstractmethod
    def _work(self) -> list[Coroutine[Any, Any, None]]:
        """What it does all the time."""

    @abstractmethod
    def _perform(self, steps: RouteSteps) -> None:
        """Do what the flight has decided."""

    @abstractmethod
    async def _use(self, connection: IBrokerConnection) -> None:
        """Use a new connection until it is lost, which is a L{BrokerError}."""

    @contextmanager
    def _mapping(self) -> Iterator[None]:
        """Whatever the sender of a message has written, that message alone cannot be mapped.

        @raise MappingError: it cannot be.
        """
        try:
            yield
        except MappingError:
            raise
        except Exception as error:
            self.log.failure("route {route} of the bridge cannot map a message", Failure(), route=self.name)
            raise MappingError(f"mapping: {type(error).__name__}, which the log has") from error

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except CancelledError:
            if not (self._is_stopped or self._has_failed):
                self._failed()
        except Exception:
            self._failed()

    def _failed(self) -> None:
        """An error that no part of the route expects: everything ends, and begins again after a back-off.

        The state of what was under way is unknown, so messages in flight return to their source.
        """
        settings = self._common.broker
        is_first = not self._has_failed
        if is_first and self._reactor.seconds() - self._began > settings.retry_maximum:
            self._restart_delay = settings.retry
        self._problem = self._logged = INTERNAL_ERROR
        self.log.failure(
            "route {route} of the bridge has failed, and starts again in {delay:g} s",
            Failure(),
            route=self.name,
            delay=self._restart_delay,
        )
        if is_first and not self._is_stopped:
            self._has_failed = True
            self._restarting = Deferred.fromCoroutine(self._restart(self._restart_delay))
            self._restart_delay = min(2 * self._restart_delay, settings.retry_maximum)

    async def _restart(self, delay: float) -> None:
        try:
            # A task that has failed ends first.
            await deferLater(self._reactor, 0)
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                task.cancel()
            await DeferredList(tasks)
            self._recover()
            if not self._is_stopped:
                await deferLater(self._reactor, delay)
        except CancelledError:
            return
        if not self._is_stopped:
            self._begin()

    @abstractmethod
    def _recover(self) -> None:
        """Return messages in flight to their source, after all tasks have ended; raises nothing."""

    async def _supervise(self) -> None:
        """Keep a connection to the broker."""
        reports = ConnectionReports(
            connected=self._connected, failed=self._disconnected, is_stopped=lambda: self._is_stopped
        )
        await supervise(self._broker, self._common.broker, self._reactor, self._use, reports)

    def _connected(self, node: str) -> None:
        self.counts.connections += 1
        self.node = node

    def _works(self) -> None:
        """The route is able to forward messages: log it, if it was not."""
        self._problem = ""
        if self._logged != "works":
            self._logged = "works"
            self.log.info(
                "route {route} of the bridge is connected to {address}",
                route=self.name,
                address=self.node,
            )

    def _disconnected(self, node: str, error: BrokerError, delay: float) -> None:
        self.node = None
        self.counts.attempts += 1
        # Several nodes with the same reason are one line of the log.
        self._fails(str(error) if error.is_of_queue else broker_reason(node, error), str(error))

    async def _connect_to_test(self) -> IBrokerConnection:
        """Connect to the first node.

        @raise BrokerError: it cannot be reached; the reason names it.
        """
        node = self._broker.nodes[0]
        try:
            return await self._broker.connect(node)
        except BrokerError as error:
            raise BrokerError(broker_reason(node, error)) from error

    def _fails(self, reason: str, kind: str = "") -> None:
        """The route waits for something: log it, if that is new.

        @param kind: what reasons have in common that are logged once; by default each is logged.
        """
        self._problem = reason
        if self._logged != (kind or reason):
            self._logged = kind or reason
            self.log.warn("route {route} of the bridge waits: {reason}", route=self.name, reason=reason)

    def _dead_lettered(self, queue: str, identifier: str, reason: str) -> None:
        """A dead letter is stored."""
        self._dead_letter_problem = ""
        self.counts.dead_letters += 1
        self._queues.note("bridge-dead-letter", f"route {self.name}: {reason}", queue, identifier)

    def _pump_soon(self) -> None:
        """L{_pump} in the next iteration of the reactor, once for all events of this one."""
        if not self._is_stopped and (self._soon is None or not self._soon.active()):
            self._soon = self._reactor.callLater(0, self._pump)

    def _pump(self) -> None:
        """Do everything that there is to do now."""
        if self._is_pumping or self._is_stopped or self._has_failed:
            # The loop below does what has been added meanwhile.
            return
        self._is_pumping = True
        try:
            while (steps := self._flight.next_steps()) != RouteSteps():
                self._perform(steps)
            if self._flight.is_backing_off:
                self._later()
        except Exception:
            self._failed()
        finally:
            self._is_pumping = False

    def _dead_letter_failed(self, token: int, reason: str) -> None:
        """A dead letter could not be stored: it is tried again after a pause; a new reason is logged."""
        if self._dead_letter_problem != reason:
            self._dead_letter_problem = reason
            self.log.warn(
                "route {route} of the bridge cannot store a dead letter: {reason}",
                route=self.name,
                reason=reason,
            )
        self._failed_dead_letters.add(token)
        self._later()

    def _later(self) -> None:
        """Try again after a pause what was refused for now."""
        if not self._is_stopped and (self._again is None or not self._again.active()):
            self._again = self._reactor.callLater(REFUSED_AGAIN, self._try_again)

    def _try_again(self) -> None:
        tokens, self._failed_dead_letters = self._failed_dead_letters, set()
        for token in tokens:
            self._flight.dead_letter_failed(token)
        self._flight.back_off_ended()
        self._pump()
