"""The mock cluster of the tests with Kafka."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

from confluent_kafka.admin import AdminClient
from twisted.trial.unittest import SynchronousTestCase

from tests.patience import DEADLINE
from tests.servers.kafka import NODES, KafkaCluster


class SignalTests(SynchronousTestCase):
    """Signals of the process in which a cluster runs."""

    def test_they_do_not_reach_it(self) -> None:
        """The process may start others, whose end is a signal: the nodes would then refuse connections."""
        before = masks()
        cluster = KafkaCluster()
        # Its thread has begun once it answers, and has its mask since then.
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        self.assertEqual(len(client.list_topics(timeout=DEADLINE).brokers), NODES)
        (mask,) = [mask for thread, mask in masks().items() if thread not in before]
        self.assertEqual(mask >> signal.SIGCHLD - 1 & 1, 1)
        self.assertNotIn(signal.SIGCHLD, signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def masks() -> dict[str, int]:
    """The signals that the thread of each cluster blocks, as bits."""
    found = {}
    for thread in Path("/proc/self/task").iterdir():
        # One of another test may end meanwhile.
        with contextlib.suppress(OSError):
            if (thread / "comm").read_text() == "rdk:mock\n":
                lines = (thread / "status").read_text().splitlines()
                (mask,) = [line.split()[1] for line in lines if line.startswith("SigBlk:")]
                found[thread.name] = int(mask, 16)
    return found
