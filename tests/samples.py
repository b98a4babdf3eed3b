"""How much the tests that draw what they try have in the suite, and beside it."""

from __future__ import annotations

import os


def examples(sample: int) -> int:
    """The number of examples, runs or histories: this sample of them, or C{MSMQ_SOAK} where that is set."""
    return int(os.environ.get("MSMQ_SOAK", sample))
