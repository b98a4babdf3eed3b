"""Work on a data directory, for which a command runs the reactor, and Ctrl-C meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

_PROGRAM: Final = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from msmq.service.data_directory.store_migration import run_reactor

async def work(reactor):
    try:
        print("begun", flush=True)
        await Deferred()
    finally:
        await deferLater(reactor, 0)
        print("cleaned up", flush=True)

try:
    run_reactor(work)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class RunReactorTests(SynchronousTestCase):
    """L{run_reactor<msmq.service.data_directory.store_migration.run_reactor>}."""

    def test_interrupted(self) -> None:
        """Work that is interrupted removes what it has begun, also where it has to wait for that."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with (
                self.subTest(number),
                subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE) as process,
            ):
                assert process.stdout is not None
                self.assertEqual(process.stdout.readline(), b"begun\n")
                process.send_signal(number)
                self.assertEqual(process.stdout.read(), b"cleaned up\ninterrupted\n")
