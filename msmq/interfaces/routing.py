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
    """Get Next Hops: the interface of [MS-MQBR] routing, or of a replacement. [MS-MQQB] 3.1.7.5."""

    name: str = Attribute("Its name in configuration and status, C{directory} for example.")

    topology: Topology = Attribute("The topology of the enterprise, for administrators; it may be empty.")

    def open() -> Deferred[None]:
        """Open the router.

        An unreachable directory is not an error: until it is back there are no routes, or the stored ones.
        """

    def next_hops(
        source: UUID, destination: UUID, unreachable: Set[UUID] = frozenset()
    ) -> Deferred[Sequence[QueueManager]]:
        """The queue managers that a message may go to next. [MS-MQQB] 3.1.7.5.

        They are tried in order; the result is not empty, and does not contain C{source}.
        Each answer is based on the current data, and does not wait for a directory. Without one for 60
        seconds the query is cancelled, and counts as an error.

        @param source: QueueManager.Identifier of the queue manager that has the message.
        @param destination: that of the destination queue manager, which is another one.
        @param unreachable: queue managers that could not be reached a moment ago.
            An alternate is returned instead only if it certainly does not send the message back, whatever
            other queue managers believe to be down; otherwise they are returned, and the message waits.
        @raise NoRoute: there is no route; through the Deferred. Later attempts may succeed.
        """

    def route(source: UUID, destination: UUID, down: Set[UUID] = frozenset()) -> Deferred[Route]:
        """The whole route of a message as far as it is known here, with the reason of each hop.

        @param down: queue managers assumed to be down; the result says what happens to the message meanwhile.

        It raises no error: an incomplete route contains its problem.
        """

    def close() -> Deferred[None]:
        """Release all resources; closing again does nothing."""
