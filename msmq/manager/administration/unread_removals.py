"""Removal of unread messages: events, dead letters and negative acknowledgements."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import ClassVar

import attrs
from twisted.logger import Logger

from msmq.background import run_in_background
from msmq.interfaces.storage import DamagedMessageKept, MessageNotStored
from msmq.line_limit import LineLimit
from msmq.manager.acknowledgement_batch import AcknowledgementBatch
from msmq.manager.events import EventLog
from msmq.manager.log_summaries import LINES
from msmq.manager.outbox import Outbox
from msmq.manager.peers.sequences import Sequences
from msmq.manager.performer import Performer
from msmq.persistence.changes import AppendEvent, Change
from msmq.queues.leaving.copies import not_removed_in_bulk
from msmq.queues.leaving.departure_kinds import Departure, DepartureCommit
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition, Queue
from msmq.quoting import shown
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError

PATIENCE = 10
"""Attempts to read the packets of messages that are removed, before they are removed without."""

KEPT_RETRY = 10.0
"""Seconds between two attempts to read a damaged message that the store keeps."""

NAMED = 5
"""Messages that one log line names; the event log has all of them."""

_PURGED = (MessageClass.NACK_Q_PURGED, MessageClass.NACK_DELETED)
_BY_HAND = (*_PURGED, MessageClass.NACK_Q_DELETED)
_TIMEOUTS = (MessageClass.NACK_RECEIVE_TIMEOUT, MessageClass.NACK_REACH_QUEUE_TIMEOUT)


class UnreadRemovals:
    """[MS-MQDMPR] 3.1.7.2.1 and [MS-MQQB] 3.1.7.1.2, 3.1.7.2: the consequences of removing messages
    unread.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, outbox: Outbox, events: EventLog, sequences: Sequences) -> None:
        self._performer = performer
        self._outbox = outbox
        self._events = events
        self._sequences = sequences
        self._lines = LineLimit.a_minute(LINES)
        # Departures of damaged messages that the store keeps.
        self._kept: deque[Departure] = deque()
        self._is_removing_kept = False
        self.expired: Counter[str] = Counter()
        """Messages that were not received, or not delivered, in time, by class."""

    def begin(self, departure: Departure) -> None:
        """Begin to remove these messages, which are locked meanwhile."""
        if departure.is_kept and _may_wait(departure):
            self._set_aside(departure)
            return
        if any(position.is_stored for position in departure.positions):
            run_in_background(self._persist(departure), "removing unread messages")
            return
        performer = self._performer
        settlement = performer.model.settle(departure, performer.clock.now())
        others: list[Change] = []
        for change in settlement.changes:
            if isinstance(change, AppendEvent):
                self._events.record(change)
            else:
                others.append(change)
        performer.commit_later(others, "removing messages failed")
        answers = self._answers(departure)
        self._gone(settlement)
        answers.send()

    def _set_aside(self, departure: Departure) -> None:
        self._kept.append(departure)
        if not self._is_removing_kept:
            run_in_background(self._remove_kept(), "removing damaged messages")

    async def finish(self, departure: Departure) -> None:
        """Remove these messages durably, with their events and acknowledgements.

        @raise MQError: the store could not remove them; the removal is pending.
        """
        await self._read(departure)
        await self._remove(departure)

    def _is_in_bulk(self, departure: Departure) -> bool:
        # The log lines about other removals name messages by the identifiers in their packets.
        return self._performer.takes_runs and departure.message_class in _PURGED

    async def _remove(self, departure: Departure) -> None:
        performer, in_bulk = self._performer, self._is_in_bulk(departure)
        settlement = performer.model.settle(departure, performer.clock.now(), in_bulk=in_bulk)
        answers = self._answers(departure)
        try:
            await performer.commit([*self._events.trim(settlement.changes), *answers.prepare()])
        except Exception:
            answers.withdraw()
            self._events.not_stored(settlement.changes)
            performer.model.unsettle(settlement)
            raise
        self._gone(settlement)
        answers.show()

    def _answers(self, departure: Departure) -> AcknowledgementBatch:
        answers = self._outbox.answers()
        if not departure.queue.is_system:
            # The sender of a copy was informed about the message itself.
            views = [
                position.view
                for position in departure.positions
                if not position.event_only and position.view is not None
            ]
            answers.add(views, departure.message_class)
        return answers

    async def _read(
        self, departure: Departure, *, is_patient: bool = False, may_wait: bool = False
    ) -> list[MessagePosition]:
        """Read the packets of these messages, which acknowledgements and dead letters need.

        @return: with C{may_wait}, damaged ones that the store keeps.
        @raise MQError: C{is_patient}, and a packet cannot be read now.
        """
        performer = self._performer
        positions, kept = departure.positions, list[MessagePosition]()
        if self._is_in_bulk(departure):
            positions = not_removed_in_bulk(positions)
        try:
            await performer.load(positions)
            return kept
        except MQError:
            # A message that cannot be read does not affect the others.
            pass
        for position in positions:
            try:
                await performer.load((position,))
            except MQError as error:
                if is_patient and not isinstance(error.__cause__, MessageNotStored):
                    raise
                if may_wait and isinstance(error.__cause__, DamagedMessageKept):
                    kept.append(position)
                    continue
                self.log.warn(
                    "no negative acknowledgement for a message to {queue}: {error}",
                    queue=shown(departure.queue.definition.path),
                    error=error,
                )
        return kept

    async def _remove_kept(self) -> None:
        """Remove damaged messages once what is left of them is in quarantine; each read tries that.

        All of them wait for the same disk: after one that fails the others are tried at the next attempt.
        """
        performer, kept = self._performer, self._kept
        self._is_removing_kept = True
        try:
            while kept and not performer.is_stopped:
                await performer.pause(KEPT_RETRY)
                for departure in [kept.popleft() for _ in range(len(kept))]:
                    # The deletion of a queue waits for them, and need not keep them.
                    if departure.queue.is_deleted:
                        self._return(departure)
                    else:
                        kept.append(departure)
                while kept and not performer.is_stopped:
                    departure, error = kept[0], None
                    try:
                        await performer.load(departure.positions)
                    except MQError as problem:
                        error = problem
                    if departure not in kept:
                        # A purge has removed it meanwhile.
                        continue
                    kept.remove(departure)
                    if not self._leaves(departure, error):
                        kept.append(departure)
                        break
        finally:
            self._is_removing_kept = False

    def kept(self, queue: Queue) -> list[int]:
        """The LookupIdentifiers of the damaged messages of a queue that wait for the quarantine, in order."""
        kept = (departure for departure in self._kept if departure.queue is queue)
        return sorted(position.lookup_id for departure in kept for position in departure.positions)

    def take_kept(self, queue: Queue, is_wanted: Callable[[int], bool]) -> Departure | None:
        """One of these messages, for an operator who removes it without the quarantine; C{None} if there are
        no more.

        @param is_wanted: whether a message is to be removed, by its LookupIdentifier.
        """
        for departure in self._kept:
            if departure.queue is queue and all(
                is_wanted(position.lookup_id) for position in departure.positions
            ):
                self._kept.remove(departure)
                return attrs.evolve(
                    departure, message_class=MessageClass.NACK_Q_PURGED, reason="", is_kept=False
                )
        return None

    def _leaves(self, departure: Departure, error: MQError | None) -> bool:
        """Begin to remove damaged messages, or return them to their queue if the disk can read them again.

        @param error: of the last read; C{None} if it succeeded.
        @return: false if the store keeps them.
        """
        if error is None:
            self._return(departure)
            return True
        cause = error.__cause__
        if isinstance(cause, DamagedMessageKept) or not isinstance(cause, MessageNotStored):
            return False
        run_in_background(self._persist(departure), "removing unread messages")
        return True

    def _return(self, departure: Departure) -> None:
        """Return messages to their queue; if it is deleted, they are removed as its others are."""
        performer = self._performer
        now = performer.clock.now()
        performer.perform(performer.model.cancel_departure(departure, now), now)

    async def _persist(self, departure: Departure) -> None:
        """Store the removal of these messages, with retries."""

        async def attempt(number: int) -> None:
            nonlocal departure
            may_wait = _may_wait(departure)
            kept = await self._read(departure, is_patient=number < PATIENCE, may_wait=may_wait)
            for position in kept:
                self._set_aside(attrs.evolve(departure, positions=(position,), is_kept=True))
            if kept:
                others = [position for position in departure.positions if position not in kept]
                departure = attrs.evolve(departure, positions=others)
            if departure.positions:
                await self._remove(departure)

        await self._performer.retry(
            attempt, f"the removal of messages from {shown(departure.queue.definition.path)}"
        )

    def _gone(self, settlement: DepartureCommit) -> None:
        departure = settlement.departure
        positions = departure.positions
        performer = self._performer
        effects = performer.model.settled(settlement, performer.clock.now())
        reason = departure.message_class
        if reason in _TIMEOUTS:
            self.expired[reason.name] += len(positions)
        # A purge has one log line; each message has an event.
        omitted = None if reason in _PURGED else self._lines.take(performer.clock.now())
        if omitted is not None:
            names = [*map(_name, positions[:NAMED]), *(["..."] if len(positions) > NAMED else [])]
            self.log.info(
                "{count} message(s) removed from {queue} unread, {reason}: {messages}{omitted}",
                count=len(positions),
                queue=shown(departure.queue.definition.path),
                reason=reason.name,
                messages=", ".join(names),
                omitted=omitted,
            )
        self._sequences.left(departure.queue, positions)
        performer.perform(effects)
        performer.remove_empty_subqueues(positions)


def _may_wait(departure: Departure) -> bool:
    """Whether damaged messages stay in the store until what is left of them is in quarantine.

    In an outgoing queue they would hold up the transactional messages after them, and those of the next
    sequence for as long as the store has them; what an operator purges, or deletes with its queue, is gone.
    """
    return (
        not isinstance(departure.queue, OutgoingQueue)
        and not departure.queue.is_deleted
        and departure.message_class not in _BY_HAND
    )


def _name(position: MessagePosition) -> str:
    return str(position.lookup_id) if position.view is None else str(position.view.identifier)
