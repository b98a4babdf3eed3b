"""Shares of the callers in the reactor's time for slow comparisons of messages."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

SLOW: Final = 0.05
"""Seconds up to which a comparison is not counted; one of an ordinary expression takes less with any body."""

REST: Final = 3.0
"""Seconds of rest for each second of slow comparisons: one caller takes a quarter of the time."""


LONGEST: Final = 2.0
"""Seconds of one comparison that are counted at most: a process that was suspended meanwhile shows more."""


class EvaluationShares:
    """When each caller may compare messages again, after comparisons that were slow.

    A caller is named by L{ControlRequest.account<msmq.control.server.http.requests.ControlRequest.account>}.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._due: dict[Hashable, float] = {}

    def of(self, caller: Hashable) -> EvaluationShare:
        """The share of a caller, which all its requests have together."""
        return EvaluationShare(self, caller)

    def now(self) -> float:
        """The time, in seconds."""
        return self._clock.seconds()

    def spent(self, caller: Hashable, began: float) -> None:
        """Count a comparison that has ended now."""
        now = self.now()
        taken = min(now - began, LONGEST)
        if taken > SLOW:
            # Of others only those that rest are remembered.
            self._due = {each: due for each, due in self._due.items() if due > now}
            self._due[caller] = self._due.get(caller, now) + taken * REST

    def rest(self, caller: Hashable) -> float:
        """Seconds until a caller may compare again; 0 or less if it may now."""
        return self._due.get(caller, 0.0) - self.now()

    async def ready(self, caller: Hashable) -> None:
        """Wait until a caller may compare again; of several requests that wait the others wait again."""
        while (wait := self.rest(caller)) > 0:
            await deferLater(self._clock, wait)


@attrs.frozen
class EvaluationShare:
    """The share of one caller."""

    shares: EvaluationShares
    caller: Hashable

    def now(self) -> float:
        """The time, in seconds."""
        return self.shares.now()

    def spent(self, began: float) -> None:
        """Count a comparison that has ended now."""
        self.shares.spent(self.caller, began)

    @property
    def rests(self) -> bool:
        """Whether the next comparison has to wait."""
        return self.shares.rest(self.caller) > 0

    async def ready(self) -> None:
        """Wait until the next comparison may begin; it has to begin before anything else is awaited."""
        await self.shares.ready(self.caller)
