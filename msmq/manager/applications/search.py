"""Look-up of single messages by identifier; moving and removing them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.background import undivided
from msmq.interfaces.manager.queue_manager import ITransaction
from msmq.interfaces.manager.received_messages import (
    Explanation,
    FoundReport,
    MessageLocation,
    ReceivedMessage,
    UnreadableLocation,
)
from msmq.interfaces.storage import DamagedMessageKept, StorageError
from msmq.manager.administration.summaries import queue_path
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.targets import SendTarget, readable_queue
from msmq.manager.applications.transactions import Transactions, move
from msmq.manager.events import EventLog
from msmq.manager.interruptions import INTERRUPTIONS
from msmq.manager.outbox import Outbox, refuse
from msmq.manager.performer import Performer
from msmq.manager.securing.signatures import Signer
from msmq.persistence.changes import AppendEvent, Change
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.reports import read_report
from msmq.queues.holdings import forget_queues
from msmq.queues.leaving.departure_kinds import removals
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import MessageClass, is_application_class
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

LOOKED_AT_ONCE = 200
"""Messages in memory that are examined in one iteration of the reactor."""

EVENTS = 1_000
"""Maximum number of events of one message in an explanation."""


LARGER: Final = 4096
"""Bytes that a message may have more than its dead letter: of other names, or of a signature."""


class Search:
    """Finds messages by identifier in all queues.

    Memory is searched in slices, the store concurrently, so that other work is not delayed.
    """

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        destinations: Destinations,
        signer: Signer,
        events: EventLog,
        transactions: Transactions,
        reactor: IReactorTime,
        new_identifier: Callable[[], UUID],
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._destinations = destinations
        self._signer = signer
        self._events = events
        self._transactions = transactions
        self._new_identifier = new_identifier
        self._reactor = reactor

    async def find(self, message: MessageIdentifier) -> list[MessagePosition]:
        """Every position of a message; there are several if it was copied."""
        identity = message.to_bytes()
        try:
            stored = await self._performer.store.find(identity)
        except StorageError as error:
            raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
        found: dict[MessagePosition, None] = {}
        collection = self._performer.model.collection
        for identifier, lookup_id in stored:
            if (queue := collection.of_identifier(identifier)) is None:
                continue
            queue.pack()
            position = queue.positions.get(lookup_id)
            if position is not None:
                found[position] = None
        async for position in self._in_memory():
            if position.view is not None and position.view.identity == identity:
                found[position] = None
        # Some may have been packed meanwhile.
        return [now for position in found if (now := position.current()) is not None]

    async def _in_memory(self) -> AsyncIterator[MessagePosition]:
        looked = 0
        for queue in list(self._performer.model.collection.all_queues()):
            looked += 1
            if looked % LOOKED_AT_ONCE == 0:
                await deferLater(self._reactor, 0)
            for position in list(queue.positions.loaded()):
                looked += 1
                if looked % LOOKED_AT_ONCE == 0:
                    await deferLater(self._reactor, 0)
                if position.kept is PacketHolder.MEMORY or position.state is PositionState.ARRIVING:
                    yield position

    async def explain(self, message: MessageIdentifier) -> Explanation:
        """Everything known about a message."""
        unreadable: list[UnreadableLocation] = []
        places = await self.places(await self.find(message), unreadable)
        try:
            events = await self._performer.store.read_events(0, EVENTS, message.to_bytes())
        except StorageError as error:
            raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
        return Explanation(
            message,
            places,
            [entry.event for entry in events],
            await self._reports(message),
            unreadable=unreadable,
        )

    async def _reports(self, message: MessageIdentifier) -> list[FoundReport]:
        """The reports of a traced message that are stored here; they are express messages."""
        found: list[FoundReport] = []
        async for position in self._in_memory():
            view = position.view
            if view is None or isinstance(position.queue, OutgoingQueue):
                continue
            hop = read_report(view)
            if hop is not None and hop.identifier == message:
                found.append(FoundReport(queue_path(position.queue), view, hop))
        return sorted(found, key=lambda report: report.view.sent_time)

    async def places(
        self, positions: Iterable[MessagePosition], unreadable: list[UnreadableLocation] | None = None
    ) -> list[MessageLocation]:
        """The positions of these messages with their packets, as far as they still exist.

        @param unreadable: gets those whose packets are damaged, and still stored.
        """
        places: list[MessageLocation] = []
        for found in positions:
            try:
                (view,) = await self._performer.load([found])
            except MQError as error:
                now = found.current()
                if now is None or now.queue.is_deleted:
                    continue
                if unreadable is not None and isinstance(error.__cause__, DamagedMessageKept):
                    path = queue_path(now.queue)
                    unreadable.append(UnreadableLocation(path, now.lookup_id, now.arrived, error.detail))
                    continue
                if now.state in _LEAVING:
                    continue
                raise
            if (position := found.current()) is None:
                continue
            if position.state is PositionState.DELETED or position.queue.is_deleted:
                continue
            places.append(
                MessageLocation(
                    queue_path(position.queue),
                    position.state.value,
                    ReceivedMessage(
                        view, position.lookup_id, position.arrived, position.aborts, position.moves
                    ),
                    position.owner.identifier if isinstance(position.owner, Transaction) else None,
                )
            )
        return places

    async def dead_letters(self, limit: int) -> list[MessageLocation]:
        """The first messages of both dead-letter queues."""
        return [place async for place in self.each_dead_letter(limit)]

    async def each_dead_letter(self, limit: int) -> AsyncIterator[MessageLocation]:
        """The same one by one, with one packet in memory at a time."""
        model = self._performer.model
        for suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT):
            for position in model.system_queue(suffix).peek(limit):
                for place in await self.places([position]):
                    yield place

    async def available(self, message: MessageIdentifier, target: Queue) -> MessagePosition:
        """The position of an available message; if there are several, the one nearest to C{target}.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND; MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if every
        position of it is locked.
        """
        found = [
            position for position in await self.find(message) if not isinstance(position.queue, OutgoingQueue)
        ]
        found.sort(key=lambda position: position.queue.main is not target.main)
        for position in found:
            if position.state is PositionState.AVAILABLE:
                return position
        if found:
            raise MQError(
                Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
                f"message {message} in {queue_path(found[0].queue)} is {found[0].state.value}",
            )
        raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"message {message} does not exist")

    async def move(self, message: MessageIdentifier, target: str, transaction: ITransaction | None) -> None:
        """Move Message, found by its identifier. [MS-MQDMPR] 3.1.7.1.16.

        @raise MQError: as L{available}; MQ_ERROR_INVALID_PARAMETER for unrelated queues,
            MQ_ERROR_TRANSACTION_USAGE for a transactional move into a system queue.
        """
        performer, model = self._performer, self._performer.model
        queue = readable_queue(model, target, performer.clock.now())
        queue.users += 1
        try:
            position = await self.available(message, queue)
            source = position.queue
            if transaction is None:
                await move(performer, model.move(position, queue))
            else:
                model.transacting.lock_and_move(self._transactions.core(transaction), position, queue)
        finally:
            queue.users -= 1
            performer.forget_empty((queue,))
        performer.forget_empty((source,))

    async def requeue(
        self, message: MessageIdentifier, check: Callable[[SendTarget], None] | None = None
    ) -> MessageIdentifier:
        """Send a dead letter again and remove it, atomically.

        @param check: called with its queue before anything is done; raises L{MQError} to refuse it.
        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND if it is not a dead letter,
            MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if it is locked; or as sending does, or C{check}.
        """
        return await self.requeue_at(await self._dead_letter(message), check=check)

    async def requeue_at(
        self,
        position: MessagePosition,
        target: SendTarget | None = None,
        edited: Mapping[str, Any] | None = None,
        check: Callable[[SendTarget], None] | None = None,
    ) -> MessageIdentifier:
        """The same for a dead letter that was found.

        @param target: another queue than the one that it was for; a local one decides whether the message is
            transactional.
        @param edited: what differs in the message that is sent: arguments of L{Message}.
        @param check: called with the queue that it was for.
        """
        position, view = await self._read_dead_letter(position)
        # An editor may choose another signature than the message had.
        copy = attrs.evolve(self._signer.signed_again(view, message_of(view)), **(edited or {}))
        if target is None:
            target = self._destinations.one(_destination_of(view))
            if check is not None:
                check(target)
        elif target.is_local:
            copy = attrs.evolve(copy, transactional=target.queue.definition.transactional)
        if not target.is_local and copy.admin_queue is not None and isinstance(target.name, DirectFormatName):
            # The destination may have no directory, which would say whose queue this is.
            admin_queue = self._performer.model.names.direct_name(copy.admin_queue)
            copy = attrs.evolve(copy, admin_queue=admin_queue)
        self._outbox.check([copy], [target])
        if copy.transactional:
            return await undivided(self._requeue_in_transaction(position, view, target, copy))
        return await undivided(self._requeue(position, view, target, copy))

    async def destination_of(self, message: MessageIdentifier) -> FormatName:
        """The original destination of a dead letter.

        @raise MQError: as L{requeue}.
        """
        return _destination_of((await self._read_dead_letter(await self._dead_letter(message)))[1])

    async def _read_dead_letter(self, found: MessagePosition) -> tuple[MessagePosition, UserMessageView]:
        """An available dead letter with its packet."""
        received = MQError(
            Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED,
            f"dead letter {found.lookup_id} has already been received",
        )
        try:
            (view,) = await self._performer.load([found])
        except MQError:
            now = found.current()
            if now is not None and now.state is PositionState.AVAILABLE:
                raise
            raise received from None
        position = found.current()
        if position is None or position.state is not PositionState.AVAILABLE:
            raise received
        return position, view

    async def _dead_letter(self, message: MessageIdentifier) -> MessagePosition:
        model = self._performer.model
        dead_letter_queues = (
            model.system_queue(QueueSuffix.DEADLETTER),
            model.system_queue(QueueSuffix.DEADXACT),
        )
        found = [position for position in await self.find(message) if position.queue in dead_letter_queues]
        for position in found:
            if position.state is PositionState.AVAILABLE:
                return position
        if found:
            raise MQError(
                Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
                f"dead letter {message} is {found[0].state.value}",
            )
        raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"dead letter {message} does not exist")

    async def _requeue(
        self, position: MessagePosition, view: UserMessageView, target: SendTarget, copy: Message
    ) -> MessageIdentifier:
        performer, model = self._performer, self._performer.model
        number, arrivals = self._outbox.build([target], [copy])
        sent = MessageIdentifier(model.identifier, number)
        admission = model.admit(arrivals, performer.clock.now(), spare=_replaced(position))
        position.queue.remove_available(position)
        position.state = PositionState.REMOVING
        answers = self._outbox.answers()
        changes = [*admission.changes, *admission.overflow, *removals([position])]
        noted: list[Change] = []
        try:
            refuse(admission.refusals, len(arrivals), model.storage)
            if target.is_local:
                answers.add((view for _, view in arrivals), MessageClass.ACK_REACH_QUEUE)
            changes += answers.prepare()
            noted = self._requeue_event(view, copy, sent, position)
            await performer.commit([*changes, *noted])
        except INTERRUPTIONS:
            answers.withdraw()
            self._events.not_stored(noted)
            model.withdraw(admission)
            forget_queues(admission.overflow, admission.groups)
            performer.perform(model.release([position], performer.clock.now()))
            raise
        model.overflowed(admission, is_stored=True)
        model.holdings.unlink(position)
        effects = model.commit(admission, performer.clock.now())
        answers.show()
        performer.perform(effects)
        return sent

    async def _requeue_in_transaction(
        self, position: MessagePosition, view: UserMessageView, target: SendTarget, copy: Message
    ) -> MessageIdentifier:
        model = self._performer.model
        core = self._transactions.begin(self._new_identifier()).core
        noted: list[Change] = []
        try:
            position.queue.take_one(position, core)
            model.transacting.receive(core, [position])
            number = self._outbox.send_in(core, [target], [copy], spare=_replaced(position))
            sent = MessageIdentifier(model.identifier, number)
            noted = self._requeue_event(view, copy, sent, position)
            await self._transactions.commit(core, noted)
        except INTERRUPTIONS:
            self._events.not_stored(noted)
            if core.may_end:
                await self._transactions.abort(core)
            raise
        return sent

    def _requeue_event(
        self, view: UserMessageView, copy: Message, sent: MessageIdentifier, position: MessagePosition
    ) -> list[Change]:
        """The event of a dead letter that is sent again."""
        now = self._performer.clock.now().wall
        path = position.queue.definition.path
        reason = f"sent again as {sent}"
        if view.security is not None and view.security.sender_cert and not copy.authentication_level:
            reason += _UNSIGNED
        return self._events.trim([AppendEvent(now, view.identity, "requeued", reason, 0, path)])


def _replaced(position: MessagePosition) -> int:
    """Bytes that a message may take beyond QueueManagerQuota, since its dead letter leaves."""
    return position.size + LARGER


_UNSIGNED: Final = "; not signed: its certificate is not stored here, or its signature is not valid"

_LEAVING = (PositionState.REMOVING, PositionState.LEAVING, PositionState.DELETED)


def _destination_of(view: UserMessageView) -> FormatName:
    """The queue that a dead letter was for.

    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME if it names none, or its name is invalid.
    """
    name = view.destination_format_name()
    if name is None:
        raise MQError(Status.MQ_ERROR_ILLEGAL_FORMATNAME, f"dead letter {view.identifier} has no destination")
    return name


def message_of(view: UserMessageView) -> Message:
    """The message to send this one again: all properties but those of its transfer.

    Its time to reach a queue is unlimited, and its time to be received begins again. An invalid response
    queue is omitted: no message could be sent to it. Its class remains if an application has defined it; that
    of a dead letter is the reason of the failure.
    """
    return Message(
        body=bytes(view.body),
        label=view.label,
        body_type=view.body_type,
        priority=view.priority,
        delivery=Delivery.RECOVERABLE if view.is_recoverable else Delivery.EXPRESS,
        transactional=view.is_transactional,
        time_to_reach_queue=INFINITE,
        time_to_be_received=view.time_to_be_received,
        journal=view.journal,
        dead_letter=view.dead_letter,
        dead_letter_queue=view.dead_letter_queue,
        acknowledge=Acknowledge(view.acknowledge),
        admin_queue=_named(view.admin_format_name),
        response_queue=_named(view.response_format_name),
        correlation_id=view.correlation_id,
        application_tag=view.application_tag,
        extension=bytes(view.extension),
        message_class=view.message_class if is_application_class(view.message_class) else MessageClass.NORMAL,
        connector_type=view.connector_type,
        privacy_level=_privacy_level(view),
    )


def _named(resolve: Callable[[], FormatName | None]) -> FormatName | None:
    try:
        return resolve()
    except MQError:
        return None


def _privacy_level(view: UserMessageView) -> PrivacyLevel:
    """The requested privacy level; none for an unknown number."""
    try:
        return PrivacyLevel(view.privacy_level)
    except ValueError:
        return PrivacyLevel.NONE
