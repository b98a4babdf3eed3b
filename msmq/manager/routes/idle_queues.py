"""Removes outgoing queues that have been empty and unused for a long time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.manager.peers.peer_queue_limits import PeerQueueLimits
from msmq.manager.peers.sequences import Sequences
from msmq.manager.performer import Performer
from msmq.manager.routes.next_hops import NextHops
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.redirects import Redirects
from msmq.settings import SessionSettings

_SLICE: Final = 200
"""Queues that are checked in one iteration of the reactor."""

_CHECKS: Final = 4
"""Checks of each queue in C{outgoing_queue_idle}; the first one after it has been idle for so long removes
it."""


class IdleOutgoingQueues:
    """Removes the outgoing queues of names to which nothing was sent for C{outgoing_queue_idle}.

    A queue stays while it has messages, is open, paused or redirected, waits for acknowledgements, or is the
    last one of an open session.
    The removal is requested from the store in the iteration of the reactor in which the queue leaves memory.
    Since the store commits in order, a queue of the same name that is created later is stored after that. For
    the same reason a removal that fails is not repeated: the next start finds an empty queue.
    """

    def __init__(
        self,
        performer: Performer,
        hops: NextHops,
        sequences: Sequences,
        redirects: Redirects,
        limits: PeerQueueLimits,
        settings: SessionSettings,
        reactor: IReactorTime,
    ) -> None:
        self._performer = performer
        self._hops = hops
        self._sequences = sequences
        self._redirects = redirects
        self._limits = limits
        self._lifetime = settings.outgoing_queue_idle
        self._timer = DeadlineTimer(reactor, performer.clock, self._check)
        self._rest: Iterator[OutgoingQueue] | None = None

    def configure(self, settings: SessionSettings) -> None:
        """Apply another time, from the next check on."""
        self._lifetime = settings.outgoing_queue_idle
        self._timer.set(self._performer.clock.now().monotonic)

    def start(self) -> None:
        """Begin to check."""
        self._timer.set(self._performer.clock.now().monotonic)

    def stop(self) -> None:
        """End the checks."""
        self._timer.stop()

    def _check(self, now: Moment) -> None:
        if self._rest is None:
            self._rest = iter(list(self._performer.model.outgoing_queues()))
        queues = list(islice(self._rest, _SLICE))
        changes: list[Change] = []
        for queue in queues:
            if not queue.is_deleted and self._is_due(queue, now):
                changes += self._limits.remove(queue)
        self._performer.commit_later(changes, "the removal of idle outgoing queues")
        if len(queues) < _SLICE:
            self._rest = None
            self._timer.set(now.monotonic + self._lifetime / _CHECKS)
        else:
            self._timer.set(now.monotonic)

    def _is_due(self, queue: OutgoingQueue, now: Moment) -> bool:
        if self._is_used(queue):
            queue.idle_since = None
        elif queue.idle_since is None:
            queue.idle_since = now.monotonic
        else:
            return now.monotonic - queue.idle_since >= self._lifetime
        return False

    def _is_used(self, queue: OutgoingQueue) -> bool:
        return bool(
            queue.positions
            or queue.users
            or self._redirects.host(queue.destination) is not None
            or self._sequences.is_awaiting(queue)
            or self._hops.is_last_of_session(queue)
            or self._hops.held_by(queue)
        )
