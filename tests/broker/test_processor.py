"""Messages that a broker passes to its coroutine: once, in order, and again if necessary."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import provider

from msmq.broker.outcomes import Outcome, accept, later, reject
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.session import ISession
from msmq.interfaces.storage import StorageError
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from tests.broker.scripted_broker import ORDERS, TO_BETA, BrokerTestCase, Scripted

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
RECEIPT = Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL
DEADXACT = ".\\system$;deadxact"


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

    def test_further_attempts(self) -> None:
        """The log has the traceback of the first failure, and the error of each later one."""
        lines: list[str] = []

        @provider(ILogObserver)
        def observe(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

        async def process(message: ReceivedMessage) -> Outcome:
            raise ValueError(f"no price\nat attempt {message.attempt}")

        self.process = process
        self.sent(b"1")
        self.clock.advance(5)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        line = next(line for line in lines if "could not be processed, attempt" in line)
        self.assertTrue(line.endswith(", attempt 2: ValueError: no price\\nat attempt 2"), line)

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
