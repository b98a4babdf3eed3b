"""[MS-MQDMPR] 3.1.1.12: attributes of messages in transit, and the acknowledgements of their fate."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA, GAMMA, NULL
from tests.nodes.scripted import (
    ACK_RECEIVE,
    NEGATIVE,
    POSITIVE,
    ScriptedTestCase,
    transactional,
)
from tests.nodes.support import NodesTestCase

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
TO_PAYMENTS = "DIRECT=TCP:127.0.0.3\\private$\\payments"
TO_ABSENT_HOST = "DIRECT=TCP:127.0.0.4\\private$\\orders"

SEQUENCE = 1_700_000_000 << 32 | 1
FIRST_AND_LAST = 0x0C
"""FM and LM of TransactionHeader.Flags."""

ACK_REACH, NACK_REACH = MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_REACH_QUEUE_TIMEOUT
NACK_TIMEOUT, NACK_PURGED = MessageClass.NACK_RECEIVE_TIMEOUT, MessageClass.NACK_Q_PURGED
FULL_REACH = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL
NACK_RECEIVE = Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
FULL_RECEIVE = NACK_RECEIVE | Acknowledge.POSITIVE_RECEIVE


class AskingTests(NodesTestCase):
    """[MS-MQDMPR] 3.1.1.12 AcknowledgementsRequested: requested classes are sent, and no others."""

    def setUp(self) -> None:
        super().setUp()
        self.admin = self.queue(self.alpha, "admin")
        self.orders = self.queue(self.beta)

    def ask(self, acknowledge: Acknowledge, destination: str = TO_BETA, **properties: Any) -> None:
        """Send a message that asks for this, and let some time go by."""
        message = Message(acknowledge=acknowledge, admin_queue=ADMIN, **properties)
        self.run_to_end(self.alpha.service.send(destination, [message]))
        self.clock.advance(1)

    def answers(self) -> list[int]:
        """The classes of the acknowledgements that have come."""
        self.clock.advance(1)
        return [view.message_class for view in self.take(self.alpha, self.admin)]

    def received(self, acknowledge: Acknowledge) -> tuple[list[int], list[int]]:
        """The acknowledgements of a message that arrives, and then of its receipt."""
        self.ask(acknowledge)
        arrived = self.answers()
        self.run_to_end(self.beta.service.receive(self.orders, timeout=0))
        return arrived, self.answers()

    def expired_on_the_way(self, acknowledge: Acknowledge) -> list[int]:
        """The acknowledgement of a message that cannot reach its queue manager in time."""
        self.ask(acknowledge, TO_ABSENT_HOST, time_to_reach_queue=5)
        self.clock.advance(10)
        return self.answers()

    def expired_there(self, acknowledge: Acknowledge) -> list[int]:
        """The acknowledgements of a message that expires unread, in addition to that of its arrival."""
        self.ask(acknowledge, time_to_be_received=5)
        self.answers()
        self.clock.advance(10)
        return self.answers()

    def purged(self, acknowledge: Acknowledge) -> list[int]:
        """The acknowledgements of a message that is purged, in addition to that of its arrival."""
        self.ask(acknowledge)
        self.answers()
        self.run_to_end(self.beta.service.purge_queue(self.orders))
        return self.answers()

    def fates(self, acknowledge: Acknowledge) -> dict[str, list[int]]:
        """The acknowledgements in each case."""
        arrived, received = self.received(acknowledge)
        return {
            "arrived": arrived,
            "received": received,
            "expired on the way": self.expired_on_the_way(acknowledge),
            "expired there": self.expired_there(acknowledge),
            "purged": self.purged(acknowledge),
        }

    def check(self, acknowledge: Acknowledge, **reported: MessageClass) -> None:
        """The sender is notified of each of these fates once, and of no other."""
        expected = {name.replace("_", " "): [int(value)] for name, value in reported.items()}
        found = self.fates(acknowledge)
        self.assertEqual({name: classes for name, classes in found.items() if classes}, expected)

    def test_no_acknowledgement_requested(self) -> None:
        """A message that requests none, as by default, causes none, in any case.

        MQDMPR-3.1.1.12-31.
        """
        self.assertEqual(Message().acknowledge, Acknowledge.NONE)
        self.check(Acknowledge.NONE)

    def test_positive(self) -> None:
        """The arrival and the retrieval, each by a bit of its own, and both by both.

        MQDMPR-3.1.1.12-32.
        """
        arrival, receive = Acknowledge.POSITIVE_ARRIVAL, Acknowledge.POSITIVE_RECEIVE
        self.assertEqual(self.received(arrival), ([ACK_REACH], []))
        self.assertEqual(self.received(receive), ([], [MessageClass.ACK_RECEIVE]))
        self.assertEqual(self.received(arrival | receive), ([ACK_REACH], [MessageClass.ACK_RECEIVE]))

    def test_negative_arrival(self) -> None:
        """That it did not reach its queue, and nothing that happens to it there.

        MQDMPR-3.1.1.12-33.
        """
        self.check(Acknowledge.NEGATIVE_ARRIVAL, expired_on_the_way=NACK_REACH)

    def test_full_arrival(self) -> None:
        """Whether it reached its queue.

        MQDMPR-3.1.1.12-35.
        """
        arrived, received = self.received(FULL_REACH)
        self.assertEqual((arrived, received), ([ACK_REACH], []))
        self.assertEqual(self.expired_on_the_way(FULL_REACH), [NACK_REACH])
        self.assertEqual((self.expired_there(FULL_REACH), self.purged(FULL_REACH)), ([], []))

    def test_negative_receive(self) -> None:
        """A message that was not received, wherever it failed, and none if it was received.

        MQDMPR-3.1.1.12-36.
        """
        self.check(
            NACK_RECEIVE, expired_on_the_way=NACK_REACH, expired_there=NACK_TIMEOUT, purged=NACK_PURGED
        )

    def test_full_receive(self) -> None:
        """Whether it was received.

        MQDMPR-3.1.1.12-37.
        """
        self.check(
            FULL_RECEIVE,
            received=MessageClass.ACK_RECEIVE,
            expired_on_the_way=NACK_REACH,
            expired_there=NACK_TIMEOUT,
            purged=NACK_PURGED,
        )


class IdentityTests(ScriptedTestCase):
    """Identity of a message, and of its queue managers."""

    def test_identifiers(self) -> None:
        """No two messages of two senders have the same, and each keeps its own in transit.

        The number alone may well be the same; the queue manager belongs to the identifier.
        MQDMPR-3.1.1.12-03.
        """
        orders = self.queue(self.beta)
        sent: list[MessageIdentifier] = []
        for _ in range(20):
            for node, name in ((self.alpha, TO_BETA), (self.beta, orders)):
                sent += self.run_to_end(node.service.send(name, [Message(), Message()]))
        self.clock.advance(5)
        found = [view.identifier for view in self.take(self.beta, orders)]
        self.assertEqual((len(found), len(set(found))), (80, 80))
        self.assertEqual(set(found), set(sent))

    def test_queue_managers(self) -> None:
        """A message has its source, and the destination's queue manager if the name has one.

        A forwarding queue manager, such as a routing server, changes neither.
        MQDMPR-3.1.1.12-29.
        """
        orders = self.queue(self.beta)
        number = int(self.beta.service.inspection.queue(orders).format_name.rpartition("\\")[2], 16)
        self.send(self.alpha, TO_BETA, b"direct")
        self.clock.advance(1)
        self.send(self.alpha, f"PRIVATE={BETA}\\{number:08x}", b"private")
        self.clock.advance(1)
        relayed = transactional(
            b"relayed",
            (0, 0, 0),
            message_id=9,
            source=ALPHA,
            queue_manager=BETA,
            number=number,
            is_transactional=False,
        )
        self.dial(identifier=GAMMA).send(relayed)
        self.clock.advance(1)
        found = {
            bytes(view.body): (view.source_queue_manager, view.queue_manager_address)
            for view in self.take(self.beta, orders)
        }
        named = (ALPHA.bytes_le, BETA.bytes_le)
        self.assertEqual(
            found, {b"direct": (ALPHA.bytes_le, NULL.bytes_le), b"private": named, b"relayed": named}
        )


class OpaqueTests(ScriptedTestCase):
    """Values that are passed unchanged."""

    def carried(self, **properties: Any) -> UserMessageView:
        """A message as BETA receives it from ALPHA."""
        self.run_to_end(self.alpha.service.send(TO_BETA, [Message(**properties)]))
        self.clock.advance(1)
        return self.run_to_end(self.beta.service.receive(".\\private$\\orders", timeout=0))

    def test_defaults(self) -> None:
        """Properties that are not set are not set at the other end either.

        MQDMPR-3.1.1.12-28, MQDMPR-3.1.1.12-30.
        """
        self.queue(self.beta)
        view = self.carried()
        self.assertEqual((view.application_tag, view.body_type, view.connector_type), (0, 0, None))
        self.assertEqual(view.correlation_id, bytes(20))
        self.assertEqual((bytes(view.body), view.extension), (b"", b""))

    def test_classes(self) -> None:
        """It is normal of itself; the class that an application made up is kept; others it may not say.

        MQDMPR-3.1.1.12-08.
        """
        self.queue(self.beta)
        self.assertEqual(self.carried().message_class, MessageClass.NORMAL)
        for made_up in (0x0003, 0x01FF, 0x4001, 0x8123, 0xE1FF):
            self.assertEqual(self.carried(message_class=made_up).message_class, made_up)
        for predefined in sorted(set(MessageClass) - {MessageClass.NORMAL}):
            sending = self.alpha.service.send(TO_BETA, [Message(message_class=predefined)])
            failure = self.failureResultOf(self.deferred(sending), MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)


class AnyContentTests(SynchronousTestCase):
    """Any content, from one queue manager to another."""

    @given(
        body=st.binary(max_size=300),
        extension=st.binary(max_size=300),
        numbers=st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF)),
        correlation_id=st.binary(min_size=20, max_size=20),
        connector_type=st.none() | st.uuids().filter(lambda value: value != NULL),
        recoverable=st.booleans(),
    )
    def test_round_trip(
        self,
        body: bytes,
        extension: bytes,
        numbers: tuple[int, int],
        correlation_id: bytes,
        connector_type: UUID | None,
        recoverable: bool,
    ) -> None:
        """Body and extension, numbers and identifiers come out as they went in; nothing is encrypted here.

        MQDMPR-3.1.1.12-28, MQDMPR-3.1.1.12-30.
        """
        nodes = OpaqueTests("test_defaults")
        nodes.setUp()
        nodes.queue(nodes.beta)
        application_tag, body_type = numbers
        view = nodes.carried(
            body=body,
            extension=extension,
            application_tag=application_tag,
            body_type=body_type,
            correlation_id=correlation_id,
            connector_type=connector_type,
            delivery=Delivery.RECOVERABLE if recoverable else Delivery.EXPRESS,
        )
        self.assertEqual((bytes(view.body), view.extension), (body, extension))
        self.assertEqual((view.application_tag, view.body_type), numbers)
        self.assertEqual((view.correlation_id, view.connector_type), (correlation_id, connector_type))
        nodes.doCleanups()


class SequenceTests(ScriptedTestCase):
    """Sequence fields of transactional messages, and of others."""

    def setUp(self) -> None:
        super().setUp()
        self.orders = self.queue(self.beta)
        self.payments = self.queue(self.beta, "payments", transactional=True)

    def put(self, *bodies: bytes) -> None:
        """Send to the transactional queue, in one transaction."""
        messages = [Message(body=body, transactional=True) for body in bodies]
        self.run_to_end(self.alpha.service.send(TO_PAYMENTS, messages))
        self.clock.advance(1)

    def test_sequence_identifiers(self) -> None:
        """Only transactional messages have one; it never gets less, and a later life has a greater one.

        It is the same for all that one transaction sends to a queue.

        MQDMPR-3.1.1.12-56.
        """
        self.send(self.alpha, TO_BETA, b"plain", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        [plain] = self.take(self.beta, self.orders)
        self.assertEqual((plain.tx_sequence_id, plain.tx_sequence_number), (None, 0))
        for number in range(3):
            self.put(b"%d" % number, b"and")
        self.alpha = self.restart(self.alpha)
        self.clock.advance(60)
        self.put(b"after")
        self.clock.advance(60)
        views = self.take(self.beta, self.payments)
        places = []
        for view in views:
            assert view.tx_sequence_id is not None
            identifier = view.tx_sequence_id
            places.append((identifier.timestamp, identifier.ordinal, view.tx_sequence_number))
        self.assertEqual(
            [bytes(view.body) for view in views], [b"0", b"and", b"1", b"and", b"2", b"and", b"after"]
        )
        self.assertEqual(places, sorted(set(places)))
        *before, after = [place[:2] for place in places]
        self.assertEqual(before[0::2], before[1::2])
        self.assertGreater(after, max(before))

    def test_edges(self) -> None:
        """The first and the last message of a transaction are marked, not those in between.

        MQDMPR-3.1.1.12-58, MQDMPR-3.1.4.3-03.
        """
        self.put(b"1", b"2", b"3")
        self.put(b"4", b"5")
        self.put(b"6")
        edges = [(view.is_first, view.is_last) for view in self.take(self.beta, self.payments)]
        first, middle, last, only = (True, False), (False, False), (False, True), (True, True)
        self.assertEqual(edges, [first, middle, last, first, last, only])

    def test_edges_are_of_messages(self) -> None:
        """Messages that a transaction receives are not in a sequence: only sent ones count (reading 48).

        Each sequence has its own edges, when one transaction sends to two queues.
        MQDMPR-3.1.1.12-58, MQDMPR-3.1.4.3-03.
        """
        refunds = self.queue(self.beta, "refunds", transactional=True)
        own = self.queue(self.alpha, "own", transactional=True)
        service = self.alpha.service
        self.run_to_end(service.send(own, [Message(transactional=True) for _ in range(2)]))
        transaction = service.begin()
        self.run_to_end(service.receive(own, timeout=0, transaction=transaction))
        for name in (TO_PAYMENTS, TO_PAYMENTS.replace("payments", "refunds")):
            for _ in range(2):
                sending = service.send(name, [Message(transactional=True)], transaction=transaction)
                self.run_to_end(sending)
        self.run_to_end(service.receive(own, timeout=0, transaction=transaction))
        self.run_to_end(transaction.commit())
        self.clock.advance(5)
        for path in (self.payments, refunds):
            edges = [(view.is_first, view.is_last) for view in self.take(self.beta, path)]
            self.assertEqual(edges, [(True, False), (False, True)])

    def test_final_acknowledgements(self) -> None:
        """FinalAckRequired asks for one when the message is received; without it none is sent.

        A message that wants a journal or a dead letter draws one too, as its sender waits for it.
        MQDMPR-3.1.1.12-57.
        """
        peer = self.dial()
        required = 0x02
        for number, (flags, user_flags) in enumerate(
            ((required, 0), (0, 0), (required, 0), (0, POSITIVE), (0, NEGATIVE)), start=1
        ):
            peer.send(
                transactional(
                    b"%d" % number,
                    (SEQUENCE, number, number - 1),
                    destination="TCP:127.0.0.3\\private$\\payments",
                    transaction_flags=flags | FIRST_AND_LAST,
                    user_flags=user_flags,
                )
            )
        self.clock.advance(2)
        self.assertEqual(peer.final_acks, [])
        self.assertEqual(len(self.take(self.beta, self.payments)), 5)
        self.clock.advance(10)
        self.assertEqual(sorted(peer.final_acks), [(ACK_RECEIVE, number) for number in (1, 3, 4, 5)])


class ClassTests(ScriptedTestCase):
    """The classes of messages that tell of messages."""

    def setUp(self) -> None:
        super().setUp()
        self.admin = self.queue(self.alpha, "admin")

    def answers(self) -> list[int]:
        """The classes of the acknowledgements that have come."""
        self.clock.advance(1)
        return [view.message_class for view in self.take(self.alpha, self.admin)]

    def ask(self, destination: str, **properties: Any) -> None:
        """Send a message that asks for everything."""
        message = Message(
            acknowledge=FULL_RECEIVE | Acknowledge.POSITIVE_ARRIVAL, admin_queue=ADMIN, **properties
        )
        self.run_to_end(self.alpha.service.send(destination, [message]))
        self.clock.advance(1)

    def test_kinds_of_queues(self) -> None:
        """A queue takes messages of its own kind; the others are refused with the reason.

        MQDMPR-3.1.1.2-12, MQDMPR-3.1.1.12-11.
        """
        paths = [self.queue(self.beta), self.queue(self.beta, "payments", transactional=True)]
        for path, name, is_transactional, refusal in (
            (paths[0], TO_BETA, False, MessageClass.NACK_NOT_TRANSACTIONAL_Q),
            (paths[1], TO_PAYMENTS, True, MessageClass.NACK_NOT_TRANSACTIONAL_MSG),
        ):
            self.assertEqual(self.beta.service.inspection.queue(path).transactional, is_transactional)
            self.ask(name, transactional=is_transactional)
            self.assertEqual(self.answers(), [ACK_REACH])
            self.ask(name, transactional=not is_transactional)
            self.assertEqual(self.answers(), [refusal])
            self.assertEqual(len(self.take(self.beta, path)), 1)
            self.answers()
