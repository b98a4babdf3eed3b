"""ALPHA and a broker at BETA that does with each message what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msmq.broker.broker import Broker
from msmq.broker.outcomes import Outcome, accept
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.session import ISession
from msmq.queues.arriving.message import Delivery
from msmq.session.effects import CloseReason
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.packet.message_class import MessageClass
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
ORDERS = ".\\private$\\orders"

Process = Callable[[ReceivedMessage], Any]


class Scripted(Broker):
    """Does with each message what a test says.

    @ivar seen: the body of each message, whenever it is passed.
    @ivar most: the largest number of messages in process at a time.
    """

    def __init__(self, process: Process, **options: Any) -> None:
        super().__init__(**options)
        self._process = process
        self.seen: list[bytes] = []
        self.attempts: list[int] = []
        self.events: list[str] = []
        self._now = 0
        self.most = 0

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Note it, and do what the test says."""
        self.seen.append(message.body)
        self.attempts.append(message.attempt)
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            outcome: Outcome = await self._process(message)
            return outcome
        finally:
            self._now -= 1

    async def session_opened(self, session: ISession) -> None:
        """Note it."""
        self.events.append(f"{session.remote_address} opened")

    async def session_closed(self, session: ISession, reason: CloseReason) -> None:
        """Note it."""
        self.events.append(f"{session.remote_address} closed, {reason.name}")


async def accepted(message: ReceivedMessage) -> Outcome:
    """Accept a message."""
    return accept()


class BrokerTestCase(NodesTestCase):
    """ALPHA sends to BETA, a broker."""

    process: Process = staticmethod(accepted)
    options: dict[str, Any] = {}  # noqa: RUF012
    make: type[Scripted] = Scripted

    def setUp(self) -> None:
        self.disk = SlowStore(MemoryMessageStore(durable=True), None, 0.0)  # type: ignore[arg-type]
        super().setUp()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "BETA":
            self.broker = self.make(lambda message: self.process(message), **self.options)
            self.disk._reactor = self.clock.reactor
            kwargs = {"store": self.disk, "broker": self.broker, **kwargs}
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        node = super().node(name, identifier, **kwargs)
        if node.program is not None:
            self.addCleanup(node.program.end)
        return node

    def sent(self, *bodies: bytes, **properties: Any) -> None:
        """Send from ALPHA, and let it arrive."""
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        self.send(self.alpha, TO_BETA, *bodies, **properties)
        self.clock.advance(1)

    def waiting(self) -> int:
        """Messages that have not left ALPHA."""
        return sum(queue.messages for queue in self.alpha.service.inspection.outgoing())

    def left(self) -> int:
        """Messages in the queue of the broker."""
        return self.beta.service.inspection.queue(ORDERS).messages

    def answers(self) -> list[tuple[MessageClass, bytes]]:
        """The administration acknowledgements at ALPHA."""
        return [
            (MessageClass(view.message_class), bytes(view.body))
            for view in self.take(self.alpha, ".\\private$\\admin")
        ]
