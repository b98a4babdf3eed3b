"""[MS-MQDMPR] 3.1.1.12 ApplicationDeadletterQueue: dead letters in a queue of the application."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, DEADLETTER, DEADXACT, ManagerTestCase
from tests.nodes.support import Node, NodesTestCase

FAILED = ".\\private$\\failed"
UNPAID = ".\\private$\\unpaid"
NOWHERE = "DIRECT=TCP:127.0.0.4\\private$\\orders"
LATER = 100.0

RECEIVE_TIMEOUT = MessageClass.NACK_RECEIVE_TIMEOUT
REACH_TIMEOUT = MessageClass.NACK_REACH_QUEUE_TIMEOUT


class ApplicationDeadLetterTests(ManagerTestCase):
    """ALPHA with a queue C{failed} for plain messages, and C{unpaid} for transactional ones."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.failed = self.queue(self.alpha, "failed", log=True)
        self.unpaid = self.queue(self.alpha, "unpaid", transactional=True)

    def mourn(self, queue: str, *bodies: bytes, at: str = FAILED, **properties: Any) -> None:
        """Send messages that are to be kept there if they fail."""
        self.put(queue, *bodies, dead_letter=True, dead_letter_queue=at, **properties)

    def classes(self, queue: str) -> list[tuple[bytes, MessageClass]]:
        """The messages in a queue, and the reasons."""
        found = [(bytes(each.view.body), each.view.message_class) for each in self.messages(queue)]
        return [(body, MessageClass(number)) for body, number in found]

    def test_expired(self) -> None:
        """MQDMPR-3.1.1.12-05: a message that fails is kept in the queue that it names, and not elsewhere.

        So it is over a crash, before it fails and afterwards.
        """
        self.mourn(self.orders, b"not received", time_to_be_received=10)
        self.mourn(NOWHERE, b"not away", time_to_reach_queue=10)
        self.mourn(self.payments, b"not paid", at=UNPAID, time_to_be_received=10)
        self.restart(crash=True)
        self.clock.advance(LATER)
        for crash in (False, True):
            expected = [(b"not received", RECEIVE_TIMEOUT), (b"not away", REACH_TIMEOUT)]
            self.assertEqual(sorted(self.classes(self.failed), reverse=True), expected)
            self.assertEqual(self.classes(self.unpaid), [(b"not paid", RECEIVE_TIMEOUT)])
            self.assertEqual((self.seen(DEADLETTER), self.seen(DEADXACT)), ([], []))
            self.restart(crash=crash)

    def test_purged_and_deleted_messages(self) -> None:
        """A transactional message that is purged, or deleted, was not received, and is kept.

        Any other was delivered then.
        """
        self.mourn(self.payments, b"1", at=UNPAID)
        self.mourn(self.orders, b"2")
        for queue in (self.payments, self.orders):
            self.run_to_end(self.service.purge_queue(queue))
        self.mourn(self.payments, b"3", at=UNPAID)
        self.put(self.payments, b"4", dead_letter=True)
        self.mourn(self.orders, b"5")
        for queue in (self.payments, self.orders):
            self.run_to_end(self.service.delete_queue(queue))
        self.assertEqual(
            self.classes(self.unpaid),
            [(b"1", MessageClass.NACK_Q_PURGED), (b"3", MessageClass.NACK_Q_DELETED)],
        )
        self.assertEqual(self.classes(DEADXACT), [(b"4", MessageClass.NACK_Q_DELETED)])
        self.assertEqual((self.seen(self.failed), self.seen(DEADLETTER)), ([], []))
        self.assertEqual([each.reason for each in self.events()].count("kept as a dead letter"), 3)
        self.restart(crash=True)
        self.assertEqual(self.seen(self.unpaid), [b"1", b"3"])

    def test_names_that_do_not_do(self) -> None:
        """The system keeps it if the name means no queue of ours, or one that cannot take such a message."""
        elsewhere = "OTHER\\private$\\failed"
        for at in (".\\private$\\gone", elsewhere, UNPAID, f"{FAILED};aside", f"{FAILED};journal"):
            self.mourn(self.orders, at.encode(), at=at, time_to_be_received=10)
        self.mourn(self.payments, b"paid", at=FAILED, time_to_be_received=10)
        small = self.queue(self.alpha, "small", quota=0)
        self.mourn(self.orders, b"no room", at=small, time_to_be_received=10)
        self.clock.advance(LATER)
        self.assertEqual(len(self.seen(DEADLETTER)), 6)
        self.assertEqual(self.seen(DEADXACT), [b"paid"])
        self.assertEqual((self.seen(self.failed), self.seen(self.unpaid), self.seen(small)), ([], [], []))

    def test_event_of_a_name_that_does_not_do(self) -> None:
        """The event says why a dead letter is not in the queue that its sender chose."""
        small = self.queue(self.alpha, "small", quota=0)
        for at in (".\\private$\\gone", UNPAID, f"{FAILED};aside", small, FAILED):
            self.mourn(self.orders, b"1", at=at, time_to_be_received=10)
            self.clock.advance(LATER)
        self.mourn(self.payments, b"1", at=FAILED, time_to_be_received=10)
        self.clock.advance(LATER)
        chosen = "the dead-letter queue that its sender chose,"
        self.assertEqual(
            [each.reason for each in self.events() if each.event == "expired"],
            [
                f".\\private$\\gone, {chosen} does not exist; kept as a dead letter",
                f"{UNPAID}, {chosen} is transactional; kept as a dead letter",
                f"{FAILED};aside, {chosen} does not exist; kept as a dead letter",
                f"{small}, {chosen} is full; kept as a dead letter",
                "kept as a dead letter",
                f"{FAILED}, {chosen} is not transactional; kept as a dead letter",
            ],
        )

    def test_without_negative_journaling(self) -> None:
        """A name alone asks for nothing."""
        self.put(self.orders, b"1", dead_letter_queue=FAILED, time_to_be_received=10)
        self.clock.advance(LATER)
        self.assertEqual((self.seen(self.failed), self.seen(DEADLETTER)), ([], []))

    def test_no_name(self) -> None:
        """An invalid path is refused when the message is created."""
        with self.assertRaises(MQError) as refusal:
            Message(dead_letter_queue="a\\b\\c\\d")
        self.assertEqual(refusal.exception.status, Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)

    def test_a_dead_letter_has_no_further_fate(self) -> None:
        """It never expires, is received and purged without acknowledgement, and becomes no dead letter
        again.
        """
        self.mourn(self.orders, b"1", b"2", acknowledge=ASK_ALL, time_to_be_received=10)
        self.clock.advance(LATER)
        self.answers()
        self.restart()
        self.clock.advance(LATER)
        dead_letter = self.run_to_end(self.service.receive(self.failed, timeout=0))
        self.assertEqual(bytes(dead_letter.body), b"1")
        self.run_to_end(self.service.purge_queue(self.failed))
        self.clock.advance(LATER)
        self.assertEqual((self.answers(), self.seen(DEADLETTER)), ([], []))

    def test_in_its_own_queue(self) -> None:
        """A message may fail in the very queue that keeps it; the queue is then deleted with it."""
        self.mourn(self.failed, b"1", time_to_be_received=10)
        self.clock.advance(LATER)
        self.assertEqual(self.classes(self.failed), [(b"1", RECEIVE_TIMEOUT)])
        self.run_to_end(self.service.delete_queue(self.failed))
        self.assertEqual(self.seen(DEADLETTER), [])

    def test_waiting_reader(self) -> None:
        """A reader of that queue gets the dead letter at once, and its log has it."""
        waiting = self.deferred(self.service.receive(self.failed))
        self.mourn(self.orders, b"1", time_to_be_received=10)
        self.clock.advance(LATER)
        self.assertEqual(bytes(self.successResultOf(waiting).body), b"1")
        queue = next(each for each in self.service.model.queues() if each.definition.path.endswith("failed"))
        entries = self.successResultOf(self.store.read_log(queue.definition.identifier, 0, 10))
        self.assertEqual(len(entries), 1)

    def test_name_of_the_queue(self) -> None:
        """The receiver of the message sees the name, and sending it again keeps it."""
        self.mourn(self.orders, b"1", at=".\\private$\\gone", time_to_be_received=10)
        self.assertEqual(self.messages(self.orders)[0].view.dead_letter_queue, ".\\private$\\gone")
        self.clock.advance(LATER)
        [place] = self.run_to_end(self.service.inspection.dead_letters())
        self.run_to_end(self.service.requeue(place.message.view.identifier))
        self.assertEqual(self.messages(self.orders)[0].view.dead_letter_queue, ".\\private$\\gone")


class SentElsewhereTests(NodesTestCase):
    """BETA gets messages of ALPHA's that name a queue of ALPHA's."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """A queue manager with a disk."""
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.failed = self.queue(self.alpha, "failed")
        self.unpaid = self.queue(self.alpha, "unpaid", transactional=True)
        self.orders = self.queue(self.beta)
        self.payments = self.queue(self.beta, "payments", transactional=True)

    def test_the_packet_of_any_other_message(self) -> None:
        """Only the packet is sent to another queue manager."""
        for count in range(3):
            self.send(
                self.alpha,
                "DIRECT=TCP:127.0.0.3\\private$\\orders",
                b"%d" % count,
                dead_letter=True,
                dead_letter_queue=FAILED,
            )
        self.clock.advance(1)
        views = self.take(self.beta, self.orders)
        self.assertEqual([bytes(view.body) for view in views], [b"0", b"1", b"2"])
        self.assertEqual({(view.dead_letter, view.dead_letter_queue) for view in views}, {(True, "")})

    def test_final_acknowledgement(self) -> None:
        """A transactional message that was purged where it was is kept in the queue that it names here."""
        self.send(
            self.alpha,
            "DIRECT=TCP:127.0.0.3\\private$\\payments",
            b"1",
            transactional=True,
            dead_letter=True,
            dead_letter_queue=UNPAID,
        )
        self.clock.advance(1)
        self.assertEqual(self.run_to_end(self.beta.service.purge_queue(self.payments)), 1)
        self.clock.advance(5)
        [dead_letter] = self.take(self.alpha, self.unpaid)
        self.assertEqual(dead_letter.message_class, MessageClass.NACK_Q_PURGED)
        self.assertEqual(bytes(dead_letter.body), b"1")

    def test_event_after_a_final_acknowledgement(self) -> None:
        """It says why the dead letter is not in the queue that its sender chose."""
        self.send(
            self.alpha,
            "DIRECT=TCP:127.0.0.3\\private$\\payments",
            b"1",
            transactional=True,
            dead_letter=True,
            dead_letter_queue=FAILED,
        )
        self.clock.advance(1)
        self.assertEqual(self.run_to_end(self.beta.service.purge_queue(self.payments)), 1)
        self.clock.advance(5)
        [entry] = self.run_to_end(self.alpha.service.inspection.events())
        self.assertEqual(
            entry.event.reason,
            f"final acknowledgement MQMSG_CLASS_NACK_Q_PURGED; {FAILED}, the dead-letter queue that "
            "its sender chose, is not transactional; kept as a dead letter",
        )
