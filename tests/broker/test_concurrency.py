"""How many messages a broker processes at a time, and how many wait for them."""

from __future__ import annotations

from collections.abc import Hashable
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.outcomes import Outcome, accept, reject
from msmq.broker.processor import AT_ONCE
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.arriving.message import Delivery, Message
from tests.broker.scripted_broker import TO_BETA, BrokerTestCase, Scripted


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
