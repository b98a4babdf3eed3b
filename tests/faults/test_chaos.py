"""Transfer between real servers, over real sockets, that are killed and cut off at any moment.

C{MSMQ_CHAOS} is the number of transactional messages where it shall be another than usual, and
C{MSMQ_CHAOS_SEED} the seed.  The same seed makes the same faults at the same moments of the transfer; what
else happens at that time is up to the machine.  The stores follow from the seed too, and whether the clocks
jump, for which each server starts a new interpreter.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.faults.careless import write_plugin
from tests.faults.chaos import Chaos
from tests.faults.chaos_servers import Plan
from tests.faults.machine import FAKETIME, MachineFault, SmallDisk
from tests.servers.own_address import own_address

SIZE = os.environ.get("MSMQ_CHAOS", "")
SEED = os.environ.get("MSMQ_CHAOS_SEED", "")
STORAGES = (("sqlite", "small-log"), ("log", "log"), ("small-log", "sqlite"), ("small-log", "small-log"))


def plan(home: Path) -> Plan:
    """As the environment has it; without the faults that this machine does not permit in a directory."""
    messages = int(SIZE or 300)
    seed = int(SEED) if SEED else random.SystemRandom().getrandbits(32) if SIZE else 20261121
    kinds = [MachineFault.PAUSED]
    if SmallDisk.is_possible(home):
        kinds.append(MachineFault.FULL)
    if SIZE and seed % 3 == 0 and FAKETIME:
        kinds.append(MachineFault.JUMP)
    return Plan(
        seed=seed,
        messages=messages,
        queues=10 if messages > 1000 else 5,
        kills=max(2, messages // 250),
        disturbances=messages // 50,
        storages=STORAGES[seed // 3 % 4] if SIZE else STORAGES[0],
        machine_faults=tuple(kinds) * max(1, messages // 500),
    )


def _tell(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


class ChaosTestCase(SynchronousTestCase):
    """Campaigns with real servers in a directory of their own."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-chaos-"))
        self.addCleanup(shutil.rmtree, self.directory)
        # Otherwise the servers would outlive a test that is terminated.
        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, self.terminated))

    def terminated(self, *_: object) -> None:
        self.fail("SIGTERM")

    def run_through(self, plan: Plan, addresses: Sequence[str]) -> None:
        """Run a campaign, and show what it has found."""
        chaos = Chaos(plan, self.directory, addresses, write_plugin(self.directory))
        if SIZE:
            _tell(f"seed {plan.seed}, {', '.join(plan.storages)}")
        started = time.monotonic()
        faults = chaos.run()
        if SIZE:
            _tell(f"{chaos.story()}; {time.monotonic() - started:.0f} seconds")
        if faults:
            kept = Path(self.mktemp())
            shutil.copytree(self.directory, kept, ignore=shutil.ignore_patterns("*.sock"))
            self.fail(
                "\n".join([*faults[:20], chaos.story(), f"what they left behind is in {kept.resolve()}"])
            )


class ChaosTests(ChaosTestCase):
    """Messages between two queue managers, and everything that can come between them."""

    def test_transfer(self) -> None:
        """Each transactional message arrives once and in order, each recoverable one once."""
        self.run_through(plan(self.directory), (own_address(8), own_address(9)))
