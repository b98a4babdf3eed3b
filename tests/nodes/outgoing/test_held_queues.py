"""Queues whose messages wait for acknowledgements, and the other queues of their session."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Delivery, Message
from msmq.settings import SessionSettings
from tests.nodes.outgoing.senders import SenderTestCase
from tests.nodes.scripted import order_ack
from tests.nodes.support import Node

OTHERS = "DIRECT=TCP:127.0.0.4\\private$\\payments", "DIRECT=TCP:127.0.0.4\\private$\\offers"


class HeldQueueTests(SenderTestCase):
    """ALPHA keeps no stored packets in memory, and sends one transactional message at a time to a queue."""

    settings = SessionSettings(unacknowledged_messages=1)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, packet_memory=0, **kwargs)

    def send_to(self, destination: str, *bodies: bytes, **properties: Any) -> None:
        """Send messages, and let time pass in which they could be read and sent."""
        messages = [Message(body=body, **properties) for body in bodies]
        self.run_to_end(self.alpha.service.send(destination, messages))
        self.clock.advance(1)

    def test_other_queues_go_on(self) -> None:
        """A message that has to be read before it is known that it waits keeps no other queue of the session
        from sending: not even several queues of such messages. Among the others is the queue of
        acknowledgements, for which the peer may hold those that are waited for here.
        """
        self.put(b"1", b"2")
        self.send_to(OTHERS[0], b"3", b"4", transactional=True)
        self.assertEqual(sorted(self.peer.bodies), [b"1", b"3"])
        self.send_to(OTHERS[1], b"5", delivery=Delivery.RECOVERABLE)
        self.send_to(OTHERS[1], b"6", delivery=Delivery.RECOVERABLE)
        self.assertEqual(sorted(self.peer.bodies), [b"1", b"3", b"5", b"6"])

    def test_what_is_held_follows(self) -> None:
        """It is sent as soon as the one before is acknowledged."""
        self.put(b"1", b"2", b"3")
        for number in (1, 2):
            self.tell(order_ack(self.sequence(), number))
            self.clock.advance(0.5)
        self.assertEqual(self.peer.bodies, [b"1", b"2", b"3"])
