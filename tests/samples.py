"""How much is tried by tests that draw it with hypothesis: a sample in the suite, more in a soak.

What hypothesis draws is the same in each run, but for what it finds in the modules that are loaded: their
constants are drawn too, and which modules those are depends on which tests a process has run before.
So where C{MSMQ_SOAK} is set it may as well draw something else each time, and as many examples as it says.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def examples(sample: int) -> int:
    """The number of examples, runs or histories: this sample of them, or C{MSMQ_SOAK} where that is set."""
    return int(os.environ.get("MSMQ_SOAK", sample))


settings.register_profile(
    "msmq",
    deadline=None,
    max_examples=examples(25),
    derandomize="MSMQ_SOAK" not in os.environ,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        # A test may run again in one process: another instance of its class is the same test.
        HealthCheck.differing_executors,
    ],
)
settings.load_profile("msmq")
