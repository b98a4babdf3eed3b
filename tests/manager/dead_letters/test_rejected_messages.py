"""Messages that an application will not have."""

from __future__ import annotations

from msmq.queues.arriving.message import Acknowledge
from msmq.structures.packet.message_class import MessageClass
from tests.manager.support import BROKEN, DEADLETTER, DEADXACT, ManagerTestCase

REJECTED = MessageClass.NACK_RECEIVE_REJECTED


class RejectTests(ManagerTestCase):
    """L{Reservation.reject}."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def test_what_follows(self) -> None:
        """They leave permanently; their senders get acknowledgements and dead letters, if they asked
        for these.
        """
        for queue, dead_letters in ((self.orders, DEADLETTER), (self.payments, DEADXACT)):
            self.put(queue, b"1", dead_letter=True, acknowledge=Acknowledge.NEGATIVE_RECEIVE)
            self.put(queue, b"2")
            reservation = self.run_to_end(self.service.reserve(queue, count=2, timeout=0))
            reservation.reject()
            reservation.release()
            self.assertEqual((self.seen(queue), self.seen(dead_letters)), ([], [b"1"]))
            self.assertEqual(self.answers(), [(REJECTED, b"1")])
        self.assertEqual([event.event for event in self.events()], ["rejected"] * 4)
        self.restart(crash=True)
        self.assertEqual((self.count(self.orders), self.count(self.payments)), (0, 0))

    def test_the_store_fails(self) -> None:
        """They cannot be received meanwhile, and leave once the store works again."""
        self.put(self.orders, b"1")
        reservation = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.store.break_down(BROKEN)
        reservation.reject()
        self.assertEqual((self.seen(self.orders), self.count(self.orders)), ([], 1))
        self.store.recover()
        self.clock.advance(100)
        self.assertEqual(self.count(self.orders), 0)

    def test_purged_or_deleted_meanwhile(self) -> None:
        """They leave for that reason, each with one event."""
        self.put(self.orders, b"1", b"2")
        first, second = [self.run_to_end(self.service.reserve(self.orders, timeout=0)) for _ in range(2)]
        self.run_to_end(self.service.purge_queue(self.orders))
        first.reject()
        self.run_to_end(self.service.delete_queue(self.orders))
        second.reject()
        self.assertEqual([event.event for event in self.events()], ["purged", "deleted"])

    def test_a_transaction_decides(self) -> None:
        """Messages received in a transaction, or only peeked at, cannot be rejected."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        taken = self.run_to_end(self.service.reserve(self.payments, timeout=0, transaction=transaction))
        taken.reject()
        self.run_to_end(transaction.abort())
        self.run_to_end(self.service.reserve(self.payments, timeout=0, peek=True)).reject()
        self.assertEqual(self.seen(self.payments), [b"1"])
