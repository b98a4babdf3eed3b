"""A server with a shadow that is killed with SIGKILL while messages arrive: no copy is missing or doubled.

C{MSMQ_SHADOW_KILLS} is the number of kills, C{MSMQ_SHADOW_SEED} the seed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from msmq.client import Client, message_to
from tests.patience import DEADLINE
from tests.servers.killed import KilledProcess

KILLS: Final = os.environ.get("MSMQ_SHADOW_KILLS", "")
SEED: Final = os.environ.get("MSMQ_SHADOW_SEED", "")
ORDERS: Final = ".\\private$\\orders"
COPIES: Final = ".\\private$\\copies"
ROUND: Final = 300

_CONFIGURATION: Final = (
    '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
    f"[[shadow]]\nqueue = '{ORDERS}'\nto = '{COPIES}'\n"
)


class ShadowKillTests(SynchronousTestCase):
    """A queue, and the queue with the copies, of one server."""

    def test_no_copy_is_missing(self) -> None:
        """Each message has one copy, in the order of the queue, however often the server is killed."""
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-kills-"))
        self.addCleanup(shutil.rmtree, directory)
        kills, seed = int(KILLS or 3), int(SEED or time.time_ns() % 1_000_000 if KILLS else 20261128)
        chance = Random(seed)
        server = KilledProcess(directory, "ALPHA", "msmq", _CONFIGURATION)
        self.addCleanup(server.kill)
        server.start()
        client = Client(server.data, reconnect=DEADLINE)
        client.create_queue(ORDERS, log=True)
        client.create_queue(COPIES)
        # A shadow of a queue that is missing looks again after seconds.
        server.kill()
        server.start()
        self.until_it_copies(client)
        wanted: list[bytes] = []
        for number in range(kills):
            bodies = [b"%d.%d" % (number, each) for each in range(ROUND)]
            split = chance.randrange(ROUND)
            client.send_all([message_to(ORDERS, body) for body in bodies[:split]])
            server.kill()
            server.start()
            client.send_all([message_to(ORDERS, body) for body in bodies[split:]])
            wanted += bodies
        with client.consume(COPIES, timeout=DEADLINE) as consumer:
            found: list[bytes] = []
            while wanted[-1] not in found and (batch := consumer.next_batch()):
                found += [message.body for message in batch]
                batch.confirm()
        found += [message.body for message in client.peek(COPIES, count=1000)]
        if KILLS:
            sys.stdout.write(f"\nseed {seed}; kills {kills}, messages {len(wanted)}, copies {len(found)}\n")
        self.assertEqual([body for body in found if body], wanted)

    def until_it_copies(self, client: Client) -> None:
        """A shadow begins at the end of the message log: send until a message is copied."""
        give_up = time.monotonic() + DEADLINE
        while not client.peek(COPIES, timeout=1):
            self.assertLess(time.monotonic(), give_up)
            client.send(ORDERS, b"")
