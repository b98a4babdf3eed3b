"""The garbage collector of a server that has started."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.collector import INTERVAL, SMALL, THRESHOLDS, CycleSweeps

PROGRAM = """
import gc
from msmq.service.process.collector import settle
settle()
print(gc.get_freeze_count() > 1000, gc.get_threshold(), gc.isenabled())
"""

TRANSACTIONS = """
import gc
from msmq.service.process.collector import settle
settle()
generations = []
gc.callbacks.append(lambda phase, info: generations.append(info["generation"]))
for transaction in range(20):
    held = [[] for _ in range(500_000)]
    del held
print(set(generations))
"""


class CollectorTests(SynchronousTestCase):
    """L{msmq.service.process.collector}, in a process of its own."""

    def test_settled(self) -> None:
        """Objects of the start are excluded from collections, which are rare but continue."""
        said = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
        self.assertEqual(said.strip(), f"True {THRESHOLDS} True")

    def test_large_transactions(self) -> None:
        """The objects of twenty transactions of 100,000 messages never cause a collection of all objects."""
        said = subprocess.check_output([sys.executable, "-c", TRANSACTIONS], text=True)
        self.assertEqual(said.strip(), "{0, 1}")


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.own = self


class SweepTests(SynchronousTestCase):
    """L{CycleSweeps}."""

    def test_old_cycles(self) -> None:
        """A cycle that ends after it has survived collections is freed within a minute."""
        self.addCleanup(gc.enable)
        self.addCleanup(gc.unfreeze)
        gc.freeze()
        gc.disable()
        reactor = Clock()
        sweeps = CycleSweeps(reactor)
        sweeps.start()
        cycle = Cycle()
        for generation in (0, 1):
            gc.collect(generation)
        seen = weakref.ref(cycle)
        del cycle
        gc.collect(1)
        self.assertIsNotNone(seen())
        reactor.advance(INTERVAL)
        self.assertIsNone(seen())
        sweeps.stop()
        self.assertEqual(reactor.getDelayedCalls(), [])

    def test_many_objects(self) -> None:
        """While a collection would take long, it waits, but no longer than half an hour."""
        self.addCleanup(gc.enable)
        self.addCleanup(gc.unfreeze)
        gc.freeze()
        gc.disable()
        reactor = Clock()
        sweeps = CycleSweeps(reactor)
        sweeps.start()
        self.addCleanup(sweeps.stop)
        cycle, many = Cycle(), [[0] for _ in range(SMALL + 1)]
        for generation in (0, 1):
            gc.collect(generation)
        seen = weakref.ref(cycle)
        del cycle
        reactor.pump([INTERVAL] * 29)
        self.assertIsNotNone(seen())
        reactor.advance(INTERVAL)
        self.assertIsNone(seen())
        self.assertEqual(len(many), SMALL + 1)
