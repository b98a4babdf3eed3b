"""Security steps for arriving messages: their order, their time limits, and their verdicts."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred, fail

from msmq.decoding.message_json import message_json
from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import LINES, PATIENCE, Accepted, Answer, Inspector, Refused
from msmq.queues.queue import Queue
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.sid import parse_sid
from tests.builders import BETA, with_security
from tests.nodes.arrivals.receiver import (
    EXPRESS,
    PLAIN,
    ReceiverTestCase,
    X,
    express,
    recoverable,
)
from tests.nodes.scripted import transactional

SID = parse_sid("S-1-5-21-1-2-3-1001")


class Asked:
    """A step that returns the results set by a test.

    @ivar everything: whether messages without a SecurityHeader are submitted, too.
    @ivar bodies: those that were submitted, in order.
    @ivar answers: by body; others are accepted.
    """

    name = "the check of the test"
    message_class = MessageClass.NACK_BAD_SIGNATURE

    def __init__(self) -> None:
        self.everything = False
        self.bodies: list[bytes] = []
        self.answers: dict[bytes, Answer | Exception] = {}

    def guards(self, session: ISession, queue: Queue) -> bool:
        """See L{SecurityStep.guards}."""
        return self.everything

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """See L{SecurityStep.check}."""
        body = bytes(message.view.body)
        self.bodies.append(body)
        answer = self.answers.get(body, message)
        if isinstance(answer, Exception):
            raise answer
        return answer


class ArrivalTests(ReceiverTestCase):
    """GAMMA sends to BETA, which has a step."""

    def setUp(self) -> None:
        super().setUp()
        self.step = Asked()
        self.beta.service._parts.security.messages.inspector.steps = (self.step,)

    def reasons(self) -> list[str]:
        """The reasons of refused messages in the event log."""
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [entry.event.reason for entry in stored if entry.event.event == "refused"]

    def test_only_what_has_to_be_asked(self) -> None:
        """Messages without a SecurityHeader pass unasked, unless their queue is guarded."""
        self.say(express(b"1"), with_security(express(b"2"), SID), express(b"3"))
        self.assertEqual(self.step.bodies, [b"2"])
        self.step.everything = True
        self.say(express(b"4"))
        self.assertEqual(self.step.bodies, [b"2", b"4"])
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1", b"2", b"3", b"4"])

    def test_refused(self) -> None:
        """It is not in its queue, its reason is kept, and its session goes on as if it had been taken."""
        self.step.everything = True
        self.step.answers[b"2"] = Refused(MessageClass.NACK_ACCESS_DENIED, "a rule refuses it")
        self.say(*(recoverable(number, body) for number, body in enumerate((b"1", b"2", b"3"), 1)), seconds=1)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1", b"3"])
        self.assertEqual(self.reasons(), ["NACK_ACCESS_DENIED from 127.0.0.4: a rule refuses it"])
        self.assertEqual(self.named(self.peer), 3)
        self.check_counts()

    def test_refused_in_a_sequence(self) -> None:
        """The sender gets a FinalAck, and what follows in the sequence is accepted."""
        self.step.everything = True
        self.step.answers[b"1"] = Refused(MessageClass.NACK_ACCESS_DENIED, "a rule refuses it")
        self.say(transactional(b"1", (X, 1, 0)), transactional(b"2", (X, 2, 1)), seconds=1)
        self.assertEqual(self.bodies(self.beta, self.path), [b"2"])
        self.assertEqual(self.peer.final_acks, [(MessageClass.NACK_ACCESS_DENIED, 1)])
        self.assertEqual(self.peer.order_acks[-1], (X, 2, 1))

    def test_the_session_waits_in_order(self) -> None:
        """Messages after a waiting one are neither delivered nor acknowledged before it."""
        waiting: Deferred[Accepted] = Deferred()
        self.step.everything = True
        self.step.answers[b"1"] = waiting
        self.say(recoverable(1, b"1"), seconds=1)
        self.say(recoverable(2, b"2"), seconds=1)
        self.assertEqual(self.beta.service.inspection.queue(self.plain).messages, 0)
        self.assertEqual(self.named(self.peer), 0)
        waiting.callback(Accepted(UserMessageView(recoverable(1, b"1")), None))
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1", b"2"])
        self.assertEqual(self.named(self.peer), 2)
        self.check_counts()

    def test_a_queue_that_is_made_meanwhile(self) -> None:
        """A message that was not inspected does not enter a queue created while another message waits."""
        waiting: Deferred[Accepted] = Deferred()
        self.step.everything = True
        self.step.answers[b"1"] = waiting
        self.say(
            express(b"1"),
            transactional(b"2", (0, 0, 0), destination=f"{PLAIN[:-5]}late", **EXPRESS),
            seconds=1,
        )
        late = self.queue(self.beta, "late")
        waiting.callback(Accepted(UserMessageView(express(b"1")), None))
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1"])
        self.assertEqual((self.step.bodies, self.bodies(self.beta, late)), ([b"1"], []))
        self.assertEqual(self.reasons(), ["NACK_BAD_DST_Q from 127.0.0.4"])

    def test_the_wait_is_bounded(self) -> None:
        """A message without a verdict is refused, and messages that came with it do not wait once more
        each.
        """
        self.step.everything = True
        for body in (b"1", b"2", b"3"):
            self.step.answers[body] = Deferred()
        self.say(*(recoverable(number, body) for number, body in enumerate((b"1", b"2", b"3"), 1)))
        self.clock.advance(PATIENCE + 1)
        self.assertEqual(
            self.reasons(),
            ["NACK_BAD_SIGNATURE from 127.0.0.4: the check of the test got no answer within 30 seconds"] * 3,
        )
        self.check_counts()

    def test_errors_are_refusals(self) -> None:
        """If a step raises, at once or later, the message is refused and the session continues."""
        self.step.everything = True
        self.step.answers[b"1"] = ValueError("a secret")
        self.step.answers[b"2"] = fail(KeyError("another"))
        self.say(express(b"1"), express(b"2"), express(b"3"), seconds=1)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"3"])
        self.assertEqual(
            self.reasons(),
            [
                f"NACK_BAD_SIGNATURE from 127.0.0.4: the check of the test failed: {name}"
                for name in ("ValueError", "KeyError")
            ],
        )
        self.assertEqual(len(self.flushLoggedErrors(ValueError, KeyError)), 2)
        self.check_counts()

    def test_many_errors(self) -> None:
        """Each such message is refused, and the log has a few tracebacks a minute."""
        self.step.everything = True
        self.step.answers = dict.fromkeys((b"%d" % number for number in range(100)), ValueError("a secret"))
        self.say(*map(express, self.step.answers), seconds=1)
        self.assertEqual(len(self.reasons()), 100)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), LINES)

    def test_stopped_meanwhile(self) -> None:
        """A message that waits when the queue manager stops is neither taken nor refused."""
        self.step.everything = True
        self.step.answers[b"1"] = Deferred()
        self.say(recoverable(1, b"1"))
        self.beta.service.stopService()
        self.clock.advance(PATIENCE + 1)
        self.assertEqual(self.named(self.peer), 0)
        again = self.node("BETA", BETA, store=self.beta.store)
        self.run_to_end(again.service.open())
        self.assertEqual(again.service.inspection.queue(self.plain).messages, 0)
        self.assertEqual(self.reasons(), [])

    def test_what_the_peer_says_of_signatures(self) -> None:
        """Flags.AU and AS of a message that comes say nothing; what a step found is what is kept.

        MQMQ-2.2.20.6-08.
        """
        self.say(with_security(express(b"1"), SID, flags=0x0511))
        [lies] = self.take(self.beta, self.plain)
        self.assertFalse(message_json(lies)["authenticated"])
        self.assertEqual(message_json(lies)["sender_id"], "S-1-5-21-1-2-3-1001")
        packet = with_security(express(b"2"), SID)
        view = UserMessageView(packet)
        found = attrs.evolve(Accepted(view, view.security), authentication=AuthenticationLevel.SIG_2_0)
        self.step.answers[b"2"] = found
        self.say(packet)
        [true] = self.take(self.beta, self.plain)
        self.assertTrue(message_json(true)["authenticated"])
        self.assertIs(true.authentication_level, AuthenticationLevel.SIG_2_0)
        self.assertFalse(message_json(true, is_kept=False)["authenticated"])

    def test_rewritten(self) -> None:
        """A step may replace a message by another, and the steps behind it see that one."""
        packet = with_security(express(b"hidden"), SID)
        view = UserMessageView(with_security(express(b"clear"), SID))
        self.step.answers[b"hidden"] = Accepted(view, view.security)
        second = Asked()
        self.beta.service._parts.security.messages.inspector.steps = (self.step, second)
        self.say(packet)
        self.assertEqual(second.bodies, [b"clear"])
        self.assertEqual(self.bodies(self.beta, self.plain), [b"clear"])


class NothingToAskTests(ReceiverTestCase):
    """L{Inspector.concerns}."""

    def test_no_steps(self) -> None:
        """A queue manager that asks nothing looks at nothing but the flag of the header."""
        inspector: Inspector = self.beta.service._parts.security.messages.inspector
        plain = UserMessageView(express(b"1"))
        self.assertFalse(inspector.concerns(None, [plain], [None]))  # type: ignore[arg-type]
