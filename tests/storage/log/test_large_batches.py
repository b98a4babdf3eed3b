"""Batches that no segment of the usual size holds."""

from __future__ import annotations

from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import Change, PutMessage, PutMessages, PutQueue, RemoveMessages
from msmq.persistence.definition import QueueDefinition
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.state import State
from tests.storage.log.support import SEGMENT, LogTestCase

QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)
RUN = 100


class SpaceTests(SynchronousTestCase):
    """The space of a large batch, which is obtained before it is planned."""

    def test_enough(self) -> None:
        """It is at least what the plan needs, and seldom more than twice of it."""
        state = State()
        state.put_queue(1, QUEUE.identifier, b"")
        packets = [b"%060d" % number for number in range(5000)]
        puts = [PutMessage(QUEUE.identifier, number, packets[number], 1.0) for number in range(2500)]
        runs = [
            PutMessages(QUEUE.identifier, first, packets[first : first + RUN], 1.0)
            for first in range(2500, 5000, RUN)
        ]
        removals = [RemoveMessages(QUEUE.identifier, tuple(range(0, 5000, 2)))]
        kinds: dict[str, list[Change]] = {"puts": [*puts], "runs": [*runs], "removals": [*removals]}
        for name, changes in kinds.items():
            with self.subTest(name):
                plan = GroupPlan(state, 1 << 32, 0)
                plan.add(changes)
                space = WriteBatch(changes, Deferred()).space()
                written = plan.size + plan.table_size
                self.assertLessEqual(written, space)
                self.assertLess(space, 2 * written)
                plan.settle()


class LargeBatchTests(LogTestCase):
    """A transaction of some thousand messages, which come in runs."""

    def test_one_segment(self) -> None:
        """One segment is made for the batch, of the right size: none is too small for what was planned."""
        store = self.opened(PutQueue(QUEUE))
        runs = [
            PutMessages(QUEUE.identifier, first, [b"%060d" % number for number in range(RUN)], 1.0)
            for first in range(0, 3000, RUN)
        ]
        self.commit(store, *runs)
        large = [file.name for file in (self.home / "log").glob("segment-*") if file.stat().st_size > SEGMENT]
        self.assertEqual(len(large), 1, large)
        self.done(store.close())
        again = self.make_store()
        snapshot = self.done(again.open())
        self.assertEqual(len(snapshot.messages[QUEUE.identifier]), 3000)
        self.done(again.close())
