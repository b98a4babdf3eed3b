"""Comparison of a store with the memory store, over any sequence of batches, reads and restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.interfaces import IMessageStore
from msmq.interfaces.storage import IMessageRuns, LogEntry, LogExtent
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutMessages,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    RemoveUnread,
    TrimEvents,
    TrimLog,
)
from msmq.persistence.definition import QueueDefinition
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.contracts.store_contract import accepted_changes

Result = TypeVar("Result")

STEPS = 20
_PATIENCE = 240.0
"""Seconds after which a wait for a thread fails; only a store that hangs reaches it."""


@implementer(IReactorFromThreads)
class TurnedReactor(Clock):
    """Reactor that runs the calls from threads on request, and due calls when a test advances its time."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: SimpleQueue[tuple[Callable[..., Any], tuple[object, ...], dict[str, object]]] = (
            SimpleQueue()
        )

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self._calls.put((callable, args, kwargs))

    def outcome(self, asked: Deferred[Result]) -> Result | Failure:
        """Run iterations until a Deferred fires."""
        outcomes: list[Result | Failure] = []
        asked.addBoth(outcomes.append)
        while not outcomes:
            self.turn()
        return outcomes[0]

    @property
    def has_calls(self) -> bool:
        """Whether calls from threads are pending."""
        return not self._calls.empty()

    def turn(self) -> None:
        """Make the due calls; without any, wait for a call from a thread, and make it."""
        if any(call.getTime() <= self.seconds() for call in self.getDelayedCalls()):
            self.advance(0)
            return
        call, args, kwargs = self._calls.get(timeout=_PATIENCE)
        call(*args, **kwargs)


QUEUES = (UUID(int=1), UUID(int=1 << 127))
LOOKUP_IDS = (0, (7 << 56) + 5, 1 << 63, (1 << 64) - 1)
"""A small set, so that changes often concern the same objects."""

OWNERS = (bytes(20), bytes(range(20)), b"\xff" * 20)
TEXTS = ("", "\0", "\N{SNOWMAN}", "half a \ud83d", "\udfff\udc00")


class Chance:
    """Random changes, from a seed."""

    def __init__(self, seed: int, *, takes_runs: bool) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice
        kinds = (*KINDS, Chance.remove_unread) if takes_runs else KINDS
        # The kinds of changes that are frequent in this history.
        self.kinds = [self.pick(kinds) for _ in range(6)] + [*kinds]

    def batches(self) -> list[list[Change]]:
        """Some batches that are submitted concurrently."""
        return [
            [self.pick(self.kinds)(self) for _ in range(self.random.randrange(1, 6))]
            for _ in range(self.random.randrange(1, 6))
        ]

    def place(self) -> tuple[UUID, int]:
        return self.pick(QUEUES), self.pick(LOOKUP_IDS)

    def packet(self) -> bytes:
        owner = self.pick(OWNERS)
        head = bytes(16) + owner[:16] + bytes(24) + owner[16:]
        return self.pick((head, head + b"body", b"", b"short"))

    def counts(self) -> tuple[int | None, int, int, bool]:
        due = self.pick((None, self.random.randrange(1 << 33)))
        return due, self.random.randrange(5), self.random.randrange(5), self.is_express()

    def is_express(self) -> bool:
        return self.random.random() < 0.3

    def time(self) -> float:
        return self.random.random() * 1e9

    def put_queue(self) -> Change:
        identifier, text = self.pick(QUEUES), self.pick(TEXTS)
        return PutQueue(QueueDefinition(identifier, text, label=text, parent=self.pick((None, *QUEUES))))

    def remove_queue(self) -> Change:
        return RemoveQueue(self.pick(QUEUES)) if self.random.random() < 0.2 else self.put_queue()

    def put_message(self) -> Change:
        queue, lookup_id = self.place()
        event_only = self.random.random() < 0.5
        return PutMessage(queue, lookup_id, self.packet(), self.time(), *self.counts(), event_only=event_only)

    def put_messages(self) -> Change:
        queue, lookup_id = self.place()
        # Sometimes in place of existing ones, and up to the largest LookupIdentifier.
        count = min(self.random.randrange(1, 5), (1 << 64) - lookup_id)
        due = self.counts()[0]
        packets = [self.packet() for _ in range(count)]
        return PutMessages(queue, lookup_id, packets, self.time(), due, self.random.random() < 0.5)

    def remove_messages(self) -> Change:
        gone = tuple(self.pick(LOOKUP_IDS) for _ in range(self.random.randrange(3)))
        return RemoveMessages(self.pick(QUEUES), gone, self.is_express())

    def remove_unread(self) -> Change:
        gone = tuple(self.random.sample(LOOKUP_IDS, self.random.randrange(4)))
        reported = AppendEvent(self.time(), b"", self.pick(TEXTS), self.pick(TEXTS), 7, self.pick(TEXTS))
        return RemoveUnread(self.pick(QUEUES), gone, reported)

    def move_message(self) -> Change:
        queue, lookup_id = self.place()
        target, new_lookup_id = self.place()
        return MoveMessage(queue, lookup_id, target, new_lookup_id, *self.counts())

    def put_aborts(self) -> Change:
        return PutAborts(*self.place(), self.random.randrange(9), self.is_express())

    def put_state(self) -> Change:
        name = self.pick("ab")
        return self.pick((RemoveState(name), PutState(name, self.packet())))

    def append_log(self) -> Change:
        return AppendLog(*self.place(), self.packet(), self.time())

    def trim_log(self) -> Change:
        before, keep = self.pick((None, self.time() / 3)), self.pick((None, self.random.randrange(200)))
        return TrimLog(self.pick(QUEUES), before, keep)

    def append_event(self) -> Change:
        owner = self.pick((b"", *OWNERS))
        return AppendEvent(self.time(), owner, self.pick(TEXTS), self.pick(TEXTS), 0xFFFF, self.pick(TEXTS))

    def trim_events(self) -> Change:
        return TrimEvents(self.random.randrange(9))


KINDS: tuple[Callable[[Chance], Change], ...] = (
    Chance.remove_queue,
    Chance.put_message,
    Chance.put_messages,
    Chance.remove_messages,
    Chance.move_message,
    Chance.put_aborts,
    Chance.put_state,
    Chance.append_log,
    Chance.trim_log,
    Chance.append_event,
    Chance.trim_events,
)


if TYPE_CHECKING:
    _Base = SynchronousTestCase
else:
    _Base = object


class StoreHistoryContract(_Base):
    """Mixin for a C{SynchronousTestCase}: compares the store with plain dictionaries over random histories.

    @cvar histories: the number of histories.
    """

    reactor: TurnedReactor
    histories = 15

    def make_place(self) -> None:
        """Create another, empty location."""
        raise NotImplementedError

    def make_store(self) -> IMessageStore:
        """Create a store at that location, not open, which uses C{reactor}."""
        raise NotImplementedError

    def begin(self) -> None:
        """Create two empty stores."""
        self.make_place()
        self.twin = MemoryMessageStore(durable=True)
        self.open()
        queues = [PutQueue(QueueDefinition(identifier, "q")) for identifier in QUEUES]
        self.assert_alike(self.store.commit(queues), self.twin.commit(queues))

    def open(self) -> None:
        """Open both stores, and compare their snapshots."""
        self.store = self.make_store()
        found, expected = self.done(self.store.open()), self.done(self.twin.open())
        self.assertEqual(list(found.queues), list(expected.queues))
        self.assertEqual(dict(found.state), dict(expected.state))
        self.assertEqual(
            {queue: list(kept) for queue, kept in found.messages.items() if kept}, dict(expected.messages)
        )

    def close(self) -> None:
        for store in (self.store, self.twin):
            self.done(store.close())

    def done(self, asked: Deferred[Result]) -> Result:
        outcome = self.reactor.outcome(asked)
        assert not isinstance(outcome, Failure), outcome
        return outcome

    def assert_alike(self, ours: Deferred[Any], twins: Deferred[Any]) -> None:
        """Assert that both have the same result, or the same failure."""
        found, expected = self.reactor.outcome(ours), self.reactor.outcome(twins)
        if isinstance(expected, Failure):
            assert isinstance(found, Failure), found
            self.assertEqual(repr(found.value), repr(expected.value))
        else:
            self.assertEqual(found, expected)

    def commit(self, chance: Chance) -> None:
        """Commit some batches, all pending at once, followed by a read."""
        batches = chance.batches()
        queue, lookup_id = chance.place()
        commits = [self.store.commit(accepted_changes(self.store, changes)) for changes in batches]
        reading = self.store.read(queue, [lookup_id])
        for changes, commit in zip(batches, commits, strict=True):
            self.assert_alike(commit, self.twin.commit(changes))
        self.assert_alike(reading, self.twin.read(queue, [lookup_id]))

    def look(self, chance: Chance) -> None:
        """Compare the results of every read."""
        store, twin = self.store, self.twin
        for queue in QUEUES:
            for lookup_id in LOOKUP_IDS:
                self.assert_alike(store.read(queue, [lookup_id]), twin.read(queue, [lookup_id]))
            self.look_at_log(queue, chance.random.randrange(20), chance.random.randrange(1, 5))
        for owner in OWNERS:
            self.assert_alike(store.find(owner).addCallback(sorted), twin.find(owner).addCallback(sorted))
        for some_owner in (None, b"", *OWNERS):
            self.look_at_events(some_owner, chance.random.randrange(1, 9))

    def look_at_events(self, owner: bytes | None, limit: int) -> None:
        """Assert that the events are the same, under increasing numbers."""
        found = self.done(self.store.read_events(0, 1000, owner))
        expected = self.done(self.twin.read_events(0, 1000, owner))
        self.assertEqual([entry.event for entry in found], [entry.event for entry in expected])
        numbers = [entry.sequence for entry in found]
        self.assertEqual(numbers, sorted(set(numbers)))
        after = numbers[len(numbers) // 2] if numbers else 0
        later = [entry for entry in found if entry.sequence > after]
        some = self.done(self.store.read_events(after, limit, owner))
        self.assertEqual(list(some), later[:limit])

    def look_at_log(self, queue: UUID, after: int, limit: int) -> None:
        """Assert that the entries are the same, under increasing numbers; numbers may have gaps."""
        found = self.done(self.store.read_log(queue, 0, 1000))
        expected = self.done(self.twin.read_log(queue, 0, 1000))
        self.assertEqual([_plain(entry) for entry in found], [_plain(entry) for entry in expected])
        numbers = [entry.sequence for entry in found]
        self.assertEqual(numbers, sorted(set(numbers)))
        found_extent = self.done(self.store.log_extent(queue))
        extent = LogExtent(
            numbers[0] if numbers else 0,
            numbers[-1] if numbers else 0,
            len(found),
            sum(len(entry.packet) for entry in found),
            found_extent.trimmed,
        )
        self.assertEqual(found_extent, extent)
        self.assertEqual(extent.trimmed > 0, self.done(self.twin.log_extent(queue)).trimmed > 0)
        later = [entry for entry in found if entry.sequence > after]
        some = self.done(self.store.read_log(queue, after, limit))
        self.assertEqual(list(some), later[:limit])

    def test_any_history(self) -> None:
        """The store agrees with plain dictionaries, over any sequence of batches, reads and restarts."""
        for seed in range(self.histories):
            self.begin()
            chance = Chance(seed, takes_runs=IMessageRuns.providedBy(self.store))
            for _ in range(STEPS):
                self.commit(chance)
                self.look(chance)
                if chance.random.random() < 0.2:
                    self.close()
                    self.open()
            self.close()


def _plain(entry: LogEntry) -> tuple[int, float, bytes]:
    return entry.lookup_id, entry.arrived, entry.packet
