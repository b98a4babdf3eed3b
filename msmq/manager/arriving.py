"""Messages that sessions bring: each finds its queue, or leaves a trace that says why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.interfaces.session import ISession
from msmq.manager.events import EventLog
from msmq.manager.outbox import Outbox
from msmq.manager.performing import Performer
from msmq.manager.tracing import shown
from msmq.queues.admission import Admission, EnqueueStatus
from msmq.queues.changes import AppendEvent
from msmq.queues.expiring import FOREVER, TIME_TO_REACH_QUEUE, is_late
from msmq.queues.queue import Queue
from msmq.session.effects import CloseReason
from msmq.structures.message_class import MessageClass
from msmq.structures.queue_names import DirectQueueFormatName, direct_text
from msmq.structures.status import MQError
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID

_REFUSED = {
    EnqueueStatus.QUEUE_QUOTA_EXCEEDED: MessageClass.NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.TIMED_OUT_IN_TRANSIT: MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    EnqueueStatus.QUEUE_DELETED: MessageClass.NACK_BAD_DST_Q,
}


class Arrivals:
    """[MS-MQQB] 3.1.5.8: takes what arrives on the sessions into the queues."""

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, outbox: Outbox, events: EventLog) -> None:
        self._performer = performer
        self._outbox = outbox
        self._events = events
        self._own_address = performer.model.identifier.bytes_le
        self.refused: Counter[str] = Counter()
        """Messages that were not taken, by the name of their reason."""

    def take(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """Take messages that arrived together; a Deferred only while the store is at work.

        A recoverable message that no store can keep closes its session unacknowledged, so that its
        sender keeps it; so does a transactional one, since no place in a sequence is kept for it.
        """
        performer = self._performer
        model = performer.model
        queue_for = model.queue_for
        own_address = self._own_address
        null_address = NULL_GUID.bytes_le
        is_durable = performer.store.durable
        arrivals: list[tuple[Queue, UserMessageView]] = []
        last_recoverable = first_recoverable - 1
        is_unsupported = False
        now = performer.clock.now()
        for message in messages:
            if message.is_recoverable:
                if message.is_transactional or not is_durable:
                    is_unsupported = True
                    kind = "TRANSACTIONAL" if message.is_transactional else "RECOVERABLE"
                    self._refuse(session, message, f"UNSUPPORTED_{kind}")
                    break
                last_recoverable += 1
            address = message.queue_manager_address
            if address != null_address and address != own_address:
                self._refuse(session, message, "NOT_FOR_US")
                continue
            queue = queue_for(message)
            if queue is None:
                self._refuse(session, message, MessageClass.NACK_BAD_DST_Q)
            elif queue.definition.transactional:
                self._refuse(session, message, MessageClass.NACK_NOT_TRANSACTIONAL_MSG)
            elif message.packet[TIME_TO_REACH_QUEUE] != FOREVER and is_late(message, now.wall):
                self._refuse(session, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
            else:
                arrivals.append((queue, message))
        admission = model.admit(arrivals, now)
        is_full = self._report(session, admission)
        if is_unsupported or is_full:
            session.close(CloseReason.UNSUPPORTED_MESSAGE if is_unsupported else CloseReason.NO_RESOURCES)
        if admission.overflow:
            performer.overflow(admission)
        drained = performer.drained()
        if admission.changes or drained is not None:
            return Deferred.fromCoroutine(self._store(session, admission, last_recoverable, drained))
        self._show(admission)
        if last_recoverable >= first_recoverable:
            session.persisted(last_recoverable)
        return None

    async def _store(
        self, session: ISession, admission: Admission, through: int, drained: Deferred[None] | None
    ) -> None:
        """Store, show, and only then let the session acknowledge."""
        performer = self._performer
        try:
            await performer.commit(admission.changes)
        except MQError as error:
            performer.model.withdraw(admission)
            self.log.error(
                "messages from {address} were not stored: {error}",
                address=session.remote_address,
                error=error,
            )
            session.close(CloseReason.NO_RESOURCES)
            return
        self._show(admission)
        session.persisted(through)
        if drained is not None:
            await drained

    def _show(self, admission: Admission) -> None:
        """The messages have reached their queues."""
        reached = [position.view for position in admission.positions if position.view is not None]
        effects = self._performer.model.commit(admission, self._performer.clock.now())
        self._outbox.acknowledge(reached, MessageClass.ACK_REACH_QUEUE)
        # What happens to the messages in their queues comes after their arrival.
        self._performer.perform(effects)

    def _report(self, session: ISession, admission: Admission) -> bool:
        """Trace what was refused; whether the queue manager itself is full.

        Over the queue manager's quota nothing is acknowledged: the session closes, and the sender
        tries again later ([MS-MQQB] 3.1.5.8.8, reading 67).
        """
        is_full = False
        for refusal in admission.refusals:
            if refusal.status is EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED:
                is_full = True
                self._refuse(session, refusal.view, refusal.status.name)
            else:
                self._refuse(session, refusal.view, _REFUSED[refusal.status])
        return is_full

    def _refuse(self, session: ISession, message: UserMessageView, why: MessageClass | str) -> None:
        """Leave a trace of a message that is not taken, even where the protocol forbids an answer.

        @param why: the class of the negative acknowledgement, or a name of our own if there is none.
        """
        if isinstance(why, MessageClass):
            reason = why.name
            self._outbox.acknowledge((message,), why)
        else:
            reason = why
        self.refused[reason] += 1
        self._events.record(
            AppendEvent(
                self._performer.clock.now().wall,
                message.identity,
                "refused",
                f"{reason} from {session.remote_address}",
                int(why) if isinstance(why, MessageClass) else 0,
                _destination(message),
            )
        )
        self.log.warn(
            "message {message} for {destination} from {address} not taken: {reason}",
            message=message.identifier,
            destination=_destination(message),
            address=session.remote_address,
            reason=reason,
        )
        session.message_rejected(message, reason)


def _destination(message: UserMessageView) -> str:
    name = message.destination()
    return shown(direct_text(name) if isinstance(name, DirectQueueFormatName) else str(name))
