"""A drain while the store fails, and between any two commits of a queue manager that is killed."""

from __future__ import annotations

from msmq.queues.arriving.message import Delivery
from tests.nodes.drains.support import AT_ALPHA, AT_BETA, ORDERS, DrainTestCase

BODIES = [b"%d" % number for number in range(300)]


class KilledDrainTests(DrainTestCase):
    """ALPHA is killed while it drains three hundred messages, which are two batches.

    @ivar sent: the bodies.
    """

    sent = BODIES

    def killed_after(
        self,
        operations: int,
        queue: dict[str, bool],
        properties: dict[str, object],
        acknowledge_to: str | None,
    ) -> bool:
        """Kill ALPHA after this many operations of its store.

        @return: whether the drain had more to do then.
        """
        self.setUp()
        self.both(**queue)
        self.queue(self.alpha, "acks")
        self.send(self.gamma, AT_ALPHA, *self.sent, **properties)
        self.clock.advance(30)
        store = self.stores["ALPHA"]
        store.is_slow = True
        beginning = self.deferred(
            self.alpha.service.drains.begin(ORDERS, AT_BETA, acknowledge_to=acknowledge_to)
        )
        for _ in range(operations):
            store.finish(1)
            self.clock.advance(0.05)
        has_more = store.is_busy
        self.kill()
        self.clock.advance(1)
        del beginning
        self.begin(acknowledge_to=acknowledge_to)
        for _ in range(20):
            self.clock.advance(10)
        self.assert_proven()
        self.assertEqual(self.alpha.model.collection.unproven.message_count, 0)
        self.assertEqual(self.run_to_end(self.alpha.service.inspection.dead_letters()), [])
        self.assertEqual(self.bodies(self.beta, ORDERS), self.sent)
        self.assertEqual(self.alpha.service.inspection.queue(ORDERS).messages, 0)
        return has_more

    def verify_kills(
        self, queue: dict[str, bool], properties: dict[str, object], acknowledge_to: str | None = None
    ) -> None:
        """Kill it after each operation of its store."""
        operations = 0
        while True:
            with self.subTest(operations=operations):
                has_more = self.killed_after(operations, queue, properties, acknowledge_to)
                self.tearDown()
            if not has_more:
                break
            operations += 1
        self.assertGreaterEqual(operations, 4)
        self.setUp()

    def test_recoverable_messages(self) -> None:
        """Each arrives once and in order, and the proof is exact, whenever the kill comes."""
        self.verify_kills({}, {"delivery": Delivery.RECOVERABLE})

    def test_kept_messages(self) -> None:
        """The same for messages that are kept until their arrival is acknowledged, and none is left over.

        The first message is a separate batch.
        """
        self.sent = BODIES[:20]
        self.verify_kills({}, {"delivery": Delivery.RECOVERABLE}, "DIRECT=OS:ALPHA\\private$\\acks")

    def test_transactional_messages(self) -> None:
        """The same for transactional messages."""
        self.verify_kills({"transactional": True}, {"transactional": True})


class FailingStoreTests(DrainTestCase):
    """The store of ALPHA fails for a while."""

    def test_full_store(self) -> None:
        """While it fails the drain waits and says why; the messages stay, and none is counted."""
        for options in ({}, {"transactional": True}):
            with self.subTest(**options):
                self.setUp()
                self.both(**options)
                self.begin()
                self.send(self.gamma, AT_ALPHA, b"1", b"2", delivery=Delivery.RECOVERABLE, **options)
                self.stores["ALPHA"].fail_commit(2)
                self.clock.advance(1)
                self.stores["ALPHA"].break_down()
                summary = self.alpha.service.drains.summary(ORDERS)
                self.assertEqual((summary.condition, summary.moved, summary.remaining), ("waiting", 0, 2))
                self.assertIn("the disk is on fire", summary.reason)
                self.stores["ALPHA"].recover()
                self.clock.advance(60)
                self.assert_proven()
                self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2"])
                self.assertEqual(self.alpha.service.drains.summary(ORDERS).condition, "running")
                self.tearDown()
        self.setUp()
