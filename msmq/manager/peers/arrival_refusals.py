"""Records of arriving messages that are not accepted: answers, events, dead letters, counts, log lines."""

from __future__ import annotations

from typing import ClassVar

from twisted.logger import Logger

from msmq.manager.events import EventLog
from msmq.manager.log_summaries import RefusalLog
from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.peers.express_history import ExpressHistory
from msmq.manager.peers.peer_dead_letters import PeerDeadLetters
from msmq.manager.performer import Performer
from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.admission import Admission, refusal_class
from msmq.queues.arriving.reports import destination_of
from msmq.quoting import shown
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.arrival_decision import ArrivalOutcome


class ArrivalRefusals:
    """Records each refused message, even where the protocol forbids a negative acknowledgement.

    @param express: removes express messages that will be sent again from the history.
    @param refusals: counts, and the limit on log lines.
    @ivar counts: refused messages, by the name of the reason.
    @ivar recent: those of the last quarter of an hour.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        events: EventLog,
        dead_letters: PeerDeadLetters,
        express: ExpressHistory,
        refusals: RefusalLog,
    ) -> None:
        self._performer = performer
        self._events = events
        self._dead_letters = dead_letters
        self._express = express
        self.counts = refusals.counts
        self.recent = refusals.recent
        self._refusals = refusals
        self._lines = refusals.lines

    def no_stream(self, batch: ArrivalBatch, message: UserMessageView, held: int) -> None:
        """The limit on streams is reached for one host; the first message of a batch is logged.

        @param held: the number of streams of that host.
        """
        if batch.is_short_of_streams:
            self._refusals.count(ArrivalOutcome.NO_ROOM.name, self._performer.clock.now())
            return
        batch.is_short_of_streams = True
        self.refuse(
            batch,
            message,
            ArrivalOutcome.NO_ROOM.name,
            f": its host has {held} streams, more than are free of [limits] incoming_streams; the sender "
            f"retries",
        )

    def of_admission(self, batch: ArrivalBatch, admission: Admission) -> bool:
        """Record refusals by quotas; the result is whether the queue manager itself is full.

        Over the queue manager's quota messages are not acknowledged: the session closes, and the sender tries
        again later ([MS-MQQB] 3.1.5.8.8, reading 67).
        """
        is_full = False
        for refusal in admission.refusals:
            message_class = refusal_class(refusal.status)
            if message_class is None:
                is_full = True
                self._express.take_back((refusal.view,))
                self.refuse(batch, refusal.view, refusal.status.name)
            else:
                self.refuse(batch, refusal.view, message_class)
        return is_full

    def refuse(
        self,
        batch: ArrivalBatch,
        message: UserMessageView,
        why: MessageClass | str,
        addition: str = "",
        *,
        is_sent_again: bool = False,
    ) -> None:
        """Record a refused message, even where the protocol forbids a negative acknowledgement.

        @param why: the class of the negative acknowledgement, or a name of this project if there is none.
        @param addition: an addition to the event's reason.
        @param is_sent_again: it is not acknowledged, so its sender keeps it.
        """
        kept = "" if is_sent_again else self._dead_letters.keep(batch, message, why)
        if isinstance(why, MessageClass):
            reason = why.name
            only_at = batch.session.remote_address if message in batch.unverified else None
            batch.answers.add((message,), why, is_refusal=True, only_at=only_at)
        else:
            reason = why
        session = batch.session
        self._refusals.count(reason, self._performer.clock.now())
        destination = shown(str(destination_of(message, self._performer.model.identifier) or ""))
        event = AppendEvent(
            self._performer.clock.now().wall,
            message.identity,
            "refused",
            f"{reason} from {session.remote_address}{addition}{kept}",
            int(why) if isinstance(why, MessageClass) else 0,
            destination,
        )
        if message.is_recoverable and isinstance(why, MessageClass) and not is_sent_again:
            # It is acknowledged, so its event is stored in the same commit, and a crash neither loses nor
            # repeats it.
            batch.changes += self._events.trim([event])
        else:
            self._events.record(event)
        if (others := self._lines.take(self._performer.clock.now())) is not None:
            self.log.warn(
                "message {message} for {destination} from {address} not accepted: {reason}{others}",
                message=message.identifier,
                destination=destination,
                address=session.remote_address,
                reason=reason,
                others=others,
            )
        session.report_rejection(message, reason)
