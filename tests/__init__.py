"""The tests of msmq; they mirror the package.

What hypothesis draws is the same in each run, but for what it finds in the modules that are loaded: their
constants are drawn too, and which modules those are depends on which tests a process has run before.
So where C{MSMQ_SOAK} is set it may as well draw something else each time, and as many examples as it says.
"""

import os

from hypothesis import HealthCheck, settings

from tests.samples import examples

settings.register_profile(
    "msmq",
    deadline=None,
    max_examples=examples(25),
    derandomize="MSMQ_SOAK" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("msmq")
