"""Memory limits: overflow of express messages into the store, and cached packets of stored ones."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError

import msmq.manager.performer
from msmq.persistence.changes import PutMessage
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.identity import identity_of
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import Status
from tests.builders import BETA
from tests.manager.support import ASK_ALL, BROKEN, FULL, JOURNAL, ManagerTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


def bodies(count: int, size: int = 100) -> list[bytes]:
    """Bodies that tell their numbers."""
    return [b"%d" % number + bytes(size) for number in range(count)]


class ExpressOverflowTests(ManagerTestCase):
    """A memory limit of about ten small express messages."""

    limits = {"express_memory": 4000, "packet_memory": 4000}  # noqa: RUF012

    def express(self, *messages: bytes, **properties: object) -> None:
        """Send express messages."""
        self.put(self.orders, *messages, delivery=Delivery.EXPRESS, **properties)

    def in_memory(self) -> int:
        """Bytes of express messages and of copies that memory has."""
        storage = self.alpha.model.storage
        return storage.express + storage.cached

    def test_all_arrive_in_order(self) -> None:
        """Memory stays within its limits, and no message is lost or doubled."""
        sent = bodies(200)
        for number in range(0, 200, 20):
            self.express(*sent[number : number + 20], acknowledge=ASK_ALL)
        self.assertLessEqual(self.in_memory(), 8000)
        self.assertEqual(self.seen(self.orders), sent)
        self.assertEqual(self.bodies(self.alpha, self.orders), sent)
        self.assertEqual(len(self.answers()), 400)
        self.assertEqual((self.in_memory(), self.service.inspection.status().bytes), (0, 0))

    def test_gone_with_a_restart(self) -> None:
        """They are express messages all the same."""
        self.express(*bodies(100))
        self.put(self.orders, b"kept")
        self.restart()
        self.assertEqual(self.seen(self.orders), [b"kept"])
        self.express(*bodies(100))
        self.assertEqual(len(self.bodies(self.alpha, self.orders)), 101)

    def test_every_removal(self) -> None:
        """They expire, are purged, moved, journaled, returned and deleted like others."""
        kept = self.queue(self.alpha, "kept", journal=True)
        sent = bodies(60)
        identifiers = self.put(kept, *sent, delivery=Delivery.EXPRESS)
        reservation = self.run_to_end(self.service.reserve(kept, count=50, timeout=0))
        reservation.release()
        self.run_to_end(self.service.move(identifiers[55], f"{kept};aside"))
        self.assertEqual(self.seen(f"{kept};aside"), [sent[55]])
        reservation = self.run_to_end(self.service.reserve(kept, count=40, timeout=0))
        self.run_to_end(reservation.confirm())
        self.assertEqual(self.seen(f"{kept};journal"), sent[:40])
        purging = self.deferred(self.service.purge_queue(kept))
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(purging), 19)
        self.express(*sent, time_to_be_received=10, dead_letter=True)
        self.clock.advance(100)
        self.assertEqual(self.count(self.orders), 0)
        self.assertEqual(self.seen(".\\system$;deadletter"), sent)
        self.express(*sent)
        for queue in (self.orders, kept):
            deleting = self.deferred(self.service.delete_queue(queue))
            self.clock.advance(1)
            self.successResultOf(deleting)
        purging = self.deferred(self.service.purge_queue(".\\system$;deadletter"))
        self.clock.advance(1)
        self.successResultOf(purging)
        self.assertEqual((self.in_memory(), self.service.inspection.status().messages), (0, 0))

    def test_the_store_cannot_take_them(self) -> None:
        """They stay in memory, without a visible difference; when it is full no more messages are
        accepted.
        """
        sent = bodies(100)
        self.express(*sent[:1])
        self.store.break_down(BROKEN)
        self.express(*sent[1:])
        self.assertEqual(self.seen(self.orders), sent)
        self.assertFalse(self.service.inspection.status().throttled)
        self.store.break_down(FULL)
        self.express(b"one more")
        self.assertTrue(self.service.inspection.status().throttled)
        self.store.recover()
        self.assertEqual(self.bodies(self.alpha, self.orders), [*sent, b"one more"])
        self.assertEqual(self.in_memory(), 0)

    def test_a_refused_batch_leaves_no_trace(self) -> None:
        """The others of a batch with a message that cannot be stored come again, and the store removes
        the first.
        """
        beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True))
        beta.start()
        self.addCleanup(beta.service.stopService)
        to_alpha = "DIRECT=TCP:127.0.0.2\\private$\\orders"
        self.store.break_down(BROKEN)
        self.store.is_hit = lambda changes: any(
            isinstance(change, PutMessage) and not change.is_express for change in changes
        )
        sent = bodies(100)
        self.send(beta, to_alpha, *sent)
        self.send(beta, to_alpha, b"last", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        self.store.recover()
        self.clock.advance(300)
        views = self.take(self.alpha, self.orders)
        self.assertEqual(bytes(views[-1].body), b"last")
        for view in views:
            self.assertEqual(self.successResultOf(self.store.find(identity_of(view.packet))), [])

    def test_read_before_they_are_stored(self) -> None:
        """A message is there for readers while the store is still at work, and is not lost by it."""
        sent = bodies(100)
        self.express(b"first")
        self.take(self.alpha, self.orders)
        self.store.is_slow = True
        self.express(*sent)
        reservation = self.run_to_end(self.service.reserve(self.orders, count=100, timeout=0))
        self.assertEqual([bytes(message.view.body) for message in reservation.messages], sent)
        confirming = self.deferred(reservation.confirm())
        self.store.catch_up()
        self.successResultOf(confirming)
        self.assertEqual((self.count(self.orders), self.in_memory()), (0, 0))

    def test_a_store_that_does_not_keep_up(self) -> None:
        """Senders wait, and memory does not fill up."""
        self.patch(msmq.manager.performer, "OVERFLOW_BACKLOG", 10_000)
        self.express(b"first")
        self.store.is_slow = True
        sendings = [
            self.deferred(self.service.send(self.orders, [Message(body=body)])) for body in bodies(100, 200)
        ]
        waiting = [sending for sending in sendings if not sending.called]
        self.assertTrue(50 < len(waiting) < 90, len(waiting))
        waiting[0].cancel()
        self.failureResultOf(waiting[0], CancelledError)
        self.store.catch_up()
        for sending in sendings:
            if sending is not waiting[0]:
                self.successResultOf(sending)
        self.assertEqual(self.count(self.orders), 101)
        self.assertEqual(len(self.seen(self.orders)), 101)


class PacketMemoryTests(ManagerTestCase):
    """A memory limit that caches no packet of stored messages."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True), packet_memory=0)
        self.beta.start()
        self.addCleanup(self.beta.service.stopService)
        self.there = self.queue(self.beta)

    def waiting(self) -> int:
        """How many messages ALPHA has still for BETA."""
        return int(self.service.inspection.outgoing()[0].messages)

    def test_read_when_needed(self) -> None:
        """Reading, releasing and receiving return the same packets, and none stays in memory."""
        sent = bodies(50)
        self.put(self.orders, *sent)
        self.assertEqual(self.alpha.model.storage.cached, 0)
        reservation = self.run_to_end(self.service.reserve(self.orders, count=50, timeout=0))
        reservation.release()
        [queue] = [queue for queue in self.alpha.model.queues() if "orders" in queue.definition.path]
        self.assertEqual({position.view for position in queue.positions.values()}, {None})
        self.assertEqual(self.seen(self.orders), sent)
        self.assertEqual(self.bodies(self.alpha, self.orders), sent)

    def test_to_another_queue_manager(self) -> None:
        """All messages arrive once and in order, of any priority and delivery."""
        sent = bodies(500)
        for number in range(0, 500, 50):
            self.put(TO_BETA, *sent[number : number + 50], journal=True)
        self.put(TO_BETA, b"urgent", priority=7)
        self.clock.advance(60)
        self.assertEqual(self.waiting(), 0)
        arrived = self.bodies(self.beta, self.there)
        self.assertEqual(sorted(arrived), sorted([*sent, b"urgent"]))
        self.assertEqual([body for body in arrived if body != b"urgent"], sent)
        self.assertEqual(self.seen(JOURNAL), sent)

    def test_transactional_with_its_fate(self) -> None:
        """A message whose fate is to be acknowledged is, though its packet was not kept in memory."""
        payments = self.queue(self.beta, "payments", transactional=True)
        to = "DIRECT=TCP:127.0.0.3\\private$\\payments"
        self.put(to, *bodies(20), transactional=True, journal=True, dead_letter=True)
        self.clock.advance(60)
        transaction = self.beta.service.begin()
        for body in bodies(20):
            view = self.run_to_end(self.beta.service.receive(payments, timeout=0, transaction=transaction))
            self.assertEqual(bytes(view.body), body)
        self.assertEqual(self.seen(JOURNAL), [])
        self.run_to_end(transaction.commit())
        self.clock.advance(60)
        self.assertEqual(self.seen(JOURNAL), bodies(20))

    def test_received_in_a_transaction_by_their_source(self) -> None:
        """A message that asks for a journal copy has one, though its packet was in the store only."""
        self.put(self.payments, b"asked", journal=True)

        async def receive() -> None:
            async with self.service.begin() as transaction:
                await self.service.reserve(self.payments, timeout=0, transaction=transaction)

        self.run_to_end(receive())
        self.assertEqual(self.seen(JOURNAL), [b"asked"])

    def test_packets_are_dropped_after_delivery(self) -> None:
        """Messages whose packets were dropped are confirmed, released, purged and expire like others."""
        kept = self.queue(self.alpha, "kept", journal=True)
        self.put(kept, b"1", b"2", b"3", journal=True, acknowledge=ASK_ALL)

        async def deliver(count: int) -> Any:
            reservation = await self.service.reserve(kept, count=count, timeout=0)
            reservation.drop_packets()
            self.assertEqual(list(reservation.messages), [])
            return reservation

        self.run_to_end(self.run_to_end(deliver(1)).confirm())
        self.assertEqual(self.seen(f"{kept};journal"), [b"1"])
        self.run_to_end(deliver(2)).release()
        self.assertEqual(self.seen(kept), [b"2", b"3"])
        held = self.run_to_end(deliver(2))
        self.run_to_end(self.service.purge_queue(kept))
        held.release()
        classes = [int(message_class) for message_class, _ in self.answers()]
        self.assertEqual(sorted(classes), sorted([0x02] * 3 + [0x4000] + [0xC001] * 2))

    def test_packets_cannot_be_read_for_a_while(self) -> None:
        """They leave later, in order, without any intervention."""
        self.put(TO_BETA, b"first")
        self.clock.advance(5)
        self.store.unreadable = BROKEN
        sent = bodies(100)
        self.put(TO_BETA, *sent)
        self.clock.advance(30)
        self.assertEqual(self.waiting(), 100)
        self.store.recover()
        self.clock.advance(10)
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.bodies(self.beta, self.there), [b"first", *sent])

    def test_the_peer_goes_while_packets_are_read(self) -> None:
        """They go over the next connection."""
        self.put(TO_BETA, b"first")
        self.clock.advance(5)
        sent = bodies(100)
        self.put(TO_BETA, *sent)
        self.store.is_slow = True
        self.put_slowly(b"last")
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.clock.advance(1)
        self.store.catch_up()
        self.network.heal("127.0.0.2", "127.0.0.3")
        self.clock.advance(600)
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.bodies(self.beta, self.there), [b"first", *sent, b"last"])

    def put_slowly(self, body: bytes) -> None:
        """Send while the store is slow."""
        self.deferred(self.service.send(TO_BETA, [Message(body=body, delivery=Delivery.RECOVERABLE)]))

    def test_a_look_at_what_is_just_received(self) -> None:
        """A peek sees the next message instead."""
        self.put(self.orders, b"1", b"2")
        self.store.is_slow = True
        peeking = self.deferred(self.service.peek(self.orders, timeout=0))
        receiving = self.deferred(self.service.receive(self.orders, timeout=0))
        self.store.catch_up()
        self.assertEqual(bytes(self.successResultOf(receiving).body), b"1")
        self.assertIn(bytes(self.successResultOf(peeking).body), (b"1", b"2"))

    def test_a_read_that_fails(self) -> None:
        """The message is back at its position, and can be received when the store works."""
        self.put(self.orders, b"1", b"2")
        self.store.unreadable = BROKEN
        failed = Status.MQ_ERROR_MESSAGE_STORAGE_FAILED
        self.refused(self.service.receive(self.orders, timeout=0), failed)
        self.refused(self.service.reserve(self.orders, count=2, timeout=0), failed)
        self.refused(self.service.peek(self.orders, timeout=0), failed)
        self.store.recover()
        self.assertEqual(self.bodies(self.alpha, self.orders), [b"1", b"2"])

    def test_a_read_that_is_cancelled(self) -> None:
        """A caller that cancels while the packet is loaded has received nothing."""
        self.put(self.orders, b"1")
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.orders, timeout=0))
        receiving.cancel()
        self.failureResultOf(receiving, CancelledError)
        self.store.catch_up()
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_stopped_while_packets_are_read(self) -> None:
        """No message is lost."""
        self.put(self.orders, b"1")
        self.store.is_slow = True
        receiving = self.deferred(self.service.reserve(self.orders, timeout=0))
        self.restart()
        self.successResultOf(receiving)
        self.assertEqual(self.seen(self.orders), [b"1"])
