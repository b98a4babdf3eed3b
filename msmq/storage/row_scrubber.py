"""Background verification of a database store, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.storage.scrub_policy import ScrubPolicy
from msmq.storage.scrub_step import ScrubPosition, ScrubStep
from msmq.storage.scrub_timer import ScrubTimer


class RowScrubber:
    """Verifies the whole database repeatedly, at a bounded rate.

    @ivar passes: the number of completed passes; C{size}: the bytes of verified packets.
    @ivar problem: why the last step failed; C{None} if it did not.
    @param ask: verifies about this many bytes of packets after a position.
    @param found: receives the result of each step.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        ask: Callable[[ScrubPosition | None, int], Deferred[ScrubStep]],
        found: Callable[[ScrubStep], object],
        policy: ScrubPolicy,
        reactor: IReactorTime,
    ) -> None:
        self._ask = ask
        self._found = found
        self._policy = policy
        self._position: ScrubPosition | None = None
        self.passes = 0
        self.size = 0
        self.problem: BaseException | None = None
        self._timer = ScrubTimer(reactor, self._step)
        self._timer.wait(policy.delay)

    def stop(self) -> None:
        """Start no further step."""
        self._timer.stop()

    def _step(self) -> None:
        self._ask(self._position, self._policy.step_bytes).addCallbacks(self._verified, self._failed)

    def _verified(self, step: ScrubStep) -> None:
        self.problem = None
        self.size += step.size
        self._found(step)
        self._position = step.position
        if step.position is None:
            self.passes += 1
            self._timer.wait(self._policy.pause)
        else:
            self._timer.wait(self._policy.wait(step.size))

    def _failed(self, failure: Failure) -> None:
        if not self._timer.is_stopped:
            self.log.error("the store cannot be verified: {error}", error=failure.value)
        self.problem = failure.value
        self._position = None
        self._timer.wait(self._policy.pause)
