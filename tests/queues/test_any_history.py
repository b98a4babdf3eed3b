"""A queue against a naive one, over any sequence of calls."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.queues.arriving.admission import Admission
from msmq.queues.effects import Effect, ReadCompleted, ReadFailed
from msmq.queues.leaving.departure_kinds import Departure, Removal
from msmq.queues.queue import MessagePosition
from tests.queues.builders import NOW, arriving, create, model
from tests.samples import examples

FOREVER = 0xFFFFFFFF
LIVES = (FOREVER, 0, 3, 20)
VIEWS = {
    (priority, seconds): arriving(b"x" * priority, priority=priority, time_to_be_received=seconds)
    for priority in range(8)
    for seconds in LIVES
}


@attrs.define(eq=False)
class Held:
    tag: int
    positions: list[MessagePosition]


class QueueHistory(RuleBasedStateMachine):
    """Keeps every LookupIdentifier in a plain set for each state, and compares.

    C{available} is what a reader must be able to see, C{waiting} are readers that must not see anything.
    A message that expires may still be in the queue, but no reader gets it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.model = model()
        self.queue = create(self.model)
        self.available: set[int] = set()
        self.waiting: dict[int, bool] = {}
        self.admissions: list[Admission] = []
        self.held: list[Held] = []
        self.removals: list[Removal] = []
        self.departures: list[Departure] = []
        self.now = NOW
        self.tags: Iterator[int] = iter(range(1 << 30))

    def apply(self, effects: list[Effect]) -> None:
        """Believe the effects, if they may be believed."""
        before = set(self.available)
        for effect in effects:
            if isinstance(effect, Departure):
                gone = {position.lookup_id for position in effect.positions}
                assert gone and all(self.is_late(position) for position in effect.positions)
                self.available -= gone
                self.departures.append(effect)
                continue
            assert isinstance(effect, ReadCompleted | ReadFailed)
            tag = effect.tag
            assert isinstance(tag, int)
            is_peek = self.waiting.pop(tag)
            if isinstance(effect, ReadFailed):
                continue
            found = [position.lookup_id for position in effect.positions]
            assert found and found == sorted(found), "at least one message, in order"
            assert not any(self.is_late(position) for position in effect.positions), "in time"
            if is_peek:
                assert set(found) <= before, "it was there to be seen"
            else:
                assert set(found) <= self.available, "no other reader has it"
                self.available -= set(found)
                self.held.append(Held(tag, list(effect.positions)))

    def is_late(self, position: MessagePosition) -> bool:
        """Whether no reader may get this message any more."""
        assert position.view is not None
        seconds = position.view.time_to_be_received
        return seconds != FOREVER and self.now.wall >= position.view.sent_time + seconds

    def in_time(self) -> list[int]:
        """The messages that a reader may get, in order."""
        positions = self.queue.positions
        return sorted(found for found in self.available if not self.is_late(positions[found]))

    @rule(kinds=st.lists(st.sampled_from(sorted(VIEWS)), min_size=1, max_size=5))
    def arrive(self, kinds: list[tuple[int, int]]) -> None:
        arrivals = [(self.queue, VIEWS[kind]) for kind in kinds]
        self.admissions.append(self.model.admit(arrivals, self.now))

    @precondition(lambda self: self.admissions)
    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        admission = self.admissions.pop(data.draw(st.integers(0, len(self.admissions) - 1)))
        self.available |= {position.lookup_id for position in admission.positions}
        self.apply(self.model.commit(admission, self.now))

    @precondition(lambda self: self.admissions)
    @rule()
    def fail_to_store(self) -> None:
        self.model.withdraw(self.admissions.pop())

    @rule(count=st.integers(1, 4), is_peek=st.booleans(), waits=st.booleans())
    def read(self, count: int, is_peek: bool, waits: bool) -> None:
        tag = next(self.tags)
        in_time = self.in_time()
        self.waiting[tag] = is_peek
        deadline = self.now.monotonic + (tag if waits else 0)
        effects = self.model.receive(
            self.queue, tag=tag, now=self.now, peek=is_peek, count=count, deadline=deadline
        )
        found = [effect for effect in effects if isinstance(effect, ReadCompleted)]
        assert bool(found) == bool(in_time), "a reader for which there is a message gets it at once"
        if found:
            seen = [position.lookup_id for position in found[0].positions]
            assert len(seen) <= count and seen == in_time[: len(seen)], "the first, in order"
        self.apply(effects)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.available |= {position.lookup_id for position in held.positions}
        self.apply(self.model.release(held.positions, self.now))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.removals.append(self.model.remove(held.positions))

    @precondition(lambda self: self.removals)
    @rule()
    def store_removal(self) -> None:
        self.apply(self.model.removed(self.removals.pop(0), self.now))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.apply(self.model.cancel(data.draw(st.sampled_from(sorted(self.waiting)))))

    @precondition(lambda self: self.departures)
    @rule()
    def store_departure(self) -> None:
        departure = self.departures.pop(0)
        self.apply(self.model.settled(self.model.settle(departure, self.now), self.now))

    @rule(seconds=st.integers(0, 15))
    def wait(self, seconds: int) -> None:
        self.now = self.now.later(seconds)
        self.apply(self.model.expire(self.now))
        assert self.in_time() == sorted(self.available), "what is late has gone"

    @rule(seconds=st.integers(0, 5))
    def be_late(self, seconds: int) -> None:
        self.now = self.now.later(seconds)

    @rule(seconds=st.integers(-30, 30))
    def set_the_clock(self, seconds: int) -> None:
        self.now = Moment(self.now.monotonic, self.now.wall + seconds)

    @invariant()
    def shows_what_is_available(self) -> None:
        assert [position.lookup_id for position in self.queue.peek(1 << 20)] == sorted(self.available)
        assert self.queue.has_available == bool(self.available)

    @invariant()
    def no_reader_waits_in_vain(self) -> None:
        assert not (self.in_time() and self.waiting)
        assert set(self.queue.readers) == set(self.waiting)

    @invariant()
    def counts_agree(self) -> None:
        inside = [
            *[position for admission in self.admissions for position in admission.positions],
            *[position for held in self.held for position in held.positions],
            *[position for removal in self.removals for position in removal.positions],
            *[position for departure in self.departures for position in departure.positions],
        ]
        assert self.queue.message_count == len(self.available) + len(inside)
        total = sum(position.size for position in self.queue.positions.values())
        assert self.queue.total_bytes == self.model.storage.used == total

    @invariant()
    def a_reader_looks_again(self) -> None:
        lives = [self.queue.positions[found].view for found in self.available]
        is_mortal = any(view is not None and view.time_to_be_received != FOREVER for view in lives)
        if self.waiting or is_mortal:
            assert self.model.deadline(self.now) is not None


class AnyHistoryTests(SynchronousTestCase):
    """No message is lost, shown twice or out of order, for any sequence of operations."""

    def test_queue(self) -> None:
        """A queue behaves as a sorted set of messages would, over any sequence of calls."""
        QueueHistory.TestCase.settings = settings(
            max_examples=examples(50), stateful_step_count=40, deadline=None
        )
        case = QueueHistory.TestCase("runTest")
        case.runTest()
