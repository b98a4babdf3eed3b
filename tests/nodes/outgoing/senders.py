"""A queue manager that sends to a peer which answers in bytes, as base classes of tests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from tests.nodes.scripted import (
    Peer,
    ScriptedTestCase,
)
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node

TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"


class SenderTestCase(ScriptedTestCase):
    """ALPHA sends to GAMMA, which listens."""

    def setUp(self) -> None:
        super().setUp()
        self.deafen = self.listen()

    def put(self, *bodies: bytes, **properties: Any) -> None:
        """Send transactional messages, in one transaction."""
        messages = [Message(body=body, transactional=True, **properties) for body in bodies]
        self.run_to_end(self.alpha.service.send(TO_GAMMA, messages))
        self.clock.advance(0.1)

    def put_others(self, *bodies: bytes, recoverable: bool = True, **properties: Any) -> None:
        """Send messages that are not transactional."""
        delivery = Delivery.RECOVERABLE if recoverable else Delivery.EXPRESS
        messages = [Message(body=body, delivery=delivery, **properties) for body in bodies]
        self.run_to_end(self.alpha.service.send(TO_GAMMA, messages))
        self.clock.advance(0.1)

    @property
    def peer(self) -> Peer:
        """The latest session."""
        return self.peers[-1]

    def numbers(self) -> list[tuple[int, int]]:
        return [message.numbers for message in self.peer.messages]

    def sequence(self) -> int:
        return self.peer.messages[-1].place[0]

    def tell(self, *packets: bytes) -> None:
        """Let the peer say packets that count."""
        self.peer.send(*packets)
        self.clock.advance(0.1)

    def remaining(self) -> int:
        return self.waiting(self.alpha)


class SlowStoreTestCase(SenderTestCase):
    """ALPHA has a store that takes two seconds."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "ALPHA":
            disk = MemoryMessageStore(durable=True)
            kwargs["store"] = SlowStore(disk, self.clock.reactor, 2.0)
        return super().node(name, identifier, **kwargs)
