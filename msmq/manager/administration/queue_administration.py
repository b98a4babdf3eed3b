"""Administration of queues: create, change, purge, delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Unpack

from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from msmq.background import undivided
from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.queue_properties import QueueProperties, check_types, with_defaults
from msmq.interfaces.manager.summaries import QueueSummary, QuotaSummary
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.administration.summaries import queue_path, summarize_queue, summarize_quotas
from msmq.manager.administration.unread_removals import UnreadRemovals
from msmq.manager.applications.targets import own_queue
from msmq.manager.membership.integration import Integration
from msmq.manager.performer import Performer
from msmq.manager.securing.security_descriptors import SecurityDescriptors, parse_security
from msmq.persistence.definition import UNLIMITED, QueuePrivacy, QueueType
from msmq.queues.available_positions import SEQUENTIAL_MASK
from msmq.queues.creation import Creation
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.queue import Queue
from msmq.quoting import quoted, shown
from msmq.structures.names.path_name import PathKind, parse_path_name
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

PURGED_AT_ONCE = 200
"""Messages that are removed in one iteration of the reactor when a queue is purged."""

PURGED_IN_BULK = 500
"""The same with a store that removes messages without their packets; those that need them take longer."""

_NAMED_PAUSES: Final = 10
"""Paused queues that are named in the log."""


class Administration:
    """Creates, changes, purges and deletes the queues of a queue manager.

    @param directory: creates, changes and deletes public queues; C{None} in workgroup mode.
    @param descriptors: creates the descriptors of new queues; C{None} if access is not controlled.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        departures: UnreadRemovals,
        local: LocalQueues,
        directory: Integration | None,
        descriptors: SecurityDescriptors | None,
        reactor: IReactorTime,
        new_identifier: Callable[[], uuid.UUID],
    ) -> None:
        self._performer = performer
        self._departures = departures
        self._local = local
        self._directory = directory
        self._descriptors = descriptors
        self._reactor = reactor
        self._new_identifier = new_identifier
        self._purging: dict[Queue, DeferredLock] = {}
        self._observers: list[Callable[[Queue], object]] = []
        self._pausing = DeferredLock()

    async def create(
        self, path: str, *, creator: bytes | None = None, **chosen: Unpack[QueueProperties]
    ) -> QueueSummary:
        """Create Queue; returns its summary. [MS-MQDMPR] 3.1.7.1.3.

        @param path: C{.\\private$\\orders}.
        @param creator: the SID of its creator; by default the owner of the queue manager.
        @raise MQError: MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, MQ_ERROR_QUEUE_EXISTS, MQ_ERROR_NO_DS for a
            public queue, MQ_ERROR_ACCESS_DENIED for a name of the system's own,
            MQ_ERROR_ILLEGAL_PROPERTY_VALUE, MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
        """
        name = parse_path_name(path)
        wanted = with_defaults(chosen)
        _check_types(wanted)
        security = wanted["security"]
        properties: dict[str, Any] = {
            "label": wanted["label"],
            "transactional": wanted["transactional"],
            "journal": wanted["journal"],
            "log": wanted["log"],
            "quota": _kilobytes(wanted["quota"]),
            "journal_quota": _kilobytes(wanted["journal_quota"]),
            "authenticate": wanted["authenticate"],
            "privacy": _privacy(wanted["privacy"]),
            "log_age": wanted["log_age"],
            "log_size": _kilobytes(wanted["log_size"]),
            "application_type": wanted["application_type"] or NULL_GUID,
        }
        supplied = parse_security(security)
        if self._descriptors is not None:
            properties["security"] = await self._descriptors.for_new(supplied, creator)
        elif security is not None:
            raise MQError(Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, "access control is not configured")
        model = self._performer.model
        if self._directory is not None and name.kind is PathKind.PUBLIC:
            # The default descriptor applies only locally: in the directory it may let everyone change the
            # entry.
            has_list = supplied is not None and supplied.dacl is not None
            listed = b""
            if has_list and self._descriptors is not None:
                listed = await self._descriptors.published_list(path, properties["security"])
            return summarize_queue(model, await self._directory.create(name, properties, listed))
        identifier = self._new_identifier()
        creation = model.create_queue(
            name, identifier=identifier, now=self._performer.clock.now(), **properties
        )
        await undivided(self._create(creation))
        return summarize_queue(model, creation.queue)

    async def _create(self, creation: Creation) -> None:
        try:
            await self._performer.commit(creation.changes)
        except Exception:
            self._performer.model.abandon(creation)
            raise
        self._performer.model.created(creation)
        for observer in self._observers:
            observer(creation.queue)

    def observe(self, observer: Callable[[Queue], object]) -> None:
        """Call an observer, which must not raise, with each private queue that is created from now on."""
        self._observers.append(observer)

    async def set(self, path: str, properties: Mapping[str, Any]) -> QueueSummary:
        """Change the properties of a queue; returns its summary. [MS-MQDMPR] 3.1.1.2.

        @param properties: those of L{create} that are to change. Whether a queue is transactional cannot be
        changed.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_PROPERTY_NOTALLOWED for a property that cannot be
        changed, MQ_ERROR_ILLEGAL_PROPERTY_VALUE, MQ_ERROR_LABEL_TOO_LONG.
        """
        queue = own_queue(self._performer.model, path)
        values: dict[str, Any] = {}
        for name, value in properties.items():
            read = _SETTABLE.get(name)
            if read is None:
                raise MQError(
                    Status.MQ_ERROR_PROPERTY_NOTALLOWED,
                    f"{shown(str(name))} of a queue cannot be changed; {', '.join(_SETTABLE)} can",
                )
            _check_types({name: value})
            values[name] = read(value)
        if self._needs_directory(queue):
            await self._directory_of(queue).alter(queue, values)
        else:
            await self._local.alter(queue, values)
        return summarize_queue(self._performer.model, queue)

    async def set_paused(self, path: str, paused: bool) -> QueueSummary:
        """Pause the reading of a queue, also across restarts, or end that; returns its summary.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_OPERATION for a journal, subqueue or
        system queue, or that the store failed.
        """
        queue = own_queue(self._performer.model, path)
        await undivided(self._set_paused_in_turn(queue, paused))
        return summarize_queue(self._performer.model, queue)

    async def _set_paused_in_turn(self, queue: Queue, paused: bool) -> None:
        # One at a time: a resume must not end before a pause that is being stored, and have no effect.
        await self._pausing.run(self._set_paused, queue, paused)

    async def _set_paused(self, queue: Queue, paused: bool) -> None:
        model = self._performer.model
        change = model.pause_change(queue, paused)
        if queue.is_paused is not paused:
            await self._performer.commit([change])
            self._performer.perform(model.set_paused(queue, paused, self._performer.clock.now()))

    async def set_quotas(self, changes: Mapping[QuotaKind, int | None]) -> QuotaSummary:
        """Set quotas of all queues together, also across restarts, or end that with C{None}.

        @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE, or that the store failed.
        """
        await undivided(self._set_quotas(changes))
        return summarize_quotas(self._performer.model)

    async def _set_quotas(self, changes: Mapping[QuotaKind, int | None]) -> None:
        quotas = self._performer.model.quotas
        await self._performer.commit([quotas.change(kind, value) for kind, value in changes.items()])
        for kind, value in changes.items():
            quotas.set(kind, value)

    def start(self) -> None:
        """Log the queues that are paused since before the start."""
        paused = [queue_path(queue) for queue in self._performer.model.queues() if queue.is_paused]
        if paused:
            more = f" and {len(paused) - _NAMED_PAUSES} more" if len(paused) > _NAMED_PAUSES else ""
            self.log.warn(
                "queues are paused for readers since before the start: {queues}",
                queues=", ".join(paused[:_NAMED_PAUSES]) + more,
            )

    def _needs_directory(self, queue: Queue) -> bool:
        return queue.parent is None and queue.definition.type is QueueType.PUBLIC

    def _directory_of(self, queue: Queue) -> Integration:
        if self._directory is None:
            raise MQError(
                Status.MQ_ERROR_NO_DS, f"{queue.definition.path} is a public queue, which needs a directory"
            )
        return self._directory

    async def purge(self, path: str, through: int | None = None) -> int:
        """Purge Queue: remove the messages in it now, and return their number. [MS-MQDMPR] 3.1.7.1.7.

        Messages that readers hold are removed too, whether confirmed or released, and are not counted.

        @param through: the SequentialID of the newest message to remove; C{None} for the newest there is.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or MQ_ERROR_MESSAGE_STORAGE_FAILED if the store could not
            remove the messages; the remaining ones return to their positions.
        """
        return await self.purge_messages(own_queue(self._performer.model, path), through)

    async def purge_messages(self, queue: Queue, through: int | None = None) -> int:
        """The same for a queue that was found already.

        Concurrent purges run one after the other: the second must not report messages as removed before the
        first has stored that.
        """
        if through is None:
            through = self._performer.model.last_sequential
        lock = self._purging.setdefault(queue, DeferredLock())
        try:
            return await lock.run(self._purge_all, queue, through)
        finally:
            if not lock.locked:
                self._purging.pop(queue, None)

    async def _purge_all(self, queue: Queue, through: int) -> int:
        purged = 0
        at_once = PURGED_IN_BULK if self._performer.takes_runs else PURGED_AT_ONCE
        while (departure := self._performer.model.purge(queue, through, at_once)) is not None:
            await undivided(self._purge(departure))
            purged += len(departure.positions)
            if len(departure.positions) == at_once:
                await deferLater(self._reactor, 0)
        if queue.main.is_deleted:
            # Its remaining messages are removed with it, but return if the process dies before that is
            # stored.
            raise MQError(
                Status.MQ_ERROR_QUEUE_DELETED, f"{queue.definition.path} was deleted while it was purged"
            )
        while (
            kept := self._departures.take_kept(queue, lambda each: each & SEQUENTIAL_MASK <= through)
        ) is not None:
            await undivided(self._purge(kept))
            purged += len(kept.positions)
        await self._performer.commit(self._performer.model.purged(queue))
        self.log.info("{count} message(s) purged from {queue}", count=purged, queue=shown(queue_path(queue)))
        return purged

    async def _purge(self, departure: Departure) -> None:
        try:
            await self._departures.finish(departure)
        except Exception:
            self._performer.perform(
                self._performer.model.cancel_departure(departure, self._performer.clock.now())
            )
            raise

    async def delete(self, path: str) -> None:
        """Delete Queue, with all that is in it; its waiting readers fail. [MS-MQDMPR] 3.1.7.1.4.

        @raise DeletionPending: the store failed; the queue is deleted all the same, and the store is retried
            until it has removed it.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_SERVICE_NOT_AVAILABLE if the queue manager stops
            before the removal is stored, or that the name is malformed.
        """
        queue = own_queue(self._performer.model, path)
        if self._needs_directory(queue):
            await self._directory_of(queue).delete(queue)
        else:
            await self._local.remove(queue)


def _check_types(properties: Mapping[str, object]) -> None:
    """Check the types of properties.

    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE; names the property, its type and the expected one.
    """
    try:
        check_types(properties)
    except LocalProtocolError as error:
        raise MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, str(error)) from None


def _kilobytes(quota: int | None) -> int:
    return UNLIMITED if quota is None else int(quota)


def _privacy(name: str) -> QueuePrivacy:
    try:
        return QueuePrivacy(name)
    except ValueError:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
            f"privacy {quoted(name)} is not one of none, optional, body",
        ) from None


_SETTABLE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "journal": bool,
    "log": bool,
    "log_age": int,
    "log_size": _kilobytes,
    "quota": _kilobytes,
    "journal_quota": _kilobytes,
    "label": str,
    "authenticate": bool,
    "privacy": _privacy,
}
"""The properties of a queue that can be changed, with their parsers."""
