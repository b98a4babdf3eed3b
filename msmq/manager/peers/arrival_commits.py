"""Group commit of arrivals with their duplicate and stream state. [MS-MQQB] 3.1.5.8.6.

While one batch is committed the next one is collected. There are never two commits at once: the second could
succeed where the first had failed, and the store would then remember messages that it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.deadline_timer import DeadlineTimer
from msmq.manager.interruptions import INTERRUPTIONS
from msmq.manager.peers.order_acks import OrderAcks
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.settings import SessionSettings
from msmq.structures.status import MQError
from msmq.transfer.duplicates import DuplicateHistory
from msmq.transfer.incoming_history import IncomingHistory
from msmq.transfer.incoming_streams import IncomingStreams


@attrs.frozen(eq=False)
class _Waiting:
    """Messages that arrived together.

    @ivar now: when they arrived.
    @ivar done: fires with the time of the commit, or C{None} if it failed.
    """

    changes: Sequence[Change]
    now: Moment
    done: Deferred[Moment | None]


class ArrivalCommits:
    """Commits arrivals together with their duplicate and stream state. [MS-MQQB] 3.1.5.8.1, 3.1.5.8.6.

    Both survive a failure as one (3.1.1.3.2).

    @ivar history: the state of duplicate detection and streams.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        settings: SessionSettings,
        streams: IncomingStreams,
        order_acks: OrderAcks,
        reactor: IReactorTime,
    ) -> None:
        self.history = IncomingHistory(streams, DuplicateHistory(settings))
        self._order_acks = order_acks
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)
        self._performer = performer
        self._waiting: list[_Waiting] = []
        self._is_storing = False

    def load(self, state: Mapping[str, bytes]) -> None:
        """Before anything else: take back what the store keeps.

        @raise StateError: a value is damaged.
        """
        self.history.load(state, self._performer.clock.now())

    def store(self, changes: Sequence[Change], now: Moment) -> Deferred[Moment | None]:
        """Store arrivals with the changed history; fires with the time of the commit.

        If it fires with C{None} they are not stored: none is acknowledged, and all are sent again.
        """
        done: Deferred[Moment | None] = Deferred()
        self._waiting.append(_Waiting(changes, now, done))
        if not self._is_storing:
            self._is_storing = True
            Deferred.fromCoroutine(self._store()).addErrback(self._not_stored)
        return done

    def _not_stored(self, failure: Failure) -> None:
        self.log.failure("arrivals were not stored", failure)

    async def _store(self) -> None:
        performer = self._performer
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                changes: list[Change] = [change for each in batch for change in each.changes]
                changes += as_changes(self.history.take_changes(batch[-1].now))
                try:
                    await performer.commit(changes)
                except INTERRUPTIONS as error:
                    if not isinstance(error, MQError):
                        # A commit that does not end would be the last one.
                        self.log.failure("arrivals were not stored")
                    stored_at = None
                    self._schedule(*self.history.failed())
                    # Messages that arrived meanwhile were judged by a state that was rolled back.
                    batch += self._waiting
                    self._waiting = []
                else:
                    stored_at = performer.clock.now()
                    self._schedule(*self.history.stored(stored_at))
                for each in batch:
                    each.done.callback(stored_at)
        finally:
            self._is_storing = False

    def start(self) -> None:
        """Start the timers of duplicate detection and OrderAcks."""
        self._schedule(*self.history.deadlines())

    def stop(self) -> None:
        """Stop the timers."""
        self._timer.stop()

    def _schedule(self, order_ack: float | None, duplicate: float | None) -> None:
        self._order_acks.schedule(order_ack)
        self._timer.set(duplicate)

    def _expire(self, now: Moment) -> None:
        self.history.duplicates.expire(now)
        if self.history.duplicates.has_expired_rows and not self._is_storing:
            # The next arrival would remove them from the store, and may never come.
            self.store((), now)
        self._timer.set(self.history.duplicates.deadline)
