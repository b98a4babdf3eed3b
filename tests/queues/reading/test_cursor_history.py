"""Cursors, waits, purges, expiry and locks against a naive queue, over any sequence of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.queues.arriving.admission import Admission
from msmq.queues.effects import Effect, ReadCompleted, ReadFailed
from msmq.queues.leaving.departure_kinds import Departure, Removal
from msmq.queues.queue import MessagePosition
from msmq.queues.reading.cursor import Cursor, CursorState
from msmq.queues.reading.descriptor import OpenQueueDescriptor, QueueAccessType
from msmq.queues.reading.seek import END, START, MessageSeekAction
from msmq.structures.status import Status
from tests.queues.builders import NOW, ORDERS, arriving, create, model
from tests.samples import examples

FOREVER = 0xFFFFFFFF
VIEWS = {
    (priority, seconds): arriving(b"x" * priority, priority=priority, time_to_be_received=seconds)
    for priority in (0, 3, 7)
    for seconds in (FOREVER, 0, 5)
}

KINDS = st.sampled_from([*((priority, FOREVER) for priority in (0, 3, 7)), *sorted(VIEWS)])

UNREAD, READ = CursorState.UNREAD, CursorState.READ
WAIT_PEEK, WAIT_RECEIVE = CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE
LATE = Status.MQ_ERROR_IO_TIMEOUT
GONE = Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
NONE = Status.MQ_ERROR_MESSAGE_NOT_FOUND
ILLEGAL = Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION


@attrs.define(eq=False)
class Naive:
    """Naive model of a cursor.

    @ivar since: at the end, what became available since it came there.
    """

    cursor: Cursor
    state: CursorState = UNREAD
    place: int = START
    since: set[int] = attrs.field(factory=set)
    goes_on: bool = False


@attrs.define(eq=False)
class Held:
    """Messages that a reader has, and whether others may look at them."""

    positions: list[MessagePosition]
    may_look: bool


@attrs.define(eq=False)
class Wait:
    """A read that waits."""

    is_peek: bool
    may_look: bool
    naive: Naive | None


class CursorHistory(RuleBasedStateMachine):
    """Keeps every LookupIdentifier in a plain set for each state, and says what each read has to find."""

    def __init__(self) -> None:
        super().__init__()
        self.model = model()
        self.queue = create(self.model)
        self.handle: OpenQueueDescriptor = self.model.descriptors.open(
            [ORDERS], QueueAccessType.RECEIVE, now=NOW
        )
        self.now = NOW
        self.tags: Iterator[int] = iter(range(1 << 30))
        self.available: set[int] = set()
        self.fresh: set[int] = set()
        self.cursors: list[Naive] = []
        self.waits: dict[int, Wait] = {}
        self.held: list[Held] = []
        self.purged: set[int] = set()
        self.admissions: list[Admission] = []
        self.removals: list[Removal] = []
        self.departures: list[Departure] = []

    # What is expected

    def in_time(self, found: Iterable[int]) -> set[int]:
        """The messages that have not expired."""
        positions = self.queue.positions
        dues = ((each, positions[each].due) for each in found)
        return {each for each, due in dues if due is None or due > self.now.wall}

    def visible(self, *, is_peek: bool) -> set[int]:
        """The messages that a read may find."""
        found = set(self.available)
        if is_peek:
            for held in self.held:
                if held.may_look:
                    found |= {each.lookup_id for each in held.positions} - self.purged
        return self.in_time(found)

    def ahead(self, naive: Naive, *, is_peek: bool) -> int | None:
        """The first message in front of a cursor."""
        if naive.place == END:
            return min(self.in_time(naive.since & self.available), default=None)
        return min((each for each in self.visible(is_peek=is_peek) if each > naive.place), default=None)

    def expected(self, naive: Naive, ask: str, waits: bool) -> int | Status | None:
        """The expected answer of a cursor, and its next state."""
        is_peek = ask != "receive"
        if naive.state in (WAIT_PEEK, WAIT_RECEIVE) or (ask == "peek next" and naive.state is UNREAD):
            return ILLEGAL
        if naive.state is READ and ask != "peek next":
            if naive.place not in self.visible(is_peek=is_peek):
                return GONE
            naive.state = READ if is_peek else UNREAD
            return naive.place
        found = self.ahead(naive, is_peek=is_peek)
        if found is not None:
            naive.state, naive.place = READ if is_peek else UNREAD, found
            return found
        if not is_peek and not waits:
            return NONE
        naive.state = WAIT_PEEK if is_peek else WAIT_RECEIVE
        naive.goes_on = ask != "peek"
        if waits:
            return None
        self.stop_waiting(naive)
        return LATE

    def stop_waiting(self, naive: Naive) -> None:
        naive.state = UNREAD
        if naive.goes_on:
            naive.place = END
            naive.since = set()

    def came(self, found: Iterable[int]) -> None:
        """These have become available."""
        self.fresh = set(found)
        self.available |= self.fresh
        for naive in self.cursors:
            if naive.place == END:
                naive.since |= self.fresh

    # What happens

    def apply(self, effects: list[Effect], tag: int | None = None) -> int | Status | None:
        """Believe the effects, if they may be believed; what the read of this tag comes to."""
        answer: int | Status | None = None
        before = set(self.available)
        for effect in effects:
            if isinstance(effect, Departure):
                gone = {position.lookup_id for position in effect.positions}
                assert gone and not self.in_time(gone) - self.purged, "late or purged"
                self.available -= gone
                self.departures.append(effect)
            elif isinstance(effect, ReadFailed):
                assert isinstance(effect.tag, int)
                wait = self.waits.pop(effect.tag)
                if wait.naive is not None and effect.tag != tag:
                    self.stop_waiting(wait.naive)
                if effect.tag == tag:
                    answer = effect.status
            elif isinstance(effect, ReadCompleted):
                assert isinstance(effect.tag, int)
                wait = self.waits.pop(effect.tag)
                [position] = effect.positions
                found = position.lookup_id
                assert found in self.in_time([found]), "in time"
                if effect.tag == tag:
                    answer = found
                else:
                    assert found in self.fresh, "a wait is satisfied by what has just come"
                    if wait.naive is not None:
                        wait.naive.state = READ if wait.is_peek else UNREAD
                        wait.naive.place = found
                if wait.is_peek:
                    assert found in before or effect.tag == tag
                else:
                    assert found in self.available, "no other reader has it"
                    self.available.discard(found)
                    self.held.append(Held([position], wait.may_look))
        return answer

    @initialize(kinds=st.lists(KINDS, max_size=3), cursors=st.integers(1, 3))
    def begin(self, kinds: list[tuple[int, int]], cursors: int) -> None:
        self.arrive(kinds, True)
        for _ in range(cursors):
            self.open_cursor()

    @rule(kinds=st.lists(KINDS, min_size=1, max_size=4), is_stored=st.booleans())
    def arrive(self, kinds: list[tuple[int, int]], is_stored: bool) -> None:
        arrivals = [(self.queue, VIEWS[kind]) for kind in kinds]
        admission = self.model.admit(arrivals, self.now)
        if is_stored:
            self.commit(admission)
        else:
            self.admissions.append(admission)

    @precondition(lambda self: self.admissions)
    @rule(data=st.data(), is_stored=st.booleans())
    def store(self, data: st.DataObject, is_stored: bool) -> None:
        admission = self.admissions.pop(data.draw(st.integers(0, len(self.admissions) - 1)))
        if is_stored:
            self.commit(admission)
        else:
            self.model.withdraw(admission)

    def commit(self, admission: Admission) -> None:
        self.came(self.in_time(position.lookup_id for position in admission.positions))
        self.apply(self.model.commit(admission, self.now))

    @rule()
    def open_cursor(self) -> None:
        cursor = self.model.descriptors.open_cursor(self.handle)
        assert cursor is not None
        self.cursors.append(Naive(cursor))

    @precondition(lambda self: len(self.cursors) > 3)
    @rule(data=st.data())
    def close_cursor(self, data: st.DataObject) -> None:
        naive = self.cursors.pop(data.draw(st.integers(0, len(self.cursors) - 1)))
        self.apply(self.model.descriptors.close_cursor(naive.cursor))
        assert not any(wait.naive is naive for wait in self.waits.values())

    @rule(
        uses=st.lists(
            st.tuples(
                st.integers(0, 5),
                st.sampled_from(["peek", "peek", "peek next", "peek next", "receive"]),
                st.sampled_from([0, 0, 0, 0, 0, 3, 1000]),
                st.booleans(),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def use_cursors(self, uses: list[tuple[int, str, int, bool]]) -> None:
        for number, ask, seconds, may_look in uses:
            self.use_cursor(self.cursors[number % len(self.cursors)], ask, seconds, may_look)

    def use_cursor(self, naive: Naive, ask: str, seconds: int, may_look: bool) -> None:
        tag = next(self.tags)
        self.waits[tag] = Wait(ask != "receive", may_look, naive)
        expected = self.expected(naive, ask, seconds > 0)
        descriptors, deadline = self.model.descriptors, self.now.monotonic + seconds
        if ask == "peek":
            effects = descriptors.peek(
                self.handle, tag=tag, now=self.now, cursor=naive.cursor, deadline=deadline
            )
        elif ask == "peek next":
            effects = descriptors.peek_next(
                self.handle, naive.cursor, tag=tag, now=self.now, deadline=deadline
            )
        else:
            effects = descriptors.receive(
                self.handle,
                tag=tag,
                now=self.now,
                cursor=naive.cursor,
                deadline=deadline,
                allow_peek=may_look,
            )
        assert self.apply(effects, tag) == expected

    @rule(is_peek=st.booleans(), seconds=st.sampled_from([0, 0, 3, 1000]), may_look=st.booleans())
    def read(self, is_peek: bool, seconds: int, may_look: bool) -> None:
        tag = next(self.tags)
        self.waits[tag] = Wait(is_peek, may_look, None)
        nothing = None if seconds else LATE
        expected = min(self.visible(is_peek=is_peek), default=nothing)
        descriptors, deadline = self.model.descriptors, self.now.monotonic + seconds
        if is_peek:
            effects = descriptors.peek(self.handle, tag=tag, now=self.now, deadline=deadline)
        else:
            effects = descriptors.receive(
                self.handle, tag=tag, now=self.now, deadline=deadline, allow_peek=may_look
            )
        assert self.apply(effects, tag) == expected

    @rule(data=st.data(), action=st.sampled_from(MessageSeekAction), is_peek=st.booleans())
    def look_up(self, data: st.DataObject, action: MessageSeekAction, is_peek: bool) -> None:
        arriving = {each.lookup_id for admission in self.admissions for each in admission.positions}
        known = sorted(set(self.queue.positions) - arriving)
        origin = data.draw(st.sampled_from(known)) if known else 0
        visible = self.visible(is_peek=is_peek)
        found: int | None = None
        match action:
            case MessageSeekAction.FIRST:
                found = min(visible, default=None)
            case MessageSeekAction.LAST:
                found = max(visible, default=None)
            case MessageSeekAction.CURRENT:
                found = origin if origin in visible else None
            case MessageSeekAction.NEXT:
                found = min((each for each in visible if each > origin), default=None)
            case MessageSeekAction.PREVIOUS:
                found = max((each for each in visible if each < origin), default=None)
        tag = next(self.tags)
        self.waits[tag] = Wait(is_peek, False, None)
        effects = self.model.descriptors.read_by_lookup_identifier(
            self.handle, origin, action, tag=tag, now=self.now, peek=is_peek
        )
        answer = self.apply(effects, tag)
        if found is None:
            assert isinstance(answer, Status)
            assert action is MessageSeekAction.CURRENT or answer is NONE
        else:
            assert answer == found

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        back = {each.lookup_id for each in held.positions} - self.purged
        self.came(self.in_time(back))
        self.apply(self.model.release(held.positions, self.now))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_stored=st.booleans())
    def confirm(self, data: st.DataObject, is_stored: bool) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        removal = self.model.remove(held.positions)
        self.apply([*removal.departures])
        if is_stored:
            self.apply(self.model.removed(removal, self.now))
        else:
            self.removals.append(removal)

    @precondition(lambda self: self.removals)
    @rule()
    def store_removal(self) -> None:
        self.apply(self.model.removed(self.removals.pop(0), self.now))

    @precondition(lambda self: self.waits)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.apply(self.model.cancel(data.draw(st.sampled_from(sorted(self.waits)))))

    @rule(count=st.integers(1, 3))
    def purge(self, count: int) -> None:
        departure = self.model.purge(self.queue, self.model.last_sequential, count)
        if departure is None:
            assert not self.available
            self.purged |= {each.lookup_id for held in self.held for each in held.positions}
        else:
            self.available -= {each.lookup_id for each in departure.positions}
            self.departures.append(departure)

    @precondition(lambda self: self.departures)
    @rule(stays=st.booleans())
    def settle(self, stays: bool) -> None:
        departure = self.departures.pop(0)
        if stays:
            back = {each.lookup_id for each in departure.positions}
            self.purged -= back
            self.came(self.in_time(back))
            self.apply(self.model.cancel_departure(departure, self.now))
        else:
            settlement = self.model.settle(departure, self.now)
            self.apply(self.model.settled(settlement, self.now))

    @rule(seconds=st.integers(0, 4), is_late=st.booleans())
    def pass_time(self, seconds: int, is_late: bool) -> None:
        self.now = Moment(self.now.monotonic + seconds, self.now.wall + seconds)
        if not is_late:
            self.apply(self.model.expire(self.now))
            assert self.in_time(self.available) == self.available, "what is late has gone"

    # What always holds

    @invariant()
    def cursors_are_where_they_should_be(self) -> None:
        for naive in self.cursors:
            assert (naive.cursor.state, naive.cursor.reference) == (naive.state, naive.place)
            waits = [tag for tag, wait in self.waits.items() if wait.naive is naive]
            assert waits == list(naive.cursor.waiting)
        assert self.queue.ends == sum(naive.place == END for naive in self.cursors)

    @invariant()
    def no_reader_waits_in_vain(self) -> None:
        assert list(self.queue.readers) == list(self.handle.waiting) == list(self.waits)
        for wait in self.waits.values():
            if wait.naive is None:
                assert not self.in_time(self.available)
            else:
                found = self.ahead(wait.naive, is_peek=False)
                assert found is None, "it would have found that, had it not waited"

    @invariant()
    def nothing_dangles(self) -> None:
        shown = [position.lookup_id for position in self.queue.peek(1 << 20)]
        assert shown == sorted(self.available)
        inside = [
            *[position for admission in self.admissions for position in admission.positions],
            *[position for held in self.held for position in held.positions],
            *[position for removal in self.removals for position in removal.positions],
            *[position for departure in self.departures for position in departure.positions],
        ]
        assert self.queue.message_count == len(self.available) + len(inside)
        total = sum(position.size for position in self.queue.positions.values())
        assert self.queue.total_bytes == self.model.storage.used == total
        for position in self.queue.peekable or ():
            assert self.queue.positions[position.lookup_id] is position
            assert position.lookup_id not in self.available


class CursorHistoryTests(SynchronousTestCase):
    """No message is lost, shown twice or skipped, for any sequence of operations."""

    def test_cursors(self) -> None:
        """Cursors and waits find what a naive search would find, over any sequence of calls."""
        CursorHistory.TestCase.settings = settings(
            max_examples=examples(50), stateful_step_count=40, deadline=None
        )
        case = CursorHistory.TestCase("runTest")
        case.runTest()
