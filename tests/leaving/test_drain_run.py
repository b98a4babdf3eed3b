"""A drain between real queue managers that are killed with SIGKILL while messages arrive.

C{MSMQ_DRAIN} is the number of messages that are there before, C{MSMQ_DRAIN_SEED} the seed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.leaving.drain_run import DrainRun

MESSAGES = os.environ.get("MSMQ_DRAIN", "")
SEED = os.environ.get("MSMQ_DRAIN_SEED", "")


class DrainRunTests(SynchronousTestCase):
    """An old and a new queue manager, and one that sends."""

    def test_nothing_is_lost(self) -> None:
        """Each message arrives once and in order, and the digests of both sides are equal."""
        self.verify(is_kept=False)

    def test_kept_messages(self) -> None:
        """The same for messages that are not transactional and are kept until their arrival is acknowledged;
        none is left over, and none is a dead letter.
        """
        self.verify(is_kept=True)

    def verify(self, *, is_kept: bool) -> None:
        """One run."""
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-drain-"))
        self.addCleanup(shutil.rmtree, directory)
        seed = int(SEED or time.time_ns() % 1_000_000 if MESSAGES else 20261124)
        run = (
            DrainRun(int(MESSAGES), 1000, 10, 3.0, seed, directory, is_kept)
            if MESSAGES
            else DrainRun(600, 200, 2, 0.2, seed, directory, is_kept)
        )
        started = time.monotonic()
        faults = run.run()
        if MESSAGES:
            sys.stdout.write(
                f"\nseed {seed}; {run.present} + {run.sent} messages, {run.kills} kills,"
                f" {time.monotonic() - started:.0f} seconds; digest {run.proof['digest']}\n"
            )
        self.assertEqual(faults[:20], [])
