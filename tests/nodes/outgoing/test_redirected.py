"""A queue manager that is dialled at another address than its name says, and dials from that one itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msmq.net.resolver import NextHopAddress
from msmq.queues.arriving.message import Delivery
from msmq.storage.memory import MemoryMessageStore
from tests.nodes.scripted import JOURNAL
from tests.nodes.support import Node, NodesTestCase

ELSEWHERE = "127.0.0.9"
TO_ALPHA = "DIRECT=TCP:127.0.0.2\\private$\\letters"
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\payments"


class Redirecting(Node):
    """Connects to another address for BETA, as C{[hosts]} says."""

    async def _lookup(self, name: str) -> Sequence[NextHopAddress]:
        if name != "127.0.0.3":
            return await super()._lookup(name)
        return [NextHopAddress(ELSEWHERE, 1801, self.host.client_endpoint(ELSEWHERE, 1801))]


class RedirectedTests(NodesTestCase):
    """ALPHA sends to BETA, which acknowledges on a session of its choice."""

    def setUp(self) -> None:
        super().setUp()
        self.network.host(ELSEWHERE).server_endpoint(1801).listen(self.beta.factory)
        self.notes = self.queue(self.alpha, "letters")
        self.payments = self.queue(self.beta, "payments", transactional=True)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kind = Redirecting if name == "ALPHA" else Node
        store = MemoryMessageStore(durable=True)
        return kind(self.network, self.clock, name, identifier, self.settings, store=store, **kwargs)

    def pay(self) -> None:
        """Have ALPHA send what it keeps a copy of once BETA has received it, and see that it does."""
        before = self.alpha.service.inspection.queue(JOURNAL).messages
        self.send(self.alpha, TO_BETA, b"1", b"2", b"3", transactional=True, journal=True)
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, self.payments), [b"1", b"2", b"3"])
        self.clock.advance(10)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).messages, 0)
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages - before, 3)
        self.assertEqual(self.alpha.service.inspection.status().refused, {})

    def test_by_the_session_that_brought_them(self) -> None:
        """From where they were sent to."""
        self.pay()
        self.send(self.beta, TO_ALPHA, b"a letter", delivery=Delivery.EXPRESS)
        self.clock.advance(10)
        self.pay()

    def test_by_a_session_of_its_own(self) -> None:
        """From where the name says that it is."""
        self.send(self.beta, TO_ALPHA, b"a letter", delivery=Delivery.EXPRESS)
        self.clock.advance(10)
        self.pay()
