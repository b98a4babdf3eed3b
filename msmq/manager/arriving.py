"""Messages that sessions bring: each finds its queue, or leaves a trace that says why not."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.interfaces.session import ISession
from msmq.manager.acknowledging import Acknowledgements
from msmq.manager.batch import Batch
from msmq.manager.connectors import Connectors
from msmq.manager.events import EventLog
from msmq.manager.express_history import ExpressHistory
from msmq.manager.forwarding import PASSING, Forwarding
from msmq.manager.outbox import Outbox
from msmq.manager.peer_dead_letters import KEPT, PeerDeadLetters
from msmq.manager.performing import Performer
from msmq.manager.reporting import Reports
from msmq.manager.securing.arrival import Inspection, Inspector
from msmq.manager.securing.gate import Gate
from msmq.manager.tracing import RefusalLog, shown
from msmq.manager.turns import Turns
from msmq.moment import Moment
from msmq.queues.admission import Admission, EnqueueStatus
from msmq.queues.changes import AppendEvent, Change
from msmq.queues.expiring import Lateness
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.queues.reporting import destination_of
from msmq.session.effects import CloseReason
from msmq.session.ordering.incoming_stream import Verdict
from msmq.session.packets.order_queue import is_for_order_queue
from msmq.structures.message_class import MessageClass
from msmq.structures.status import MQError
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID

_REFUSED = {
    EnqueueStatus.QUEUE_QUOTA_EXCEEDED: MessageClass.NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.TIMED_OUT_IN_TRANSIT: MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    EnqueueStatus.QUEUE_DELETED: MessageClass.NACK_BAD_DST_Q,
}

GATHERED_OF_ONE = 1024 * 1024
"""Bytes of messages that a session may have on their way to the store before it has to wait."""

GATHERED_OF_ALL = 16 * 1024 * 1024
"""The same of all sessions."""


class Arrivals:
    """[MS-MQQB] 3.1.5.8: takes what arrives on the sessions into the queues."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        events: EventLog,
        turns: Turns,
        forwarding: Forwarding,
        inspector: Inspector,
        dead_letters: PeerDeadLetters,
        express: ExpressHistory,
        acknowledgements: Acknowledgements,
        gate: Gate,
        refusals: RefusalLog,
        reports: Reports | None,
        connectors: Connectors,
        *,
        trusts_identifiers: bool,
    ) -> None:
        """Take messages by these rules.

        @param gate: the addresses whose messages are taken although nothing verifies their sender.
        @param reports: reports of traced messages; C{None} if none are sent.
        @param connectors: find the queues of messages for foreign sites.
        @param trusts_identifiers: whether a peer may bring messages of another queue manager by direct names.
        """
        self._express = express
        self._dead_letters = dead_letters
        self._inspector = inspector
        self._turns = turns
        self._performer = performer
        self._outbox = outbox
        self._events = events
        self._connectors = connectors
        self._own_addresses = (NULL_GUID.bytes_le, performer.model.identifier.bytes_le)
        self._trusts_identifiers = trusts_identifiers
        self._gate = gate
        self._forwarding = forwarding
        self._reports = reports
        self.refused = refusals.counts
        """Messages that were not taken, by the name of their reason."""
        self._lines = refusals.lines
        self._acknowledgements = acknowledgements
        self._gathering: dict[ISession, int] = {}
        self._gathered = 0

    def take(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """Take messages that arrived together; a Deferred only while others are at work on them.

        A recoverable message that no store can keep closes its session unacknowledged, so that its
        sender keeps it.
        """
        batch = Batch(session, first_recoverable, self._outbox.answers())
        queues = self._locate(messages)
        if not self._inspector.concerns(session, messages, queues):
            return self._take(batch, messages, queues)
        inspected = Deferred.fromCoroutine(self._inspector.inspect(session, messages, queues))
        return inspected.addCallback(lambda inspection: self._take_inspected(batch, inspection, queues))

    def _locate(self, messages: Sequence[UserMessageView]) -> list[Queue | None]:
        """The queues of ours that these messages are for."""
        queue_for = self._performer.model.queue_for
        connector_queue = self._connectors.queue_for
        own = self._own_addresses
        return [
            queue_for(message) if message.queue_manager_address in own else connector_queue(message)
            for message in messages
        ]

    def _is_ours(self, message: UserMessageView) -> bool:
        """Whether a message goes no further than here."""
        return (
            message.queue_manager_address in self._own_addresses
            or self._connectors.queue_for(message) is not None
        )

    def _take_inspected(
        self, batch: Batch, inspection: Inspection, inspected: Sequence[Queue | None]
    ) -> Deferred[None] | None:
        """Take messages whose security was looked at; that may have lasted.

        @param inspected: the queues whose demands they were held against; into another that is there by now
            nothing comes that was not.
        """
        if self._performer.is_stopped:
            # They are not acknowledged, so they come again.
            return None
        batch.refused = inspection.refused
        queues = [
            queue if queue is before else None
            for queue, before in zip(self._locate(inspection.messages), inspected, strict=True)
        ]
        return self._take(batch, inspection.messages, queues)

    def _take(
        self, batch: Batch, messages: Sequence[UserMessageView], queues: Sequence[Queue | None]
    ) -> Deferred[None] | None:
        """Take messages that nothing is left to ask about.

        @param queues: those of ours that they are for.
        """
        session = batch.session
        if any(message.is_recoverable for message in messages):
            batch.strange = self._find_strange(batch, messages, queues)
            messages = self._judge(batch, messages)
        performer = self._performer
        model = performer.model
        arrivals: list[tuple[Queue, UserMessageView]] = []
        now = performer.clock.now()
        is_late = Lateness(now.wall).of
        duplicates = self._express.judge(batch, messages, queues, now)
        # What cannot be kept, and what is behind it, is not among the messages any more.
        for message, queue in zip(messages, queues, strict=False):
            if message.is_recoverable:
                if self._is_past(batch, message):
                    continue
            elif batch.is_cut:
                # It is not acknowledged, so it comes again.
                self._express.take_back((message,))
                continue
            elif message in duplicates:
                self.refused[Verdict.DUPLICATE.name] += 1
                continue
            if queue is None:
                if message.queue_manager_address in self._own_addresses:
                    if not self._acknowledgements.take(batch, message):
                        self._refuse(batch, message, MessageClass.NACK_BAD_DST_Q)
                elif (passing := self._forward(batch, message, now)) is not None:
                    arrivals.append(passing)
            elif batch.refused and (refusal := batch.refused.get(message)) is not None:
                # Before anything else, since who may not send is not told what he would have to send.
                self._refuse(batch, message, refusal.message_class, f": {refusal.reason}")
            elif queue.definition.transactional is not message.is_transactional:
                is_transactional = queue.definition.transactional
                self._refuse(
                    batch,
                    message,
                    MessageClass.NACK_NOT_TRANSACTIONAL_MSG
                    if is_transactional
                    else MessageClass.NACK_NOT_TRANSACTIONAL_Q,
                )
            elif is_late(message):
                self._refuse(batch, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
            else:
                arrivals.append((queue, message))
        admission = model.admit(arrivals, now)
        if self._report(batch, admission):
            batch.close = CloseReason.NO_RESOURCES
        admission.letters += batch.letters
        admission.changes += batch.changes
        if batch.close is not None:
            session.close(batch.close)
        if admission.overflow:
            performer.overflow(admission)
        drained = performer.drained()
        reached = (
            position.view
            for queue, positions in admission.groups.items()
            # What only passes through has not reached its queue.
            if not isinstance(queue, OutgoingQueue)
            for position in positions
            if position.view is not None
        )
        batch.answers.tell(reached, MessageClass.ACK_REACH_QUEUE)
        changes = [*admission.changes, *batch.answers.prepare()]
        is_behind = session in self._gathering
        if batch.is_judged or changes or drained is not None or is_behind:
            # What comes behind messages that are stored in turns takes its turn as well.
            batch.is_judged |= is_behind
            stored = Deferred.fromCoroutine(self._store(batch, admission, changes, drained))
            if drained is not None or batch.acknowledgements or batch.close is not None:
                return stored
            return self._gather(session, sum(message.size for message in messages), stored)
        self._show(batch, admission)
        return None

    def _forward(
        self, batch: Batch, message: UserMessageView, now: Moment
    ) -> tuple[Queue, UserMessageView] | None:
        """[MS-MQQB] 3.1.5.8.2 a message for another queue manager: it is on its way, or is refused."""
        if Lateness(now.wall).of(message):
            self._refuse(batch, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
            return None
        outcome = self._forwarding.forward(message, batch.session.remote_address, now)
        if isinstance(outcome, tuple):
            return outcome
        comes_again = outcome in PASSING and message.is_recoverable and not batch.is_cut
        if comes_again:
            # It is not acknowledged, so its sender keeps it.
            batch.is_cut = True
            batch.close = CloseReason.NO_RESOURCES
            batch.last_recoverable -= 1
        self._refuse(batch, message, outcome, comes_again=comes_again)
        return None

    def _gather(self, session: ISession, size: int, stored: Deferred[None]) -> Deferred[None] | None:
        """Let more come while these messages are stored, so that it shares the next turn with others.

        @return: what the session has to wait for, because much is on its way to the store already.
        """
        if stored.called:
            return stored
        mine = self._gathering[session] = self._gathering.get(session, 0) + size
        self._gathered += size
        stored.addBoth(self._left, session, size)
        if mine > GATHERED_OF_ONE or self._gathered > GATHERED_OF_ALL:
            return stored
        stored.addErrback(self._failed, session)
        return None

    def _left(self, result: object, session: ISession, size: int) -> object:
        self._gathered -= size
        self._gathering[session] -= size
        if not self._gathering[session]:
            del self._gathering[session]
        return result

    def _failed(self, failure: Failure, session: ISession) -> None:
        self.log.failure("messages from {address} were not taken", failure, address=session.remote_address)
        session.close(CloseReason.INTERNAL_ERROR)

    def disconnected(self, address: str) -> None:
        """[MS-MQQB] 3.1.6.9: no session with this address is left."""
        self._turns.streams.disconnected(f"TCP:{address}")

    def _judge(self, batch: Batch, messages: Sequence[UserMessageView]) -> Sequence[UserMessageView]:
        """[MS-MQQB] 3.1.5.8.1 and 3.1.5.8.6: find duplicates, and what is out of order.

        Nothing of what cannot be kept for want of space is judged, for it has to come again: the session
        closes, and the messages before are all that is answered with.
        """
        if not self._performer.store.durable:
            for index, message in enumerate(messages):
                if message.is_recoverable:
                    batch.close = CloseReason.UNSUPPORTED_MESSAGE
                    kind = "TRANSACTIONAL" if message.is_transactional else "RECOVERABLE"
                    self._refuse(batch, message, f"UNSUPPORTED_{kind}")
                    return messages[:index]
        end = self._find_impostor(batch, messages)
        if end is not None:
            messages = messages[:end]
        free = self._performer.model.storage.free
        is_short = sum(message.size for message in messages) > free
        for index, message in enumerate(messages if is_short else ()):
            if self._turns.has_passed(message):
                # It is not stored again; if it counted, its sender would come with it for ever.
                continue
            free -= message.size
            if free < 0 and message.is_recoverable:
                batch.close = CloseReason.NO_RESOURCES
                self._refuse(batch, message, EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED.name)
                messages = messages[:index]
                break
        ours = [
            message
            for message in messages
            if message.is_recoverable
            and self._is_ours(message)
            and message not in batch.strange
            and not is_for_order_queue(message.packet)
        ]
        batch.verdicts = self._turns.judge(ours, batch.session.remote_address)
        batch.is_judged = True
        return messages

    def _find_strange(
        self, batch: Batch, messages: Sequence[UserMessageView], queues: Sequence[Queue | None]
    ) -> Container[UserMessageView]:
        """The recoverable messages of which nothing tells who sent them, from an address that proves nothing.

        None of them is taken. Were they judged all the same, anybody could have what others have yet to send
        dropped as duplicates, and their acknowledgements could withdraw it.
        """
        if self._gate.admits(batch.session.remote_address):
            return ()
        return {
            message
            for message, queue in zip(messages, queues, strict=True)
            if message.is_recoverable and (queue is None or message in batch.refused)
        }

    def _find_impostor(self, batch: Batch, messages: Sequence[UserMessageView]) -> int | None:
        """Where a message is that says it is of another queue manager, although nobody hands it on.

        What has a direct name comes from its sender itself. If it were judged, the place in its sequence, or
        its MessageID, would be taken from the message that its alleged sender has yet to send.
        """
        peer = batch.session.remote_identifier
        if peer is None or self._trusts_identifiers:
            return None
        source = peer.bytes_le
        nobody = NULL_GUID.bytes_le
        for index, message in enumerate(messages):
            if (
                message.is_recoverable
                and message.source_queue_manager != source
                and message.queue_manager_address == nobody
                and not is_for_order_queue(message.packet)
            ):
                batch.close = CloseReason.NOT_FROM_ITS_SENDER
                self._refuse(batch, message, "NOT_FROM_ITS_SENDER")
                return index
        return None

    def _is_past(self, batch: Batch, message: UserMessageView) -> bool:
        """Whether a message that was judged is not to be delivered; it is acknowledged all the same.

        But from the first on for which no stream could be made nothing is, and what is delivered behind it
        will be a duplicate when it comes again.
        """
        verdict = batch.verdicts.get(message)
        if verdict is Verdict.NO_ROOM and not batch.is_cut:
            batch.is_cut = True
            batch.close = CloseReason.NO_RESOURCES
            held = self._turns.streams.held_by(f"TCP:{batch.session.remote_address}")
            self._refuse(
                batch,
                message,
                verdict.name,
                f": {held} streams come from there, and no host may have more than are left of [limits] "
                "incoming_streams; it comes again",
            )
            return True
        if not batch.is_cut:
            batch.last_recoverable += 1
        if verdict is None or verdict is Verdict.ACCEPTED:
            return False
        self.refused[verdict.name] += 1
        return True

    async def _store(
        self,
        batch: Batch,
        admission: Admission,
        changes: Sequence[Change],
        drained: Deferred[None] | None,
    ) -> None:
        """Store, show, and only then let the session acknowledge."""
        performer = self._performer
        if batch.is_judged:
            is_stored = await self._turns.store(changes)
        else:
            try:
                await performer.commit(changes)
                is_stored = True
            except MQError:
                is_stored = False
        if not is_stored:
            batch.answers.withdraw()
            self._express.take_back(batch.express)
            # The store may have what memory had no room for.
            performer.insist_later(performer.model.withdraw(admission), "that express messages did not come")
            self.log.error("messages from {address} were not stored", address=batch.session.remote_address)
            batch.session.close(CloseReason.NO_RESOURCES)
            return
        self._show(batch, admission)
        # Nobody sends a FinalAck twice, so what follows from it has to be stored first.
        for acknowledgement in batch.acknowledgements:
            if not await acknowledgement:
                return
        if batch.last_recoverable >= batch.first_recoverable:
            batch.session.persisted(batch.last_recoverable)
        if drained is not None:
            await drained

    def _show(self, batch: Batch, admission: Admission) -> None:
        """The messages have reached their queues."""
        reached: list[UserMessageView] = []
        if self._reports is not None:
            reached += (position.view for position in admission.positions if position.view is not None)
        effects = self._performer.model.commit(admission, self._performer.clock.now())
        if self._reports is not None and reached:
            self._reports.arrived(reached)
        batch.answers.show()
        # What happens to the messages in their queues comes after their arrival.
        self._performer.perform(effects)

    def _report(self, batch: Batch, admission: Admission) -> bool:
        """Trace what was refused; whether the queue manager itself is full.

        Over the queue manager's quota nothing is acknowledged: the session closes, and the sender
        tries again later ([MS-MQQB] 3.1.5.8.8, reading 67).
        """
        is_full = False
        for refusal in admission.refusals:
            if refusal.status is EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED:
                is_full = True
                self._express.take_back((refusal.view,))
                self._refuse(batch, refusal.view, refusal.status.name)
            else:
                self._refuse(batch, refusal.view, _REFUSED[refusal.status])
        return is_full

    def _refuse(
        self,
        batch: Batch,
        message: UserMessageView,
        why: MessageClass | str,
        addition: str = "",
        *,
        comes_again: bool = False,
    ) -> None:
        """Leave a trace of a message that is not taken, even where the protocol forbids an answer.

        @param why: the class of the negative acknowledgement, or a name of our own if there is none.
        @param addition: what else the event log tells.
        @param comes_again: it is not acknowledged, so its sender keeps it.
        """
        kept = "" if comes_again else self._dead_letters.keep(batch, message, why)
        if isinstance(why, MessageClass):
            reason = why.name
            only_at = batch.session.remote_address if message in batch.strange else None
            batch.answers.tell((message,), why, is_refusal=True, only_at=only_at)
        else:
            reason = why
        session = batch.session
        self.refused[reason] += 1
        destination = shown(str(destination_of(message, self._performer.model.identifier) or ""))
        event = AppendEvent(
            self._performer.clock.now().wall,
            message.identity,
            "refused",
            f"{reason} from {session.remote_address}{addition}{kept}",
            int(why) if isinstance(why, MessageClass) else 0,
            destination,
        )
        if kept == KEPT and message.is_recoverable:
            batch.changes += self._events.trim([event])
        else:
            self._events.record(event)
        if (others := self._lines.take(self._performer.clock.now())) is not None:
            self.log.warn(
                "message {message} for {destination} from {address} not taken: {reason}{others}",
                message=message.identifier,
                destination=destination,
                address=session.remote_address,
                reason=reason,
                others=others,
            )
        session.message_rejected(message, reason)
