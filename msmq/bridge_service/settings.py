"""Settings of routes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.mapping_class import MappingClass

DEAD_LETTERS: Final = ".\\private$\\bridge-dead-letters"
"""The default queue for messages from queues that could not be delivered."""

CLAIM_LIFETIME: Final = 7 * 86_400.0
"""Seconds for which a body is kept whose message has only its reference, by default."""


@attrs.frozen(kw_only=True)
class RouteSettings:
    """What both kinds of routes have.

    @ivar name: unique among the routes of a bridge.
    @ivar broker: the broker at the one end.
    @ivar queue: at the other end: the path of a queue, or for an inward route a format name too.
    @ivar queue_manager: the name of its queue manager, for a bridge that serves several; empty for a bridge
        in the queue manager itself.
    @ivar dead_letters: the queue for messages that cannot be delivered, in the queue manager or at the broker
        that is the source.
    @ivar window: limit on messages that are in flight.
    @ivar stops_at_failure: whether a message that cannot be delivered stops the route.
    @ivar claims: the directory with the bodies of messages that have only their reference; C{None} for none.
    @ivar claim_lifetime: seconds for which these are kept.
    @ivar mapping: a class of the user that changes what the rules have mapped; C{None} for none.
    """

    name: str
    broker: BrokerSettings
    queue: str
    dead_letters: str
    window: int = 256
    stops_at_failure: bool = False
    claims: Path | None = None
    claim_lifetime: float = CLAIM_LIFETIME
    mapping: MappingClass | None = None
    queue_manager: str = ""

    @property
    def queue_end(self) -> str:
        """The end at the queue manager, for people."""
        return f"{self.queue_manager}:{self.queue}" if self.queue_manager else self.queue


@attrs.frozen(kw_only=True)
class OutwardSettings(RouteSettings):
    """A route from a queue to a broker.

    @ivar answers: the name of the inward route whose requests its messages answer; empty for none.
    """

    rules: OutwardRules
    answers: str = ""

    @property
    def destination(self) -> str:
        """The destination, for people."""
        if self.answers:
            return f"the reply-to of requests of {self.answers}"
        key = self.rules.routing_key
        if self.rules.routing_expression is not None:
            key = self.rules.routing_expression.text
        return self.broker.destination(self.rules.exchange, key)

    @property
    def ends(self) -> Mapping[str, str]:
        """Source and destination, for people."""
        return {"source": self.queue_end, "destination": self.destination}


@attrs.frozen(kw_only=True)
class InwardSettings(RouteSettings):
    """A route from a broker to a queue.

    @ivar broker_queue: the queue, address or topic of the broker.
    """

    rules: InwardRules
    broker_queue: str

    @property
    def ends(self) -> Mapping[str, str]:
        """Source and destination, for people."""
        return {"source": self.broker.source(self.broker_queue), "destination": self.queue_end}
