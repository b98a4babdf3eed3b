"""Transactional messages between queue managers: exactly once, in order, with their result reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
DEADXACT = ".\\system$;deadxact"
JOURNAL = ".\\system$;journal"


def transactional(*bodies: bytes, **properties: Any) -> list[Message]:
    return [Message(body=body, transactional=True, **properties) for body in bodies]


class TransferTestCase(NodesTestCase):
    """Two queue managers whose stores keep what was committed."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def begin(self, *bodies: bytes, **properties: Any) -> None:
        """Send from ALPHA, in one transaction."""
        self.run_to_end(self.alpha.service.send(TO_BETA, transactional(*bodies, **properties)))

    def waiting(self, node: Node | None = None) -> int:
        """How many messages have not left yet, acknowledgements included."""
        return sum(queue.messages for queue in (node or self.alpha).service.inspection.outgoing())

    def there(self, node: Node, path: str) -> list[bytes]:
        """The messages in a queue, which stay in it."""
        reservation = self.run_to_end(node.service.reserve(path, count=1000, timeout=0, peek=True))
        return [bytes(message.view.body) for message in reservation.messages]


class TransferTests(TransferTestCase):
    """No failures."""

    def test_they_arrive_in_order_and_are_forgotten(self) -> None:
        """Messages of transactions arrive once, in order, and are removed from the sender with the
        OrderAck.
        """
        path = self.queue(self.beta, transactional=True)
        expected: list[bytes] = []
        for number in range(20):
            bodies = [b"%d.%d" % (number, each) for each in range(number % 4 + 1)]
            self.begin(*bodies)
            expected += bodies
        self.clock.advance(5)
        views = self.take(self.beta, path)
        self.assertEqual([bytes(view.body) for view in views], expected)
        self.assertEqual(self.waiting(), 0)
        numbers = [view.tx_sequence_number for view in views]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(self.beta.service.inspection.status().refused, {})

    def test_transactions_are_marked(self) -> None:
        """The first and the last message of each transaction are marked, and its number is the same."""
        path = self.queue(self.beta, transactional=True)
        self.begin(b"1", b"2", b"3")
        self.begin(b"4")
        self.clock.advance(5)
        views = self.take(self.beta, path)
        self.assertEqual(
            [(view.is_first, view.is_last) for view in views],
            [(True, False), (False, False), (False, True), (True, True)],
        )

    def test_nothing_of_an_aborted_transaction_leaves(self) -> None:
        """Its messages are not sent, and leave no gap."""
        path = self.queue(self.beta, transactional=True)
        transaction = self.alpha.service.begin()
        self.run_to_end(self.alpha.service.send(TO_BETA, transactional(b"no"), transaction=transaction))
        self.begin(b"yes")
        self.run_to_end(transaction.abort())
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, path), [b"yes"])
        self.assertEqual(self.waiting(), 0)

    def test_they_leave_in_the_order_of_the_commits(self) -> None:
        """The transaction that was committed first comes first, whichever sent first."""
        path = self.queue(self.beta, transactional=True)
        service = self.alpha.service
        early, late = service.begin(), service.begin()
        self.run_to_end(service.send(TO_BETA, transactional(b"a", b"b"), transaction=early))
        self.run_to_end(service.send(TO_BETA, transactional(b"c", b"d"), transaction=late))
        self.run_to_end(late.commit())
        self.run_to_end(early.commit())
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, path), [b"c", b"d", b"a", b"b"])

    def test_a_thousand(self) -> None:
        """More than a window, and more than one commit of the store."""
        path = self.queue(self.beta, transactional=True)
        bodies = [b"%d" % number for number in range(1000)]
        for start in range(0, 1000, 50):
            self.begin(*bodies[start : start + 50])
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.beta, path), bodies)
        self.assertEqual(self.waiting(), 0)


class LossTests(TransferTestCase):
    """Connections break, and processes die."""

    def restart(self, node: Node, name: str) -> Node:
        """Start a killed queue manager again on its store."""
        node.deaf()
        node.service.stopService()
        fresh = self.node(name, node.model.identifier, store=node.store)
        fresh.start()
        return fresh

    def check(self, path: str, bodies: Sequence[bytes]) -> None:
        self.assertEqual(self.bodies(self.beta, path), list(bodies))
        self.assertEqual(self.waiting(), 0)

    def test_the_receiver_starts_late(self) -> None:
        """They wait, and leave when the receiver listens."""
        path = self.queue(self.beta, transactional=True)
        self.beta.deaf()
        self.begin(b"1", b"2")
        self.clock.advance(20)
        self.beta.listen()
        self.clock.advance(60)
        self.check(path, [b"1", b"2"])

    def test_the_connection_breaks_again_and_again(self) -> None:
        """Wherever it breaks, everything arrives once and in order."""
        path = self.queue(self.beta, transactional=True)
        bodies = [b"%d" % number for number in range(100)]
        for number, body in enumerate(bodies):
            self.begin(body)
            self.clock.advance(0.03)
            if number % 7 == 3:
                self.network.cut("127.0.0.2", "127.0.0.3")
                self.clock.advance(0.01)
        self.clock.advance(300)
        self.check(path, bodies)

    def test_the_sender_dies(self) -> None:
        """Committed messages are sent after a restart, and those that had arrived are not delivered again."""
        path = self.queue(self.beta, transactional=True)
        self.begin(b"1", b"2")
        self.clock.advance(0.1)
        self.begin(b"3")
        self.alpha = self.restart(self.alpha, "ALPHA")
        self.clock.advance(60)
        self.begin(b"4")
        self.clock.advance(60)
        self.check(path, [b"1", b"2", b"3", b"4"])

    def test_the_receiver_dies(self) -> None:
        """Messages stored before are not delivered again, and the rest follows."""
        path = self.queue(self.beta, transactional=True)
        self.begin(b"1", b"2")
        self.clock.advance(0.1)
        self.beta = self.restart(self.beta, "BETA")
        self.begin(b"3")
        self.clock.advance(120)
        self.check(path, [b"1", b"2", b"3"])

    def test_recoverable_messages_are_known_again(self) -> None:
        """One that is sent again because its acknowledgement was lost is not delivered twice."""
        path = self.queue(self.beta)
        message = Message(body=b"r", delivery=Delivery.RECOVERABLE)
        for _ in range(30):
            self.run_to_end(self.alpha.service.send(TO_BETA, [message]))
            self.clock.advance(0.01)
            self.network.cut("127.0.0.2", "127.0.0.3")
            self.clock.advance(7)
        self.clock.advance(60)
        self.assertEqual(len(self.take(self.beta, path)), 30)


class FateTests(TransferTestCase):
    """The sender keeps a copy of what it wants to know the fate of."""

    def test_received(self) -> None:
        """The FinalAck brings a copy into the journal of the sender, and not the OrderAck."""
        path = self.queue(self.beta, transactional=True)
        self.begin(b"1", b"2", journal=True)
        self.clock.advance(10)
        self.assertEqual(self.alpha.service.inspection.status().messages, 2)
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"2"])
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"1", b"2"])
        self.assertEqual(self.alpha.service.inspection.status().messages, 0)
        self.assertEqual(self.waiting(self.beta), 0)

    def test_the_queue_is_not_there(self) -> None:
        """A refusal comes back, and the message becomes a dead letter that says why."""
        self.begin(b"1", dead_letter=True)
        self.begin(b"2")
        self.clock.advance(10)
        [dead_letter] = self.take(self.alpha, DEADXACT)
        self.assertEqual((bytes(dead_letter.body), dead_letter.message_class), (b"1", 0x8000))
        self.assertEqual(self.waiting(), 0)

    def test_a_queue_that_is_not_transactional(self) -> None:
        """It is refused with a class of its own."""
        self.queue(self.beta)
        self.begin(b"1", dead_letter=True)
        self.clock.advance(10)
        [dead_letter] = self.take(self.alpha, DEADXACT)
        self.assertEqual(dead_letter.message_class, 0x8009)

    def test_purged_and_expired_there(self) -> None:
        """Its fate in the queue of the receiver is reported as well."""
        path = self.queue(self.beta, transactional=True)
        self.begin(b"purged", dead_letter=True)
        self.clock.advance(5)
        self.run_to_end(self.beta.service.purge_queue(path))
        self.begin(b"expired", dead_letter=True, time_to_be_received=30)
        self.clock.advance(60)
        dead_letters = self.take(self.alpha, DEADXACT)
        self.assertEqual(
            [(bytes(dead_letter.body), dead_letter.message_class) for dead_letter in dead_letters],
            [(b"purged", 0xC001), (b"expired", 0xC002)],
        )

    def test_expired_in_transit(self) -> None:
        """A message that cannot be sent in time stays here, and later ones are delivered."""
        path = self.queue(self.beta, transactional=True)
        self.beta.deaf()
        self.begin(b"late", dead_letter=True, time_to_reach_queue=10)
        self.begin(b"good")
        self.clock.advance(30)
        self.assertEqual(self.there(self.alpha, DEADXACT), [b"late"])
        self.beta.listen()
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, path), [b"good"])
        self.assertEqual(self.waiting(), 0)

    def test_a_restart_in_between(self) -> None:
        """The sender remembers what it wants to know over a restart."""
        path = self.queue(self.beta, transactional=True)
        self.begin(b"1", journal=True)
        self.clock.advance(10)
        self.alpha.deaf()
        self.alpha.service.stopService()
        self.alpha = Node(
            self.network, self.clock, "ALPHA", self.alpha.model.identifier, self.settings, self.alpha.store
        )
        self.alpha.start()
        self.assertEqual(self.bodies(self.beta, path), [b"1"])
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"1"])
