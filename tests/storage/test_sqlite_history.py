"""The store in SQLite against plain dictionaries, over any sequence of batches, reads and restarts."""

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

from msmq.interfaces import MessageNotStored, UnknownQueue
from msmq.queues.changes import Change, PutMessage, PutQueue, PutState, RemoveMessages, RemoveQueue
from msmq.queues.definition import QueueDefinition
from msmq.storage.sqlite import SqliteMessageStore
from tests.storage.crash_model import Model

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
DEFINITIONS = st.builds(QueueDefinition, identifier=IDENTIFIERS, path=TEXTS, label=TEXTS)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(PutQueue, DEFINITIONS),
    st.builds(RemoveQueue, IDENTIFIERS),
    st.builds(PutMessage, IDENTIFIERS, LOOKUP_IDS, st.binary(max_size=8), st.floats(0, 1e12)),
    st.builds(RemoveMessages, IDENTIFIERS, st.lists(LOOKUP_IDS, max_size=3).map(tuple)),
    st.builds(PutState, st.sampled_from("ab"), st.binary(max_size=3)),
)
BATCHES = st.lists(st.lists(CHANGES, max_size=5), min_size=1, max_size=5)


class StoreHistory(RuleBasedStateMachine):
    """Hands over any batches, several at once, and believes only the dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.reactor = TurnedReactor()
        self.model = Model()
        self.store = SqliteMessageStore(self.directory / "msmq.sqlite", reactor=self.reactor)
        self.open()

    def teardown(self) -> None:
        self.restart()
        assert self.reactor.outcome(self.store.close()) is None
        shutil.rmtree(self.directory)

    def open(self) -> None:
        snapshot = self.reactor.outcome(self.store.open())
        assert not isinstance(snapshot, Failure), snapshot
        assert list(snapshot.queues) == list(self.model.queues.values())
        assert {queue: kept for queue, kept in snapshot.messages.items() if kept} == self.model.index()
        assert snapshot.state == self.model.state

    @rule(batches=BATCHES, asked=st.lists(LOOKUP_IDS, max_size=4), queue=IDENTIFIERS)
    def commit(self, batches: list[list[Change]], asked: list[int], queue: UUID) -> None:
        """All are under way at once, and a read behind them."""
        commits = [self.store.commit(changes) for changes in batches]
        reading = self.store.read(queue, asked)
        for changes, commit in zip(batches, commits, strict=True):
            outcome = self.reactor.outcome(commit)
            if self.model.perform(changes):
                assert outcome is None, outcome
            else:
                assert isinstance(outcome, Failure) and outcome.check(UnknownQueue), outcome
        packets = self.reactor.outcome(reading)
        kept = self.model.messages.get(queue, {})
        missing = [lookup_id for lookup_id in asked if lookup_id not in kept]
        if not missing:
            assert packets == [kept[lookup_id][0] for lookup_id in asked]
        else:
            assert isinstance(packets, Failure), packets
            assert isinstance(packets.value, MessageNotStored), packets
            assert (packets.value.queue, packets.value.lookup_id) == (queue, missing[0])

    @rule()
    def restart(self) -> None:
        """Close with nothing under way, and begin again with another object."""
        assert self.reactor.outcome(self.store.close()) is None
        self.store = SqliteMessageStore(self.directory / "msmq.sqlite", reactor=self.reactor)
        self.open()


class AnyHistoryTests(SynchronousTestCase):
    """No history makes the file differ from the dictionaries."""

    def test_store(self) -> None:
        """It is as plain dictionaries would be, over any sequence of batches, reads and restarts."""
        StoreHistory.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
        case = StoreHistory.TestCase("runTest")
        case.runTest()
