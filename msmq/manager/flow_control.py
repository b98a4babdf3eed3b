"""Flow Control: no messages are accepted while the store is full. [MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.background import run_in_background
from msmq.interfaces.storage import StorageError, StorageFull
from msmq.line_limit import LineLimit
from msmq.manager.interruptions import INTERRUPTIONS
from msmq.manager.performer import Performer
from msmq.persistence.changes import PutState, RemoveState

FIRST_INTERVAL: Final = 0.5
"""Seconds until the store is first probed for space.

A single batch may have been too large, or a reader may have freed space meanwhile.
"""

LONGEST_INTERVAL: Final = 5.0
"""The interval doubles up to this many seconds."""

CALM_SECONDS: Final = 5.0
"""Seconds for which there has to be space before the interval is reset."""

PROBE_BYTES: Final = 1024 * 1024
"""Bytes that a probe writes to find out whether the store has space again."""

FULL: Final = "store_full"
"""The event of a store without space, stored once it has some."""

SPACE: Final = "store_has_space"
"""The event of its end, with the number of copies that were not made."""

BETWEEN_EVENTS: Final = 60.0
"""Seconds between two events L{FULL}: a store that fills again and again does not fill the event log. Copies
that were not made in between are in the next event L{SPACE}."""

LINES: Final = 5
"""Log lines about failed commits in a minute; the others are counted."""

_NAME: Final = "space_probe"


class FlowControl:
    """Sets and clears QueueManager.Throttled when the store is full (reading 54).

    The event log has both, since messages that are received meanwhile leave no copies in journals.

    @param note: records an event of the queue manager, with its reason.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, reactor: IReactorTime, note: Callable[[str, str], None]) -> None:
        self._performer = performer
        self._note = note
        self._copies_dropped = 0
        self._unreported = 0
        self._full_since = 0.0
        self._noted_at: float | None = None
        self._is_noted = False
        self._reactor = reactor
        self._timer: IDelayedCall | None = None
        self._interval = FIRST_INTERVAL
        self._calm_since = reactor.seconds()
        self._is_stopped = False
        self._has_probe = False
        self._lines = LineLimit.a_minute(LINES)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Find the bytes of a probe that the last stop, or kill, has cut off."""
        self._has_probe = _NAME in state

    def start(self) -> None:
        """Remove the bytes that L{load} has found."""
        if self._has_probe:
            self._has_probe = False
            self._performer.commit_later((RemoveState(_NAME),), "the end of a probe for space")

    def stop(self) -> None:
        """Stop probing the store for space."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def failed(self, error: StorageError) -> None:
        """The store failed, which is logged; if it is full, accept no messages until it has space."""
        storage = self._performer.model.storage
        # A peer gets no error, and a caller may keep it: the log is where an operator looks for it.
        if not isinstance(error, StorageFull) and (
            (others := self._lines.take(self._performer.clock.now())) is not None
        ):
            self.log.error("a commit of the store failed: {error}{others}", error=error, others=others)
        if isinstance(error, StorageFull) and not storage.throttled and not self._is_stopped:
            storage.throttled = True
            self._copies_dropped = self._performer.model.copying.dropped
            self._full_since = now = self._reactor.seconds()
            self._is_noted = self._noted_at is None or now - self._noted_at >= BETWEEN_EVENTS
            if self._is_noted:
                self._noted_at = now
                self._note(FULL, f"no messages are accepted, and no journal copies are made: {error}")
            self.log.error("the store is full, no messages are accepted: {error}", error=error)
            if self._reactor.seconds() - self._calm_since >= CALM_SECONDS:
                self._interval = FIRST_INTERVAL
            self._wait()

    def _wait(self) -> None:
        self._timer = self._reactor.callLater(self._interval, self._probe)
        self._interval = min(LONGEST_INTERVAL, 2 * self._interval)

    def _probe(self) -> None:
        self._timer = None
        run_in_background(self._try_store(), "probing the store for space")

    async def _try_store(self) -> None:
        store = self._performer.store
        try:
            await store.commit((PutState(_NAME, bytes(PROBE_BYTES)),))
            await store.commit((RemoveState(_NAME),))
        except INTERRUPTIONS:
            # Also another error than the interface has, by mistake: no message would ever be accepted again.
            if not self._is_stopped:
                self._wait()
            return
        self._calm_since = self._reactor.seconds()
        model = self._performer.model
        model.storage.throttled = False
        self._unreported += model.copying.dropped - self._copies_dropped
        self.log.info("the store has space again")
        if self._is_noted:
            seconds, dropped = self._calm_since - self._full_since, self._unreported
            self._unreported = 0
            self._note(
                SPACE,
                f"it was full for {seconds:.1f} s; {dropped} journal copies and dead letters were not made",
            )
        self._performer.retry_now()
