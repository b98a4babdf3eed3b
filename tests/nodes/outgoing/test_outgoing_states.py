"""The states of outgoing queues, as C{msmq outgoing list} shows them."""

from __future__ import annotations

from msmq.structures.names.format_name import PrivateFormatName
from tests.builders import BETA
from tests.nodes.scripted import ScriptedTestCase
from tests.nodes.support import ADDRESSES, NodesTestCase

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


class DialledTests(ScriptedTestCase):
    """ALPHA dials a peer that does not continue the handshake."""

    def setUp(self) -> None:
        super().setUp()
        self.listen(is_mute=True)

    def state(self) -> str:
        [queue] = self.alpha.service.inspection.outgoing()
        return str(queue.state)

    def test_it_waits_once_its_next_hop_is_dialled(self) -> None:
        """Its name was unknown before (MQQB-3.1.5.2.3-06)."""
        self.send(self.alpha, "DIRECT=OS:nowhere\\private$\\orders", b"1")
        self.clock.advance(1)
        self.assertEqual(self.state(), "NEED VALIDATION")
        ADDRESSES["NOWHERE"] = ADDRESSES["GAMMA"]
        self.addCleanup(ADDRESSES.pop, "NOWHERE")
        self.clock.advance(5)
        self.assertEqual(len(self.peers), 1)
        self.assertEqual(self.state(), "WAITING")

    def test_a_paused_queue_stays_paused(self) -> None:
        """It was paused before the connection was there (MQQB-3.1.5.2.3-06)."""
        name = "DIRECT=TCP:127.0.0.4\\private$\\orders"
        self.send(self.alpha, name, b"1")
        self.alpha.service.pause_outgoing(name)
        self.assertEqual(self.peers, [])
        self.clock.advance(5)
        self.assertEqual(len(self.peers), 1)
        self.assertEqual(self.state(), "ONHOLD")

    def test_each_attempt_has_its_own_minute(self) -> None:
        """The deadline of a handshake that was cut short does not end the next one (MQQB-3.1.5.2.3-01)."""
        self.send(self.alpha, "DIRECT=TCP:127.0.0.4\\private$\\orders", b"1")
        self.clock.advance(50)
        self.peers[0].hang_up()
        self.clock.advance(6)
        self.assertEqual([peer.is_lost for peer in self.peers], [True, False])
        self.clock.advance(58.9)
        self.assertEqual([peer.is_lost for peer in self.peers], [True, False])
        self.clock.advance(0.2)
        self.assertEqual([peer.is_lost for peer in self.peers], [True, True])
