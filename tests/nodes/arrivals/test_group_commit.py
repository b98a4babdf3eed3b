"""Group commit: arrivals during a commit share the next one, and a slow disk stops no session."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from msmq.transfer.decisions.commit_backlog import SESSION_BACKLOG
from tests.nodes.scripted import Peer, ScriptedTestCase, transactional
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node

DELAY = 2.0
PATH = ".\\private$\\plain"
PLAIN = "TCP:127.0.0.3\\private$\\plain"


NUMBERS = itertools.count(1)


def message(body: bytes, **kwargs: Any) -> bytes:
    kwargs["message_id"] = next(NUMBERS)
    return transactional(body, (0, 0, 0), destination=PLAIN, is_transactional=False, **kwargs)


class GatheringTests(ScriptedTestCase):
    """GAMMA sends to BETA, whose disk takes two seconds for the batch that it has when it begins."""

    def setUp(self) -> None:
        super().setUp()
        creating = self.deferred(self.beta.service.create_queue(PATH))
        self.clock.advance(3 * DELAY)
        self.successResultOf(creating)
        self.peer = self.dial()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "BETA":
            disk = MemoryMessageStore(durable=True)
            self.store = kwargs["store"] = SlowStore(disk, self.clock.reactor, DELAY)
        return super().node(name, identifier, **kwargs)

    def say(self, *packets: bytes, seconds: float = 0.1) -> None:
        """These come together, and apart from what comes later."""
        self.peer.send(*packets)
        self.clock.advance(seconds)

    def stored(self) -> list[bytes]:
        peek: Deferred[Any] = Deferred.fromCoroutine(
            self.beta.service.reserve(PATH, count=100, timeout=0, peek=True)
        )
        peek.addErrback(lambda failure: failure.trap(MQError) and None)
        reservation = self.successResultOf(peek)
        return [bytes(each.view.body) for each in reservation.messages] if reservation is not None else []

    def named(self, peer: Peer) -> int:
        return sum(flags.bit_count() for _, _, flags, *_ in peer.acks)

    def test_they_share_a_commit(self) -> None:
        """Ten that come one by one during the first commit are stored one commit later."""
        for number in range(11):
            self.say(message(b"%d" % number), seconds=0.05)
        self.assertEqual(self.stored(), [])
        self.clock.advance(DELAY)
        self.assertEqual(self.stored(), [b"0"])
        self.clock.advance(DELAY)
        self.assertEqual(self.stored(), [b"%d" % number for number in range(11)])

    def test_nothing_is_acknowledged_before_it_is_stored(self) -> None:
        """Though the session takes more, it names only what is on disk."""
        self.say(message(b"1"), seconds=0.5)
        self.say(message(b"2"), seconds=0.5)
        self.assertEqual(self.named(self.peer), 0)
        self.clock.advance(DELAY)
        self.assertEqual(self.named(self.peer), 1)
        self.clock.advance(DELAY)
        self.assertEqual(self.named(self.peer), 2)

    def test_express_messages_do_not_overtake(self) -> None:
        """Express messages stay behind earlier messages that are being stored."""
        self.say(message(b"1"))
        self.say(message(b"2", is_recoverable=False))
        self.say(message(b"3"))
        self.clock.advance(DELAY / 2)
        self.assertEqual(self.stored(), [])
        self.clock.advance(2 * DELAY)
        self.assertEqual(self.stored(), [b"1", b"2", b"3"])

    def test_little_is_taken_ahead(self) -> None:
        """A session that has brought a megabyte waits for the disk."""
        body = bytes(SESSION_BACKLOG // 4)
        for _ in range(12):
            self.say(message(body), seconds=0.01)
        self.assertLess(self.beta.model.message_count, 8)
        self.clock.advance(5 * DELAY)
        self.assertEqual(len(self.stored()), 12)

    def test_store_that_fails(self) -> None:
        """No message of the batch is acknowledged or kept; the session ends, and the sender still has all of
        them.
        """
        self.store.trouble = StorageError("the disk is on fire")
        self.say(message(b"1"))
        self.say(message(b"2"))
        self.clock.advance(3 * DELAY)
        self.assertTrue(self.peer.is_lost)
        self.assertEqual(self.named(self.peer), 0)
        self.assertEqual(self.stored(), [])
        self.assertEqual(self.beta.model.message_count, 0)

    def test_connection_that_ends(self) -> None:
        """Received messages are stored all the same; the sender learns that when it sends them again."""
        self.say(message(b"1"))
        self.say(message(b"2"))
        assert self.peer.transport is not None
        self.peer.transport.loseConnection()
        self.clock.advance(3 * DELAY)
        self.assertEqual(self.stored(), [b"1", b"2"])
