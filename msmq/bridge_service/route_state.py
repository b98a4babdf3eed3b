"""What a route has done and what it waits for, as operators see it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import Enum
from typing import Any

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


def tested(
    message: str,
    body_size: int,
    destination: str = "",
    properties: Mapping[str, Any] | None = None,
    *,
    reason: str = "",
) -> dict[str, Any]:
    """What would become of a message, as a JSON object.

    @param reason: why it would become a dead letter; empty if it would be sent.
    """
    return {
        "message": message,
        "destination": destination,
        "body_size": body_size,
        "properties": {} if properties is None else _plain(properties),
        "reason": reason,
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes in base64, what AMQP has besides as text."""
    match value:
        case Mapping():
            return {str(name): _plain(part) for name, part in value.items() if part is not None}
        case list() | tuple():
            return [_plain(part) for part in value]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case None | str() | int() | float():
            return value
    return str(value)
