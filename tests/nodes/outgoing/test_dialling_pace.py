"""[MS-MQQB] 3.1.2.3: a peer whose sessions end at once is not dialled without a pause."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.queues.arriving.message import Delivery
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.streams import Conditions
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node, NodesTestCase

T = TypeVar("T")

TO_ALPHA = "DIRECT=TCP:127.0.0.2\\private$\\orders"
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class FullStoreTests(NodesTestCase):
    """Two that have messages for each other, and one of them cannot store any."""

    conditions = Conditions(delay=0.001)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        store = SlowStore(MemoryMessageStore(durable=True), self.clock.reactor, 0.001)
        if name == "BETA":
            self.store = store
        return super().node(name, identifier, store=store, **kwargs)

    def run_to_end(self, coroutine: Coroutine[Deferred[object], Any, T]) -> T:
        """The result of something for which the store needs some time."""
        running = self.deferred(coroutine)
        self.clock.advance(1)
        return self.successResultOf(running)

    def test_each_waits_before_it_dials_again(self) -> None:
        """Neither a connection by the other side nor an opened session makes a queue manager dial without
        pauses.
        """
        here, there = self.queue(self.alpha), self.queue(self.beta)
        bodies = [b"%d" % number for number in range(9)]
        for trouble in (StorageFull("there is no space"), StorageError("the disk is on fire")):
            self.network.partition("127.0.0.2", "127.0.0.3")
            self.send(self.alpha, TO_BETA, *bodies, delivery=Delivery.RECOVERABLE)
            self.send(self.beta, TO_ALPHA, *bodies, delivery=Delivery.RECOVERABLE)
            self.clock.advance(60)
            self.store.trouble = trouble
            before = len(self.network.links)
            self.network.heal("127.0.0.2", "127.0.0.3")
            self.clock.advance(60)
            # Each end may dial when its wait of five seconds ends, and once when it hears the other.
            self.assertLess(len(self.network.links) - before, 2 * 2 * 60 / 5)
            self.store.trouble = None
            self.clock.advance(60)
            self.assertEqual(self.bodies(self.alpha, here), bodies)
            self.assertEqual(self.bodies(self.beta, there), bodies)

    def test_waits_for_a_full_receiver_grow(self) -> None:
        """Sessions that open and end without an acknowledgement are failed attempts: they are dialled after
        growing waits, and the messages leave within the longest wait once there is space.
        """
        there = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"before")
        self.clock.advance(5)
        self.store.trouble = StorageFull("there is no space")
        bodies = [b"%d" % number for number in range(9)]
        self.send(self.alpha, TO_BETA, *bodies, delivery=Delivery.RECOVERABLE)
        dialled: list[int] = []
        known = set(self.network.links)
        for second in range(1, 300):
            self.clock.advance(1)
            if found := set(self.network.links) - known:
                known |= found
                dialled.append(second)
        self.assertEqual(dialled, [5, 15, 35, 75, 135, 195, 255])
        self.store.trouble = None
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, there), [b"before", *bodies])
        # What was acknowledged ends the growth.
        self.store.trouble = StorageFull("there is no space")
        self.send(self.alpha, TO_BETA, b"later", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        known = set(self.network.links)
        self.clock.advance(6)
        self.assertGreater(len(set(self.network.links) - known), 0)
