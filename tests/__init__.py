"""The tests of msmq; they mirror the package."""

import sys

if "twisted.trial" in sys.modules or "pytest" in sys.modules:
    # A process that a test starts draws nothing, and hypothesis would be a quarter of its start.
    from tests import samples as samples
