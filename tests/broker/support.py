"""Queue managers in memory, one of which, BETA, is a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.broker import program
from msmq.broker.broker import Broker
from msmq.broker.outcomes import Outcome, accept
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.structures.packet.user_message_view import UserMessageView
from tests.nodes.support import Node, NodesTestCase


class Recorder(Broker):
    """Accepts every message, and keeps it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.received: dict[str, list[UserMessageView]] = {}

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Keep it."""
        self.received.setdefault(message.queue.lower(), []).append(message.view)
        return accept()


class BrokerMixin(NodesTestCase):
    """BETA is a broker: what a test receives there is what the broker was passed.

    It is paused until the test receives messages, as those of a queue manager wait until then.

    @cvar creates: whether it creates queues for messages; it does not once it has as many as it may.
    """

    creates = True

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """One more queue manager, or the broker."""
        if name != "BETA":
            return super().node(name, identifier, **kwargs)
        broker = Recorder()
        node = super().node(name, identifier, broker=broker, **kwargs)
        broker.pause()
        assert node.program is not None, "it has a broker"
        self.addCleanup(node.program.end)
        if not self.creates:
            self.patch(program, "ON_DEMAND", 0)
        return node

    def take(self, node: Node, path: str, count: int = 1000) -> list[UserMessageView]:
        """Have the broker process the waiting messages."""
        broker = node.broker
        if not isinstance(broker, Recorder):
            return super().take(node, path, count)
        broker.resume()
        self.clock.advance(0)
        broker.pause()
        received = broker.received.get(path.lower(), [])
        taken, received[:] = received[:count], received[count:]
        return taken
