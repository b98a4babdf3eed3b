"""How long a streaming batch waits for a minimum number of rows."""

from __future__ import annotations

import attrs


@attrs.define
class BatchDelay:
    """State of C{minOffsetsPerTrigger} and C{maxTriggerDelay}.

    @ivar limit: the maximum time for which rows wait, in seconds.
    """

    limit: float
    _since: float | None = attrs.field(default=None, init=False)

    def holds(self, now: float, *, has_rows: bool, has_enough: bool) -> bool:
        """Whether the next batch has to wait.

        @param now: the present monotonic time, in seconds.
        @param has_rows: whether there are rows that no batch has.
        @param has_enough: whether there are as many of them as a batch waits for.
        """
        if not has_rows or has_enough:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self.limit:
            return True
        self._since = None
        return False
