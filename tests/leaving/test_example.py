"""The example C{leaving_msmq}: an estate moves while orders are taken."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.project.example_files import EXAMPLES
from tests.servers.own_address import own_address
from tests.servers.prepared import bin_directory


class LeavingTests(SynchronousTestCase):
    """The script, as its readers run it."""

    def test_estate(self) -> None:
        """Each order has one invoice in the new ledger, and both drains and the shadow prove themselves."""
        ended = subprocess.run(
            [
                sys.executable,
                os.fspath(EXAMPLES / "leaving_msmq" / "leaving_msmq.py"),
                *(own_address(number) for number in range(141, 147)),
            ],
            env={**os.environ, "PATH": f"{bin_directory()}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("each with one invoice in the new ledger", ended.stdout)
        self.assertEqual(ended.stdout.count("missing           0\n"), 4, ended.stdout)
