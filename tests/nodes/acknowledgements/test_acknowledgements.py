"""Administration acknowledgements of express messages, between two queue managers."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.machine_quota import QuotaKind
from msmq.structures.names.format_name import FormatName, PrivateFormatName, parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.transfer.decisions import peer_queue_decision
from tests.builders import ALPHA, BETA
from tests.manager.support import FaultyStore
from tests.nodes.scripted import JOURNAL
from tests.nodes.support import Node, NodesTestCase

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class AcknowledgementTests(NodesTestCase):
    """Messages in the administration queue of the sender."""

    def setUp(self) -> None:
        super().setUp()
        self.admin = self.queue(self.alpha, "admin")

    def ask(
        self,
        acknowledge: Acknowledge,
        *,
        destination: str = TO_BETA,
        admin: FormatName = ADMIN,
        body: bytes = b"body",
    ) -> None:
        """Send one message that asks for acknowledgements."""
        message = Message(body=body, label="asks", body_type=8, acknowledge=acknowledge, admin_queue=admin)
        self.run_to_end(self.alpha.service.send(destination, [message]))
        self.clock.advance(1)

    def answers(self) -> list[UserMessageView]:
        """The messages in the administration queue."""
        self.clock.advance(1)
        return self.take(self.alpha, self.admin)

    def classes(self) -> list[int]:
        return [view.message_class for view in self.answers()]

    def test_arrival_is_acknowledged(self) -> None:
        """PA: ACK_REACH_QUEUE once the message is in its queue.

        MQMQ-2.2.19.3-03, MQQB-3.1.5.8.10-01, MQQB-3.1.7.15-08, MQQB-3.1.7.15-15.
        """
        self.queue(self.beta)
        self.ask(Acknowledge.POSITIVE_ARRIVAL)
        self.assertEqual(self.classes(), [MessageClass.ACK_REACH_QUEUE])

    def test_local_arrival_is_acknowledged(self) -> None:
        """A message to a queue of the same queue manager is not a different."""
        self.queue(self.alpha, "here")
        self.ask(Acknowledge.POSITIVE_ARRIVAL, destination=".\\private$\\here")
        self.assertEqual(self.classes(), [MessageClass.ACK_REACH_QUEUE])

    def test_receiving_is_acknowledged(self) -> None:
        """PR: ACK_RECEIVE when the application has received it, not before, and not for a peek.

        MQMQ-2.2.19.3-04, MQQB-3.1.7.2.1-01, MQQB-3.1.7.2.1-03.
        """
        path = self.queue(self.beta)
        self.ask(Acknowledge.POSITIVE_RECEIVE)
        self.run_to_end(self.beta.service.peek(path, timeout=0))
        reservation = self.run_to_end(self.beta.service.reserve(path, timeout=0))
        reservation.release()
        self.assertEqual(self.classes(), [])
        self.run_to_end(self.beta.service.receive(path, timeout=0))
        self.assertEqual(self.classes(), [MessageClass.ACK_RECEIVE])

    def test_failed_delivery_is_acknowledged(self) -> None:
        """NA, 0x04 in Flags, alone requests it: the class says why it failed, and the body comes back, which
        a positive acknowledgement does not have.

        MQMQ-2.2.19.3-05, MQQB-3.1.7.15-13.
        """
        path = self.queue(self.beta, quota=0)
        for flags in (0x01, 0x02, 0x08):
            self.ask(Acknowledge(flags), body=b"too much")
            self.assertEqual(self.classes(), [])
        self.ask(Acknowledge(0x04), body=b"too much")
        [answer] = self.answers()
        self.assertEqual(answer.message_class, MessageClass.NACK_Q_EXCEED_QUOTA)
        self.assertEqual(bytes(answer.body), b"too much")
        self.run_to_end(self.beta.service.set_queue(path, {"quota": 100}))
        self.ask(Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE, body=b"fits")
        self.run_to_end(self.beta.service.receive(path, timeout=0))
        self.assertEqual(
            [(view.message_class, bytes(view.body)) for view in self.answers()],
            [(MessageClass.ACK_REACH_QUEUE, b""), (MessageClass.ACK_RECEIVE, b"")],
        )

    def test_an_unread_message_is_acknowledged(self) -> None:
        """NR: NACK_Q_DELETED when the queue goes with the message in it.

        MQMQ-2.2.19.3-06, MQQB-3.1.7.2.1-04.
        """
        path = self.queue(self.beta)
        self.ask(Acknowledge.NEGATIVE_RECEIVE)
        self.run_to_end(self.beta.service.delete_queue(path))
        self.assertEqual(self.classes(), [MessageClass.NACK_Q_DELETED])

    def test_a_large_queue_goes_in_slices(self) -> None:
        """Thousands of senders are notified in slices that do not block the reactor, and each is notified."""
        path = self.queue(self.beta)
        messages = [Message(acknowledge=Acknowledge.NEGATIVE_RECEIVE, admin_queue=ADMIN) for _ in range(1200)]
        self.run_to_end(self.alpha.service.send(TO_BETA, messages))
        self.clock.advance(10)
        deleting = self.deferred(self.beta.service.delete_queue(path))
        self.assertNoResult(deleting)
        self.clock.advance(10)
        self.successResultOf(deleting)
        self.clock.advance(1)
        answers = self.take(self.alpha, self.admin, 5000)
        self.assertEqual([view.message_class for view in answers], [MessageClass.NACK_Q_DELETED] * 1200)

    def test_a_non_transactional_message_to_a_transactional_queue(self) -> None:
        """NA: NACK_NOT_TRANSACTIONAL_MSG (MQQB-3.1.5.8.2-09)."""
        self.queue(self.beta, transactional=True)
        self.ask(Acknowledge.NEGATIVE_ARRIVAL)
        self.assertEqual(self.classes(), [MessageClass.NACK_NOT_TRANSACTIONAL_MSG])

    def test_unauthenticated_peers_learn_of_no_missing_queue(self) -> None:
        """NACK_BAD_DST_Q is not sent unless insecure acknowledgements are permitted.

        MQQB-3.1.7.15-02.
        """
        self.ask(Acknowledge.NEGATIVE_ARRIVAL)
        self.assertEqual(self.classes(), [])
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1})

    def test_nothing_asked_nothing_sent(self) -> None:
        """Each bit asks for its own class only."""
        path = self.queue(self.beta)
        self.ask(Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE)
        self.run_to_end(self.beta.service.receive(path, timeout=0))
        self.assertEqual(self.classes(), [])

    def test_an_acknowledgement_names_its_message(self) -> None:
        """CorrelationID is the source and number of the message, ResponseQueue its destination.

        MQMQ-2.2.19.3-11, MQQB-3.1.7.15-09, MQQB-3.1.7.15-10, MQQB-3.1.7.15-12.
        """
        path = self.queue(self.beta)
        self.ask(Acknowledge.POSITIVE_ARRIVAL)
        message = self.run_to_end(self.beta.service.peek(path, timeout=0))
        [answer] = self.answers()
        expected = ALPHA.bytes_le + struct.pack("<I", message.message_id)
        self.assertEqual(answer.correlation_id, expected)
        self.assertEqual(str(answer.response_format_name()), TO_BETA)
        self.assertEqual(answer.source_queue_manager, BETA.bytes_le)
        self.assertEqual(
            (answer.is_recoverable, answer.acknowledge, answer.journal, answer.dead_letter),
            (False, 0, False, False),
        )
        self.assertEqual((answer.time_to_reach_queue, answer.time_to_be_received), (0xFFFFFFFF, 0xFFFFFFFF))
        self.assertEqual((bytes(answer.body), answer.privacy_level, answer.security), (b"", 0, None))

    def test_private_administration_queues_use_the_session(self) -> None:
        """AQ 2, a private queue of the sender: the answer takes the session that is there.

        MQQB-3.1.7.15-04.
        """
        self.queue(self.beta)
        number = int(self.alpha.service.inspection.queue(self.admin).format_name.rpartition("\\")[2], 16)
        self.ask(Acknowledge.POSITIVE_ARRIVAL, admin=PrivateFormatName(ALPHA, number))
        self.assertEqual(self.classes(), [MessageClass.ACK_REACH_QUEUE])
        self.assertEqual(len(self.network.links), 1)

    def test_an_administration_queue_that_cannot_be_reached_is_forgotten(self) -> None:
        """The message is delivered all the same (MQQB-3.1.7.15-14)."""
        path = self.queue(self.beta)
        self.ask(Acknowledge.POSITIVE_ARRIVAL, admin=parse_format_name(f"PUBLIC={BETA}"))
        self.assertEqual(self.bodies(self.beta, path), [b"body"])
        self.assertEqual(self.classes(), [])

    def test_queues_caused_by_unauthenticated_peers_are_limited(self) -> None:
        """Beyond a limit idle outgoing queues are deleted, and busy ones are kept."""
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 4)
        self.queue(self.beta)
        for number in range(6):
            name = parse_format_name(f"DIRECT=TCP:127.0.0.2\\private$\\none{number}")
            self.ask(Acknowledge.POSITIVE_ARRIVAL, admin=name)
            self.clock.advance(30)
        self.assertEqual(len(self.beta.service.inspection.outgoing()), 4)
        for number in range(6):
            name = parse_format_name(f"DIRECT=OS:nowhere\\private$\\none{number}")
            self.ask(Acknowledge.POSITIVE_ARRIVAL, admin=name)
        self.assertEqual([queue.messages for queue in self.beta.service.inspection.outgoing()], [0, 1, 1, 1])

    def test_applications_do_not_send_the_systems_classes(self) -> None:
        """A class of its own is an application's right, a predefined one is not (MQMQ-2.2.18.1.6-21)."""
        path = self.queue(self.alpha, "here")
        self.send(self.alpha, path, b"mine", message_class=0x0123)
        self.assertEqual([view.message_class for view in self.take(self.alpha, path)], [0x0123])
        failure = self.failureResultOf(
            self.deferred(self.alpha.service.send(path, [Message(message_class=0x8000)])), MQError
        )
        self.assertEqual(failure.value.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)


class FullQueueManagerTests(NodesTestCase):
    """BETA has messages of ALPHA, and no space in its quota."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        limits: dict[str, Any] = {}
        if name == "BETA":
            limits = {"quota": 16, "options": {"send_insecure_nacks": True}}
        return super().node(name, identifier, store=FaultyStore(), **limits, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.payments = self.queue(self.beta, "payments", transactional=True)
        self.orders = self.queue(self.beta)
        self.admin = self.queue(self.alpha, "admin")
        self.pay(b"1", journal=True)
        self.send(
            self.alpha,
            TO_BETA,
            b"2",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE,
            admin_queue=ADMIN,
        )
        self.clock.advance(30)

    def pay(self, body: bytes, **properties: Any) -> None:
        """ALPHA sends a transactional message."""
        self.send(self.alpha, TO_BETA.replace("orders", "payments"), body, transactional=True, **properties)

    def fill(self) -> None:
        """Use up the quota of BETA."""
        for size in (4000, 2000, 1000, 500, 250, 100, 50, 20, 1):
            for _ in range(4):
                sending = self.deferred(self.beta.service.send(self.orders, [Message(body=bytes(size))]))
                sending.addErrback(lambda failure: failure.trap(MQError) and None)

    def results(self) -> tuple[int, list[int]]:
        """What ALPHA gets: copies in its journal, and the classes of acknowledgements."""
        self.clock.advance(100)
        classes = [view.message_class for view in self.take(self.alpha, self.admin)]
        return self.alpha.service.inspection.queue(JOURNAL).messages, classes

    def test_receipts(self) -> None:
        """The results of messages that are received reach their sender: they replace the messages."""
        self.fill()
        self.take(self.beta, self.payments)
        self.take(self.beta, self.orders, 1)
        self.assertEqual(self.results(), (1, [MessageClass.ACK_RECEIVE]))

    def test_receipts_at_once(self) -> None:
        """So do those of messages whose removals are stored at the same time."""
        self.fill()
        service, store = self.beta.service, self.beta.store
        assert isinstance(store, FaultyStore)
        held = [self.run_to_end(service.reserve(each, timeout=0)) for each in (self.payments, self.orders)]
        store.is_slow = True
        confirming = [self.deferred(each.confirm()) for each in held]
        store.catch_up()
        for each in confirming:
            self.successResultOf(each)
        self.assertEqual(self.results(), (1, [MessageClass.ACK_RECEIVE]))

    def test_receipts_below_the_quota(self) -> None:
        """So do those of messages that have more bytes than a quota that was lowered."""
        self.fill()
        self.run_to_end(self.beta.service.set_quotas({QuotaKind.QUEUES: 4}))
        self.take(self.beta, self.payments)
        self.take(self.beta, self.orders, 1)
        self.assertEqual(self.results(), (1, [MessageClass.ACK_RECEIVE]))

    def test_receipts_with_arrivals(self) -> None:
        """So do those of a transaction that also sends, and the results of that."""
        self.pay(b"3", acknowledge=Acknowledge.POSITIVE_RECEIVE, admin_queue=ADMIN)
        self.clock.advance(30)
        service = self.beta.service
        transaction = service.begin()
        message = Message(
            body=b"4", transactional=True, acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue=ADMIN
        )
        self.run_to_end(service.send(self.payments, [message], transaction=transaction))
        self.fill()
        for _ in range(2):
            self.run_to_end(service.receive(self.payments, timeout=0, transaction=transaction))
        self.run_to_end(transaction.commit())
        classes = [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
        self.assertEqual(self.results(), (1, classes))

    def test_purge(self) -> None:
        """So do those of messages that are removed unread."""
        self.fill()
        self.run_to_end(self.beta.service.purge_queue(self.orders))
        self.assertEqual(self.results(), (0, [MessageClass.NACK_Q_PURGED]))

    def test_expiry_in_an_outgoing_queue(self) -> None:
        """So do those of messages that expire before they have arrived, of which such a queue manager may be
        full.
        """
        admin = self.queue(self.beta, "admin")
        self.send(
            self.beta,
            "DIRECT=TCP:127.0.0.4\\private$\\orders",
            b"5",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\admin"),
            time_to_reach_queue=60,
        )
        self.fill()
        self.clock.advance(100)
        classes = [view.message_class for view in self.take(self.beta, admin)]
        self.assertEqual(classes, [MessageClass.NACK_REACH_QUEUE_TIMEOUT])

    def leave(self, size: int) -> None:
        """Use up the quota of BETA, except for so many bytes and some that a header's alignment needs."""
        storage = self.beta.model.storage
        before = storage.used
        self.run_to_end(self.beta.service.send(self.orders, [Message()]))
        empty = storage.used - before
        body = (storage.free - empty - size) // 4 * 4
        self.run_to_end(self.beta.service.send(self.orders, [Message(body=bytes(body))]))
        self.assertIn(storage.free - size, range(4))

    def order(self, name: str = "orders", **properties: Any) -> int:
        """ALPHA sends a message and requests all its results; returns the bytes that it takes."""
        before = self.beta.model.storage.used
        to = TO_BETA.replace("orders", name)
        asks = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL
        self.send(self.alpha, to, b"6", acknowledge=asks, admin_queue=ADMIN, **properties)
        self.clock.advance(30)
        return self.beta.model.storage.used - before

    def test_arrivals(self) -> None:
        """So do those of messages that arrive with the last bytes, and their sender forgets transactional
        ones.
        """
        for name, properties in (("orders", {}), ("payments", {"transactional": True})):
            size = self.order(name, **properties)
            self.assertEqual(self.results()[1], [MessageClass.ACK_REACH_QUEUE])
            self.leave(size)
            self.assertEqual(self.order(name, **properties), size)
            self.assertEqual(self.results()[1], [MessageClass.ACK_REACH_QUEUE])
            self.assertEqual([each.messages for each in self.alpha.service.inspection.outgoing()], [0, 0])
            self.run_to_end(self.beta.service.purge_queue(self.orders))
            self.results()

    def test_refusals(self) -> None:
        """So do those of messages that are refused, as far as they exceed the quota by a sixteenth of it."""
        self.leave(4)
        self.order("nothing")
        self.assertEqual(self.results()[1], [MessageClass.NACK_BAD_DST_Q])
        away = parse_format_name("DIRECT=TCP:127.0.0.4\\private$\\admin")
        for _ in range(20):
            self.send(
                self.alpha,
                TO_BETA.replace("orders", "nothing"),
                b"7",
                acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=away,
            )
        self.clock.advance(30)
        [waiting] = [each for each in self.beta.service.inspection.outgoing() if each.messages]
        self.assertGreater(waiting.messages, 1)
        self.assertIn(-self.beta.model.storage.free, range(500, 1025))
