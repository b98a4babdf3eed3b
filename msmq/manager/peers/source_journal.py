"""Messages and journal copies that wait for an acknowledgement. [MS-MQQB] 1.3.4.1, 3.1.5.5.4."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.session import ISession
from msmq.manager.events import EventLog
from msmq.manager.log_summaries import RefusalLog
from msmq.manager.peers.acknowledging_peers import AcknowledgingPeers
from msmq.manager.peers.foreign_sites import ForeignSites
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.queues.arriving.acknowledgement import is_quiet
from msmq.queues.leaving.acknowledged import lock_acknowledged
from msmq.queues.leaving.copies import journaled_bytes
from msmq.queues.leaving.departure_kinds import removals
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.settings import SessionSettings
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.awaiting_acknowledgements import (
    AwaitingAcknowledgements,
    AwaitingValue,
    SourceSettlement,
)
from msmq.transfer.decisions.acknowledgement_decision import answer_refusal
from msmq.transfer.decisions.source_event import source_event
from msmq.transfer.kept_arrivals import KeptArrivals, is_arrival
from msmq.transfer.receivers import Receivers, may_be_acknowledged
from msmq.transfer.source_journaling import (
    ANSWER_CLASSES,
    AwaitedMessage,
    HandedOverFacts,
    MessageAnswer,
    SourceJournaling,
    answered_destination,
    awaited_message,
    awaited_number,
)
from msmq.transfer.stream_changes import Disposal
from msmq.wire.guid import guid_from_bytes

RETRY: Final = 5.0
"""Seconds between attempts when the store fails."""

AT_ONCE: Final = 100
"""Limit on messages that are settled in one commit."""

LONGEST_TRUST: Final = 60.0
"""Seconds between checks of the wall clock while messages wait for a deadline."""


class SourceJournal:
    """Stores messages that were handed over until an acknowledgement reports their result.

    @param receivers: decide which peers may acknowledge messages for a direct name.
    @param peers: facts about the peers that send acknowledgements.
    @param refusals: logs rejected acknowledgements.
    @param policy: whether messages that request a journal copy wait; those that wait already are settled in
        any case.
    @param kept: whether there may be messages that are kept until their arrival is acknowledged, which wait
        with either policy.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        events: EventLog,
        settings: SessionSettings,
        reactor: IReactorTime,
        receivers: Receivers,
        peers: AcknowledgingPeers,
        foreign_sites: ForeignSites,
        refusals: RefusalLog,
        policy: SourceJournaling,
        kept: KeptArrivals,
    ) -> None:
        self._performer = performer
        self._events = events
        self._wait = settings.acknowledgement_wait
        self._receivers = receivers
        self._peers = peers
        self._foreign_sites = foreign_sites
        self._refusals = refusals
        self._is_journaled = policy is SourceJournaling.ACKNOWLEDGEMENT
        self._kept = kept
        self._own = performer.model.identifier.bytes_le
        self._table = AwaitingAcknowledgements(
            settings.awaiting_acknowledgements, foreign_sites.is_answered_for
        )
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)

    def __len__(self) -> int:
        """How many messages wait for an acknowledgement."""
        return len(self._table)

    @property
    def _is_on(self) -> bool:
        """Whether messages that are handed over from now on may wait."""
        return self._is_journaled or self._kept.is_used

    def waiting_for(self, destination: FormatName) -> int:
        """How many messages for a destination wait for an acknowledgement."""
        return self._table.waiting_for(str(destination))

    # Lifecycle

    def configure(self, settings: SessionSettings) -> None:
        """Apply another limit, and another wait to messages handed over from now on."""
        self._wait = settings.acknowledgement_wait
        self._table.configure(settings.awaiting_acknowledgements)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored state; call this first.

        @raise StateError: a value is damaged.
        """
        model, now = self._performer.model, self._performer.clock.now()
        self._kept.load(state)
        self._table.load(state, model.collection.unproven.positions, self._sending(), now.wall)

    def start(self) -> None:
        """Settle messages that a crash has left, and start the timer of waits."""
        self._settle_later(self._table.answered_before())
        self._set_timer()

    def stop(self) -> None:
        """Stop the timer of waits."""
        self._timer.stop()

    # Hand-over

    def concerns(self, positions: Iterable[MessagePosition]) -> bool:
        """Whether any of these messages would wait, so that its receiver has to be recorded first."""
        return self._is_on and any(self._awaited(position, 0.0) is not None for position in positions)

    def keep_aside(self, positions: Sequence[MessagePosition]) -> Sequence[MessagePosition]:
        """The next hop has these messages; returns those that do not wait. [MS-MQQB] 3.1.5.5.2.

        The others are moved from their outgoing queues: to the journal or the dead-letter queue if the
        acknowledgement came first, otherwise to the queue of waiting messages.
        """
        if not self._is_on:
            return positions
        table, now = self._table, self._performer.clock.now()
        others: list[MessagePosition] = []
        waiting: list[tuple[MessagePosition, AwaitedMessage]] = []
        proven: list[tuple[MessagePosition, SourceSettlement]] = []
        chosen: set[tuple[str, int]] = set()
        for position in positions:
            message = self._awaited(position, now.wall)
            if message is None:
                others.append(position)
                self._forget_answers(position)
                continue
            key = message.destination, message.number
            if key in chosen:
                # Another copy among these: there is one acknowledgement for both.
                others.append(position)
                continue
            if table.is_awaited(message):
                others.append(position)
                self._forget_answers(position)
                continue
            chosen.add(key)
            position.state = PositionState.REMOVING
            settlement = table.handed_over(message)
            if settlement is None:
                waiting.append((position, message))
            else:
                proven.append((position, settlement))
        if waiting or proven:
            self._begin(Deferred.fromCoroutine(self._leave(waiting, proven)))
        return others

    def _awaited(self, position: MessagePosition, now: float) -> AwaitedMessage | None:
        """The record of a message that is to wait; C{None} if it does not."""
        view, queue = position.view, position.queue
        if view is None:
            return None
        destination = None
        if isinstance(queue, OutgoingQueue) and not queue.is_deleted:
            destination = queue.destination
        # What is forwarded was not sent here, whatever source a peer has stated in it.
        is_forwarded = isinstance(queue, OutgoingQueue) and queue.is_transit
        facts = HandedOverFacts(
            sender=self._sender(view.source_queue_manager),
            is_journaled=self._is_journaled and not is_forwarded,
            is_held=position.state is PositionState.LOCKED_READER,
            is_unacknowledged=is_quiet,
            destination=destination,
            is_recoverable=position.kept is PacketHolder.STORE,
            now=now,
            wait=self._wait,
        )
        return awaited_message(view, facts, self._admin_queue)

    def _admin_queue(self, name: FormatName) -> UUID | None:
        """The Identifier of an administration queue, if acknowledgements can come there."""
        queue = self._performer.model.find(name)
        return None if queue is None or queue.definition.transactional else queue.definition.identifier

    def _sender(self, identifier: bytes) -> UUID | None:
        """The queue manager of a message's identifier; C{None} for this one."""
        return None if identifier == self._own else guid_from_bytes(identifier)

    def _forget_answers(self, position: MessagePosition) -> None:
        view, queue = position.view, position.queue
        if self._table.has_early and view is not None and isinstance(queue, OutgoingQueue):
            sender = self._sender(view.source_queue_manager)
            self._table.forget(str(queue.destination), awaited_number(sender, view.message_id))

    async def _leave(
        self,
        waiting: Sequence[tuple[MessagePosition, AwaitedMessage]],
        proven: Sequence[tuple[MessagePosition, SourceSettlement]],
    ) -> None:
        """Remove messages from their outgoing queues in one commit."""
        performer, table = self._performer, self._table
        model = performer.model
        relocation = model.move_locked([position for position, _ in waiting], model.collection.unproven)
        changes: list[Change] = [*relocation.changes]
        value: AwaitingValue | None = None
        if waiting:
            lookup_ids = [place.lookup_id for _, place in relocation.moves]
            value = table.add([message for _, message in waiting], lookup_ids)
            changes += as_changes([] if value.change is None else [value.change])
        copies = self._dispose(proven, changes)
        changes += as_changes(table.take_changes())
        if not await performer.insist(changes, "the delivery of messages", every=RETRY):
            return
        performer.perform(model.moved(relocation, performer.clock.now()))
        self._disposed(proven, copies, changes)
        if value is not None:
            self._settle_later(table.stored(value))
        self._set_timer()

    # Acknowledgements

    def answers(
        self, session: ISession, groups: Mapping[Queue, Sequence[MessagePosition]]
    ) -> AwaitingValue | None:
        """The accepted acknowledgements among messages of a session.

        @param groups: the messages that enter each queue. The result has to be stored with them; call
        L{answered} after that.
        @return: C{None} if there is none.
        """
        if not self._is_on and not self._table:
            return None
        found: list[MessageAnswer] = []
        for queue, positions in groups.items():
            if isinstance(queue, OutgoingQueue):
                continue
            for position in positions:
                view = position.view
                if view is not None and view.message_class in ANSWER_CLASSES:
                    answer = self._answer(session, view, queue)
                    found += () if answer is None else (answer,)
        return self._table.answer(found) if found else None

    def answered(self, value: AwaitingValue) -> None:
        """The result of L{answers} is stored, with the acknowledgements in their administration queues."""
        self._settle_later(self._table.answered(value, self._sending()))
        self._set_timer()

    def _answer(self, session: ISession, view: UserMessageView, queue: Queue) -> MessageAnswer | None:
        model = self._performer.model
        destination = answered_destination(view, model.identifier, has_others=self._kept.is_used)
        if destination is None:
            return None
        answer = MessageAnswer(
            int.from_bytes(view.correlation_id[16:], "little"),
            str(destination),
            view.message_class,
            guid_from_bytes(view.source_queue_manager),
            queue.definition.identifier,
            view.is_recoverable,
            self._sender(view.correlation_id[:16]),
        )
        if not self._table.concerns(answer) and not self._is_sending(destination):
            return None
        return answer if self._is_believed(session, destination, answer) else None

    def _is_believed(self, session: ISession, destination: FormatName, answer: MessageAnswer) -> bool:
        refusal = answer_refusal(
            answer,
            destination,
            self._peers.of_session(session),
            self._receivers,
            self._foreign_sites.is_answered_for,
        )
        if refusal is None:
            return True
        now = self._performer.clock.now()
        self._refusals.count(refusal.reason, now)
        if (others := self._refusals.lines.take(now)) is not None:
            self.log.warn(
                "acknowledgement from {address} {why}: the journal copy of its message still waits{others}",
                address=session.remote_address,
                why=refusal.text,
                others=others,
            )
        return False

    # Settlement

    def _expire(self, now: Moment) -> None:
        self._settle_later(self._table.expire(now.wall, AT_ONCE))
        self._table.sweep(self._sending())
        self._performer.commit_later(
            as_changes(self._table.take_changes()), "the processing of acknowledgements"
        )
        self._set_timer()

    def _set_timer(self) -> None:
        now, due = self._performer.clock.now(), self._table.due
        if due is not None:
            # It is a time of the wall clock, which may be changed.
            self._timer.set(now.monotonic + min(max(due - now.wall, 0.0), LONGEST_TRUST))
        elif self._table.has_pending_work:
            self._timer.set(now.monotonic + LONGEST_TRUST)
        else:
            self._timer.set(None)

    def _settle_later(self, settlements: Sequence[SourceSettlement]) -> None:
        for start in range(0, len(settlements), AT_ONCE):
            self._begin(Deferred.fromCoroutine(self._settle(settlements[start : start + AT_ONCE])))

    async def _settle(self, settlements: Sequence[SourceSettlement]) -> None:
        """Settle waiting messages in one commit."""
        performer, table = self._performer, self._table
        queue = performer.model.collection.unproven
        found: list[tuple[MessagePosition, SourceSettlement]] = []
        for settlement in settlements:
            position = queue.positions.get(settlement.lookup_id or 0)
            if (
                position is not None
                and lock_acknowledged(position)
                and await self._has_packet(position, settlement)
            ):
                position.state = PositionState.REMOVING
                found.append((position, settlement))
            else:
                # It was removed for another reason, with an event of its own.
                table.settled((settlement,))
        changes: list[Change] = []
        copies = self._dispose(found, changes)
        changes += as_changes(table.take_changes())
        if await performer.insist(changes, "the results of messages", every=RETRY):
            self._disposed(found, copies, changes)
            self._set_timer()

    async def _has_packet(self, position: MessagePosition, settlement: SourceSettlement) -> bool:
        """Read the packet that a dead letter needs, with retries."""
        performer = self._performer
        if settlement.disposal is not Disposal.DEAD_LETTER:
            return True
        while not performer.is_stopped:
            try:
                await performer.load([position])
                return True
            except MQError as error:
                self.log.error("message that waits for its acknowledgement not read: {error}", error=error)
            if position.state is not PositionState.LOCKED_READER:
                return False
            await performer.pause(RETRY)
        return False

    def _dispose(
        self, found: Collection[tuple[MessagePosition, SourceSettlement]], changes: list[Change]
    ) -> list[list[MessagePosition]]:
        """The changes that settle messages; also returns the copies of each."""
        model, now = self._performer.model, self._performer.clock.now()
        copies: list[list[MessagePosition]] = []
        events: list[Change] = []
        spare = journaled_bytes(position for position, _ in found)
        for position, settlement in found:
            copy: MessagePosition | None = None
            if settlement.disposal is Disposal.JOURNAL:
                copy = model.copying.keep_proven(position, changes, spare)
            else:
                if settlement.disposal is Disposal.DEAD_LETTER:
                    copy = model.copying.dead_letter_awaited(
                        position, settlement.message_class, changes, spare
                    )
                changes += removals((position,))
                if not is_arrival(settlement):
                    note = model.copying.dead_letter_note(copy)
                    kept = copy is not None
                    events.append(source_event(settlement, self._own, now, is_kept=kept, note=note))
            copies.append([] if copy is None else [copy])
        model.holdings.reserve(changes)
        changes += self._events.trim(events)
        return copies

    def _disposed(
        self,
        found: Iterable[tuple[MessagePosition, SourceSettlement]],
        copies: Iterable[Sequence[MessagePosition]],
        changes: Sequence[Change],
    ) -> None:
        """The results of these messages are stored."""
        performer = self._performer
        model, now = performer.model, performer.clock.now()
        model.stored(changes)
        for (position, settlement), made in zip(found, copies, strict=True):
            performer.perform(model.disposed(position, made, now))
            self._kept.settled(settlement)
        self._table.settled(settlement for _, settlement in found)

    # Private

    def _sending(self) -> Mapping[str, int]:
        """The number of messages in the outgoing queue of each destination; empty while no new messages
        wait.
        """
        if not self._is_on:
            return {}
        return {
            str(queue.destination).casefold(): queue.message_count
            for queue in self._performer.model.outgoing_queues()
            if queue.positions
        }

    def _is_sending(self, destination: FormatName) -> bool:
        """Whether an acknowledgement may refer to a message that is being handed over."""
        queue = self._performer.model.collection.find_outgoing(destination)
        return (
            self._is_on
            and queue is not None
            and may_be_acknowledged(queue.destination, self._receivers, has_messages=bool(queue.positions))
        )

    def _begin(self, step: Deferred[None]) -> None:
        step.addErrback(lambda failure: self.log.failure("messages that wait were not settled", failure))
