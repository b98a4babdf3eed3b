"""The clocks of the machine."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.interfaces import IClock
from msmq.net.clock import SystemClock


class SystemClockTests(SynchronousTestCase):
    """Where a server takes its time from."""

    def test_provides_the_interface(self) -> None:
        """It is a clock."""
        verifyObject(IClock, SystemClock())

    def test_never_goes_back(self) -> None:
        """The monotonic clock does not decrease, and the wall clock has a current time."""
        clock = SystemClock()
        first, second = clock.now(), clock.now()
        self.assertLessEqual(first.monotonic, second.monotonic)
        self.assertGreater(first.wall, 1_600_000_000)
