"""Campaigns of kills, of which C{MSMQ_BRIDGE_KILLS} is the size, and C{MSMQ_BRIDGE_SEED} the seed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.bridge_service.kill_media import KillMedium
from tests.bridge_service.kill_run import KillRun

KILLS = os.environ.get("MSMQ_BRIDGE_KILLS", "")
SEED = os.environ.get("MSMQ_BRIDGE_SEED", "")


class KillTestCase(SynchronousTestCase):
    """Queue, exchange, queue of the broker, queue."""

    def run_kills(self, medium: KillMedium, kills: int, *, has_program: bool = False) -> None:
        """Run one campaign.

        @param kills: the number of them in the suite: of the broker first, of the bridge if it is a program,
            of the receiver, and of the sender.
        """
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-kills-"))
        self.addCleanup(shutil.rmtree, directory)
        seed = int(SEED or time.time_ns() % 1_000_000 if KILLS else 20261123)
        run = KillRun(int(KILLS or kills), seed, directory, medium, has_program)
        started = time.monotonic()
        faults = run.run()
        if KILLS:
            counts = ", ".join(f"{name} {number}" for name, number in sorted(run.done.items()))
            sys.stdout.write(f"\nseed {seed}; {counts}; {time.monotonic() - started:.0f} seconds\n")
        self.assertEqual(faults[:20], [])
