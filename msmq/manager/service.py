"""The queue manager as a Twisted service, and the Python API of an application that embeds it."""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

import msmq.version
from msmq.interfaces.clock import IClock
from msmq.interfaces.queue_manager import IQueueManager
from msmq.interfaces.session import ISessions
from msmq.interfaces.storage import IMessageStore
from msmq.manager.departing import Departures
from msmq.manager.describing import (
    describe_counts,
    describe_outgoing,
    describe_queue,
    describe_session,
)
from msmq.manager.outbox import Outbox
from msmq.manager.performing import Performer
from msmq.manager.reservation import Reservation
from msmq.manager.targets import Target, destinations, own_queue
from msmq.manager.transfer import Transfer
from msmq.queues.definition import UNLIMITED, QueuePrivacy
from msmq.queues.message import Message
from msmq.queues.model import QueueManagerModel
from msmq.queues.position import MessagePosition, PositionState
from msmq.queues.queue import Queue
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.message_class import MessageClass, is_application_class
from msmq.structures.path_name import parse_path_name
from msmq.structures.status import MQError, Status
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import format_guid

SLICE = 500
"""Messages that are dealt with in one turn of the reactor when a whole queue goes."""

PURGED_AT_ONCE = 50
"""Messages that leave in one turn of the reactor when a queue is purged."""


@implementer(IQueueManager)
class QueueManagerService(Service):
    """[MS-MQDMPR] 3.1.1.1: one queue manager; add it to the services of an application.

    Every method that answers with an awaitable raises L{MQError} when it refuses.
    The store has to be opened with L{open} before the service is started and before anything is
    asked of it.

    @param model: the queues.
    @param store: keeps what has to survive.
    @param sessions: makes the sessions; whoever listens gives it to the session endpoint.
    @param send_insecure_nacks: [MS-MQQB] 3.1.7.15 SendInsecureNacks: whether strangers are told that a
        queue is missing or closed to them.
    @param addresses: tells where the queue manager listens, for L{status}.
    """

    name = "msmq"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        *,
        model: QueueManagerModel,
        store: IMessageStore,
        sessions: ISessions,
        reactor: IReactorTime,
        clock: IClock,
        computer_name: str,
        dns_name: str,
        addresses: Callable[[], Sequence[str]] = tuple,
        send_insecure_nacks: bool = False,
        new_identifier: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self.model = model
        self.store = store
        self._sessions = sessions
        self._clock = clock
        self._reactor = reactor
        self._computer_name = computer_name
        self._dns_name = dns_name
        self._addresses = addresses
        self._new_identifier = new_identifier
        self._performer = Performer(model, store, reactor, clock)
        self._outbox = Outbox(self._performer, send_insecure=send_insecure_nacks)
        self._departures = Departures(self._performer, self._outbox, reactor)
        self._transfer = Transfer(self._performer, sessions, self._outbox)
        self._altering = DeferredLock()
        self._tags = itertools.count()
        self._state = "stopped"

    # Life

    async def open(self) -> None:
        """Open the store and take over what it holds."""
        snapshot = await self.store.open()
        self.model.restore(snapshot)
        self._state = "starting"

    def startService(self) -> None:
        """Begin to send what waits."""
        Service.startService(self)
        self._state = "running"
        for queue in list(self.model.outgoing_queues()):
            if queue.has_available:
                self._transfer.ready(queue)

    def stopService(self) -> Deferred[None]:
        """End the sessions and the waits, then close the store."""
        Service.stopService(self)
        self._state = "stopped"
        self._transfer.stop()
        self._departures.stop()
        self._performer.stop()
        return self.store.close()

    # What it is

    def status(self) -> dict[str, Any]:
        """What it is and how it does; the keys of C{msmq status}."""
        queues = list(self.model.queues())
        return {
            "identifier": format_guid(self.model.identifier),
            "name": self._computer_name,
            "dns_name": self._dns_name,
            "version": msmq.version.VERSION,
            "state": self._state,
            "addresses": list(self._addresses()),
            "queues": len(queues),
            "messages": self.model.message_count,
            "bytes": self.model.storage.used,
            "sessions": len(self._sessions.connections),
            "storage": self.store.name,
            "durable": bool(self.store.durable),
            "packets": describe_counts(self._sessions.counts),
            "refused": dict(self._transfer.arrivals.refused),
            "expired": dict(self._departures.expired),
        }

    def queues(self) -> list[dict[str, Any]]:
        """Every queue of its own, in the order in which they were made."""
        return [describe_queue(self.model, queue) for queue in self.model.queues()]

    def queue(self, path: str) -> dict[str, Any]:
        """One queue, by its path or format name.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return describe_queue(self.model, own_queue(self.model, path))

    def outgoing(self) -> list[dict[str, Any]]:
        """Every outgoing queue."""
        return [describe_outgoing(queue) for queue in self.model.outgoing_queues()]

    def sessions(self) -> list[dict[str, Any]]:
        """Every session that has a connection, in both directions."""
        return [describe_session(connection) for connection in self._sessions.connections]

    # Queues

    async def create_queue(
        self,
        path: str,
        *,
        transactional: bool = False,
        journal: bool = False,
        log: bool = False,
        quota: int | None = None,
        journal_quota: int | None = None,
        label: str = "",
        authenticate: bool = False,
        privacy: str = "optional",
    ) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.7.1.3 Create Queue; answers what L{queue} would.

        @param path: C{.\\private$\\orders}.
        @param quota: kilobytes, as is C{journal_quota}; C{None} sets no limit.
        @param privacy: C{none}, C{optional} or C{body}.
        @raise MQError: MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, MQ_ERROR_QUEUE_EXISTS, MQ_ERROR_NO_DS for a
            public queue, MQ_ERROR_ACCESS_DENIED for a name of the system's own,
            MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
        """
        creation = self.model.create_queue(
            parse_path_name(path),
            identifier=self._new_identifier(),
            now=self._clock.now(),
            label=label,
            transactional=transactional,
            journal=journal,
            log=log,
            quota=_kilobytes(quota),
            journal_quota=_kilobytes(journal_quota),
            authenticate=authenticate,
            privacy=_privacy(privacy),
        )
        try:
            await self._performer.commit(creation.changes)
        except BaseException:
            self.model.abandon(creation)
            raise
        self.model.created(creation)
        return describe_queue(self.model, creation.queue)

    async def set_queue(self, path: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.1.2 give a queue other properties; answers what L{queue} would.

        @param properties: those of L{create_queue} that are to change. Whether a queue is transactional
            is decided once.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_PROPERTY_NOTALLOWED for a property that does
            not change, MQ_ERROR_ILLEGAL_PROPERTY_VALUE, MQ_ERROR_LABEL_TOO_LONG.
        """
        queue = own_queue(self.model, path)
        values: dict[str, Any] = {}
        for name, value in properties.items():
            read = _SETTABLE.get(name)
            if read is None:
                raise MQError(
                    Status.MQ_ERROR_PROPERTY_NOTALLOWED,
                    f"{name} of a queue does not change; {', '.join(_SETTABLE)} do",
                )
            values[name] = read(value)
        # One after the other, so that what is stored last has the changes of all.
        await self._altering.run(self._alter, queue, values)
        return describe_queue(self.model, queue)

    async def _alter(self, queue: Queue, values: Mapping[str, Any]) -> None:
        alteration = self.model.alter_queue(queue, self._clock.now(), **values)
        await self._performer.commit(alteration.changes)
        self.model.altered(alteration)

    async def purge_queue(self, path: str) -> int:
        """[MS-MQDMPR] 3.1.7.1.7 Purge Queue: remove what is in it now, and answer how many these were.

        What readers have leaves too, whatever they decide; it is not counted.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or MQ_ERROR_MESSAGE_STORAGE_FAILED if the store could not
            forget the messages; those that are left are back in their places.
        """
        queue = own_queue(self.model, path)
        through = self.model.last_sequential
        purged = 0
        while (departure := self.model.purge(queue, through, PURGED_AT_ONCE)) is not None:
            try:
                if purged:
                    await deferLater(self._reactor, 0)
                await self._departures.finish(departure)
            except BaseException:
                self._performer.perform(self.model.stay(departure, self._clock.now()))
                raise
            purged += len(departure.positions)
        return purged

    async def delete_queue(self, path: str) -> None:
        """[MS-MQDMPR] 3.1.7.1.4 Delete Queue, with all that is in it; its readers are told.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        queue = own_queue(self.model, path)
        deletion = self.model.delete_queue(queue)
        if deletion.positions:
            self.log.warn(
                "queue {path} was deleted with {count} messages in it",
                path=queue.definition.path,
                count=len(deletion.positions),
            )
        self._performer.perform(deletion.effects)
        await self._performer.commit(deletion.changes)
        await self._tell_senders(deletion.positions, MessageClass.NACK_Q_DELETED)

    async def _tell_senders(self, gone: deque[MessagePosition], message_class: MessageClass) -> None:
        """Acknowledge messages that left unread, a slice in each turn of the reactor."""
        while gone:
            slice_of_it = [gone.popleft() for _ in range(min(SLICE, len(gone)))]
            # What only the store held is gone from there, so its sender cannot be told.
            views = [
                position.view
                for position in slice_of_it
                if position.view is not None and position.state is not PositionState.LEAVING
            ]
            self.model.forget(slice_of_it)
            self._outbox.acknowledge(views, message_class)
            if gone:
                await deferLater(self._reactor, 0)

    # Messages

    async def send(self, destination: str, messages: Sequence[Message]) -> list[MessageIdentifier]:
        """[MS-MQDMPR] 3.1.7.1.9: take these messages, all or none, and answer one identifier each.

        Done once everything recoverable is on disk.

        @param destination: a format name, several with commas, or the path of a local queue.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_FORMATNAME and its like for names;
            MQ_ERROR_INSUFFICIENT_RESOURCES over a quota; MQ_ERROR_TRANSACTION_USAGE for a kind of
            message that the queue does not take; MQ_ERROR_UNSUPPORTED_OPERATION for a recoverable
            message without a durable store, and for a transactional one.
        """
        targets = destinations(self.model, destination, self._clock.now())
        for message in messages:
            self._check(message, targets)
        first = await self._outbox.put(targets, messages)
        identifier = self.model.identifier
        return [MessageIdentifier(identifier, number) for number in range(first, first + len(messages))]

    def _check(self, message: Message, targets: Sequence[Target]) -> None:
        if message.transactional:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_OPERATION,
                "a transactional message needs a place in a sequence, which is not kept yet",
            )
        if message.is_recoverable and not self.store.durable:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_OPERATION,
                "a recoverable message needs a durable store;"
                f" {self.store.name} keeps nothing over a restart",
            )
        if message.message_class and not is_application_class(message.message_class):
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                f"class {message.message_class:#06x} is the system's own, and no application sends it",
            )
        for target in targets:
            if target.is_local and target.queue.definition.transactional:
                raise MQError(
                    Status.MQ_ERROR_TRANSACTION_USAGE,
                    f"{target.queue.definition.path} takes transactional messages only",
                )

    async def reserve(
        self, queue: str, *, count: int = 1, timeout: float | None = None, peek: bool = False
    ) -> Reservation:
        """[MS-MQDMPR] 3.1.7.1.10 and 3.1.7.1.15: lock what is there, or wait for the first message.

        Cancelling the wait loses nothing.

        @param queue: the path or format name of a queue of this queue manager.
        @param count: the most messages; there may be fewer.
        @param timeout: seconds; C{None} waits without a limit, 0 does not wait.
        @param peek: look only; the messages stay where they are, for everyone.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if nothing came, MQ_ERROR_QUEUE_DELETED while waiting,
            MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a remote queue.
        """
        target = own_queue(self.model, queue)
        deadline = None if timeout is None else self._clock.now().monotonic + timeout
        positions: Sequence[MessagePosition] = ()
        while not positions:
            tag = next(self._tags)
            waiting = self._performer.wait_for(tag)
            self._performer.perform(
                self.model.receive(
                    target, tag=tag, now=self._clock.now(), peek=peek, count=count, deadline=deadline
                )
            )
            positions = await waiting
            positions = await self._read(positions, is_peek=peek)
        return Reservation(self._performer, positions, is_peek=peek, received=self._received)

    async def _read(
        self, positions: Sequence[MessagePosition], *, is_peek: bool
    ) -> Sequence[MessagePosition]:
        """Those messages that a reader found, read from the store, without those whose time is over."""
        try:
            was_stored = await self._performer.load(positions)
        except BaseException:
            if not is_peek:
                self._performer.perform(self.model.release(positions, self._clock.now()))
            raise
        if was_stored:
            positions, effects = self.model.sift(positions, self._clock.now())
            self._performer.perform(effects)
        return positions

    def _received(self, views: Sequence[UserMessageView]) -> None:
        self._outbox.acknowledge(views, MessageClass.ACK_RECEIVE)

    async def receive(self, queue: str, *, timeout: float | None = None) -> UserMessageView:
        """Receive one message: reserved, and removed for good before it is answered.

        @raise MQError: as L{reserve}.
        """
        reservation = await self.reserve(queue, timeout=timeout)
        await reservation.confirm()
        return reservation.messages[0].view

    async def peek(self, queue: str, *, timeout: float | None = None) -> UserMessageView:
        """Look at the first message without taking it.

        @raise MQError: as L{reserve}.
        """
        reservation = await self.reserve(queue, timeout=timeout, peek=True)
        return reservation.messages[0].view


def _kilobytes(quota: int | None) -> int:
    return UNLIMITED if quota is None else quota


def _privacy(name: str) -> QueuePrivacy:
    try:
        return QueuePrivacy(name)
    except ValueError:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"privacy {name!r} is none of none, optional, body"
        ) from None


_SETTABLE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "journal": bool,
    "log": bool,
    "quota": _kilobytes,
    "journal_quota": _kilobytes,
    "label": str,
    "authenticate": bool,
    "privacy": _privacy,
}
"""The properties of a queue that may change, and how each is read."""
