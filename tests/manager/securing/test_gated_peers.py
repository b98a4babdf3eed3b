"""A gate of an application, which decides on addresses in place of the configuration."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from zope.interface import implementer

from msmq.interfaces.security.gate import IGate
from msmq.manager.securing.gated_peers import LINES, GatedPeers
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.queues.arriving.message import Message
from tests.builders import BETA
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


@implementer(IGate)
class OneAddress:
    """Admits one address, and lets another one acknowledge.

    @ivar answer: replaces the answer to everything, with an error or something that is not C{True}.
    """

    def __init__(self, address: str, acknowledger: str = "") -> None:
        self.address = address
        self.acknowledger = acknowledger
        self.answer: Any = None

    def admits(self, address: str) -> bool:
        return self._answer(address == self.address)

    def may_acknowledge(self, address: str) -> bool:
        return self._answer(address == self.acknowledger)

    def _answer(self, otherwise: bool) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: bool = otherwise if self.answer is None else self.answer
        return answer


class GatedPeersTests(NodesTestCase):
    """ALPHA, at 127.0.0.2, sends to BETA, which has a gate."""

    admitted = "127.0.0.2"

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if identifier == BETA:
            self.gate = OneAddress(self.admitted)
            kwargs["options"] = {"trusted_peers": GatedPeers(gate=self.gate, clock=self.clock)}
        return super().node(name, identifier, **kwargs)

    def arrived(self) -> list[bytes]:
        """Send a message, and return what has arrived."""
        self.run_to_end(self.alpha.service.send(TO_BETA, [Message(body=b"1")]))
        self.clock.advance(5)
        return self.bodies(self.beta, ".\\private$\\orders")

    def reasons(self) -> list[str]:
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [entry.event.reason for entry in stored if entry.event.event == "refused"]

    def test_admitted(self) -> None:
        """Messages of an address that the gate admits arrive."""
        self.queue(self.beta)
        self.assertEqual((self.arrived(), self.reasons()), ([b"1"], []))

    def test_refused(self) -> None:
        """Those of other addresses do not, even from this machine, and the event names the gate."""
        self.queue(self.beta)
        self.gate.address = "198.51.100.7"
        self.assertEqual(self.arrived(), [])
        self.assertEqual(
            self.reasons(),
            [
                "NACK_ACCESS_DENIED from 127.0.0.2: its sender is not authenticated, and the gate of the"
                " server does not admit '127.0.0.2'"
            ],
        )

    def test_gate_that_fails(self) -> None:
        """An error in a gate, and a result that is not C{True}, refuse."""
        self.queue(self.beta)
        for answer in (1, "yes", None.__class__, object()):
            self.gate.answer = answer
            self.assertEqual(self.arrived(), [], answer)
        self.gate.answer = ZeroDivisionError("a mistake in a gate")
        self.assertEqual(self.arrived(), [])
        for _ in range(20):
            self.arrived()
        # Two at once, and two a minute.
        self.assertLessEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2 * LINES + 2)

    def test_acknowledgements(self) -> None:
        """Who may acknowledge is a question of its own; the lists of the configuration have no effect."""
        peers = GatedPeers(gate=OneAddress("10.0.0.1", acknowledger="10.0.0.2"), clock=self.clock)
        peers.configure(TrustedPeers(Unauthenticated.ALLOW))
        addresses = ("10.0.0.1", "10.0.0.2", "127.0.0.1")
        self.assertEqual([peers.admits(each) for each in addresses], [True, False, False])
        self.assertEqual([peers.is_trusted(each) for each in addresses], [True, False, False])
        self.assertEqual([peers.may_acknowledge(each) for each in addresses], [False, True, False])
        self.assertEqual([peers.accepts_acknowledgements(each) for each in addresses], [True, True, False])
