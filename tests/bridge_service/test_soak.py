"""A bridge inside queue managers, and one beside them, under load for a long time.

C{MSMQ_BRIDGE_SOAK} is the number of minutes; without it there are a few rounds.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from tests.bridge_service.soak_run import SHORTEST, SoakRun, SoakSample
from tests.servers.rabbitmq import shared_broker

MINUTES: Final = float(os.environ.get("MSMQ_BRIDGE_SOAK", "0"))
SHOWN: Final = 60.0
SIZE: Final = 200 if MINUTES else 40


class SoakTests(SynchronousTestCase):
    """Rounds of messages from one queue manager over the broker to another."""

    def test_nothing_is_lost_and_nothing_grows(self) -> None:
        """Each message arrives once, and memory and descriptors of each process stay as they are."""
        directory = Path(tempfile.mkdtemp(prefix="msmq-soak-"))
        self.addCleanup(shutil.rmtree, directory)
        begun = shown = time.monotonic()

        def report(sample: SoakSample) -> None:
            nonlocal shown
            if MINUTES and time.monotonic() - shown >= SHOWN:
                shown += SHOWN
                sys.stdout.write(f"\n{sample}")
                sys.stdout.flush()

        def is_over(rounds: int) -> bool:
            return rounds >= SHORTEST and time.monotonic() - begun >= MINUTES * 60

        run = SoakRun(directory, shared_broker(), SIZE, is_over, report)
        faults = run.run()
        if MINUTES:
            sys.stdout.write(f"\n{run.samples[-1]}\n")
        self.assertEqual(faults, [])
        self.assertEqual(run.samples[-1].arrived, 2 * SIZE * run.samples[-1].rounds)
