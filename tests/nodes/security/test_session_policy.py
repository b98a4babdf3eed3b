"""A session policy of a queue manager: each message is refused by itself."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.interfaces.session_policy import ISessionPolicy, MessageRefusal, SessionPeer
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import BETA
from tests.nodes.arrivals.test_transactional import DEADXACT, TransferTestCase, transactional
from tests.nodes.support import Node

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
REPORTS = "DIRECT=TCP:127.0.0.2\\private$\\reports"


@implementer(ISessionPolicy)
class ForbiddenLabel:
    """Refuses messages with the label "drop".

    @ivar is_broken: it raises an error instead.
    """

    is_broken = False

    def session_refusal(self, peer: SessionPeer) -> str:
        return ""

    def message_refusal(self, peer: SessionPeer, message: UserMessageView) -> str | MessageRefusal:
        if self.is_broken:
            raise ZeroDivisionError("a mistake in a policy")
        if message.label == "elsewhere":
            return MessageRefusal("no such queue for this peer", MessageClass.NACK_BAD_DST_Q)
        return "the label drop is forbidden" if message.label == "drop" else ""


class RefusedMessageTests(TransferTestCase):
    """BETA has a policy; ALPHA sends a batch with one message that it refuses."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if identifier == BETA:
            self.policy = ForbiddenLabel()
            kwargs["session_policy"] = self.policy
            kwargs["options"] = {"send_insecure_nacks": True}
        return super().node(name, identifier, **kwargs)

    def test_recoverable(self) -> None:
        """The other messages arrive, the sender gets a negative acknowledgement, and the session stays."""
        path, reports = self.queue(self.beta), self.queue(self.alpha, "reports")
        messages = [
            Message(
                body=body,
                label=label,
                delivery=Delivery.RECOVERABLE,
                acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=REPORTS,
            )
            for body, label in ((b"1", "keep"), (b"2", "drop"), (b"3", "keep"), (b"4", "drop"))
        ]
        self.run_to_end(self.alpha.service.send(TO_BETA, messages))
        self.clock.advance(20)
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"3"])
        self.assertEqual(
            [(view.message_class, bytes(view.body)) for view in self.take(self.alpha, reports)],
            [(MessageClass.NACK_ACCESS_DENIED, b"2"), (MessageClass.NACK_ACCESS_DENIED, b"4")],
        )
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(len(self.beta.factory.connections), 2, "one session in each direction")
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_ACCESS_DENIED": 2})
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        self.assertEqual(
            {entry.event.reason for entry in stored if entry.event.event == "refused"},
            {"NACK_ACCESS_DENIED from 127.0.0.2: the session policy: the label drop is forbidden"},
        )

    def test_another_class(self) -> None:
        """A policy chooses the class of the negative acknowledgement, such as that of a missing queue."""
        self.queue(self.beta)
        self.run_to_end(self.alpha.service.send(TO_BETA, [Message(label="elsewhere")]))
        self.clock.advance(5)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1})
        for wrong in (MessageClass.NORMAL, MessageClass.NACK_RECEIVE_REJECTED, 0x8004):
            with self.assertRaisesRegex(LocalProtocolError, "message_class"):
                MessageRefusal("no", wrong)  # type: ignore[arg-type]

    def test_express(self) -> None:
        """Express messages around a refused one arrive."""
        path = self.queue(self.beta)
        messages = [Message(body=b"%d" % n, label="drop" if n == 1 else "") for n in range(3)]
        self.run_to_end(self.alpha.service.send(TO_BETA, messages))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, path), [b"0", b"2"])

    def test_transactional(self) -> None:
        """The stream continues after a refused message, which becomes a dead letter of its sender."""
        path = self.queue(self.beta, transactional=True)
        (first,), (second,), (third,) = (
            transactional(b"1"),
            transactional(b"2", label="drop", dead_letter=True),
            transactional(b"3"),
        )
        self.run_to_end(self.alpha.service.send(TO_BETA, [first, second, third]))
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"3"])
        self.assertEqual(self.there(self.alpha, DEADXACT), [b"2"])
        self.assertEqual(self.waiting(), 0)

    def test_acknowledgements(self) -> None:
        """A policy decides on acknowledgements and on messages for missing queues as well."""
        self.run_to_end(self.alpha.service.send(TO_BETA, [Message(label="drop")]))
        self.clock.advance(5)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_ACCESS_DENIED": 1})

    def test_policy_that_fails(self) -> None:
        """An error in a policy refuses nothing permanently: the messages stay with their sender."""
        path = self.queue(self.beta)
        self.policy.is_broken = True
        self.send(self.alpha, TO_BETA, b"1", b"2", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual((self.bodies(self.beta, path), self.waiting()), ([], 2))
        self.policy.is_broken = False
        self.clock.advance(120)
        self.assertEqual((self.bodies(self.beta, path), self.waiting()), ([b"1", b"2"], 0))
        self.assertNotEqual(self.flushLoggedErrors(ZeroDivisionError), [])
