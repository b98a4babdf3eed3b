"""Memory of incomplete request bodies, over all connections."""

from __future__ import annotations

from msmq.control.server.sending.pipeline import PausableSource


class RequestMemory:
    """Limits the bytes that the bodies of unanswered requests take together, by reading no further.

    Over the limit only the connection of the oldest request is read, so that this one completes whatever the
    others do; the others are read again when memory is released. So the total exceeds the limit by one body
    and one read of each connection at most.

    @param limit: in bytes.
    @ivar used: bytes that are taken.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0
        # In the order of their first bytes.
        self._sizes: dict[object, int] = {}
        self._paused: dict[object, PausableSource] = {}

    def take(self, holder: object, source: PausableSource, size: int) -> None:
        """A body has grown.

        @param source: its connection, which is not read while there is no memory.
        """
        self._sizes[holder] = self._sizes.get(holder, 0) + size
        self.used += size
        if self.used > self._limit and holder is not next(iter(self._sizes)) and holder not in self._paused:
            self._paused[holder] = source
            source.pauseProducing()

    def release(self, holder: object) -> None:
        """A request is answered, or its connection lost; may be called again."""
        self.used -= self._sizes.pop(holder, 0)
        self._paused.pop(holder, None)
        if not self._paused:
            return
        if self.used <= self._limit:
            resumed = list(self._paused)
        else:
            resumed = [oldest] if (oldest := next(iter(self._sizes))) in self._paused else []
        for each in resumed:
            self._paused.pop(each).resumeProducing()
