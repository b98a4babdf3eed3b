"""[MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6 Flow Control: nothing comes in while the store is full."""

from __future__ import annotations

from typing import ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.manager.performing import Performer
from msmq.queues.changes import PutState, RemoveState

PROBE_INTERVAL: Final = 5.0
"""Seconds between two attempts to find out whether there is space again."""

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
        self._is_stopped = False
        performer.on_failure = self.failed

    def stop(self) -> None:
        """Look no more."""
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
            self._wait()

    def _wait(self) -> None:
        self._timer = self._reactor.callLater(PROBE_INTERVAL, self._probe)

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
        self._performer.model.storage.throttled = False
        self.log.info("the store has space again")
