"""The states of outgoing queues, as C{msmq outgoing list} shows them."""

from __future__ import annotations

from msmq.structures.names.format_name import PrivateFormatName
from tests.builders import BETA
from tests.nodes.support import NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\"


class SharedSessionTests(NodesTestCase):
    """Queues that find a session open, which another queue has asked for."""

    def states(self) -> list[str]:
        """The states of the outgoing queues of ALPHA, in the order of their first use."""
        return [queue.state for queue in self.alpha.service.inspection.outgoing()]

    def test_a_second_queue_of_a_next_hop_is_connected_at_once(self) -> None:
        """It shares the session of the first."""
        for name in ("first", "second"):
            self.queue(self.beta, name)
            self.send(self.alpha, TO_BETA + name, b"x")
            self.clock.advance(1)
        self.assertEqual(self.states(), ["CONNECTED", "CONNECTED"])

    def test_a_queue_of_the_same_queue_manager_is_connected_at_once(self) -> None:
        """A session leads to a queue manager, for any of its names."""
        self.queue(self.beta, "first")
        self.send(self.alpha, TO_BETA + "first", b"x")
        self.clock.advance(1)
        self.send(self.alpha, str(PrivateFormatName(BETA, 1)), b"y")
        self.assertEqual(self.states(), ["CONNECTED", "CONNECTED"])

    def test_all_are_disconnected_together(self) -> None:
        """When the session ends, none of them stays connected."""
        for name in ("first", "second"):
            self.queue(self.beta, name)
            self.send(self.alpha, TO_BETA + name, b"x")
            self.clock.advance(1)
        self.clock.advance(700)
        self.assertEqual(self.states(), ["DISCONNECTED", "DISCONNECTED"])
