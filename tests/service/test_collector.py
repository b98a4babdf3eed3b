"""The garbage collector of a server that has started."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.collector import INTERVAL, THRESHOLDS, CycleSweeps

PROGRAM = """
import gc
from msmq.service.process.collector import settle
settle()
print(gc.get_freeze_count() > 1000, gc.get_threshold(), gc.isenabled())
"""


class CollectorTests(SynchronousTestCase):
    """L{msmq.service.process.collector}, in a process of its own."""

    def test_settled(self) -> None:
        """Objects of the start are excluded from collections, which are rare but continue."""
        said = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
        self.assertEqual(said.strip(), f"True {THRESHOLDS} True")


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
