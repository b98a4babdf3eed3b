"""The store in SQLite against the one in memory, over any sequence of batches, reads and restarts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.queues.changes import (
    AppendEvent,
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    TrimEvents,
    TrimLog,
)
from msmq.queues.definition import QueueDefinition
from msmq.queues.snapshot import Snapshot
from msmq.storage.memory import MemoryMessageStore
from msmq.storage.sqlite import SqliteMessageStore

Result = TypeVar("Result")

DEADLINE = 60


@implementer(IReactorFromThreads)
class TurnedReactor:
    """Does what threads ask for when a test turns it."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], tuple[object, ...], dict[str, object]]] = (
            SimpleQueue()
        )

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self._calls.put((callable, args, kwargs))

    def outcome(self, asked: Deferred[Result]) -> Result | Failure:
        """Turn until it fires."""
        outcomes: list[Result | Failure] = []
        asked.addBoth(outcomes.append)
        while not outcomes:
            call, args, kwargs = self._calls.get(timeout=DEADLINE)
            call(*args, **kwargs)
        return outcomes[0]


IDENTIFIERS = st.sampled_from([UUID(int=1), UUID(int=2), UUID(int=1 << 127)])
LOOKUP_IDS = st.sampled_from([0, 1, 2, (7 << 56) + 5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)
DEFINITIONS = st.builds(
    QueueDefinition, identifier=IDENTIFIERS, path=TEXTS, label=TEXTS, parent=st.none() | IDENTIFIERS
)
OWNERS = st.sampled_from([bytes(20), bytes(range(20)), b"\xff" * 20])
PACKETS = st.binary(max_size=8) | st.builds(
    lambda owner, rest: bytes(16) + owner[:16] + bytes(24) + owner[16:] + rest, OWNERS, st.binary(max_size=4)
)
TIMES = st.floats(0, 1e12)
DUE = st.none() | st.integers(0, 1 << 33)
COUNTS = st.integers(0, 1 << 32)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(PutQueue, DEFINITIONS),
    st.builds(RemoveQueue, IDENTIFIERS),
    st.builds(PutMessage, IDENTIFIERS, LOOKUP_IDS, PACKETS, TIMES, DUE, COUNTS, COUNTS, st.booleans()),
    st.builds(RemoveMessages, IDENTIFIERS, st.lists(LOOKUP_IDS, max_size=3).map(tuple), st.booleans()),
    st.builds(
        MoveMessage, IDENTIFIERS, LOOKUP_IDS, IDENTIFIERS, LOOKUP_IDS, DUE, COUNTS, COUNTS, st.booleans()
    ),
    st.builds(PutAborts, IDENTIFIERS, LOOKUP_IDS, COUNTS, st.booleans()),
    st.builds(PutState, st.sampled_from("ab"), st.binary(max_size=3)),
    st.builds(RemoveState, st.sampled_from("ab")),
    st.builds(AppendLog, IDENTIFIERS, LOOKUP_IDS, PACKETS, TIMES),
    st.builds(TrimLog, IDENTIFIERS, st.none() | TIMES, st.none() | st.integers(0, 30)),
    st.builds(AppendEvent, TIMES, OWNERS | st.just(b""), TEXTS, TEXTS, st.integers(0, 0xFFFF), TEXTS),
    st.builds(TrimEvents, st.integers(0, 5)),
)
BATCHES = st.lists(st.lists(CHANGES, max_size=5), min_size=1, max_size=5)


class StoreHistory(RuleBasedStateMachine):
    """Hands over any batches, several at once, to the store and to its twin in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.reactor = TurnedReactor()
        self.twin = MemoryMessageStore(durable=True)
        self.store = SqliteMessageStore(self.directory / "msmq.sqlite", reactor=self.reactor)
        self.open()

    def teardown(self) -> None:
        self.restart()
        assert self.reactor.outcome(self.store.close()) is None
        shutil.rmtree(self.directory)

    def open(self) -> None:
        found = self.reactor.outcome(self.store.open())
        expected = self.reactor.outcome(self.twin.open())
        assert isinstance(found, Snapshot), found
        assert isinstance(expected, Snapshot)
        assert found.queues == expected.queues
        assert {queue: kept for queue, kept in found.messages.items() if kept} == expected.messages
        assert found.state == expected.state

    def assert_alike(self, ours: Deferred[Any], twins: Deferred[Any]) -> None:
        """Both answer the same, or fail in the same way."""
        found, expected = self.reactor.outcome(ours), self.reactor.outcome(twins)
        if isinstance(expected, Failure):
            assert isinstance(found, Failure), found
            assert repr(found.value) == repr(expected.value), (found, expected)
        else:
            assert found == expected, (found, expected)

    @rule(batches=BATCHES, asked=st.lists(LOOKUP_IDS, max_size=4), queue=IDENTIFIERS)
    def commit(self, batches: list[list[Change]], asked: list[int], queue: UUID) -> None:
        """All are under way at once, and a read behind them."""
        commits = [self.store.commit(changes) for changes in batches]
        reading = self.store.read(queue, asked)
        for changes, commit in zip(batches, commits, strict=True):
            self.assert_alike(commit, self.twin.commit(changes))
        self.assert_alike(reading, self.twin.read(queue, asked))

    @rule(queue=IDENTIFIERS, owner=OWNERS, after=st.integers(0, 12), limit=st.integers(1, 5))
    def look(self, queue: UUID, owner: bytes, after: int, limit: int) -> None:
        """Ask for all that can be asked for."""
        store, twin = self.store, self.twin
        for lookup_id in (0, 1, 2, 1 << 63):
            self.assert_alike(store.read(queue, [lookup_id]), twin.read(queue, [lookup_id]))
        self.assert_alike(store.find(owner).addCallback(sorted), twin.find(owner).addCallback(sorted))
        self.assert_alike(store.read_log(queue, after, limit), twin.read_log(queue, after, limit))
        self.assert_alike(store.log_extent(queue), twin.log_extent(queue))
        self.assert_alike(store.read_events(after, limit), twin.read_events(after, limit))
        self.assert_alike(store.read_events(after, limit, owner), twin.read_events(after, limit, owner))

    @rule()
    def restart(self) -> None:
        """Close with nothing under way, and begin again with another object."""
        assert self.reactor.outcome(self.store.close()) is None
        assert self.reactor.outcome(self.twin.close()) is None
        self.store = SqliteMessageStore(self.directory / "msmq.sqlite", reactor=self.reactor)
        self.open()


class AnyHistoryTests(SynchronousTestCase):
    """No history makes the file differ from dictionaries."""

    def test_store(self) -> None:
        """It answers as plain dictionaries do, over any sequence of batches, reads and restarts."""
        StoreHistory.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
        case = StoreHistory.TestCase("runTest")
        case.runTest()
