"""Messages in transit that a routing server cannot forward, or must not."""

from __future__ import annotations

from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.decisions import peer_queue_decision
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase


class ForwardingTests(EnterpriseTestCase):
    """Messages from ALPHA to ZETA and others, at the gate BETA."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.zeta)
        self.name = self.private_name(self.zeta, self.path)
        self.gate = self.nodes["BETA"]

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def test_one_queue_for_each_destination(self) -> None:
        """All messages in transit to one queue manager share a queue, for any destination queue."""
        other = self.private_name(self.zeta, self.queue(self.zeta, "others"))
        self.kill("DELTA")
        self.kill("EPSILON")
        for name in (self.name, other, f"PRIVATE={IDENTIFIERS['GAMMA']}\\00000009"):
            self.send(self.alpha, name, b"x", delivery=Delivery.RECOVERABLE)
        self.wait(5)
        waiting = {queue.format_name: queue.messages for queue in self.gate.service.inspection.outgoing()}
        names = [f"PRIVATE={str(IDENTIFIERS[name]).upper()}\\00000000" for name in ("ZETA", "GAMMA")]
        self.assertEqual(waiting, {names[0]: 2, names[1]: 1})

    def test_restart(self) -> None:
        """Recoverable messages that wait at a gate survive it, and go on in their order."""
        self.kill("DELTA")
        self.kill("EPSILON")
        bodies = [b"%d" % number for number in range(5)]
        self.send(self.alpha, self.name, *bodies, delivery=Delivery.RECOVERABLE)
        self.wait(5)
        self.assertEqual(sum(queue.messages for queue in self.alpha.service.inspection.outgoing()), 0)
        for name in ("BETA", "DELTA", "EPSILON"):
            if name == "BETA":
                self.kill(name)
            self.revive(name)
        self.wait(90)
        self.assertEqual(self.bodies(self.zeta, self.path), bodies)

    def test_no_room_for_a_queue(self) -> None:
        """A recoverable message stays with its sender until there is room, an express one is lost."""
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 0)
        self.send(self.alpha, self.name, b"express")
        self.wait(30)
        self.send(self.alpha, self.name, b"kept", delivery=Delivery.RECOVERABLE)
        self.wait(20)
        self.assertEqual([queue.messages for queue in self.alpha.service.inspection.outgoing()], [1])
        self.assertEqual(self.gate.service.inspection.outgoing(), [])
        self.assertGreaterEqual(self.gate.service.inspection.status().refused["TOO_MANY_QUEUES"], 2)
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 100)
        self.wait(120)
        self.assertEqual(self.bodies(self.zeta, self.path), [b"kept"])

    def test_idle_queue_of_the_same_batch(self) -> None:
        """At the limit of outgoing queues, a message whose empty queue makes room for another one is kept."""
        self.send(self.alpha, self.name, b"first", delivery=Delivery.RECOVERABLE)
        self.wait(10)
        self.assertEqual(self.take_bodies(), [b"first"])
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 1)
        self.send(self.alpha, self.name, b"second", delivery=Delivery.RECOVERABLE)
        other = f"PRIVATE={IDENTIFIERS['GAMMA']}\\00000009"
        self.send(self.alpha, other, b"other", delivery=Delivery.RECOVERABLE)
        self.wait(30)
        self.assertEqual(self.take_bodies(), [b"second"])

    def take_bodies(self) -> list[bytes]:
        """The bodies of what has arrived at ZETA since the last time."""
        return [bytes(view.body) for view in self.take(self.zeta, self.path)]

    def test_time_is_over(self) -> None:
        """A message that expires before it reaches a gate is not forwarded, and its sender is notified."""
        answers = self.queue(self.alpha, "answers")
        self.kill("BETA")
        self.kill("DELTA")
        self.kill("EPSILON")
        self.revive("BETA")
        self.send(
            self.alpha,
            self.name,
            b"x",
            time_to_reach_queue=30,
            acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=parse_format_name(self.private_name(self.alpha, answers)),
        )
        self.wait(90)
        [view] = self.take(self.alpha, answers)
        self.assertEqual(view.message_class, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
        self.revive("DELTA")
        self.revive("EPSILON")
        self.wait(90)
        self.assertEqual(self.take(self.zeta, self.path), [])
        for gate in ("BETA", "DELTA", "EPSILON"):
            waiting = [queue.messages for queue in self.nodes[gate].service.inspection.outgoing()]
            self.assertEqual(sum(waiting), 0, gate)
