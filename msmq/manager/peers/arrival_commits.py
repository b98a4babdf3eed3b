"""Group commit of arrivals with their duplicate and stream state. [MS-MQQB] 3.1.5.8.6.

While one batch is committed the next one is collected. There are never two commits at once: the second could
succeed where the first had failed, and the store would then remember messages that it does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.manager.peers.order_acks import OrderAcks
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.duplicates import DuplicateHistory
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.incoming_streams import IncomingStreams


@attrs.frozen(eq=False)
class _Waiting:
    """Messages that arrived together.

    @ivar done: fires with whether they are stored.
    """

    changes: Sequence[Change]
    done: Deferred[bool]


class ArrivalCommits:
    """Commits arrivals together with their duplicate and stream state. [MS-MQQB] 3.1.5.8.1, 3.1.5.8.6.

    Both survive a failure as one (3.1.1.3.2).

    @ivar streams: the incoming sequences.
    @ivar history: the recoverable messages that came lately.
    """

    def __init__(
        self,
        performer: Performer,
        settings: SessionSettings,
        streams: IncomingStreams,
        order_acks: OrderAcks,
        reactor: IReactorTime,
    ) -> None:
        self.streams = streams
        self.history = DuplicateHistory(settings)
        self._order_acks = order_acks
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)
        self._performer = performer
        self._waiting: list[_Waiting] = []
        self._is_storing = False

    def load(self, state: Mapping[str, bytes]) -> None:
        """Before anything else: take back what the store keeps.

        @raise StateError: a value is damaged.
        """
        self.streams.load(state)
        self.history.load(state, self._performer.clock.now())

    def judge(self, messages: Sequence[UserMessageView], address: str) -> dict[UserMessageView, Verdict]:
        """Those of these messages that are not simply taken, and the transactional ones that are.

        @param messages: for this queue manager, in the order in which they came over one connection.
        @param address: the textual address of the peer.
        """
        now = self._performer.clock.now()
        transactional = [message for message in messages if message.is_transactional]
        verdicts = dict(
            zip(transactional, self.streams.judge(transactional, f"TCP:{address}", now), strict=True)
        )
        for message, is_duplicate in zip(messages, self.history.judge(messages, now), strict=True):
            if is_duplicate:
                verdicts[message] = Verdict.DUPLICATE
        return verdicts

    def has_passed(self, message: UserMessageView) -> bool:
        """Whether a message would be found a duplicate now."""
        if message.is_transactional:
            return self.streams.has_passed(message)
        return message.is_recoverable and self.history.knows(message)

    def store(self, changes: Sequence[Change]) -> Deferred[bool]:
        """Store what follows from messages that were judged; fires with whether it is.

        If they are not, none of them was acknowledged and all come again.
        """
        done: Deferred[bool] = Deferred()
        self._waiting.append(_Waiting(changes, done))
        if not self._is_storing:
            self._is_storing = True
            Deferred.fromCoroutine(self._store())
        return done

    async def _store(self) -> None:
        performer = self._performer
        try:
            while self._waiting:
                turn, self._waiting = self._waiting, []
                now = performer.clock.now()
                changes: list[Change] = [change for each in turn for change in each.changes]
                changes += as_changes(self.streams.take_changes())
                changes += as_changes(self.history.take_changes(now))
                try:
                    await performer.commit(changes)
                except MQError:
                    self.streams.failed()
                    self.history.failed()
                    # What came meanwhile was judged by a state that never was.
                    turn += self._waiting
                    self._waiting = []
                    _tell(turn, is_stored=False)
                else:
                    now = performer.clock.now()
                    self.streams.stored(now)
                    self.history.stored(now)
                    _tell(turn, is_stored=True)
                self._timer.set(self.history.deadline)
                self._order_acks.schedule()
        finally:
            self._is_storing = False

    def start(self) -> None:
        """Forget duplicates in time from now on."""
        self._timer.set(self.history.deadline)

    def stop(self) -> None:
        """Forget nothing any more."""
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        self.history.expire(now)
        self._timer.set(self.history.deadline)


def _tell(turn: Iterable[_Waiting], *, is_stored: bool) -> None:
    for each in turn:
        each.done.callback(is_stored)
