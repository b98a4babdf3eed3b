"""IClock: monotonic and wall-clock time."""

from __future__ import annotations

from zope.interface import Interface

from msmq.moment import Moment


class IClock(Interface):
    """Both clocks of the machine, or of a test."""

    def now() -> Moment:
        """This instant; its C{monotonic} is never smaller than in an earlier answer."""
