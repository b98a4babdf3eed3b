"""The garbage collector of a server that has started."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.collector import THRESHOLDS

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
