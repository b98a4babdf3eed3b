"""Operations of administrators on messages that are in queues: remove, move, copy, requeue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.background import undivided
from msmq.interfaces.manager.message_administration import IMessageAdministration, MessageChange
from msmq.manager.administration.summaries import queue_path
from msmq.manager.administration.unread_removals import UnreadRemovals
from msmq.manager.applications.checked_calls import checked
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.message_copies import CopySender, copy_of
from msmq.manager.applications.search import Search
from msmq.manager.applications.targets import SendTarget, any_queue, readable_queue
from msmq.manager.applications.transactions import move
from msmq.manager.events import EventLog
from msmq.manager.performer import Performer
from msmq.persistence.changes import AppendEvent, AppendLog, Change
from msmq.queues.leaving.departure_kinds import Departure, departure
from msmq.queues.leaving.relocation import check_acceptable, check_transfer
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

MOVED: Final = "moved"
"""The event of a message that an administrator moved to another queue."""

COPIED: Final = "copied"
"""The event of a message of which an administrator sent a copy."""

_REMOVED: Final = "removed by an administrator"


@implementer(IMessageAdministration)
class MessageOperations:
    """See L{IMessageAdministration}; what is done to a message is an event of it."""

    def __init__(
        self,
        performer: Performer,
        departures: UnreadRemovals,
        events: EventLog,
        search: Search,
        copies: CopySender,
        destinations: Destinations,
    ) -> None:
        self._performer = performer
        self._departures = departures
        self._events = events
        self._search = search
        self._copies = copies
        self._destinations = destinations

    @property
    def last_sequential(self) -> int:
        """See L{IMessageAdministration.last_sequential}."""
        return self._performer.model.last_sequential

    @checked
    async def remove(self, queue: str, lookup_ids: Sequence[int]) -> list[MessageChange]:
        """See L{IMessageAdministration.remove}."""
        performer = self._performer
        performer.check_running()
        source = any_queue(performer.model, queue, performer.clock.now())
        # One that cannot be read is removed too, also if it waits for the quarantine.
        positions = _there(source, lookup_ids)
        for position in positions:
            source.remove_available(position)
        wanted = frozenset(lookup_ids)
        while (kept := self._departures.take_kept(source, wanted.__contains__)) is not None:
            positions += kept.positions
        if not positions:
            performer.forget_empty((source,))
            return []
        is_outgoing = isinstance(source, OutgoingQueue)
        why = MessageClass.NACK_DELETED if is_outgoing else MessageClass.NACK_Q_PURGED
        await undivided(self._remove(departure(positions, why, _REMOVED)))
        return [
            MessageChange(each.lookup_id, None if each.view is None else each.view.identifier)
            for each in positions
        ]

    async def _remove(self, departure: Departure) -> None:
        performer = self._performer
        try:
            await self._departures.finish(departure)
        except Exception:
            performer.perform(performer.model.cancel_departure(departure, performer.clock.now()))
            raise

    @checked
    async def move(self, queue: str, lookup_ids: Sequence[int], target: str) -> list[MessageChange]:
        """See L{IMessageAdministration.move}."""
        performer, model = self._performer, self._performer.model
        into = readable_queue(model, target, performer.clock.now())
        into.users += 1
        # Subqueues, which would be deleted while they are empty; a missing one was created by its name.
        used = [into]
        try:
            source = any_queue(model, queue, performer.clock.now())
            source.users += 1
            used.append(source)
            check_transfer(source, into)
            positions, views = await self._available(queue, lookup_ids)
            check_transfer(source, into)
            for position, view in zip(positions, views, strict=True):
                check_acceptable(position, into, view)
            if not positions:
                return []
            relocation = model.transfer(positions, into)
            is_logged = into.definition.log and source.main is not into.main
            noted: list[Change] = []
            for (position, place), view in zip(relocation.moves, views, strict=True):
                if is_logged:
                    identifier = into.definition.identifier
                    noted.append(AppendLog(identifier, place.lookup_id, bytes(view.packet), place.arrived))
                noted.append(self._event(MOVED, position, view, f"to {queue_path(into)}"))
            relocation.changes.extend(self._events.trim(noted))
            try:
                await move(performer, relocation)
            except Exception:
                self._events.not_stored(noted)
                raise
            return _changes(positions, views)
        finally:
            for each in used:
                each.users -= 1
            performer.forget_empty(used)

    @checked
    async def copy(
        self,
        queue: str,
        lookup_ids: Sequence[int],
        destination: str,
        *,
        in_clear: bool = False,
        edited: Mapping[str, Any] | None = None,
    ) -> list[MessageChange]:
        """See L{IMessageAdministration.copy}."""
        self._copies.check_name(destination)
        if edited is not None and len(lookup_ids) != 1:
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, "an edited message is a copy of one message")
        positions, views = await self._available(queue, lookup_ids)
        if not positions:
            return []
        copies = {f"message {view.identifier}": copy_of(view, in_clear) for view in views}
        if len(copies) < len(views):
            # One message may be in a queue more than once, by a copy of its packet.
            copies = {
                f"message {view.identifier} ({position.lookup_id})": copy_of(view, in_clear)
                for position, view in zip(positions, views, strict=True)
            }
        if edited is not None:
            copies = {name: attrs.evolve(copy, **edited) for name, copy in copies.items()}
        sent = await self._copies.send(destination, copies)
        how = "" if edited is None else ", edited"
        for position, view, new in zip(positions, views, sent, strict=True):
            self._events.record(self._event(COPIED, position, view, f"sent to {destination} as {new}{how}"))
        return _changes(positions, views, sent)

    @checked
    async def requeue(
        self,
        queue: str,
        lookup_ids: Sequence[int],
        *,
        to: str | None = None,
        edited: Mapping[str, Any] | None = None,
    ) -> list[MessageChange]:
        """See L{IMessageAdministration.requeue}."""
        model = self._performer.model
        dead_letter_queue = any_queue(model, queue, self._performer.clock.now())
        if dead_letter_queue not in (
            model.system_queue(QueueSuffix.DEADLETTER),
            model.system_queue(QueueSuffix.DEADXACT),
        ):
            # A missing subqueue was created by its name.
            self._performer.forget_empty((dead_letter_queue,))
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER, f"{queue_path(dead_letter_queue)} has no dead letters"
            )
        target = None if to is None else await self._one_target(to)
        if edited is not None and len(lookup_ids) != 1:
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, "an edited message replaces one dead letter")
        positions, views = await self._available(queue, lookup_ids)
        # Begun in order, so that they arrive in order; their commits are shared.
        results = [
            Deferred.fromCoroutine(self._search.requeue_at(position, target, edited))
            for position in positions
        ]
        return [
            await _outcome(result, position, view)
            for result, position, view in zip(results, positions, views, strict=True)
        ]

    async def _one_target(self, to: str) -> SendTarget:
        targets = await self._destinations.find(to)
        if len(targets) != 1:
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"{to} is not one destination")
        return targets[0]

    async def _available(
        self, queue: str, lookup_ids: Sequence[int]
    ) -> tuple[list[MessagePosition], list[UserMessageView]]:
        """Those of these messages that can be received, with their packets, in the order of the queue."""
        performer = self._performer
        performer.check_running()
        source = any_queue(performer.model, queue, performer.clock.now())
        try:
            positions = _there(source, lookup_ids)
            views = await performer.load(positions)
        finally:
            performer.forget_empty((source,))
        # A reader may have been faster while they were read, and others were packed.
        still = [
            (now, view)
            for position, view in zip(positions, views, strict=True)
            if (now := position.current()) is not None and _is_there(now)
        ]
        return [position for position, _ in still], [view for _, view in still]

    def _event(self, word: str, position: MessagePosition, view: UserMessageView, reason: str) -> AppendEvent:
        now = self._performer.clock.now().wall
        return AppendEvent(now, view.identity, word, reason, queue=position.queue.definition.path)


def _there(queue: Queue, lookup_ids: Sequence[int]) -> list[MessagePosition]:
    """Those of these messages that can be received, in the order of the queue."""
    found = (queue.positions.get(lookup_id) for lookup_id in sorted(set(lookup_ids)))
    return [position for position in found if position is not None and _is_there(position)]


def _is_there(position: MessagePosition) -> bool:
    return position.state is PositionState.AVAILABLE and not position.queue.is_deleted


def _changes(
    positions: Sequence[MessagePosition],
    views: Sequence[UserMessageView],
    new: Sequence[MessageIdentifier] | None = None,
) -> list[MessageChange]:
    return [
        MessageChange(position.lookup_id, view.identifier, None if new is None else new[index])
        for index, (position, view) in enumerate(zip(positions, views, strict=True))
    ]


async def _outcome(
    result: Deferred[MessageIdentifier], position: MessagePosition, view: UserMessageView
) -> MessageChange:
    try:
        return MessageChange(position.lookup_id, view.identifier, await result)
    except MQError as error:
        return MessageChange(position.lookup_id, view.identifier, None, error)
