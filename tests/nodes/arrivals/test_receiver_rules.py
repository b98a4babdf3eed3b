"""A receiving queue manager as a plain peer sees it: [MS-MQQB] 3.1.5.8 in bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.decoding.message_json import message_json
from msmq.interfaces.storage import StorageError, StorageFull
from msmq.queues.arriving.message import Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from tests.nodes.arrivals.receiver import (
    ADMIN,
    EXPRESS,
    PLAIN,
    RECOVERABLE,
    ReceiverTestCase,
    X,
    chain,
    recoverable,
)
from tests.nodes.scripted import transactional
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node


class RecoverableTests(ReceiverTestCase):
    """[MS-MQQB] 3.1.5.8.7: recoverable messages are counted once, stored, and named."""

    def test_counted_once(self) -> None:
        """Among express messages it counts as one recoverable, and the peer's true counts match.

        MQQB-3.1.5.8.2-14.
        """
        express = transactional(b"e", (0, 0, 0), destination=PLAIN, **EXPRESS)
        self.say(express, recoverable(1), express, seconds=1)
        self.assertEqual(self.peer.acks[-1][:3], (3, 1, 0b1))
        self.say(recoverable(2), seconds=1)
        self.assertEqual(self.peer.acks[-1][:3], (4, 2, 0b1))
        self.check_counts()

    def test_named_once(self) -> None:
        """After the acknowledgement of 32 at once the next begins with the 33rd.

        MQQB-3.1.5.8.7-03.
        """
        self.say(*[recoverable(number) for number in range(1, 33)])
        self.assertEqual(self.peer.acks[-1][:3], (32, 1, 0xFFFFFFFF))
        self.say(recoverable(33), recoverable(34), seconds=1)
        self.assertEqual(self.peer.acks[-1][:3], (34, 33, 0b11))
        self.check_counts()

    def test_still_there_after_a_kill(self) -> None:
        """Messages acknowledged as stored are there after a restart, whether all that came together were for
        one queue or not (MQQB-3.1.5.8.7-04).
        """
        self.say(*[recoverable(number, b"%d" % number) for number in (1, 2, 3)], seconds=1)
        self.say(*[recoverable(number, b"%d" % number) for number in (4, 5)], *chain(1, 2), seconds=1)
        self.assertEqual(self.named(self.peer), 7)
        self.beta = self.restart(self.beta)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1", b"2", b"3", b"4", b"5"])
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2"])

    def test_wrong_counts(self) -> None:
        """Some versions of Windows stamp a wrong count: the message is delivered, and the session closed.

        The next session has it again, as a duplicate, and goes on (MQMQ-2.2.20.4-13).
        """
        self.say(recoverable(1, b"1"), seconds=1)
        self.peer.sent = 6
        self.peer.recoverable_sent = 2
        self.say(recoverable(2, b"2", header=self.peer.header()), seconds=1)
        self.assertTrue(self.peer.is_lost)
        self.peer = self.dial()
        self.say(recoverable(2, b"2"), recoverable(3, b"3"), seconds=1)
        self.check_counts()
        bodies = [body for body in self.bodies(self.beta, self.plain) if body]
        self.assertEqual(bodies, [b"1", b"2", b"3"])


class SlowStoreTests(ReceiverTestCase):
    """A store that takes two seconds for everything."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "BETA" and "store" not in kwargs:
            self.store = SlowStore(MemoryMessageStore(durable=True), self.clock.reactor, 0.0)
            kwargs["store"] = self.store
        return super().node(name, identifier, **kwargs)

    def queue(self, node: Node, name: str = "orders", **kwargs: Any) -> str:
        path = f".\\private$\\{name}"
        making = self.deferred(node.service.create_queue(path, **kwargs))
        self.clock.advance(1)
        self.successResultOf(making)
        return path

    def setUp(self) -> None:
        super().setUp()
        self.store._delay = 2.0

    def test_durable_first(self) -> None:
        """Until the store has it no bit names it; then one does; what is refused needs no store.

        MQQB-3.1.1.1.1.6-01.
        """
        self.say(recoverable(1), *chain(1, 1), seconds=1.5)
        self.assertEqual(self.named(self.peer), 0)
        self.failureResultOf(self.deferred(self.beta.service.peek(self.plain, timeout=0)), MQError)
        self.clock.advance(3)
        self.assertEqual(self.named(self.peer), 2)
        self.assertEqual(self.beta.service.inspection.queue(self.plain).messages, 1)
        nowhere = "TCP:127.0.0.3\\private$\\nowhere"
        refused = transactional(b"x", (0, 0, 0), message_id=9, destination=nowhere, **RECOVERABLE)
        self.say(refused, seconds=6)
        self.assertEqual(self.named(self.peer), 3)

    def test_trouble(self) -> None:
        """A store that fails closes the session, names nothing, and has everything when it is back.

        So for a disk without space, one that fails, and a database that is away (it answers late, with an
        error).
        """
        number = 0
        for trouble in (
            StorageFull("there is no space"),
            StorageError("the disk is on fire"),
            StorageError("the connection to the database is lost"),
        ):
            number += 1
            self.store.trouble = trouble
            packets = [recoverable(number), *chain(number, number)]
            self.say(*packets, seconds=5)
            self.assertTrue(self.peer.is_lost)
            self.assertEqual(self.named(self.peer), 0)
            self.assertNotIn((X, number, number - 1), self.peer.order_acks)
            self.store.trouble = None
            self.clock.advance(30)
            self.peer = self.dial()
            self.say(*packets, seconds=10)
            self.assertEqual(self.named(self.peer), 2)
            self.assertIn((X, number, number - 1), self.peer.order_acks)
            self.peer.hang_up()
            self.clock.advance(1)
            self.peer = self.dial()
        self.assertEqual(self.beta.service.inspection.queue(self.plain).messages, 3)
        self.assertEqual(self.beta.service.inspection.queue(self.path).messages, 3)


class EventTests(ReceiverTestCase):
    """[MS-MQQB] 3.1.7: events of the queues that the protocol handles."""

    def test_queue_events_are_notified(self) -> None:
        """A message that comes, one that leaves, a queue that is paused and resumed (MQQB-3.1.7-01)."""
        self.listen(is_prompt=True)
        to_gamma = "DIRECT=TCP:127.0.0.4\\private$\\orders"
        self.run_to_end(self.beta.service.send(to_gamma, [Message(body=b"available")]))
        self.clock.advance(1)
        [peer] = self.peers
        self.assertEqual(peer.bodies, [b"available"])
        self.say(*chain(1, 1, acknowledge=2, admin=ADMIN), seconds=1)
        self.assertEqual(peer.bodies[1:], [])
        self.take(self.beta, self.path)
        self.clock.advance(1)
        self.assertEqual([message.message_class for message in peer.messages[1:]], [0x4000])
        self.beta.service.pause_outgoing(to_gamma)
        self.run_to_end(self.beta.service.send(to_gamma, [Message(body=b"paused")]))
        self.clock.advance(10)
        self.assertNotIn(b"paused", peer.bodies)
        self.beta.service.resume_outgoing(to_gamma)
        self.clock.advance(1)
        self.assertEqual(peer.bodies[-1], b"paused")

    def test_headers_that_are_not_there(self) -> None:
        """A bare packet becomes a message without a sender, a transaction, or other queues.

        MQQB-3.1.7.10-01, MQQB-3.1.1-01.
        """
        self.say(transactional(b"bare", (0, 0, 0), destination=PLAIN, **EXPRESS))
        [view] = self.take(self.beta, self.plain)
        shown = message_json(view)
        self.assertEqual(shown["body"], "bare")
        for absent in ("sender_id", "transaction", "admin_queue", "response_queue", "extension_base64"):
            self.assertFalse(shown[absent], absent)
        self.assertEqual((shown["label"], shown["authenticated"], shown["acknowledge"]), ("", False, []))
        self.say(*chain(1, 1, admin=ADMIN))
        [view] = self.take(self.beta, self.path)
        shown = message_json(view)
        transaction = shown["transaction"]
        assert isinstance(transaction, dict)
        self.assertEqual(transaction["sequence_number"], 1)
        self.assertEqual(shown["admin_queue"], f"DIRECT={ADMIN}")
