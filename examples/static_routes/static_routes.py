"""A router as a plugin: a fixed table of next hops in a TOML file, without sites and links of a directory.

After C{pip install examples/static_routes} a configuration says::

    [routing]
    backend = "static:routes.toml"

The file names queue managers, and the way to each that is not reached directly::

    default = ["GATE"]

    [queue_manager.GATE]
    id = "761BB34D-7CC6-4988-BCCF-C0EAF0A2818A"
    address = "192.0.2.1"

    [queue_manager.BETA]
    id = "2A6B2D60-9E1B-4B5F-9A3B-0D7F3B1C9E11"
    via = ["GATE"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from msmq.interfaces import (
    IArgumentProbe,
    IRouter,
    IRouterFactory,
    NoRoute,
    QueueManager,
    Route,
    RouteHop,
    ServerContext,
    Topology,
)


@implementer(IRouter)
class StaticRouter:
    """Finds next hops in a table.

    @param members: each queue manager with the names of those through which its messages go; empty if it is
        reached directly.
    @param default: the names for destinations that the table does not have.
    """

    name = "static"

    def __init__(self, members: Mapping[str, tuple[QueueManager, Sequence[str]]], default: Sequence[str]):
        self._members = members
        self._default = default
        self._names = {member.identifier: name for name, (member, _) in members.items()}
        self.topology = Topology(queue_managers=tuple(member for member, _ in members.values()))

    def open(self) -> Deferred[None]:
        """See L{IRouter.open}."""
        return succeed(None)

    def next_hops(
        self, source: UUID, destination: UUID, unreachable: Set[UUID] = frozenset()
    ) -> Deferred[Sequence[QueueManager]]:
        """See L{IRouter.next_hops}: the reachable ones first; another way is never invented."""
        try:
            hops = [hop for hop in self._way(destination) if hop.identifier != source]
            if not hops:
                raise NoRoute(f"no way to {destination} in the table")
        except NoRoute as error:
            return fail(error)
        return succeed(sorted(hops, key=lambda hop: hop.identifier in unreachable))

    def route(self, source: UUID, destination: UUID, down: Set[UUID] = frozenset()) -> Deferred[Route]:
        """See L{IRouter.route}: the first step; the table of the next queue manager decides on the others."""
        try:
            hop = self._way(destination)[0]
        except NoRoute as error:
            return succeed(Route(source, destination, problem=str(error)))
        reason = "the line of the destination" if destination in self._names else "the line default"
        step = RouteHop(hop.identifier, str(hop), None, "", 0, 0, "static", reason)
        return succeed(Route(source, destination, (step,)))

    def close(self) -> Deferred[None]:
        """See L{IRouter.close}."""
        return succeed(None)

    def _way(self, destination: UUID) -> list[QueueManager]:
        name = self._names.get(destination)
        if name is None and not self._default:
            raise NoRoute(f"no line for {destination}, and no default")
        via = self._default if name is None else self._members[name][1] or [name]
        return [self._members[each][0] for each in via]


@implementer(IRouterFactory, IArgumentProbe)
class StaticRouterFactory:
    """C{static:FILE}: a TOML file, relative to the working directory; it is read at start."""

    name = "static"
    description = "a fixed table of next hops in a TOML file"

    def make_router(self, argument: str, context: ServerContext) -> StaticRouter:
        """See L{IRouterFactory.make_router}."""
        return self._read(argument)

    def probe(self, argument: str) -> None:
        """See L{IArgumentProbe.probe}."""
        self._read(argument)

    def _read(self, argument: str) -> StaticRouter:
        if not argument:
            raise ValueError("needs a file, as in static:routes.toml")
        try:
            with Path(argument).open("rb") as file:
                content: dict[str, Any] = tomllib.load(file)
            members = {
                name: (
                    QueueManager(UUID(line["id"]), name=name, address=line.get("address", "")),
                    line.get("via", ()),
                )
                for name, line in content["queue_manager"].items()
            }
        except KeyError as error:
            raise ValueError(f"{argument} lacks the key {error.args[0]}") from error
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{argument} cannot be used: {error}") from error
        default = content.get("default", ())
        for name in (*default, *(each for _, via in members.values() for each in via)):
            if name not in members:
                raise ValueError(f"{argument} has no [queue_manager.{name}], which another line names")
        return StaticRouter(members, default)
