"""A directory on the disk, for tests of what a disk does; the others may write to memory."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

_CHECKOUT = Path(__file__).resolve().parent.parent


def directory(case: SynchronousTestCase) -> Path:
    """A new directory in the checkout, until the end of a test."""
    found = Path(tempfile.mkdtemp(prefix="_trial_temp_disk_", dir=_CHECKOUT))
    case.addCleanup(shutil.rmtree, found)
    return found
