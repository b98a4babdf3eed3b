"""Logs in directories of tests, whose Deferreds fire when a test turns their reactor."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import LogEntry, StorageError
from msmq.persistence.changes import AppendLog, Change
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import Snapshot
from msmq.storage.log import LogMessageStore
from msmq.storage.log.running_log import RunningLog
from msmq.storage.log.system import LOCAL, LogSystem, LogWorker
from msmq.storage.log.upkeep import QUIET_SECONDS
from msmq.storage.scrub_policy import SCRUBBING
from msmq.testing.contracts.store_history import TurnedReactor
from tests.patience import DEADLINE
from tests.storage.crash_model import Model
from tests.storage.policies import policy_at

Result = TypeVar("Result")
Found = TypeVar("Found", bound=StorageError)

SEGMENT = 64 * 1024
QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1, log=True)


class LogTestCase(SynchronousTestCase):
    """Tests with logs in C{home}.

    @cvar segment_bytes: the size of their segments.
    """

    segment_bytes = SEGMENT

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir()
        self.reactor = TurnedReactor()

    def clock(self) -> float:
        """By which writes are measured: no time passes, so the reactor's thread writes small groups soon."""
        return 0.0

    def make_store(
        self, home: Path | None = None, *, accepts_loss: bool = False, system: LogSystem = LOCAL
    ) -> LogMessageStore:
        """A store that is not open."""
        place = home or self.home
        return LogMessageStore(
            place / "log",
            policy_at(place / "mark", accepts_loss=accepts_loss),
            clock=self.clock,
            segment_bytes=self.segment_bytes,
            reactor=self.reactor,
            system=system,
        )

    def done(self, asked: Deferred[Result]) -> Result:
        outcome = self.reactor.outcome(asked)
        assert not isinstance(outcome, Failure), outcome
        return outcome

    def refused(self, asked: Deferred[Any], kind: type[Found]) -> Found:
        """How what was asked failed."""
        outcome = self.reactor.outcome(asked)
        assert isinstance(outcome, Failure), outcome
        error = outcome.value
        assert isinstance(error, kind), outcome
        return error

    def opened(self, *changes: Change, home: Path | None = None) -> LogMessageStore:
        """A store in which these changes were committed, one batch each."""
        store = self.make_store(home)
        self.done(store.open())
        for change in changes:
            self.commit(store, change)
        return store

    def commit(self, store: LogMessageStore, *changes: Change) -> None:
        self.done(store.commit(changes))

    def scrub(self, store: LogMessageStore) -> None:
        """Let the scrubber verify everything once."""
        before = store.counters.scrubs
        while store.counters.scrubs == before:
            if self.reactor.getDelayedCalls():
                self.reactor.advance(SCRUBBING.pause)
            else:
                self.reactor.turn()

    def settle(self, store: LogMessageStore) -> None:
        """Wait until the thread for what is not urgent has done all that was asked of it so far."""
        _wait_for(store._upkeep)

    def settle_all(self, store: LogMessageStore) -> None:
        """Wait for every thread of an open store, as L{settle} does, and for what each asks of the next."""
        running = running_log(store)
        for _ in range(2):
            for worker in (running._writing, running._reading, running._searching, store._upkeep):
                _wait_for(worker)
                while self.reactor.has_calls:
                    self.reactor.turn()

    def append_log(self, store: LogMessageStore, first: int, count: int, size: int) -> None:
        self.commit(
            store, *(AppendLog(QUEUE.identifier, n, bytes(size), 1.0) for n in range(first, first + count))
        )

    def let_be_quiet(self, store: LogMessageStore, seconds: float = 2 * QUIET_SECONDS) -> None:
        """Let time pass, by default that after which a log is certainly quiet, and what it begins end."""
        before = store.counters.groups
        for step in (seconds / 2, seconds / 2, *[0.0] * 20):
            self.reactor.advance(step)
            self.settle(store)
            while self.reactor.has_calls:
                self.reactor.turn()
        self.assertEqual(store.counters.groups, before)

    def copied(self, store: LogMessageStore, name: str = "copy") -> Path:
        """The files as they are at this moment, as a kill would leave them."""
        # Nothing else is written meanwhile: the files of one moment, not of several.
        reached, go_on = Event(), Event()

        def hold() -> None:
            reached.set()
            go_on.wait(DEADLINE)

        store._upkeep.do(hold, lambda _: None)
        self.addCleanup(go_on.set)
        self.assertTrue(reached.wait(DEADLINE))
        target = self.home.with_name(f"{self.home.name}-{name}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.home, target)
        go_on.set()
        return target

    def assert_holds(self, store: LogMessageStore, snapshot: Snapshot, model: Model) -> None:
        """A store that was just opened holds what a model holds."""
        self.assertEqual({queue.identifier: queue for queue in snapshot.queues}, model.queues)
        self.assertEqual({queue: kept for queue, kept in snapshot.messages.items() if kept}, model.index())
        self.assertEqual(dict(snapshot.state), model.state)
        for queue, messages in model.messages.items():
            self.assertEqual(
                self.packets(store, queue, list(messages)), [one for one, _ in messages.values()]
            )
        for queue, log in model.logs.items():
            entries: list[LogEntry] = []
            while page := self.done(store.read_log(queue, entries[-1].sequence if entries else 0, 1 << 30)):
                entries += page
            self.assertEqual([(entry.lookup_id, entry.arrived, entry.packet) for entry in entries], log)
        events = [stored.event for stored in self.done(store.read_events(0, 1 << 30))]
        self.assertEqual(events, model.events)

    def packets(self, store: LogMessageStore, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        found: Sequence[bytes] = self.done(store.read(queue, lookup_ids))
        return list(found)


def running_log(store: LogMessageStore) -> RunningLog:
    """What an open store works with: segments and positions, which no caller of a store sees."""
    assert store._running is not None
    return store._running


def is_checkpointing(store: LogMessageStore) -> bool:
    """Whether a checkpoint of an open store is being written."""
    return running_log(store)._checkpointing.is_running


def _wait_for(worker: LogWorker) -> None:
    reached = Event()
    worker.do(reached.set, lambda _: None)
    assert reached.wait(DEADLINE)
