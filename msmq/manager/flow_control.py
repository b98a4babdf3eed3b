"""[MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6 Flow Control: nothing comes in while the store is full."""

from __future__ import annotations

from typing import ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.manager.performer import Performer
from msmq.persistence.changes import PutState, RemoveState

FIRST_INTERVAL: Final = 0.5
"""Seconds after which the store is asked for the first time whether there is space again.

It may have been one batch that was too large, or a reader may have made room meanwhile.
"""

LONGEST_INTERVAL: Final = 5.0
"""Up to this the intervals become twice as long each time; a full disk is asked no more often for long."""

CALM_SECONDS: Final = 5.0
"""So long there has to be space before the intervals begin anew: it may be there for small things only."""

PROBE_BYTES: Final = 1024 * 1024
"""Bytes that the store has to have room for before it is taken to have space again."""

_NAME: Final = "space_probe"


class FlowControl:
    """Raises and lowers QueueManager.Throttled as the store says (reading 54)."""

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, reactor: IReactorTime) -> None:
        self._performer = performer
        self._reactor = reactor
        self._timer: IDelayedCall | None = None
        self._interval = FIRST_INTERVAL
        self._calm_since = reactor.seconds()
        self._is_stopped = False

    def stop(self) -> None:
        """Stop probing the store for space."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def failed(self, error: StorageError) -> None:
        """The store failed; when it is full, nothing more comes in until it has space."""
        storage = self._performer.model.storage
        if isinstance(error, StorageFull) and not storage.throttled and not self._is_stopped:
            storage.throttled = True
            self.log.error("the store is full, nothing more is taken: {error}", error=error)
            if self._reactor.seconds() - self._calm_since >= CALM_SECONDS:
                self._interval = FIRST_INTERVAL
            self._wait()

    def _wait(self) -> None:
        self._timer = self._reactor.callLater(self._interval, self._probe)
        self._interval = min(LONGEST_INTERVAL, 2 * self._interval)

    def _probe(self) -> None:
        self._timer = None
        Deferred.fromCoroutine(self._look())

    async def _look(self) -> None:
        store = self._performer.store
        try:
            await store.commit((PutState(_NAME, bytes(PROBE_BYTES)),))
            await store.commit((RemoveState(_NAME),))
        except StorageError:
            if not self._is_stopped:
                self._wait()
            return
        self._calm_since = self._reactor.seconds()
        self._performer.model.storage.throttled = False
        self.log.info("the store has space again")
