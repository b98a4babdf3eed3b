"""Rules of a sender about messages that are sent again, and about trouble with its peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, BETA
from tests.nodes.outgoing.senders import TO_GAMMA, SenderTestCase
from tests.nodes.scripted import (
    JOURNAL,
    Heard,
    final_ack,
    order_ack,
)
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class ResendTests(SenderTestCase):
    """Messages that were sent before their connection was lost."""

    def test_the_previous_number_follows_what_is_left(self) -> None:
        """On the next session each names the nearest before it that is still to be delivered.

        What was order-acknowledged last stands for all before (MQQB-3.1.7.1.6-02).
        """
        self.put(b"1")
        self.put(b"2", time_to_reach_queue=3)
        self.put(b"3", b"4")
        self.assertEqual(self.numbers(), [(1, 0), (2, 1), (3, 2), (4, 3)])
        self.tell(order_ack(self.sequence(), 1))
        self.peer.hang_up()
        self.clock.advance(30)
        self.assertEqual(self.numbers(), [(3, 1), (4, 3)])

    def test_a_receiver_that_was_restored(self) -> None:
        """It knows less than it has acknowledged, and refuses what names more: after three short waits the
        first message that is left names none before it, which any receiver takes.
        """
        self.put(b"1", b"2", b"3")
        self.tell(order_ack(self.sequence(), 1))
        for _ in range(3):
            self.clock.advance(30)
            self.tell(order_ack(self.sequence(), 1))
        self.assertEqual(self.numbers(), [(1, 0), (2, 1), (3, 2), *[(2, 1), (3, 2)] * 2, (2, 0), (3, 2)])
        self.tell(order_ack(self.sequence(), 2))
        self.put(b"4")
        self.clock.advance(30)
        self.assertEqual(self.numbers()[-3:], [(4, 3), (3, 2), (4, 3)])

    def test_a_restored_receiver_over_a_bad_connection(self) -> None:
        """Each connection is lost before the waits have ended: that does not begin them again without end."""
        self.put(b"1", b"2", b"3")
        self.tell(order_ack(self.sequence(), 1))
        heard = []
        for _ in range(4):
            self.peer.hang_up()
            self.clock.advance(25)
            heard.append(self.numbers())
        self.assertEqual(heard, [*[[(2, 1), (3, 2)]] * 2, *[[(2, 0), (3, 2)]] * 2])

    def test_a_receiver_without_its_state(self) -> None:
        """BETA loses its store, and with it the streams: what it had not acknowledged arrives, in order."""
        path = self.queue(self.beta, transactional=True)
        self.send(self.alpha, TO_BETA, b"1", transactional=True)
        self.clock.advance(0.1)
        self.successResultOf(self.alpha.service.pause_outgoing(TO_BETA))
        self.send(self.alpha, TO_BETA, b"2", transactional=True)
        self.clock.advance(1)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).messages, 1)
        self.beta.deaf()
        self.beta.service.stopService()
        self.successResultOf(self.alpha.service.resume_outgoing(TO_BETA))
        self.send(self.alpha, TO_BETA, b"3", transactional=True)
        self.beta = self.node("BETA", BETA)
        self.beta.start()
        self.queue(self.beta, transactional=True)
        self.clock.advance(300)
        self.assertEqual(self.bodies(self.beta, path), [b"2", b"3"])
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_a_cut_in_the_middle_of_a_packet(self) -> None:
        """Half a packet counts for nothing: the whole message is sent on the next session.

        MQQB-3.1.7.1.6-03.
        """
        self.network.set_conditions("127.0.0.2", "127.0.0.4", Conditions(delay=0.1, largest_chunk=1000))
        body = bytes(range(256)) * 40
        self.put_others(b"0", recoverable=False)
        self.clock.advance(2)
        self.put_others(body)
        self.network.links[-1].acceptor.pauseProducing()
        heard = len(self.peer.heard)
        self.clock.advance(1)
        self.network.cut("127.0.0.2", "127.0.0.4")
        self.assertEqual(len(self.peers[0].heard), heard)
        self.clock.advance(1)
        self.assertEqual(self.waiting(self.alpha), 2)
        self.clock.advance(30)
        self.assertEqual(self.peer.bodies, [b"0", body])


class TroubleTests(SenderTestCase):
    """The store of the sender fails: nothing leaves that it does not have, and nothing is lost or doubled."""

    TROUBLES = (
        StorageFull("there is no space"),
        StorageError("the disk is on fire"),
        StorageError("the connection to the database is lost"),
    )

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "ALPHA" and "store" not in kwargs:
            self.disk = MemoryMessageStore(durable=True)
            self.store = SlowStore(self.disk, self.clock.reactor, 0.0)
            kwargs["store"] = self.store
        return super().node(name, identifier, **kwargs)

    def try_to_send(self, **properties: Any) -> Deferred[Any]:
        sending = self.deferred(self.alpha.service.send(TO_GAMMA, [Message(body=b"no", **properties)]))
        self.clock.advance(1)
        return sending

    def test_nothing_leaves_that_was_not_stored(self) -> None:
        """The send fails, and nothing is on the wire; when the store is back, all is as before."""
        for trouble in self.TROUBLES:
            self.store.trouble = trouble
            for properties in ({"transactional": True}, {"delivery": Delivery.RECOVERABLE}):
                self.failureResultOf(self.try_to_send(**properties), MQError)
            self.assertEqual([body for peer in self.peers for body in peer.bodies], [])
            self.store.trouble = None
            self.clock.advance(60)
        self.assertEqual(self.peers, [])
        self.try_to_send(delivery=Delivery.RECOVERABLE)
        self.try_to_send(transactional=True)
        self.assertEqual(self.peer.bodies, [b"no", b"no"])
        self.assertEqual(self.numbers_of(self.peer.messages[1:]), [(1, 0)])

    def numbers_of(self, messages: Sequence[Heard]) -> list[tuple[int, int]]:
        return [message.numbers for message in messages]

    def test_what_was_delivered_is_forgotten_later(self) -> None:
        """Acknowledged while the store fails: it is not sent again, and goes when the store is back."""
        for trouble in self.TROUBLES:
            self.try_to_send(delivery=Delivery.RECOVERABLE, journal=True)
            self.try_to_send(transactional=True, journal=True)
            self.store.trouble = trouble
            self.peer.acknowledge()
            self.tell(order_ack(self.sequence(), self.peer.messages[-1].numbers[0]))
            self.tell(final_ack(self.peer.messages[-1]))
            self.clock.advance(5)
            self.store.trouble = None
            self.clock.advance(130)
            self.assertEqual(self.waiting(self.alpha), 0)
        self.assertEqual(sum(len(peer.messages) for peer in self.peers), 6)
        # Of what is decided while the store has no space no copy is made.
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 5)

    def test_killed_before_it_is_forgotten(self) -> None:
        """After a restart it is sent again, with the same MessageID and position, by which the receiver
        detects it.
        """
        self.try_to_send(delivery=Delivery.RECOVERABLE)
        self.try_to_send(transactional=True)
        self.store.trouble = self.TROUBLES[1]
        self.peer.acknowledge()
        self.tell(order_ack(self.sequence(), 1))
        first = [message.packet for message in self.peer.messages]
        self.alpha.deaf()
        self.alpha.service.stopService()
        self.network.cut("127.0.0.2", "127.0.0.4")
        fresh = self.node("ALPHA", ALPHA, store=SlowStore(self.disk, self.clock.reactor, 0.0))
        fresh.start()
        self.clock.advance(20)
        self.assertEqual(sorted(message.packet for message in self.peer.messages), sorted(first))
