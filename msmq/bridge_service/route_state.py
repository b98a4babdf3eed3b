"""What a route has done and what it waits for, as operators see it."""

from __future__ import annotations

from enum import Enum

import attrs


class RouteCondition(Enum):
    """The condition of a route."""

    STARTING = "starting"
    """It has not been connected yet."""

    RUNNING = "running"
    """Messages are forwarded as they come."""

    WAITING = "waiting"
    """The source or the destination cannot be used; it is tried again."""

    BLOCKED = "blocked"
    """The broker accepts no messages at present (an alarm)."""

    PAUSED = "paused"
    """An operator has paused it."""

    STOPPED = "stopped"
    """It has stopped at a message that cannot be delivered, as C{on_failure} says."""


@attrs.define
class RouteCounts:
    """Counts since the start of the bridge.

    @ivar forwarded: messages that the destination has confirmed.
    @ivar dead_letters: messages that could not be delivered, and are stored with the reason.
    @ivar retries: messages that were refused for now or lost with a connection, and sent again.
    @ivar connections: connections to the broker.
    @ivar attempts: failed attempts to connect, and lost connections.
    """

    forwarded: int = 0
    dead_letters: int = 0
    retries: int = 0
    connections: int = 0
    attempts: int = 0
