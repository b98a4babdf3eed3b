"""A bridge over a broker while broker and queue managers are killed with SIGKILL.

C{MSMQ_BRIDGE_KILLS} is the number of kills of each campaign, C{MSMQ_BRIDGE_SEED} the seed.
RabbitMQ is a real one; the cluster of Kafka is a mock, whose nodes only refuse connections for a while.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.bridge_service.kill_media import Amqp10Medium, KafkaMedium, KillMedium, RabbitMedium
from tests.bridge_service.kill_run import KillRun
from tests.servers.rabbitmq import shared_broker

KILLS = os.environ.get("MSMQ_BRIDGE_KILLS", "")
SEED = os.environ.get("MSMQ_BRIDGE_SEED", "")


class KillTests(SynchronousTestCase):
    """Queue, exchange, queue of the broker, queue."""

    def test_rabbitmq(self) -> None:
        """Each message reaches the broker at least once, and the other queue exactly once."""
        self.run_kills(RabbitMedium(shared_broker()), has_program=False)

    def test_bridge_of_its_own(self) -> None:
        """The same by a bridge beside the queue managers, which is killed too."""
        self.run_kills(RabbitMedium(shared_broker()), has_program=True)

    def test_amqp10(self) -> None:
        """The same over AMQP 1.0."""
        self.run_kills(Amqp10Medium(shared_broker()), has_program=False)

    def test_kafka(self) -> None:
        """The same over Kafka; that no message is committed twice is the matter of tests/bridge."""
        self.run_kills(KafkaMedium(), has_program=False)

    def run_kills(self, medium: KillMedium, *, has_program: bool) -> None:
        """Run one campaign."""
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-kills-"))
        self.addCleanup(shutil.rmtree, directory)
        seed = int(SEED or time.time_ns() % 1_000_000 if KILLS else 20261123)
        kills = int(KILLS or (4 if has_program else 3))
        run = KillRun(kills, seed, directory, medium, has_program)
        started = time.monotonic()
        faults = run.run()
        if KILLS:
            counts = ", ".join(f"{name} {number}" for name, number in sorted(run.done.items()))
            sys.stdout.write(f"\nseed {seed}; {counts}; {time.monotonic() - started:.0f} seconds\n")
        self.assertEqual(faults[:20], [])
