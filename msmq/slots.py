"""A semaphore that any number may wait for."""

from __future__ import annotations

from collections import OrderedDict

from twisted.internet.defer import Deferred


class Slots:
    """A semaphore, first come, first served, for callers that may end while they get their slot.

    When a sender is closed, all sends that wait do so. The next caller is served after such a one and not
    within it, which would exceed the limit on recursion if there are many.

    @param count: limit on the slots in use.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[Deferred[None], None] = OrderedDict()
        self._is_serving = False

    def acquire(self) -> Deferred[None]:
        """Take a slot.

        @return: fires when there is one; cancelling it leaves the slot to others.
        """
        acquired: Deferred[None] = Deferred(lambda cancelled: self._waiting.pop(cancelled, None))
        self._waiting[acquired] = None
        self._serve()
        return acquired

    def release(self) -> None:
        """Return a slot, which the caller that has waited longest gets."""
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        if self._is_serving:
            # The loop below serves what has been added meanwhile.
            return
        self._is_serving = True
        try:
            while self._free and self._waiting:
                acquired, _ = self._waiting.popitem(last=False)
                self._free -= 1
                acquired.callback(None)
        finally:
            self._is_serving = False
