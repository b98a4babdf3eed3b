# Generated from msmq/interfaces/routing.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Sequence, Set
from uuid import UUID
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface
from msmq.routing.next_hops import NoRoute
from msmq.routing.route import Route
from msmq.routing.topology import QueueManager, Topology
__all__ = ['IRouter', 'NoRoute']

class IRouter(Interface, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def topology(self) -> Topology:
        ...

    def open(self) -> Deferred[None]:
        ...

    def next_hops(self, source: UUID, destination: UUID, unreachable: Set[UUID]=frozenset()) -> Deferred[Sequence[QueueManager]]:
        ...

    def route(self, source: UUID, destination: UUID, down: Set[UUID]=frozenset()) -> Deferred[Route]:
        ...

    def close(self) -> Deferred[None]:
        ...
