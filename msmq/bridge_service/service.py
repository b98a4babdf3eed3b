"""BridgeService: the routes of one bridge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.background import run_in_background
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.outward_route import OutwardRoute
from msmq.bridge_service.queues import IBridgedQueues
from msmq.bridge_service.reply_records import ReplyFile, ReplyPages, ReplyRecord, needless_pages
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.settings import InwardSettings, OutwardSettings
from msmq.interfaces.bridges import BridgeRouteSummary, IBridges, no_such_route
from msmq.interfaces.manager.service_values import IServiceValues
from msmq.structures.status import MQError, Status

SUSPICION_CHECK: Final = 1.0
"""Seconds between two checks whether a queue manager still may be a clone."""

TIDY_RETRY: Final = 60.0
"""Seconds until addresses of requests are moved again that the store has refused."""


@implementer(IBridges)
class BridgeService:
    """Creates the routes of a configuration, and starts and stops them together.

    A route of a queue manager that may be a clone waits until an operator has decided: the queues of a clone
    have copies of messages, which its original forwards, and the messages of a broker are for the original.

    @param queues: the queues of a route's queue manager.
    @param wall: seconds since 1970-01-01 UTC, with which the times of messages are compared.
    @param directory: where addresses of requests are kept, unless the queue manager of their route stores
        them; C{None} keeps them in memory.
    @raise NamedObjectError: the class of a mapping cannot be created.
    """

    def __init__(
        self,
        settings: Sequence[OutwardSettings | InwardSettings],
        queues: Callable[[OutwardSettings | InwardSettings], IBridgedQueues],
        reactor: IReactorTime,
        directory: Path | None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._is_started = False
        self._reactor = reactor
        self._check: IDelayedCall | None = None
        self._retry: IDelayedCall | None = None
        settings = _with_common_lifetimes([_with_program(each) for each in settings])
        self.routes: dict[str, OutwardRoute | InwardRoute] = {}
        self._wall = wall
        self._replies: dict[str, ReplyStore] = {}
        self._values: list[IServiceValues] = []
        ends = {each.name: queues(each) for each in settings}
        for each in settings:
            if isinstance(each, InwardSettings):
                values = ends[each.name].service_values
                path = None if directory is None else directory / f"replies-{each.name}.jsonl"
                self._replies[each.name] = ReplyStore(_record(each.name, values, path), wall)
                if values is not None and values not in self._values:
                    self._values.append(values)
        # In the order of the configuration.
        for each in settings:
            end = ends[each.name]
            if isinstance(each, InwardSettings):
                self.routes[each.name] = InwardRoute(each, end, reactor, wall, self._replies[each.name])
            else:
                replies = self._replies[each.answers] if each.answers else None
                self.routes[each.name] = OutwardRoute(each, end, reactor, wall, replies)

    def start(self) -> None:
        """Start the routes.

        @raise OSError: the addresses of requests cannot be read.
        """
        self._is_started = True
        for replies in self._replies.values():
            replies.load()
        self._begin_tidying()
        self._start(list(self.routes.values()))

    def _begin_tidying(self) -> None:
        self._retry = None
        run_in_background(self._tidy(), "storing reply addresses")

    async def _tidy(self) -> None:
        """Store the addresses of requests where this version does, and remove those of former routes."""
        for replies in self._replies.values():
            if replies.is_moving:
                with suppress(MQError):
                    await replies.move()
        for values in self._values:
            if changes := needless_pages(values, self._replies, self._wall()):
                # Where that fails, the next start tries again.
                with suppress(MQError):
                    await values.store(changes)
        if self._is_started and any(replies.is_moving for replies in self._replies.values()):
            self._retry = self._reactor.callLater(TIDY_RETRY, self._begin_tidying)

    def _start(self, routes: Sequence[OutwardRoute | InwardRoute]) -> None:
        waiting = []
        for route in routes:
            if suspicion := route.suspicion:
                route.wait_for(
                    f"this may be a clone: {suspicion}; decide with msmq identity keep (this is the original)"
                    " or msmq identity renew"
                )
                waiting.append(route)
            else:
                route.start()
        self._check = self._reactor.callLater(SUSPICION_CHECK, self._start, waiting) if waiting else None

    async def stop(self) -> None:
        """Stop the routes: messages in flight return to their sources."""
        if self._is_started:
            self._is_started = False
            for call in (self._check, self._retry):
                if call is not None:
                    call.cancel()
            self._check = self._retry = None
            # Together: a broker that hangs takes seconds, and there may be many routes to it.
            ends: list[Any] = [Deferred.fromCoroutine(route.stop()) for route in self.routes.values()]
            for _, outcome in await DeferredList(ends, consumeErrors=True):
                if isinstance(outcome, Failure):
                    outcome.raiseException()

    def summaries(self) -> Sequence[BridgeRouteSummary]:
        """See L{IBridges}."""
        return [self.summary(name) for name in self.routes]

    def summary(self, name: str) -> BridgeRouteSummary:
        """See L{IBridges}."""
        route = self._route(name)
        counts, settings = route.counts, route.settings
        return BridgeRouteSummary(
            name=name,
            **settings.ends,
            condition=route.condition.value,
            reason=route.reason,
            node=route.node,
            window=settings.window,
            in_flight=route.in_flight,
            forwarded=counts.forwarded,
            dead_letters=counts.dead_letters,
            dead_letter_queue=settings.dead_letters,
            retries=counts.retries,
            connections=counts.connections,
        )

    def pause(self, name: str) -> BridgeRouteSummary:
        """See L{IBridges}."""
        self._route(name).pause()
        return self.summary(name)

    def resume(self, name: str) -> BridgeRouteSummary:
        """See L{IBridges}."""
        self._route(name).resume()
        return self.summary(name)

    async def test(self, name: str, count: int) -> Sequence[Mapping[str, Any]]:
        """See L{IBridges}."""
        try:
            return await self._route(name).test(count)
        except BrokerError as error:
            raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, str(error)) from error

    def _route(self, name: str) -> OutwardRoute | InwardRoute:
        route = self.routes.get(name)
        if route is None:
            raise no_such_route(name)
        return route


def _record(route: str, values: IServiceValues | None, path: Path | None) -> ReplyRecord | None:
    """Where the requests of a route are stored."""
    if values is not None:
        return ReplyPages(values, route, path)
    return None if path is None else ReplyFile(path)


def _with_program(settings: OutwardSettings | InwardSettings) -> OutwardSettings | InwardSettings:
    """The settings of a route, with the mapping of a program created."""
    if settings.mapping is None:
        return settings
    program = settings.mapping.create()
    if isinstance(settings, InwardSettings):
        return attrs.evolve(settings, rules=attrs.evolve(settings.rules, program=program))
    return attrs.evolve(settings, rules=attrs.evolve(settings.rules, program=program))


def _with_common_lifetimes(
    settings: Sequence[OutwardSettings | InwardSettings],
) -> Sequence[OutwardSettings | InwardSettings]:
    """The settings of routes, of which those that share a directory of bodies keep them equally long.

    Each route removes the bodies whose time is over, also those of others.
    """
    longest: dict[Path, float] = {}
    for each in settings:
        if each.claims is not None:
            directory = each.claims.resolve()
            longest[directory] = max(each.claim_lifetime, longest.get(directory, 0.0))
    return [
        each if each.claims is None else attrs.evolve(each, claim_lifetime=longest[each.claims.resolve()])
        for each in settings
    ]
