"""IBridges: the routes of a server to other brokers, for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import attrs
from zope.interface import Interface, implementer

from msmq.quoting import quoted
from msmq.structures.status import MQError, Status


@attrs.frozen(kw_only=True)
class BridgeRouteSummary:
    """One route.

    Counts are those since the start of the bridge.

    @ivar condition: C{starting}, C{running}, C{waiting}, C{blocked}, C{paused} or C{stopped}.
    @ivar reason: the reason of the condition; empty if there is none.
    @ivar node: the node of the broker to which it is connected; C{None} if it is not.
    @ivar in_flight: messages that are taken from the source, and not removed from it yet.
    @ivar forwarded: messages that the destination has confirmed.
    @ivar dead_letters: messages that could not be delivered.
    @ivar dead_letter_queue: where these are.
    @ivar retries: messages that were sent again.
    @ivar connections: connections to the broker.
    """

    name: str
    source: str
    destination: str
    condition: str
    reason: str
    node: str | None
    window: int
    in_flight: int
    forwarded: int
    dead_letters: int
    dead_letter_queue: str
    retries: int
    connections: int


class IBridges(Interface):
    """The routes.

    Every refusal is an L{msmq.structures.status.MQError}; MQ_ERROR_INVALID_PARAMETER for an unknown name.
    """

    def summaries() -> Sequence[BridgeRouteSummary]:
        """All routes, in the order of the configuration."""

    def summary(name: str) -> BridgeRouteSummary:
        """One route."""

    def pause(name: str) -> BridgeRouteSummary:
        """Forward nothing more on a route until it is resumed, or the server restarts."""

    def resume(name: str) -> BridgeRouteSummary:
        """End L{pause}; a message at which the route has stopped is tried again."""

    def test(name: str, count: int) -> Awaitable[Sequence[Mapping[str, Any]]]:
        """Connect to the broker, and map the first messages of the source without sending them.

        @return: for each message what would be sent, or C{reason}, why it would become a dead letter.
        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE with the reason, if the broker cannot be used.
        """


def no_such_route(name: str) -> MQError:
    """The refusal of an unknown name."""
    return MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"no route {quoted(name)}")


@implementer(IBridges)
class NoBridges:
    """The routes of a server without any."""

    def summaries(self) -> Sequence[BridgeRouteSummary]:
        """See L{IBridges}."""
        return ()

    def summary(self, name: str) -> BridgeRouteSummary:
        """See L{IBridges}."""
        raise no_such_route(name)

    pause = resume = summary

    async def test(self, name: str, count: int) -> Sequence[Mapping[str, Any]]:
        """See L{IBridges}."""
        raise no_such_route(name)
