"""Removes expired keys of sends and forgotten peers by the clock, without an event that would remove them."""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.peers.peer_table import Peers
from msmq.manager.performer import Performer
from msmq.moment import Moment

INTERVAL: Final = 300.0
"""Seconds between two sweeps."""


class ExpiredState:
    """Sweeps what only the next event of its kind would remove, so that an idle server becomes small again.

    Duplicate detection has a timer of its own ([MS-MQQB] 3.1.6.7), which removes its rows too.
    Streams of transactional messages stay up to their limit: without the last number of a stream a repeated
    message would be accepted a second time.
    """

    def __init__(
        self, performer: Performer, keyed: KeyedMessages, peers: Peers, reactor: IReactorTime
    ) -> None:
        self._performer = performer
        self._keyed = keyed
        self._peers = peers
        self._timer = DeadlineTimer(reactor, performer.clock, self._sweep)

    def start(self) -> None:
        """Begin to sweep."""
        self._timer.set(self._performer.clock.now().monotonic + INTERVAL)

    def stop(self) -> None:
        """End the sweeps."""
        self._timer.stop()

    def _sweep(self, now: Moment) -> None:
        self._performer.insist_later(self._keyed.expire(now), "the removal of expired keys")
        self._peers.forget_absent(now)
        self._timer.set(now.monotonic + INTERVAL)
