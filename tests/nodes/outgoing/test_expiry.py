"""Expired messages, in their queues and in transit."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher

from msmq.interfaces.storage import StorageError
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.testing.clock import START
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, BETA, establish, parameters
from tests.nodes.support import Node, NodesTestCase
from tests.session.support import acks

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
NEGATIVE = Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE

HANDSHAKE = 572 + 32
"""Bytes with which an acceptor answers a handshake."""


class ExpiryTestCase(NodesTestCase):
    """ALPHA has an administration queue."""

    def setUp(self) -> None:
        super().setUp()
        self.admin = self.queue(self.alpha, "admin")

    def ask(self, body: bytes, destination: str = TO_BETA, **kwargs: Any) -> None:
        """Send one message that asks for negative acknowledgements."""
        self.send(self.alpha, destination, body, acknowledge=NEGATIVE, admin_queue=ADMIN, **kwargs)

    def answers(self) -> list[UserMessageView]:
        """The messages in the administration queue."""
        self.clock.advance(1)
        return self.take(self.alpha, self.admin)

    def classes(self) -> list[int]:
        return [view.message_class for view in self.answers()]

    def log_lines(self) -> list[str]:
        """The log lines from now on."""
        lines: list[str] = []

        def take(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        observer = cast("ILogObserver", take)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        return lines


class QueueExpiryTests(ExpiryTestCase):
    """TimeToBeReceived."""

    def test_an_unread_message_leaves_its_queue(self) -> None:
        """At its time, and its sender gets NACK_RECEIVE_TIMEOUT, with the body, as it asked.

        MQMQ-2.2.19.2-07, MQMQ-2.2.18.1.6-19.
        """
        path = self.queue(self.beta)
        self.ask(b"unread", time_to_be_received=10)
        self.clock.advance(9.9)
        self.assertEqual(self.beta.service.inspection.queue(path).messages, 1)
        self.clock.advance(0.1)
        self.assertEqual(self.beta.service.inspection.queue(path).messages, 0)
        [answer] = self.answers()
        self.assertEqual(answer.message_class, MessageClass.NACK_RECEIVE_TIMEOUT)
        self.assertEqual(bytes(answer.body), b"unread")
        self.assertEqual(answer.source_queue_manager, BETA.bytes_le)
        self.assertEqual(self.beta.service.inspection.status().expired, {"NACK_RECEIVE_TIMEOUT": 1})

    def test_no_dead_letter_requested(self) -> None:
        """It is removed all the same, and the event log has its identifier."""
        path = self.queue(self.beta)
        lines = self.log_lines()
        messages = [Message(time_to_be_received=10)]
        [identifier] = self.run_to_end(self.alpha.service.send(TO_BETA, messages))
        self.clock.advance(30)
        self.assertEqual(self.beta.service.inspection.queue(path).messages, 0)
        self.assertEqual(self.classes(), [])
        [line] = [line for line in lines if str(identifier) in line]
        self.assertIn("NACK_RECEIVE_TIMEOUT", line)
        self.assertIn("orders", line)

    def test_a_message_that_is_read_in_time(self) -> None:
        """It has no further effect."""
        path = self.queue(self.beta)
        self.ask(b"read", time_to_be_received=10)
        self.clock.advance(9)
        self.assertEqual(self.bodies(self.beta, path), [b"read"])
        self.clock.advance(100)
        self.assertEqual(self.classes(), [])
        self.assertEqual(self.beta.service.inspection.status().expired, {})

    def test_a_message_given_back_too_late(self) -> None:
        """A reader may confirm after the expiry; a message that is returned instead reaches no other
        reader.
        """
        path = self.queue(self.beta)
        self.ask(b"confirmed", time_to_be_received=10)
        self.ask(b"given back", time_to_be_received=10)
        self.clock.advance(1)
        first = self.run_to_end(self.beta.service.reserve(path, timeout=0))
        second = self.run_to_end(self.beta.service.reserve(path, timeout=0))
        self.clock.advance(60)
        self.run_to_end(first.confirm())
        self.assertEqual(self.beta.service.inspection.status().expired, {})
        second.release()
        self.assertEqual([bytes(view.body) for view in self.answers()], [b"given back"])
        failure = self.failureResultOf(self.deferred(self.beta.service.peek(path, timeout=0)), MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_IO_TIMEOUT)

    def test_arrival_comes_before_the_end(self) -> None:
        """With no time to be received at all, a message arrives and is not received: in that order."""
        self.queue(self.alpha, "here")
        asked = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
        message = Message(time_to_be_received=0, acknowledge=asked, admin_queue=ADMIN)
        self.run_to_end(self.alpha.service.send(".\\private$\\here", [message]))
        expected = [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_RECEIVE_TIMEOUT]
        self.assertEqual(self.classes(), expected)

    def test_very_many_at_once(self) -> None:
        """All of them leave, and what else there is to do goes on in between."""
        path = self.queue(self.alpha, "here")
        self.send(self.alpha, path, *[b""] * 1000, time_to_be_received=10)
        self.send(self.alpha, path, b"stays")
        left: list[int] = []
        reactor = self.clock.reactor
        reactor.callLater(
            10, reactor.callLater, 0, lambda: left.append(self.alpha.service.inspection.queue(path).messages)
        )
        self.clock.advance(10)
        self.assertTrue(1 < left[0] < 1001)
        self.assertEqual(self.bodies(self.alpha, path), [b"stays"])
        self.assertEqual(self.alpha.service.inspection.status().expired, {"NACK_RECEIVE_TIMEOUT": 1000})

    def test_the_clock_is_set(self) -> None:
        """Within a minute it is noticed that a day has passed."""
        path = self.queue(self.alpha, "here")
        self.send(self.alpha, path, b"day", time_to_be_received=86400)
        self.clock.set_wall(START.wall + 90000)
        self.clock.advance(60)
        self.assertEqual(self.alpha.service.inspection.queue(path).messages, 0)


class TransferExpiryTests(ExpiryTestCase):
    """TimeToReachQueue."""

    def test_without_a_connection(self) -> None:
        """The outgoing queue empties at that time, and its sender gets NACK_REACH_QUEUE_TIMEOUT from here.

        MQQB-3.1.7.1.2-03, MQQB-3.1.7.1.2-04, MQMQ-2.2.18.1.6-08.
        """
        path = self.queue(self.beta)
        self.beta.deaf()
        self.ask(b"in vain", time_to_reach_queue=10)
        self.send(self.alpha, TO_BETA, b"patient", time_to_reach_queue=0xFFFFFFFF)
        self.clock.advance(10.9)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 2)
        self.assertEqual(self.classes(), [MessageClass.NACK_REACH_QUEUE_TIMEOUT])
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 1)
        self.assertEqual(self.alpha.service.inspection.status().expired, {"NACK_REACH_QUEUE_TIMEOUT": 1})
        self.beta.listen()
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, path), [b"patient"])

    def test_the_answer_is_ours(self) -> None:
        """It has the body and the identifier of the message, and comes from the sending queue manager."""
        self.beta.deaf()
        self.ask(b"in vain", time_to_reach_queue=10)
        self.clock.advance(11)
        [answer] = self.answers()
        self.assertEqual(bytes(answer.body), b"in vain")
        self.assertEqual(answer.source_queue_manager, ALPHA.bytes_le)
        self.assertEqual(answer.correlation_id[:16], ALPHA.bytes_le)
        self.assertEqual(str(answer.response_format_name()), TO_BETA)

    def test_nothing_is_dialled_for(self) -> None:
        """When the last message has expired, no further connection is attempted."""
        self.beta.deaf()
        self.ask(b"in vain", time_to_reach_queue=10)
        self.clock.advance(100)
        before = len(self.alpha.service.inspection.outgoing()[0].history)
        self.clock.advance(300)
        self.assertEqual(len(self.alpha.service.inspection.outgoing()[0].history), before)

    def test_in_time(self) -> None:
        """A message that arrives in time has no limit any more."""
        path = self.queue(self.beta)
        self.ask(b"in time", time_to_reach_queue=10)
        self.clock.advance(100)
        self.assertEqual(self.bodies(self.beta, path), [b"in time"])
        self.assertEqual(self.classes(), [])

    def test_no_limit(self) -> None:
        """0xFFFFFFFF waits for years."""
        path = self.queue(self.beta)
        self.beta.deaf()
        self.send(self.alpha, TO_BETA, b"patient", time_to_reach_queue=0xFFFFFFFF)
        self.clock.set_wall(START.wall + 10 * 365 * 86400)
        self.clock.advance(100)
        self.beta.listen()
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, path), [b"patient"])

    def arriving(self, number: int, age: int) -> bytes:
        """A packet that has 10 seconds to reach BETA's queue."""
        message = Message(
            body=b"%d" % age,
            time_to_reach_queue=10,
            acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=ADMIN,
        )
        sent_time = self.clock.now().unix_seconds - age
        destination = parse_format_name(TO_BETA)
        return build_packet(message, destination, source=ALPHA, message_id=number, sent_time=sent_time)

    def test_expired_on_arrival(self) -> None:
        """At the age of 10 it is taken; at 11 it is not, but counted and acknowledged to the session.

        MQMQ-2.2.19.1-18, MQQB-3.1.5.8-02.
        """
        path = self.queue(self.beta)
        packets = [establish(ALPHA), parameters(window_size=6)]
        packets += [self.arriving(number, age) for number, age in enumerate((10, 11, -5), 1)]
        written = self.converse(self.network.host("127.0.0.9"), b"".join(packets))
        self.assertEqual(acks(written[HANDSHAKE:]), [(3, 0, 0, 0, 0, 64)])
        self.assertEqual(self.bodies(self.beta, path), [b"10", b"-5"])
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_REACH_QUEUE_TIMEOUT": 1})
        [answer] = self.answers()
        self.assertEqual(answer.message_class, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
        self.assertEqual(bytes(answer.body), b"11")


class SlowLineTests(ExpiryTestCase):
    """A message that is in transit when it expires, and arrives."""

    conditions = Conditions(delay=8.0)

    def test_a_late_acknowledgement(self) -> None:
        """It is given up, once, though it has arrived; the session goes on as if nothing had been."""
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"first")
        self.clock.advance(100)
        self.ask(b"given up", time_to_reach_queue=10)
        self.send(self.alpha, TO_BETA, b"second")
        self.clock.advance(11)
        [outgoing] = self.alpha.service.inspection.outgoing()
        self.assertEqual((outgoing.messages, outgoing.unacknowledged), (1, 1))
        self.assertEqual(self.classes(), [MessageClass.NACK_REACH_QUEUE_TIMEOUT])
        self.clock.advance(100)
        [outgoing] = self.alpha.service.inspection.outgoing()
        self.assertEqual((outgoing.messages, outgoing.bytes), (0, 0))
        self.send(self.alpha, TO_BETA, b"third")
        self.clock.advance(100)
        self.assertEqual(self.bodies(self.beta, path), [b"first", b"given up", b"second", b"third"])
        self.assertEqual(len(self.network.links), 1)
        self.assertEqual(self.alpha.service.inspection.status().expired, {"NACK_REACH_QUEUE_TIMEOUT": 1})


class FailingStore(MemoryMessageStore):
    """A store whose disk is full at times."""

    is_full = False

    def commit(self, changes: Any) -> Deferred[None]:
        """Fail while the disk is full."""
        if self.is_full:
            return self._fail()
        return super().commit(changes)

    def _fail(self) -> Deferred[None]:
        failed: Deferred[None] = Deferred()
        failed.errback(StorageError("the disk is full"))
        return failed


class DurableStoreTests(ExpiryTestCase):
    """Stored messages expire in the store too."""

    def node(self, name: str, identifier: object, **kwargs: object) -> Node:
        self.store = kwargs.pop("store", None) or FailingStore(durable=True)
        return super().node(name, identifier, store=self.store, **kwargs)  # type: ignore[arg-type]

    def restart(self, seconds: float = 0) -> None:
        """Stop BETA, and start it again some time later."""
        self.successResultOf(self.beta.service.stopService())
        self.beta.deaf()
        self.clock.advance(seconds)
        self.beta = self.node("BETA", BETA, store=self.beta.store)
        self.beta.start()

    def test_a_recoverable_message_leaves_the_store(self) -> None:
        """It does not come back with a restart."""
        path = self.queue(self.beta)
        self.ask(b"unread", delivery=Delivery.RECOVERABLE, time_to_be_received=10)
        self.clock.advance(5)
        self.restart()
        self.assertEqual(self.run_to_end(self.beta.service.peek(path, timeout=0)).body_size, 6)
        self.clock.advance(30)
        self.restart()
        self.assertEqual(self.beta.service.inspection.queue(path).messages, 0)
        [answer] = self.answers()
        self.assertTrue(answer.is_recoverable)

    def test_the_store_fails_for_a_while(self) -> None:
        """No reader gets the message meanwhile; its expiry is logged once, when the removal is stored."""
        path = self.queue(self.beta)
        self.ask(b"unread", delivery=Delivery.RECOVERABLE, time_to_be_received=10)
        self.clock.advance(5)
        assert isinstance(self.beta.store, FailingStore)
        self.beta.store.is_full = True
        self.clock.advance(30)
        self.assertEqual(self.beta.service.inspection.queue(path).messages, 1)
        failure = self.failureResultOf(self.deferred(self.beta.service.peek(path, timeout=0)), MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_IO_TIMEOUT)
        self.assertEqual(self.classes(), [])
        self.beta.store.is_full = False
        self.clock.advance(60)
        self.assertEqual(self.classes(), [MessageClass.NACK_RECEIVE_TIMEOUT])
        self.assertEqual(self.beta.service.inspection.queue(path).messages, 0)

    def test_after_a_restart(self) -> None:
        """A stored message that was not loaded yet is tested when it is read."""
        path = self.queue(self.beta)
        self.ask(b"unread", delivery=Delivery.RECOVERABLE, time_to_be_received=10)
        self.send(self.alpha, TO_BETA, b"good", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.restart(20)
        self.assertEqual(self.bodies(self.beta, path), [b"good"])
        self.clock.advance(10)
        self.assertEqual(self.classes(), [MessageClass.NACK_RECEIVE_TIMEOUT])
