"""Results of messages that are received while the store of their receiver is full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msmq.interfaces.storage import StorageFull
from msmq.manager import waiting_results
from msmq.persistence.changes import Change, PutMessage, PutMessages, PutState
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError
from tests.manager.support import FaultyStore
from tests.nodes.scripted import ACK_RECEIVE, POSITIVE, ScriptedTestCase, transactional
from tests.nodes.support import Node

X = 1_700_000_000 << 32 | 1
PLAIN = ".\\private$\\plain"


def _stores(changes: Sequence[Change]) -> bool:
    """Whether a batch needs more space than a full disk has for removals."""
    return any(
        isinstance(change, PutMessage | PutMessages)
        or (isinstance(change, PutState) and len(change.value) > 100_000)
        for change in changes
    )


class FullStoreTestCase(ScriptedTestCase):
    """GAMMA has sent three transactional messages to BETA, whose disk is full when they are received."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", FaultyStore())
        return super().node(name, identifier, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta, transactional=True)
        self.queue(self.beta, "plain")
        self.peer = self.dial(is_prompt=True)
        for number in (1, 2, 3):
            self.peer.send(transactional(b"m", (X, number, number - 1), user_flags=POSITIVE))
        self.clock.advance(1)
        assert isinstance(self.beta.store, FaultyStore)
        self.disk = self.beta.store
        self.disk.error, self.disk.is_hit = StorageFull("no space"), _stores
        refused = self.deferred(
            self.beta.service.send(PLAIN, [Message(body=b"x", delivery=Delivery.RECOVERABLE)])
        )
        self.failureResultOf(refused, MQError)
        self.assertTrue(self.beta.service.inspection.status().throttled)


class HeldTests(FullStoreTestCase):
    """BETA holds what it cannot store."""

    def test_final_acks_follow(self) -> None:
        """They are received, which frees space, and their sender learns it when there is some."""
        self.assertEqual(self.bodies(self.beta, self.path), [b"m"] * 3)
        self.clock.advance(20)
        self.assertEqual(self.peer.final_acks, [])
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_another_failure_before_that(self) -> None:
        """A store that has space and fails otherwise is tried again."""
        self.take(self.beta, self.path)
        self.disk.recover()
        self.disk.fail_commit(1, of=PutMessage)
        self.clock.advance(0.5)
        self.assertEqual(self.peer.final_acks, [])
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_stopped_before_that(self) -> None:
        """Nothing of them is left to do for a queue manager that has stopped."""
        self.take(self.beta, self.path)
        self.beta.deaf()
        self.successResultOf(self.beta.service.stopService())
        self.disk.recover()
        self.clock.advance(100)
        self.assertEqual(self.peer.final_acks, [])


class HeldLimitTests(FullStoreTestCase):
    """BETA holds 600 bytes of acknowledgements."""

    def setUp(self) -> None:
        self.patch(waiting_results, "MOST_WAITING_BYTES", 600)
        super().setUp()

    def test_further_ones_are_dropped(self) -> None:
        """Memory is used within the limit."""
        self.take(self.beta, self.path)
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2)])
