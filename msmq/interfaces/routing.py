"""IRouter: the next hops of messages for other queue managers."""

from __future__ import annotations

from collections.abc import Sequence, Set
from uuid import UUID

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from msmq.routing.next_hops import NoRoute
from msmq.routing.route import Route
from msmq.routing.topology import QueueManager, Topology

__all__ = ["IRouter", "NoRoute"]


class IRouter(Interface):
    """What [MS-MQQB] 3.1.7.5 Get Next Hops asks, of [MS-MQBR] or of whatever routes in its place."""

    name: str = Attribute("What it is called in configuration and status, C{directory} for example.")

    topology: Topology = Attribute("What is known of the enterprise, for people who ask; it may be empty.")

    def open() -> Deferred[None]:
        """Make ready.

        A directory that is away is not a failure: until it is back there are no ways, or those known before.
        """

    def next_hops(
        source: UUID, destination: UUID, unreachable: Set[UUID] = frozenset()
    ) -> Deferred[Sequence[QueueManager]]:
        """[MS-MQQB] 3.1.7.5 the queue managers that a message may go to next.

        They are tried in their order; never none, and never C{source} itself.
        Each answer is as good as what is known at that time, and comes without waiting for a directory.

        @param source: QueueManager.Identifier of the queue manager that has the message.
        @param destination: that of the queue manager that the message is for, which is another.
        @param unreachable: queue managers that could not be reached a moment ago.
            An alternate is returned in their place only if it is sure not to send the message back, whatever
            other queue managers believe to be down; otherwise they are returned, and the message waits.
        @raise NoRoute: there is none; through the Deferred. It is worth trying again later.
        """

    def route(source: UUID, destination: UUID, down: Set[UUID] = frozenset()) -> Deferred[Route]:
        """The whole way of a message as far as it is known here, with the reasons for each hop.

        @param down: queue managers assumed to be down; the result says what happens to the message meanwhile.

        It raises nothing: a way that leads nowhere says so.
        """

    def close() -> Deferred[None]:
        """Release all resources; closing again does nothing."""
