"""A session hook that takes long over each message: the sender waits, and sends nothing again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.task import deferLater

from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.queues.arriving.message import Delivery
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import GAMMA
from tests.nodes.support import Node, NodesTestCase
from tests.shares import SHARES

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class SlowHookTests(NodesTestCase):
    """ALPHA sends to a program on 127.0.0.3 that has session hooks and no queue manager."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def listen(self, seconds: float, *, in_pieces: bool) -> list[bytes]:
        """Have the program take so long over each message; returns the bodies that it gets.

        @param in_pieces: it reports each message as stored, and not only the whole batch.
        """
        bodies: list[bytes] = []
        reactor = self.clock.reactor

        class Slow(SessionProtocol):
            async def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> None:
                for number, message in enumerate(messages):
                    bodies.append(bytes(message.body))
                    await deferLater(reactor, seconds)
                    if in_pieces:
                        self.persisted(first_recoverable + number)
                self.persisted(first_recoverable + len(messages) - 1)

        self.beta.deaf()
        factory = SessionFactory(GAMMA, reactor=reactor, clock=self.clock, shares=SHARES, protocol=Slow)
        self.network.host("127.0.0.3").server_endpoint(1801).listen(factory)
        return bodies

    def check(self, seconds: float, count: int, *, in_pieces: bool) -> None:
        bodies = self.listen(seconds, in_pieces=in_pieces)
        sent = [b"%d" % number for number in range(count)]
        self.send(self.alpha, TO_BETA, *sent, delivery=Delivery.RECOVERABLE)
        self.clock.advance(seconds * count + 30)
        self.assertEqual(bodies, sent)
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertEqual(queue.messages, 0)

    def test_each_message_is_reported(self) -> None:
        """A hundred messages at 2 s each, which the sender would not wait for, come once each."""
        self.check(2.0, 100, in_pieces=True)

    def test_batches_are_reported(self) -> None:
        """So too if only whole batches are reported as stored."""
        self.check(2.0, 100, in_pieces=False)

    def test_minutes_for_a_message(self) -> None:
        """All may take as long as the sender keeps a session without new messages, five minutes."""
        self.check(80.0, 3, in_pieces=True)
