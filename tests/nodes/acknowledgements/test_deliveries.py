"""The sender's records of a message that was handed over: C{explain}."""

from __future__ import annotations

from collections.abc import Sequence

from msmq.interfaces.manager.received_messages import Explanation
from msmq.persistence.changes import Change, PutState
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.deliveries.records import DeliveryStep
from tests.builders import ALPHA, BETA
from tests.manager.support import BROKEN, FaultyStore
from tests.nodes.support import Node, NodesTestCase

THERE = "DIRECT=TCP:127.0.0.3\\private$\\orders"
NOWHERE = "DIRECT=TCP:127.0.0.3\\private$\\missing"
ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
RECOVERABLE = Delivery.RECOVERABLE


class DeliveryTests(NodesTestCase):
    """ALPHA sends to BETA."""

    def setUp(self) -> None:
        super().setUp()
        self.store = FaultyStore()
        self.restart()
        self.beta.deaf()
        self.beta.service.stopService()
        self.beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True))
        self.beta.start()
        self.orders = self.queue(self.beta)

    def restart(self, *, limit: int | None = None) -> None:
        """Start ALPHA on what its store has, as after a kill."""
        self.alpha.deaf()
        self.alpha.service.stopService()
        options = {} if limit is None else {"delivery_records": limit}
        self.alpha = self.node("ALPHA", ALPHA, store=self.store, options=options)
        self.alpha.start()

    def post(self, *messages: Message, to: str = THERE) -> Sequence[MessageIdentifier]:
        return self.run_to_end(self.alpha.service.send(to, messages))

    def known(self, message: MessageIdentifier, node: Node | None = None) -> Explanation:
        explaining = self.deferred((node or self.alpha).service.inspection.explain(message))
        self.clock.advance(0)
        return self.successResultOf(explaining)

    def steps(self, message: MessageIdentifier) -> list[DeliveryStep]:
        return [record.step for record in self.known(message).deliveries]

    def test_handed_over(self) -> None:
        """Peer, address, session, numbers and times of each message; its summary says where to ask on."""
        self.clock.advance(10)
        sent = self.clock.now().wall
        messages = self.post(*[Message(body=b"x", delivery=RECOVERABLE)] * 3)
        self.clock.advance(30)
        for number, message in enumerate(messages, 1):
            explanation = self.known(message)
            [record] = explanation.deliveries
            [run] = record.runs
            self.assertEqual(record.step, DeliveryStep.HANDED_OVER)
            self.assertEqual((record.where.peer, record.where.address), (BETA.bytes_le, "127.0.0.3"))
            self.assertEqual((record.where.queue, run.number, record.sequence), (THERE, number, 0))
            self.assertAlmostEqual(record.where.opened, sent, delta=1)
            self.assertAlmostEqual(run.sent, sent, delta=1)
            self.assertGreater(record.time, run.sent)
            self.assertTrue(explanation.is_known)
            self.assertIn("was handed over to 127.0.0.3", explanation.summary)
            self.assertEqual([event.event for event in explanation.events], ["handed_over"])

    def test_three_different_answers(self) -> None:
        """The sender can distinguish a refused message, an unknown one and a received one."""
        self.queue(self.alpha, "admin")
        [refused] = self.post(Message(body=b"x", delivery=RECOVERABLE), to=NOWHERE)
        [received] = self.post(
            Message(
                body=b"y",
                delivery=RECOVERABLE,
                acknowledge=Acknowledge.POSITIVE_RECEIVE,
                admin_queue=ADMIN,
            )
        )
        self.clock.advance(30)
        self.bodies(self.beta, self.orders)
        self.clock.advance(30)
        unknown = self.known(MessageIdentifier(ALPHA, refused.ordinal + 1000))
        self.assertFalse(unknown.is_known)
        self.assertTrue(unknown.summary.startswith("unknown: "), unknown.summary)
        self.assertEqual((list(unknown.events), list(unknown.deliveries)), ([], []))
        self.assertIn("was handed over to 127.0.0.3", self.known(refused).summary)
        self.assertEqual(self.known(received).summary, "was received, according to MQMSG_CLASS_ACK_RECEIVE")
        self.assertEqual(self.steps(received), [DeliveryStep.HANDED_OVER, DeliveryStep.ANSWERED])
        self.assertIn("refused", [event.event for event in self.known(refused, self.beta).events])

    def test_refusal_that_is_reported(self) -> None:
        """A negative acknowledgement is joined to the message that it is about, with its class."""
        self.queue(self.alpha, "admin")
        small = self.queue(self.beta, "small", quota=1)
        [message] = self.post(
            Message(
                body=bytes(2000),
                delivery=RECOVERABLE,
                acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=ADMIN,
            ),
            to=THERE.replace("orders", small.rpartition("\\")[2]),
        )
        self.clock.advance(30)
        explanation = self.known(message)
        [answer] = [each for each in explanation.deliveries if each.step is DeliveryStep.ANSWERED]
        self.assertEqual(answer.message_class, MessageClass.NACK_Q_EXCEED_QUOTA)
        self.assertEqual(answer.where.queue, "private$\\admin")
        self.assertEqual(explanation.summary, "failed: MQMSG_CLASS_NACK_Q_EXCEED_QUOTA")

    def test_survives_a_restart(self) -> None:
        """The hand-over of a recoverable message is stored with its removal."""
        [message] = self.post(Message(body=b"x", delivery=RECOVERABLE))
        for _ in range(3000):
            if self.steps(message):
                break
            self.clock.advance(0.01)
        self.restart()
        self.assertEqual(self.steps(message), [DeliveryStep.HANDED_OVER])

    def test_commit_that_is_retried_repeats_no_record(self) -> None:
        """A hand-over whose commit succeeds after those of many others is stored once."""
        failed: list[str] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            names = [each.name for each in changes if isinstance(each, PutState)]
            failed.extend(name for name in names if name.startswith("deliveries/") and not failed)
            return any(name in failed for name in names)

        self.store.error, self.store.is_hit = BROKEN, is_hit
        [message] = self.post(Message(body=b"x", delivery=RECOVERABLE))
        self.clock.advance(2)
        for _ in range(70):
            self.post(Message(body=b"y", delivery=RECOVERABLE))
            self.clock.advance(2)
        self.assertTrue(failed)
        self.store.recover()
        self.clock.advance(120)
        self.assertEqual(self.steps(message), [DeliveryStep.HANDED_OVER])
        self.restart()
        self.assertEqual(self.steps(message), [DeliveryStep.HANDED_OVER])

    def test_express_within_a_second(self) -> None:
        """That of an express message is stored soon, without a commit of its own for each."""
        messages = [self.post(Message(body=b"x"))[0] for _ in range(20)]
        # The session acknowledges express messages within half of AckWaitTimeout.
        self.clock.advance(25)
        self.restart()
        for message in messages:
            self.assertEqual(self.steps(message), [DeliveryStep.HANDED_OVER])
        values = [name for name in self.run_store() if name.startswith("deliveries/")]
        self.assertEqual(len(values), 1)

    def run_store(self) -> list[str]:
        self.alpha.service.stopService()
        snapshot = self.successResultOf(self.store.open())
        return list(snapshot.state)

    def test_transactional(self) -> None:
        """OrderAck and FinalAck are joined, with sequence and number; over a restart too."""
        orders = self.queue(self.beta, "exact", transactional=True)
        name = THERE.replace("orders", "exact")
        messages = self.post(*[Message(body=b"x", transactional=True, journal=True)] * 2, to=name)
        self.clock.advance(20)
        self.assertIn("in order", self.known(messages[0]).summary)
        self.bodies(self.beta, orders)
        self.clock.advance(10)
        self.restart()
        for number, message in enumerate(messages, 1):
            # The OrderAck may come before the session's acknowledgement.
            records = sorted(self.known(message).deliveries, key=lambda record: record.step)
            self.assertEqual(
                [record.step for record in records],
                [DeliveryStep.HANDED_OVER, DeliveryStep.ORDERED, DeliveryStep.SETTLED],
            )
            self.assertEqual(len({record.sequence for record in records}), 1)
            self.assertEqual(
                [records[0].runs[0].sequence_number, records[2].runs[0].sequence_number], [number, number]
            )
            self.assertEqual(records[2].message_class, MessageClass.ACK_RECEIVE)
            self.assertEqual({record.where.address for record in records}, {"127.0.0.3"})
            self.assertIn("was received", self.known(message).summary)

    def test_order_acknowledgement_is_stored_at_once(self) -> None:
        """The record of an OrderAck is stored with the removal of the message that it causes."""
        self.queue(self.beta, "exact", transactional=True)
        [message] = self.post(Message(body=b"x", transactional=True), to=THERE.replace("orders", "exact"))
        for _ in range(3000):
            if DeliveryStep.ORDERED in self.steps(message):
                break
            self.clock.advance(0.01)
        self.restart()
        self.assertIn(DeliveryStep.ORDERED, self.steps(message))

    def test_waits(self) -> None:
        """A message that was not sent yet is in its outgoing queue, and nothing else is said."""
        self.beta.deaf()
        [message] = self.post(
            Message(body=b"x", delivery=RECOVERABLE), to="DIRECT=TCP:127.0.0.5\\private$\\q"
        )
        explanation = self.known(message)
        self.assertEqual(list(explanation.deliveries), [])
        self.assertEqual(explanation.summary, "waits in outgoing queue DIRECT=TCP:127.0.0.5\\private$\\q")

    def test_no_records_with_a_limit_of_zero(self) -> None:
        """With a limit of 0 nothing is recorded, and an explanation says since when there are records."""
        self.restart(limit=0)
        [message] = self.post(Message(body=b"x", delivery=RECOVERABLE))
        self.clock.advance(30)
        explanation = self.known(message)
        self.assertFalse(explanation.is_known)
        self.assertIsNone(explanation.records_since)
        self.assertIn("there are no records of hand-overs", explanation.summary)

    def test_acknowledgements_of_others_displace_nothing(self) -> None:
        """Administration acknowledgements, which peers send at will, have a limit of their own."""
        self.restart(limit=16)
        [message] = self.post(Message(body=b"x", delivery=RECOVERABLE))
        self.clock.advance(30)
        self.queue(self.alpha, "admin")
        here = Message(acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue=ADMIN)
        sent: Sequence[MessageIdentifier] = ()
        for _ in range(20):
            sent = self.run_to_end(self.beta.service.send(self.orders, [here] * 50))
            self.clock.advance(2)
        self.assertEqual(self.steps(sent[-1]), [DeliveryStep.ANSWERED])
        self.assertEqual(self.steps(message), [DeliveryStep.HANDED_OVER])
