"""Messages whose arrival or receipt is reported, and runs of messages that differ in their bodies."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Acknowledge, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.arriving.reported import reported_arrivals, reported_receipts
from msmq.queues.arriving.send_run import SendRun, templates_of, with_body
from msmq.queues.queue import MessagePosition, Queue, different_positions
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import BETA
from tests.queues.builders import NOW, ORDERS, create, model

ASKING: dict[str, Any] = {
    "acknowledge": Acknowledge.POSITIVE_ARRIVAL,
    "admin_queue": "DIRECT=OS:BETA\\private$\\admin",
}


def view(body: bytes, **properties: Any) -> UserMessageView:
    """A message for orders."""
    message = Message(body=body, **properties)
    return UserMessageView(
        build_packet(message, ORDERS, source=BETA, message_id=1, sent_time=NOW.unix_seconds)
    )


def positions_in(queue: Queue, *views: UserMessageView | None) -> list[MessagePosition]:
    """Positions of a queue, of which C{None} is one that is not in memory."""
    return [
        MessagePosition(queue, number, each, 0 if each is None else each.size, NOW.wall)
        for number, each in enumerate(views)
    ]


class ReportedTests(SynchronousTestCase):
    """L{msmq.queues.arriving.reported}."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)
        self.outgoing = self.model.outgoing(parse_format_name("DIRECT=OS:BETA\\private$\\orders"), NOW)

    def test_arrivals(self) -> None:
        """Those that ask for it are reported, unless they are in transit or not in memory."""
        asking, plain = view(b"asks", **ASKING), view(b"does not")
        for views, expected in (
            ((asking,), [asking]),
            ((plain,), []),
            ((plain, asking), [asking]),
            ((asking, plain), [asking]),
            ((None, asking, plain), [asking]),
            ((asking, None), [asking]),
            ((None,), []),
            ((), []),
        ):
            with self.subTest(views=views):
                self.assertEqual(reported_arrivals({self.queue: positions_in(self.queue, *views)}), expected)
                self.assertEqual(reported_arrivals({self.outgoing: positions_in(self.outgoing, *views)}), [])
        other = create(self.model, "other")
        groups = {queue: positions_in(queue, asking) for queue in (self.queue, self.outgoing, other)}
        self.assertEqual(reported_arrivals(groups), [asking, asking])

    def test_receipts(self) -> None:
        """What was received from a queue is reported, but not copies, and nothing of an outgoing queue."""
        message = view(b"1")
        deadletter = self.model.system_queue(QueueSuffix.DEADLETTER)
        self.assertEqual(reported_receipts(positions_in(self.queue, message, None)), [message])
        for queue in (deadletter, self.outgoing):
            self.assertEqual(reported_receipts(positions_in(queue, message)), [])

    def test_different_positions(self) -> None:
        """The first one stands for all that share its shape; all others stand for themselves."""
        first = view(b"1")
        same, different = UserMessageView.shaped(first.packet, first.shape), view(b"2")
        positions = positions_in(self.queue, first, same, different, None, same)
        found = different_positions(positions)
        self.assertEqual([each.lookup_id for each in found], [0, 2, 3])
        for alone in ([], positions[:1], positions[3:4]):
            self.assertEqual(list(different_positions(alone)), alone)
        self.assertEqual(list(different_positions(positions[:2])), positions[:1])
        unread = positions_in(self.queue, None, first, same)
        self.assertEqual(list(different_positions(unread)), unread)


class RunTests(SynchronousTestCase):
    """L{SendRun}."""

    def setUp(self) -> None:
        self.template = Message(label="all", priority=5, body=b"any")
        self.run_of = SendRun(self.template, [b"1", b"2", b"3"])

    def test_sequence(self) -> None:
        """It is a sequence of messages with its properties, each with its body; a slice is a run too."""
        messages = [with_body(self.template, body) for body in (b"1", b"2", b"3")]
        self.assertEqual([each.body for each in messages], [b"1", b"2", b"3"])
        self.assertEqual({(each.label, each.priority) for each in messages}, {("all", 5)})
        self.assertEqual((len(self.run_of), list(self.run_of)), (3, messages))
        self.assertEqual(self.run_of[-1], messages[-1])
        part = self.run_of[1:]
        self.assertIsInstance(part, SendRun)
        self.assertEqual(list(part), messages[1:])

    def test_templates(self) -> None:
        """The template stands for all messages of a run that is not empty; others stand for themselves."""
        self.assertEqual(templates_of(self.run_of), (self.template,))
        self.assertEqual(templates_of(self.run_of[3:]), ())
        messages = list(self.run_of)
        self.assertIs(templates_of(messages), messages)
