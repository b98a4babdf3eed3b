"""Messages that a broker passes to its coroutine: once, in order, a limited number at a time, and again if
necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.broker import Broker
from msmq.broker.outcomes import Outcome, accept, later, reject
from msmq.broker.processor import AT_ONCE
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.session import ISession
from msmq.interfaces.storage import StorageError
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.session.effects import CloseReason
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
ORDERS = ".\\private$\\orders"
ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
RECEIPT = Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL
DEADXACT = ".\\system$;deadxact"

Process = Callable[[ReceivedMessage], Any]


class Scripted(Broker):
    """Does with each message what a test says.

    @ivar seen: the body of each message, whenever it is passed.
    @ivar most: the largest number of messages in process at a time.
    """

    def __init__(self, process: Process, **options: Any) -> None:
        super().__init__(**options)
        self._process = process
        self.seen: list[bytes] = []
        self.attempts: list[int] = []
        self.events: list[str] = []
        self._now = 0
        self.most = 0

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Note it, and do what the test says."""
        self.seen.append(message.body)
        self.attempts.append(message.attempt)
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            outcome: Outcome = await self._process(message)
            return outcome
        finally:
            self._now -= 1

    async def session_opened(self, session: ISession) -> None:
        """Note it."""
        self.events.append(f"{session.remote_address} opened")

    async def session_closed(self, session: ISession, reason: CloseReason) -> None:
        """Note it."""
        self.events.append(f"{session.remote_address} closed, {reason.name}")


async def accepted(message: ReceivedMessage) -> Outcome:
    """Accept a message."""
    return accept()


class BrokerTestCase(NodesTestCase):
    """ALPHA sends to BETA, a broker."""

    process: Process = staticmethod(accepted)
    options: dict[str, Any] = {}  # noqa: RUF012
    make: type[Scripted] = Scripted

    def setUp(self) -> None:
        self.disk = SlowStore(MemoryMessageStore(durable=True), None, 0.0)  # type: ignore[arg-type]
        super().setUp()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "BETA":
            self.broker = self.make(lambda message: self.process(message), **self.options)
            self.disk._reactor = self.clock.reactor
            kwargs = {"store": self.disk, "broker": self.broker, **kwargs}
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        node = super().node(name, identifier, **kwargs)
        if node.program is not None:
            self.addCleanup(node.program.end)
        return node

    def sent(self, *bodies: bytes, **properties: Any) -> None:
        """Send from ALPHA, and let it arrive."""
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        self.send(self.alpha, TO_BETA, *bodies, **properties)
        self.clock.advance(1)

    def waiting(self) -> int:
        """Messages that have not left ALPHA."""
        return sum(queue.messages for queue in self.alpha.service.inspection.outgoing())

    def left(self) -> int:
        """Messages in the queue of the broker."""
        return self.beta.service.inspection.queue(ORDERS).messages

    def answers(self) -> list[tuple[MessageClass, bytes]]:
        """The administration acknowledgements at ALPHA."""
        return [
            (MessageClass(view.message_class), bytes(view.body))
            for view in self.take(self.alpha, ".\\private$\\admin")
        ]


class OutcomeTests(BrokerTestCase):
    """Results of a message."""

    def test_accepted(self) -> None:
        """It leaves its queue, and its sender is sent the acknowledgement of receipt that it requested."""
        self.queue(self.alpha, "admin")
        self.sent(b"1", acknowledge=RECEIPT, admin_queue=ADMIN)
        self.clock.advance(5)
        self.assertEqual((self.broker.seen, self.left(), self.waiting()), ([b"1"], 0, 0))
        self.assertEqual([kind for kind, _ in self.answers()], [MessageClass.ACK_RECEIVE])

    def test_rejected(self) -> None:
        """Its sender is sent the class; the event log has the reason."""

        async def process(message: ReceivedMessage) -> Outcome:
            return reject(MessageClass.NACK_Q_EXCEED_QUOTA, "not from here")

        self.process = process
        self.queue(self.alpha, "admin")
        self.sent(b"1", acknowledge=RECEIPT, admin_queue=ADMIN)
        self.clock.advance(5)
        self.assertEqual(self.left(), 0)
        self.assertEqual([kind for kind, _ in self.answers()], [MessageClass.NACK_Q_EXCEED_QUOTA])
        reading = self.disk.read_events(0, 10)
        self.clock.advance(1)
        self.assertIn("not from here", str(self.successResultOf(reading)))

    def test_a_rejected_transactional_message(self) -> None:
        """It becomes a dead letter at its sender, with the class."""

        async def process(message: ReceivedMessage) -> Outcome:
            return reject()

        self.process = process
        self.sent(b"1", transactional=True, dead_letter=True)
        self.clock.advance(10)
        [dead_letter] = self.take(self.alpha, DEADXACT)
        self.assertEqual(dead_letter.message_class, MessageClass.NACK_RECEIVE_REJECTED)
        self.assertEqual(self.waiting(), 0)

    def test_later(self) -> None:
        """It is passed again after that time, and those behind it in its queue wait."""

        async def process(message: ReceivedMessage) -> Outcome:
            return later(60) if message.body == b"1" and message.attempt < 3 else accept()

        self.process = process
        self.sent(b"1", b"2")
        self.assertEqual(self.broker.seen, [b"1"])
        self.clock.advance(58)
        self.assertEqual(self.broker.seen, [b"1"])
        self.clock.advance(2)
        self.assertEqual(self.broker.seen, [b"1", b"1"])
        self.clock.advance(60)
        self.assertEqual(self.broker.seen, [b"1", b"1", b"1", b"2"])
        self.assertEqual(self.broker.attempts, [1, 2, 3, 1])
        self.assertEqual(self.left(), 0)

    def test_another_stream_does_not_wait(self) -> None:
        """Transactional messages of another sender pass one that is processed later."""

        async def process(message: ReceivedMessage) -> Outcome:
            return later(60) if message.body == b"1" and message.attempt == 1 else accept()

        self.process = process
        gamma = self.node("GAMMA", UUID(int=77))
        gamma.start()
        self.sent(b"1", b"2", transactional=True)
        self.send(gamma, TO_BETA, b"other", transactional=True)
        self.clock.advance(30)
        self.assertEqual(self.broker.seen, [b"1", b"other"])
        self.clock.advance(60)
        self.assertEqual(self.broker.seen, [b"1", b"other", b"1", b"2"])

    def test_an_error(self) -> None:
        """It is reported once with its traceback, and the message is passed again, ever later."""

        async def process(message: ReceivedMessage) -> Outcome:
            if message.attempt < 4:
                raise RuntimeError("the warehouse is closed")
            return accept()

        self.process = process
        self.sent(b"1")
        self.clock.advance(10)
        self.assertEqual(self.broker.attempts, [1, 2, 3, 4])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.left(), 0)

    def test_cancelled_by_itself(self) -> None:
        """A coroutine in which something was cancelled has failed, as with any error."""

        async def process(message: ReceivedMessage) -> Outcome:
            if message.attempt == 1:
                waited: Deferred[None] = Deferred()
                waited.cancel()
                await waited
            return accept()

        self.process = process
        self.sent(b"1")
        self.clock.advance(5)
        self.assertEqual((self.broker.attempts, self.left()), ([1, 2], 0))
        self.assertEqual(len(self.flushLoggedErrors(CancelledError)), 1)

    def test_no_exception(self) -> None:
        """What is no Exception, such as the end of a test in the handler, does not end the broker's work."""

        async def process(message: ReceivedMessage) -> Outcome:
            if len(self.broker.seen) == 1:
                raise SystemExit
            return accept()

        self.process = process
        self.sent(b"1", b"2")
        self.clock.advance(60)
        self.assertEqual((self.broker.seen, self.left()), ([b"1", b"1", b"2"], 0))
        self.assertEqual(len(self.flushLoggedErrors(SystemExit)), 1)

    def test_not_an_outcome(self) -> None:
        """A result that is not an outcome is an error that names the method."""

        async def process(message: ReceivedMessage) -> Any:
            return None if message.attempt == 1 else accept()

        self.process = process
        self.sent(b"1")
        self.clock.advance(5)
        [failure] = self.flushLoggedErrors()
        self.assertIn("Scripted.message_received returned a NoneType; it has to be", str(failure.value))
        self.assertEqual(self.broker.attempts, [1, 2])

    def test_expired_meanwhile(self) -> None:
        """A message whose time to be received passes while it waits for another is not passed."""
        gate: Deferred[None] = Deferred()

        async def process(message: ReceivedMessage) -> Outcome:
            await gate
            return accept()

        self.process = process
        self.sent(b"1")
        self.sent(b"2", time_to_be_received=30)
        self.clock.advance(40)
        gate.callback(None)
        self.clock.advance(5)
        self.assertEqual((self.broker.seen, self.left()), ([b"1"], 0))

    def test_the_store_fails(self) -> None:
        """A message that was accepted, and whose removal is not stored, is not processed a second time."""

        async def process(message: ReceivedMessage) -> Outcome:
            self.disk.trouble = StorageError("the disk is on fire")
            return accept()

        self.process = process
        self.sent(b"1")
        self.assertEqual(self.left(), 1)
        self.disk.trouble = None
        self.clock.advance(10)
        self.assertEqual((self.broker.seen, self.left()), ([b"1"], 0))


class ConcurrencyTests(BrokerTestCase):
    """How many are processed at a time."""

    options = {"concurrency": 3}  # noqa: RUF012

    def test_one_queue_is_processed_in_order(self) -> None:
        """Messages of a transactional queue are processed one at a time, others concurrently."""
        reactor = self.clock.reactor

        async def process(message: ReceivedMessage) -> Outcome:
            await deferLater(reactor, 1)
            return accept()

        self.process = process
        for number in range(5):
            self.send(self.alpha, TO_BETA + str(number), b"a%d" % number, b"b%d" % number)
        self.clock.advance(30)
        self.assertEqual(self.broker.most, 3)
        for number in range(5):
            mine = [body for body in self.broker.seen if body.endswith(b"%d" % number)]
            self.assertEqual(mine, [b"a%d" % number, b"b%d" % number])

    def test_a_lane_of_ones_own(self) -> None:
        """A subclass defines which messages are processed in order; by default none are."""

        class Keyed(Scripted):
            def lane(self, message: ReceivedMessage) -> Hashable | None:
                return message.label or None

        gates: dict[bytes, Deferred[None]] = {}

        async def process(message: ReceivedMessage) -> Outcome:
            gates[message.body] = Deferred()
            await gates[message.body]
            return accept()

        self.make = Keyed
        self.process = process
        self.beta.deaf()
        self.beta.service.stopService()
        self.beta = self.node("BETA", UUID(int=5))
        self.beta.start()
        self.sent(b"1", b"2", label="x")
        self.sent(b"3", b"4")
        self.assertEqual(self.broker.seen, [b"1", b"3", b"4"])
        for body in (b"4", b"3", b"1"):
            gates[body].callback(None)
        self.clock.advance(1)
        self.assertEqual(self.broker.seen, [b"1", b"3", b"4", b"2"])


class ReactorTurnTests(BrokerTestCase):
    """Messages whose processing waits for nothing: express ones, with a coroutine that returns at once."""

    def test_the_reactor_has_its_turn(self) -> None:
        """A long queue is processed in many iterations of the reactor, which serves others in between."""
        self.broker.pause()
        count = 6 * AT_ONCE
        self.sent(*[b"%d" % number for number in range(count)], delivery=Delivery.EXPRESS)
        self.clock.advance(5)
        self.assertEqual((self.left(), self.broker.seen), (count, []))
        seen: list[int] = []

        def look() -> None:
            seen.append(len(self.broker.seen))
            if self.left():
                self.clock.reactor.callLater(0, look)

        self.broker.resume()
        look()
        self.clock.advance(1)
        self.assertEqual(self.broker.seen, [b"%d" % number for number in range(count)])
        steps = [later - before for before, later in zip([0, *seen], seen, strict=False)]
        self.assertLessEqual(max(steps), AT_ONCE)


class ReactorTurnOfManyTests(ReactorTurnTests):
    """The same if several are processed at a time, each as a lane."""

    options = {"concurrency": 8}  # noqa: RUF012


class FailingStoreTests(BrokerTestCase):
    """A store that refuses removals for a while."""

    flag = False

    def test_nothing_else_is_processed(self) -> None:
        """Of many messages only the one in process waits for its removal; then all follow in order."""

        async def process(message: ReceivedMessage) -> Outcome:
            if message.body == b"3" and not self.flag:
                self.flag = True
                self.disk.trouble = StorageError("the disk is on fire")
            return accept()

        self.process = process
        bodies = [b"%d" % number for number in range(10)]
        self.sent(*bodies)
        self.clock.advance(8)
        self.assertEqual(self.broker.seen, bodies[:4])
        self.disk.trouble = None
        self.clock.advance(10)
        self.assertEqual((self.broker.seen, self.left()), (bodies, 0))


class FailingStoreOfManyTests(FailingStoreTests):
    """The same while messages are taken out in advance."""

    options = {"concurrency": 4}  # noqa: RUF012


class QueuesOnDemandTests(BrokerTestCase):
    """Queues that the first message for them creates."""

    def test_two_first_messages(self) -> None:
        """Two peers send to a new queue at the same time: neither message is refused."""
        gamma = self.node("GAMMA", UUID(int=77))
        gamma.start()
        for sender in (self.alpha, gamma):
            self.send(sender, TO_BETA, b"0")
        self.clock.advance(5)
        for sender in (self.alpha, gamma):
            self.send(sender, f"{TO_BETA}-new", b"1", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(self.broker.seen, [b"0", b"0", b"1", b"1"])


class DeletedQueueTests(BrokerTestCase):
    """An operator deletes a queue that a broker processes."""

    options = {"queues": ["orders"]}  # noqa: RUF012

    def test_it_is_created_again(self) -> None:
        """A declared queue is processed again when it is there again."""
        self.sent(b"1")
        deleting = self.deferred(self.beta.service.delete_queue(ORDERS))
        self.clock.advance(5)
        self.successResultOf(deleting)
        creating = self.deferred(self.beta.service.create_queue(ORDERS))
        self.clock.advance(5)
        self.successResultOf(creating)
        self.sent(b"2")
        self.clock.advance(10)
        self.assertEqual((self.broker.seen, self.left()), ([b"1", b"2"], 0))


class SessionTests(BrokerTestCase):
    """The coroutines for sessions."""

    def test_opened_and_closed(self) -> None:
        """They are called with the session, one after the other."""
        self.sent(b"1")
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.clock.advance(1)
        self.assertEqual(self.broker.events, ["127.0.0.2 opened", "127.0.0.2 closed, CONNECTION_LOST"])

    def test_one_that_raises(self) -> None:
        """It is reported, and the session closes; the messages wait at their sender."""

        class Broken(Scripted):
            async def session_opened(self, session: ISession) -> None:
                raise RuntimeError("no")

        self.make = Broken
        self.beta.deaf()
        self.beta.service.stopService()
        self.beta = self.node("BETA", UUID(int=5))
        self.beta.start()
        self.sent(b"1")
        self.assertEqual(self.broker.events, ["127.0.0.2 closed, INTERNAL_ERROR"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


class BacklogTests(BrokerTestCase):
    """Messages that arrive faster than they are processed."""

    options = {"backlog": 50}  # noqa: RUF012

    def test_no_more_are_read(self) -> None:
        """They wait at their sender, whose session stays open, until half of the others are processed."""
        self.broker.pause()
        self.sent(*[b"%d" % number for number in range(1000)])
        self.clock.advance(600)
        self.assertLess(self.left(), 50 + 64 * 3)
        self.assertGreater(self.waiting(), 1000 - 50 - 64 * 3 - 1)
        self.broker.resume()
        self.clock.advance(120)
        self.assertEqual(self.broker.seen, [b"%d" % number for number in range(1000)])
        self.assertEqual((self.left(), self.waiting()), (0, 0))


class LivelockTests(SynchronousTestCase):
    """However long a message takes, it is passed once, and its sender has its acknowledgement."""

    @given(
        seconds=st.one_of(st.sampled_from([0.0, 2.0, 39.0, 41.0, 600.0]), st.floats(0, 600)),
        concurrency=st.sampled_from([1, 4]),
        transactional=st.booleans(),
        backlog=st.sampled_from([3, 10_000]),
    )
    @settings(max_examples=8, deadline=None)
    def test_any_time_for_a_message(
        self, seconds: float, concurrency: int, transactional: bool, backlog: int
    ) -> None:
        """From 0 to 600 seconds for each of a hundred messages."""
        case = BrokerTestCase()
        case.options = {"concurrency": concurrency, "backlog": backlog}
        case.setUp()
        reactor = case.clock.reactor

        async def process(message: ReceivedMessage) -> Outcome:
            await deferLater(reactor, seconds)
            return accept()

        case.process = process
        bodies = [b"%d" % number for number in range(100)]
        messages = [
            Message(body=body, transactional=transactional, delivery=Delivery.RECOVERABLE) for body in bodies
        ]
        case.run_to_end(case.alpha.service.send(TO_BETA, messages))
        case.clock.advance(100 * seconds + 3600)
        case.addCleanup(case.clock.advance, 20)
        self.assertEqual(case.broker.seen, bodies)
        self.assertEqual((case.left(), case.waiting()), (0, 0))
        case.doCleanups()


class Unordered(Scripted):
    """Processes the messages of a queue in any order."""

    def lane(self, message: ReceivedMessage) -> Hashable | None:
        """See L{Broker.lane}."""
        return None


class ManyWaitingTests(BrokerTestCase):
    """Many messages wait for one that is in process."""

    make = Unordered
    options = {"concurrency": 30}  # noqa: RUF012

    def test_outcomes_without_a_wait(self) -> None:
        """They have their outcomes one after the other, however many they are."""
        pending: list[Deferred[Outcome]] = []

        async def process(message: ReceivedMessage) -> Outcome:
            if len(pending) == 30:
                return reject()
            pending.append(Deferred())
            return await pending[-1]

        self.process = process
        self.sent(*[b"%d" % number for number in range(600)])
        self.clock.advance(1)
        self.assertEqual(len(pending), 30)
        pending[0].callback(accept())
        self.clock.advance(1)
        self.assertEqual((len(self.broker.seen), self.left()), (600, 29))
        for each in pending[1:]:
            each.callback(accept())
        self.clock.advance(1)
        self.assertEqual((len(self.broker.seen), self.left()), (600, 0))
