"""Which thread writes a group: the choice alone, and what it saves in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, repeat
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutState
from msmq.storage.log import LogMessageStore
from msmq.storage.log.core.write_policy import (
    FEWEST,
    FORGOTTEN,
    INLINE_BATCHES,
    INLINE_BYTES,
    MOST,
    WritePolicy,
)
from msmq.testing.contracts.store_history import TurnedReactor
from tests.storage.log.support import SEGMENT, LogTestCase
from tests.storage.policies import policy_at

QUICK, SLOW = 0.0002, 0.02
SIZE = 1500


class PolicyTests(SynchronousTestCase):
    """Small groups are written by the reactor's thread only while that is known to be quick."""

    def setUp(self) -> None:
        self.policy = WritePolicy()

    def write(self, *seconds: float) -> None:
        for each in seconds:
            self.policy.measured(each, SIZE, is_inline=self.policy.is_inline(SIZE, 1))

    def until_quick(self, limit: int = 100_000) -> int:
        """How many quick writes it takes until the reactor's thread writes."""
        for number in range(limit):
            if self.policy.is_inline(SIZE, 1):
                return number
            self.write(QUICK)
        raise AssertionError(f"not within {limit} writes")

    def test_unknown_disk(self) -> None:
        """The worker thread writes until the disk has proved to be quick."""
        self.assertEqual(self.until_quick(), FEWEST)

    def test_slow_disk(self) -> None:
        """A slow disk never holds the reactor."""
        for _ in range(10_000):
            self.assertFalse(self.policy.is_inline(SIZE, 1))
            self.write(SLOW)

    def test_waits_of_the_worker(self) -> None:
        """Many writes of the worker waited for the interpreter; the quick ones show what the disk does."""
        self.write(*[0.005] * (FEWEST - 1), QUICK)
        self.assertTrue(self.policy.is_inline(SIZE, 1))

    def test_one_slow_write(self) -> None:
        """One slow write, and the next ones are the worker's; each further one doubles how many."""
        expected = FEWEST
        self.until_quick()
        for _ in range(12):
            self.write(SLOW)
            self.assertEqual(self.until_quick(), expected)
            expected = min(2 * expected, MOST)

    def test_waits_of_the_reactor(self) -> None:
        """A write that waited for a processor changes nothing; a disk that is slower on average does."""
        self.until_quick()
        for _ in range(100):
            self.write(*[QUICK] * 9, 0.008)
            self.assertTrue(self.policy.is_inline(SIZE, 1))
        self.write(*[0.003] * 32)
        self.assertFalse(self.policy.is_inline(SIZE, 1))

    def test_slow_now_and_then(self) -> None:
        """On a disk that stalls in one of a hundred writes, the reactor writes at most one in a thousand of
        these.
        """
        met = 0
        for number in range(100_000):
            stalls = number % 100 == 0
            met += stalls and self.policy.is_inline(SIZE, 1)
            self.write(SLOW if stalls else QUICK)
        self.assertLessEqual(met, 110)

    def test_old_slow_writes_do_not_count(self) -> None:
        """A slow write that is long ago does not count."""
        self.until_quick()
        for _ in range(5):
            self.write(SLOW)
            self.until_quick()
        self.write(*repeat(QUICK, FORGOTTEN))
        self.write(SLOW)
        self.assertEqual(self.until_quick(), FEWEST)

    def test_large_groups(self) -> None:
        """Large groups and many batches are the worker's, and their times say nothing of small groups."""
        self.until_quick()
        self.assertFalse(self.policy.is_inline(INLINE_BYTES + 1, 1))
        self.assertFalse(self.policy.is_inline(SIZE, INLINE_BATCHES + 1))
        self.policy.measured(SLOW, INLINE_BYTES + 1, is_inline=False)
        self.assertTrue(self.policy.is_inline(INLINE_BYTES, INLINE_BATCHES))

    def test_slow_in_the_worker(self) -> None:
        """A group of many batches that took longer than any wait for the interpreter counts as slow too."""
        self.until_quick()
        self.policy.measured(0.006, SIZE, is_inline=False)
        self.assertTrue(self.policy.is_inline(SIZE, 1))
        self.policy.measured(SLOW, SIZE, is_inline=False)
        self.assertFalse(self.policy.is_inline(SIZE, 1))


class CountingReactor(TurnedReactor):
    """Counts how often a thread has woken it up."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self.woken += 1
        super().callFromThread(callable, *args, **kwargs)


class CommitTests(LogTestCase):
    """Cost of the commit of a small batch."""

    reactor: CountingReactor

    def open(self, times: Iterator[float]) -> LogMessageStore:
        self.reactor = CountingReactor()
        store = LogMessageStore(
            self.home / "log",
            policy_at(self.home / "mark"),
            clock=lambda: next(times),
            segment_bytes=SEGMENT,
            reactor=self.reactor,
        )
        self.done(store.open())
        for _ in range(FEWEST):
            self.put(store)
        return store

    def put(self, store: LogMessageStore) -> None:
        self.commit(store, PutState("name", UUID(int=7).bytes))

    def test_quick_disk(self) -> None:
        """While the disk is quick a batch wakes no thread, and no thread the reactor: one write, one turn."""
        store = self.open(repeat(0.0))
        self.settle(store)
        while self.reactor.has_calls:
            self.reactor.turn()
        before = self.reactor.woken
        for _ in range(10):
            self.put(store)
        self.assertEqual(self.reactor.woken, before)
        self.assertEqual(store.counters.inline, 10)
        self.done(store.close())

    def test_slow_disk(self) -> None:
        """With a slow disk every batch is written by the worker thread."""
        store = self.open(cycle([0.0, SLOW]))
        for _ in range(10):
            self.put(store)
        self.assertEqual(store.counters.inline, 0)
        self.done(store.close())

    def test_batches_of_one_turn(self) -> None:
        """Batches of one turn of the reactor are one group, also in the reactor's thread."""
        store = self.open(repeat(0.0))
        groups = store.counters.groups
        asked = [store.commit([PutState("name", b"%d" % number)]) for number in range(5)]
        for each in asked:
            self.done(each)
        self.assertEqual(store.counters.groups, groups + 1)
        self.done(store.close())
