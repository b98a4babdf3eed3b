"""Clock of the machine: monotonic and wall-clock time."""

from __future__ import annotations

import time

import attrs
from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.moment import Moment


@implementer(IClock)
@attrs.frozen
class SystemClock:
    """The operating system's monotonic clock and its wall clock."""

    def now(self) -> Moment:
        """See L{IClock.now}."""
        return Moment(time.monotonic(), time.time())
