"""What a sender experiences with each fault of a double, on an in-memory network."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from msmq.double.double import DoubleBroker
from msmq.double.events import DoubleEvent
from msmq.double.fault_plan import FaultPlan
from msmq.double.script_file import parse_script
from msmq.double.session import DoublePlay, DoubleSession, ScriptedRefusals
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from tests.builders import BETA
from tests.manager.support import FaultyStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
REPORTS = "DIRECT=TCP:127.0.0.2\\private$\\reports"


class FaultTests(NodesTestCase):
    """ALPHA, a queue manager as any, sends to BETA, a double."""

    script = ""

    def setUp(self) -> None:
        self.events: list[DoubleEvent] = []

    def begin(self, script: str) -> None:
        """Start both, the double with this script."""
        self.script = script
        super().setUp()
        self.addCleanup(self.end)

    def end(self) -> None:
        """End the processing of the double."""
        assert self.beta.program is not None
        ending = self.beta.program.end()
        self.clock.advance(20)
        self.successResultOf(ending)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs["store"] = FaultyStore()
        if identifier != BETA:
            return super().node(name, identifier, **kwargs)
        plan = FaultPlan(parse_script(self.script))
        play = DoublePlay(plan, ScriptedRefusals(), self.events.append, self.clock.reactor, self.clock)
        options = {"send_insecure_nacks": True}
        node = super().node(
            name,
            identifier,
            broker=DoubleBroker(play),
            session_policy=play.refusals,
            options=options,
            **kwargs,
        )
        assert node.program is not None
        node.factory.protocol = partial(DoubleSession, intake=node.program, play=play)
        return node

    def say(self, *labels: str, **properties: Any) -> None:
        """Send messages from ALPHA, recoverable unless it is said otherwise."""
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        self.run_to_end(
            self.alpha.service.send(TO_BETA, [Message(label=label, **properties) for label in labels])
        )

    def labels(self, kind: str = "received") -> list[str]:
        """The labels of the messages of these events."""
        return [str(event.message["label"]) for event in self.events if event.kind == kind and event.message]

    def waiting(self) -> int:
        """The messages that ALPHA has not delivered yet."""
        return sum(queue.messages for queue in self.alpha.service.inspection.outgoing())

    def test_no_fault(self) -> None:
        """Without a script it receives everything once, and creates queues as they are needed."""
        self.begin("")
        self.say("1", "2")
        self.say("3", transactional=True)
        self.clock.advance(60)
        self.assertEqual((self.labels(), self.waiting()), (["1", "2"], 0))
        self.assertEqual([event.action for event in self.events if event.kind == "session"], ["accept"])

    def test_refuse(self) -> None:
        """A refused message gets the class of the script, and the others arrive."""
        self.begin('[[fault]]\naction = "refuse"\nlabel = "bad*"\nclass = "NACK_BAD_DST_Q"')
        reports = self.queue(self.alpha, "reports")
        self.say("1", "bad 2", "3", acknowledge=Acknowledge.NEGATIVE_ARRIVAL, admin_queue=REPORTS)
        self.clock.advance(20)
        self.assertEqual((self.labels(), self.waiting()), (["1", "3"], 0))
        self.assertEqual([view.message_class for view in self.take(self.alpha, reports)], [0x8000])

    def test_refuse_after_arrival(self) -> None:
        """A class of receipt rejects the message in its queue, after it was acknowledged as arrived."""
        self.begin('[[fault]]\naction = "refuse"\nclass = "NACK_RECEIVE_REJECTED"\ncount = 1')
        reports = self.queue(self.alpha, "reports")
        self.say("1", "2", acknowledge=Acknowledge(0x0F), admin_queue=REPORTS)
        self.clock.advance(20)
        classes = [view.message_class for view in self.take(self.alpha, reports)]
        self.assertEqual(sorted(classes), [0x0002, 0x0002, 0x4000, 0xC004])
        self.assertEqual([event.action for event in self.events if event.kind == "received"], ["refuse", ""])

    def test_delay(self) -> None:
        """A delayed message and those after it wait, and their sender keeps them meanwhile."""
        self.begin('[[fault]]\naction = "delay"\nseconds = 20\nlabel = "2"')
        self.say("1", "2", "3")
        self.clock.advance(5)
        self.assertEqual((self.labels(), self.waiting()), (["1"], 2))
        self.clock.advance(30)
        self.assertEqual((self.labels(), self.waiting()), (["1", "2", "3"], 0))

    def test_delay_after_the_end_of_the_session(self) -> None:
        """A session that ends while messages before it are stored begins no delay."""
        self.begin('[[fault]]\naction = "delay"\nseconds = 3600\nlabel = "2"')
        store = self.beta.store
        assert isinstance(store, FaultyStore)
        store.is_slow = True
        self.say("1", "2")
        self.clock.advance(1)
        self.assertTrue(store.is_busy)
        [session] = self.beta.service.inspection.sessions()
        self.beta.service.close_session(session.identifier)
        self.beta.deaf()
        store.catch_up()
        late = self.clock.reactor.seconds() + 3000
        self.assertEqual([call for call in self.clock.reactor.getDelayedCalls() if call.getTime() > late], [])

    def test_drop_acknowledgements(self) -> None:
        """Without acknowledgements the sender closes the session and sends again; all is received once."""
        self.begin('[[fault]]\naction = "drop-acknowledgements"\ncount = 1')
        self.say("1", "2")
        self.clock.advance(10)
        self.assertEqual((self.labels(), self.waiting()), (["1", "2"], 2))
        self.clock.advance(600)
        self.assertEqual((self.labels(), self.waiting()), (["1", "2"], 0))
        self.assertEqual(self.labels("arrived"), ["1", "2", "1", "2"])

    def test_drop_order_acknowledgements(self) -> None:
        """A transactional message is sent again until its OrderAck is not dropped."""
        self.begin('[[fault]]\naction = "drop-acknowledgements"\nkind = "transactional"\ncount = 2')
        self.say("1", transactional=True)
        self.clock.advance(1200)
        self.assertEqual((self.labels(), self.waiting()), (["1"], 0))
        self.assertEqual(self.labels("arrived").count("1"), 3)

    def test_corrupt(self) -> None:
        """The sender closes the session for a packet that is malformed, and sends again on another one."""
        self.begin('[[fault]]\naction = "corrupt"\ncount = 1')
        self.say("1")
        self.clock.advance(600)
        self.assertEqual((self.labels(), self.waiting()), (["1"], 0))
        self.assertEqual(self.labels("arrived"), ["1", "1"])

    def test_close(self) -> None:
        """The connection is closed at the message; it and those after it are sent again."""
        self.begin('[[fault]]\naction = "close"\nlabel = "2"\ncount = 1')
        self.say("1", "2", "3")
        self.clock.advance(600)
        self.assertEqual((sorted(self.labels()), self.waiting()), (["1", "2", "3"], 0))
        self.assertEqual(self.labels("arrived").count("2"), 2)
        closed = [event.detail for event in self.events if event.kind == "closed"]
        self.assertEqual(len(closed), 1)

    def test_lose(self) -> None:
        """A message is acknowledged and lost: only a transactional one is sent again."""
        self.begin('[[fault]]\naction = "lose"\nlabel = "2"\ncount = 1')
        self.say("1", "2", "3")
        self.clock.advance(300)
        self.assertEqual((self.labels(), self.waiting()), (["1", "3"], 0))

    def test_lose_everything_at_first(self) -> None:
        """Lost messages before and after others are acknowledged, also when they come alone."""
        self.begin('[[fault]]\naction = "lose"\nlabel = "x"')
        for labels in (("x",), ("x", "1", "x"), ("2",), ("x", "x")):
            self.say(*labels)
            self.clock.advance(1)
        self.clock.advance(30)
        self.assertEqual((self.labels(), self.waiting()), (["1", "2"], 0))

    def test_lose_transactional(self) -> None:
        """A lost transactional message has no OrderAck, so its sender sends it again, in order."""
        self.begin('[[fault]]\naction = "lose"\nkind = "transactional"\ncount = 1')
        self.say("1", "2", transactional=True)
        self.clock.advance(1200)
        self.assertEqual((self.labels(), self.waiting()), (["1", "2"], 0))

    def test_refused_sessions(self) -> None:
        """The first two sessions are refused in the handshake; the sender tries again."""
        self.begin('[session]\nanswer = "refuse"\ncount = 2')
        self.say("1")
        self.clock.advance(600)
        self.assertEqual((self.labels(), self.waiting()), (["1"], 0))
        answers = [event.action for event in self.events if event.kind == "session"]
        self.assertEqual(answers, ["refuse", "refuse", "accept"])
