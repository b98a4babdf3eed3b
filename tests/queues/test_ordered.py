"""The available messages of one priority, when some of them go from the middle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues import priority_level
from msmq.queues.definition import QueueDefinition
from msmq.queues.position import MessagePosition, PositionState
from msmq.queues.priority_level import PriorityLevel
from msmq.queues.queue import Queue
from tests.builders import ALPHA

QUEUE = Queue(QueueDefinition(identifier=ALPHA, path="private$\\orders"))


def position(number: int) -> MessagePosition:
    """An available message."""
    return MessagePosition(QUEUE, number, None, 1, 0.0, PositionState.AVAILABLE)


def go(level: PriorityLevel, gone: MessagePosition) -> None:
    """Let a message go from where it lies."""
    gone.state = PositionState.LEAVING
    level.discard(gone)


class PriorityLevelTests(SynchronousTestCase):
    """L{PriorityLevel}."""

    @given(
        st.lists(
            st.one_of(
                st.just(("add", 0)),
                st.tuples(st.sampled_from(["go", "go", "take", "give back"]), st.integers(0, 100)),
            ),
            max_size=120,
        ),
        st.integers(0, 20),
    )
    def test_it_is_a_sorted_set(self, steps: list[tuple[str, int]], tolerated: int) -> None:
        """Whatever comes, goes and comes back: what is left is there in order, and is counted."""
        self.patch(priority_level, "TOLERATED", tolerated)
        level = PriorityLevel()
        there: dict[int, MessagePosition] = {}
        held: dict[int, MessagePosition] = {}
        youngest = 0
        for step, number in steps:
            if step == "add":
                youngest += 1
                there[youngest] = position(youngest)
                level.add(there[youngest])
            elif step == "go" and there:
                go(level, there.pop(sorted(there)[number % len(there)]))
            elif step == "take":
                taken = level.pop(number % 4)
                self.assertEqual([one.lookup_id for one in taken], sorted(there)[: number % 4])
                for one in taken:
                    held[one.lookup_id] = there.pop(one.lookup_id)
            elif step == "give back" and held:
                chosen = sorted(held)[number % len(held)]
                there[chosen] = held.pop(chosen)
                level.add(there[chosen])
            self.assertEqual([one.lookup_id for one in level], sorted(there))
            self.assertEqual(len(level), len(there))
            self.assertEqual(bool(level.arrivals or level.returned), bool(there))

    def test_what_has_gone_does_not_pile_up(self) -> None:
        """Behind one message that nobody takes, any number may come and go."""
        level = PriorityLevel()
        level.add(position(0))
        waiting: list[MessagePosition] = []
        for number in range(1, 20_000):
            waiting.append(position(number))
            level.add(waiting[-1])
            if len(waiting) == 100:
                go(level, waiting.pop(0))
        self.assertEqual(len(level), 100)
        self.assertLess(len(level.arrivals) + len(level.swept), 600)

    def test_going_is_cheap_wherever_one_lies(self) -> None:
        """Half of many messages go from the middle; none is moved more than a few times."""
        level = PriorityLevel()
        positions = [position(number) for number in range(20_000)]
        for one in positions:
            level.add(one)
        for one in positions[1::2]:
            go(level, one)
        self.assertEqual([one.lookup_id for one in level], list(range(0, 20_000, 2)))
        self.assertEqual([one.lookup_id for one in level.pop(3)], [0, 2, 4])
