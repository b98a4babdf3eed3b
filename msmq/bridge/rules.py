"""Rules of the mapping of one route, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.bridge.body_decoding import BodyDecoding
from msmq.bridge.expressions import MessageExpression
from msmq.bridge.mapping_program import MappingProgram

HOP_LIMIT: Final = 16
"""Routes that a message may pass by default."""

ANY: Final = "*"
"""In C{replies}: every response queue without an entry of its own."""


@attrs.frozen(kw_only=True)
class OutwardRules:
    """Mapping of messages from MSMQ to AMQP.

    @ivar route: the name of the route in trails, unique among all bridges.
    @ivar exchange: where messages are published; empty for the default exchange, whose routing keys are names
        of queues.
    @ivar routing_expression: evaluated for each message; C{None} uses C{routing_key}.
    @ivar answers: whether messages are replies: each is published to the reply-to of its request.
    @ivar replies: response queues, as format names, and the queues of the broker that stand for them.
    @ivar properties: expressions for properties of AMQP; C{header.NAME} is a header.
    @ivar limit: the largest body, in bytes.
    @ivar longest_text: the longest text among the properties, and the longest name of a header, in bytes of
        UTF-8: those of the broker's protocol.
    @ivar has_claims: whether larger bodies are stored, and the message has the reference.
    @ivar decoding: decodes the bodies; C{None} forwards the bytes.
    @ivar program: changes what these rules have mapped; C{None} for none.
    """

    route: str
    exchange: str = ""
    routing_key: str = ""
    routing_expression: MessageExpression | None = None
    answers: bool = False
    replies: Mapping[str, str] = attrs.field(factory=dict)
    properties: Mapping[str, MessageExpression] = attrs.field(factory=dict)
    limit: int = 0x400000
    has_claims: bool = False
    hops: int = HOP_LIMIT
    longest_text: int = 255
    decoding: BodyDecoding | None = None
    program: MappingProgram | None = None

    def reply_to(self, response_queue: str) -> str | None:
        """The queue of the broker that stands for a response queue; names compare without case."""
        wanted = response_queue.casefold()
        for name, queue in self.replies.items():
            if name.casefold() == wanted:
                return queue
        return self.replies.get(ANY)


@attrs.frozen(kw_only=True)
class InwardRules:
    """Mapping of messages from AMQP to MSMQ.

    @ivar route: as of L{OutwardRules}; so are C{properties}, C{limit}, C{hops}, C{decoding} and C{program}.
    @ivar delivery: C{express}, C{recoverable} or C{transactional}.
    @ivar reply_queue: the response queue of requests, a format name, from which another route publishes the
        replies; empty for none.
    @ivar replies: as of L{OutwardRules}, read in the other direction.
    """

    route: str
    delivery: str = "recoverable"
    reply_queue: str = ""
    replies: Mapping[str, str] = attrs.field(factory=dict)
    properties: Mapping[str, MessageExpression] = attrs.field(factory=dict)
    limit: int = 0x3F0000
    hops: int = HOP_LIMIT
    decoding: BodyDecoding | None = None
    program: MappingProgram | None = None

    def response_queue(self, reply_to: str) -> str | None:
        """The response queue for which a queue of the broker stands."""
        for name, queue in self.replies.items():
            if queue == reply_to and name != ANY:
                return name
        return None
