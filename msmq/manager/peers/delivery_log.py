"""Delivery records: hand-overs to other queue managers, and their acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.session import ISession
from msmq.manager.performer import RETRY as LONGEST_RETRY
from msmq.manager.performer import Performer
from msmq.manager.securing.encryption import Encrypted
from msmq.manager.states import as_changes
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.persistence.state_records import StateChange
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition, Queue, different_positions
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_queue import is_for_order_queue
from msmq.structures.packet.message_class import ACKNOWLEDGEMENT_CLASSES
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.status import MQError
from msmq.transfer.deliveries.flight import Flight, RunBuilder
from msmq.transfer.deliveries.records import (
    NO_GUID,
    DeliveryRecord,
    DeliveryStep,
    DeliveryTarget,
    MessageRun,
)
from msmq.transfer.deliveries.table import DeliveryTable
from msmq.transfer.stream_changes import Transmitted

STORED_AFTER: Final = 1.0
"""Seconds after which records are stored in a commit of their own."""

STORED_AT_ONCE: Final = 4_096
"""Number of records that are stored without waiting for that."""

RETRY: Final = 5.0
"""Seconds between attempts while the store is full."""

SEARCHED_AT_ONCE: Final = 4
"""Stored values that are searched in one iteration of the reactor."""

OWN: Final = "deliveries/own/"
OTHERS: Final = "deliveries/others/"

_MESSAGE_ID: Final = Struct("<I").unpack_from
_MESSAGE_ID_AT: Final = 56
_PLACE: Final = Struct("<4xQI").unpack_from
_CLASSES: Final = frozenset(map(int, ACKNOWLEDGEMENT_CLASSES))
_KILOBYTE: Final = 1024


@attrs.define(eq=False)
class _Session:
    """The messages in flight on one session.

    @ivar targets: the delivery target of each outgoing queue; C{None} for one that is not recorded.
    """

    flight: Flight = attrs.field(factory=Flight)
    targets: dict[Queue, DeliveryTarget | None] = attrs.field(factory=dict)


class DeliveryLog:
    """Records which next hop has acknowledged which message, and later acknowledgements.

    Records are stored in the commit that the same acknowledgement causes, such as the removal of a
    recoverable message, so a crash leaves both or neither. Records without such a commit, as of express
    messages, are stored within L{STORED_AFTER} seconds.

    Messages of other queue managers, and administration acknowledgements, which peers can send at will, have
    a table of their own, so that they do not displace the records of this queue manager's messages.

    @param limit: kilobytes of records, half of them for each table; 0 for none.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, reactor: IReactorTime, limit: int) -> None:
        self._performer = performer
        self._reactor = reactor
        self._own = performer.model.identifier.bytes_le
        self._mine = DeliveryTable(OWN, limit * _KILOBYTE // 2)
        self._others = DeliveryTable(OTHERS, limit * _KILOBYTE // 2)
        self._sessions: dict[ISession, _Session] = {}
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)
        self._is_due = False
        self._is_storing = False

    @property
    def since(self) -> float | None:
        """The time of the oldest record about a message of this queue manager; C{None} if there is none."""
        return self._mine.since

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return self._mine.size + self._others.size

    # Life

    def configure(self, limit: int) -> None:
        """Apply another limit."""
        for table in (self._mine, self._others):
            table.configure(limit * _KILOBYTE // 2)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored records."""
        for table in (self._mine, self._others):
            table.load(state)
            for damage in table.damage:
                self.log.warn("delivery records are left out: {damage}", damage=damage)

    def stop(self) -> None:
        """Stop storing records in commits of their own."""
        self._timer.stop()

    # Events of messages

    def sent(self, session: ISession, messages: Sequence[OutgoingMessage], now: Moment) -> None:
        """A session sends these messages. [MS-MQQB] 3.1.7.1.3."""
        if not self._mine.is_on:
            return
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = _Session()
        known.flight.depart(messages, now.wall)

    def closed(self, session: ISession) -> None:
        """A session has ended: its unacknowledged messages will be sent again."""
        self._sessions.pop(session, None)

    def acknowledged(self, session: ISession, messages: Sequence[OutgoingMessage], now: Moment) -> None:
        """The peer of a session has acknowledged these messages. [MS-MQQB] 3.1.5.5.2."""
        known = self._sessions.get(session)
        if known is None or not self._mine.is_on:
            return
        flight = known.flight
        if self._add_run(session, known, messages, now):
            return
        queue: Queue | None = None
        source, sequence = b"", 0
        where: DeliveryTarget | None = None
        runs: RunBuilder | None = None
        for message in messages:
            number = flight.arrive(message)
            inner = message.message if isinstance(message, Encrypted) else message
            this_sequence = in_sequence = 0
            if isinstance(inner, Transmitted):
                packet, inner = inner.packet, inner.message
                if isinstance(inner, MessagePosition) and inner.view is not None:
                    this_sequence, in_sequence = _PLACE(packet, inner.view.transaction_offset)
            if not isinstance(inner, MessagePosition) or inner.view is None:
                continue
            view = inner.view
            this_source = view.source_queue_manager
            if inner.queue is not queue or this_source != source or this_sequence != sequence:
                self._add(runs, where, source, sequence, now)
                queue, source, sequence = inner.queue, this_source, this_sequence
                where = self._target(session, known, queue, view.packet)
                runs = RunBuilder()
            if where is not None and runs is not None:
                (message_id,) = _MESSAGE_ID(view.packet, _MESSAGE_ID_AT)
                runs.add(message_id, number, in_sequence, flight.time(number))
        flight.forget()
        self._add(runs, where, source, sequence, now)
        self._schedule(now)

    def _add_run(
        self, session: ISession, known: _Session, messages: Sequence[OutgoingMessage], now: Moment
    ) -> bool:
        """Record messages of one queue and one sender together, without a step for each.

        @return: false, with nothing recorded, if some are others, in a sequence or encrypted.
        """
        head = messages[0] if messages else None
        if not isinstance(head, MessagePosition) or head.view is None:
            return False
        queue, source, shape = head.queue, head.view.source_queue_manager, head.view.shape
        message_ids: list[int] = []
        for message in messages:
            if not isinstance(message, MessagePosition) or message.queue is not queue:
                return False
            view = message.view
            if view is None or (view.shape is not shape and view.source_queue_manager != source):
                return False
            message_ids += _MESSAGE_ID(view.packet, _MESSAGE_ID_AT)
        found = known.flight.arrive_together(messages, message_ids)
        known.flight.forget()
        if (where := self._target(session, known, queue, head.view.packet)) is not None:
            self._add_found(found, where, source, 0, now)
        self._schedule(now)
        return True

    def _add(
        self,
        runs: RunBuilder | None,
        where: DeliveryTarget | None,
        source: bytes,
        sequence: int,
        now: Moment,
    ) -> None:
        if runs is not None and where is not None and (found := runs.finish()):
            self._add_found(found, where, source, sequence, now)

    def _add_found(
        self, found: Sequence[MessageRun], where: DeliveryTarget, source: bytes, sequence: int, now: Moment
    ) -> None:
        table = self._mine if source == self._own else self._others
        table.add(DeliveryRecord(DeliveryStep.HANDED_OVER, now.wall, where, source, found, sequence))

    def _target(
        self, session: ISession, known: _Session, queue: Queue, packet: bytes
    ) -> DeliveryTarget | None:
        """The delivery target of a queue's messages on a session; C{None} for OrderAcks and FinalAcks."""
        if queue in known.targets:
            return known.targets[queue]
        where = None
        if isinstance(queue, OutgoingQueue) and not is_for_order_queue(packet):
            peer = session.remote_identifier
            where = DeliveryTarget(
                NO_GUID if peer is None else peer.bytes_le,
                session.remote_address,
                session.opened or 0.0,
                str(queue.destination),
            )
        known.targets[queue] = where
        return where

    def ordered(
        self, positions: Iterable[MessagePosition], sequence: int, peer: bytes, address: str, now: Moment
    ) -> None:
        """An OrderAck has come about messages of this queue manager. [MS-MQQB] 3.1.5.6.

        @param sequence: its TxSequenceID as a number.
        @param peer: the GUID of its SourceQueueManager.
        @param address: the address of the session on which it came.
        """
        if not self._mine.is_on:
            return
        runs, queue = RunBuilder(), ""
        for position in positions:
            view = position.view
            if view is not None and view.source_queue_manager == self._own:
                (message_id,) = _MESSAGE_ID(view.packet, _MESSAGE_ID_AT)
                runs.add(message_id)
                if not queue and isinstance(position.queue, OutgoingQueue):
                    queue = str(position.queue.destination)
        if found := runs.finish():
            where = DeliveryTarget(peer, address, 0.0, queue)
            self._mine.add(DeliveryRecord(DeliveryStep.ORDERED, now.wall, where, self._own, found, sequence))
            self._schedule(now)

    def settled(self, ack: FinalAck, address: str, now: Moment) -> None:
        """A FinalAck has come about a message of this queue manager. [MS-MQQB] 3.1.5.7.

        @param address: the address of the session on which it came.
        """
        if not self._mine.is_on:
            return
        where = DeliveryTarget(ack.envelope.source_queue_manager.bytes_le, address, 0.0, "")
        run = MessageRun(ack.message_id, 1, 0, ack.tx_sequence_number)
        self._mine.add(
            DeliveryRecord(
                DeliveryStep.SETTLED,
                now.wall,
                where,
                self._own,
                (run,),
                ack.tx_sequence_id.value,
                ack.message_class,
            )
        )
        self._schedule(now)

    def answered(self, arrived: Mapping[Queue, Sequence[MessagePosition]], address: str, now: Moment) -> bool:
        """Record the administration acknowledgements among messages that arrived in queues here.

        @param address: where they came from.
        @return: whether there were any.
        """
        answers = [
            (queue, position.view)
            for queue, positions in arrived.items()
            if not isinstance(queue, OutgoingQueue) and _any_answers(positions)
            for position in positions
            if position.view is not None and position.view.message_class in _CLASSES
        ]
        # Nearly every arrival ends here, without a call.
        if not answers or not self._others.is_on:
            return False
        before = self._others.pending
        for queue, view in answers:
            about = view.correlation_id
            (message_id,) = _MESSAGE_ID(about, 16)
            where = DeliveryTarget(view.source_queue_manager, address, 0.0, queue.definition.path)
            self._others.add(
                DeliveryRecord(
                    DeliveryStep.ANSWERED,
                    now.wall,
                    where,
                    about[:16],
                    (MessageRun(message_id, 1),),
                    message_class=view.message_class,
                )
            )
            self._schedule(now)
        return self._others.pending > before

    # Storing

    def changes(self) -> list[Change]:
        """The changes to store with the next commit, which is not repeated if it fails."""
        mine, others = self._take()
        return as_changes([*mine, *others])

    def _take(self) -> tuple[list[StateChange], list[StateChange]]:
        """The changes of both tables to store."""
        self._is_due = False
        mine = self._mine.take()
        others = self._others.take() if self._others.pending else []
        return (mine, others) if self._performer.store.durable else ([], [])

    async def insist(self, changes: Sequence[Change], what: str, *, every: float = LONGEST_RETRY) -> bool:
        """Store changes with the records so far in one commit, as L{Performer.insist} does.

        Commits that succeed between two attempts may merge these records with others.
        """
        mine, others = self._take()

        async def commit(attempt: int) -> None:
            stored = self._performer.model.renewed(changes)
            if attempt == 1:
                stored += as_changes([*mine, *others])
            else:
                stored += as_changes([*self._mine.renewed(mine), *self._others.renewed(others)])
            await self._performer.commit(stored)

        return await self._performer.retry(commit, what, every=every)

    def _schedule(self, now: Moment) -> None:
        if self._mine.pending + self._others.pending >= STORED_AT_ONCE:
            self._begin()
        elif not self._is_due:
            self._is_due = True
            self._timer.set(now.monotonic + STORED_AFTER)

    def _expire(self, now: Moment) -> None:
        if self._performer.model.storage.throttled:
            # The store has no space; until it has, the records stay in memory, within their limit.
            self._timer.set(now.monotonic + RETRY)
        elif self._mine.pending or self._others.pending:
            self._begin()
        else:
            self._is_due = False

    def _begin(self) -> None:
        if self._is_storing or self._performer.is_stopped:
            return
        self._is_storing = True
        stored = Deferred.fromCoroutine(self._performer.commit(self.changes()))
        stored.addErrback(self._not_stored).addBoth(self._stored)

    def _not_stored(self, failure: Failure) -> None:
        # Records that were not stored stay in memory, and are stored with the page into which they are
        # merged.
        failure.trap(MQError)

    def _stored(self, result: object) -> object:
        self._is_storing = False
        if self._mine.pending or self._others.pending:
            self._schedule(self._performer.clock.now())
        return result

    # Searching

    async def find(self, message: MessageIdentifier) -> list[DeliveryRecord]:
        """The records of a message, the oldest first; each is reduced to this message."""
        identity = message.to_bytes()
        found: list[DeliveryRecord] = []
        for table in (self._mine, self._others):
            for number, portion in enumerate(table.find(identity[:16], message.ordinal), 1):
                found += portion
                if number % SEARCHED_AT_ONCE == 0:
                    await deferLater(self._reactor, 0)
        return sorted(found, key=lambda record: record.time)


def _any_answers(positions: Sequence[MessagePosition]) -> bool:
    """Whether any of these messages is an administration acknowledgement; nearly none is."""
    for position in different_positions(positions):
        if position.view is not None and position.view.message_class in _CLASSES:
            return True
    return False
