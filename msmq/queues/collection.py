"""QueueCollection: creation, alteration and deletion of queues and subqueues. [MS-MQDMPR] 3.1.1.1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import Change, PutQueue, PutState, RemoveQueue
from msmq.persistence.definition import UNLIMITED, QueueDefinition, QueueType
from msmq.persistence.snapshot import MessageColumns, Snapshot
from msmq.queues.creation import Alteration, Creation
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.packed_positions import PackedDeadlines
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.queue_names import QueueNames
from msmq.quoting import quoted
from msmq.structures.management import OutgoingState
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.names.name_text import COMPUTER_SUFFIXES, SUBQUEUE_LENGTH, QueueSuffix
from msmq.structures.names.path_name import PathName
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.structures.packet.user_message_view import UserMessageView

FIRST_PRIVATE_NUMBER: Final = 16
"""Smaller PrivateQueueNumbers are reserved for system queues, such as 4, C{order_queue$}."""

POISON: Final = "poison"
"""The subqueue to which messages are moved whose transactions were aborted too often."""

_PRIVATE_NUMBER: Final = "private_queue_number"

_LABELS: Final = {
    QueueSuffix.JOURNAL: "Machine journal",
    QueueSuffix.DEADLETTER: "Dead letters",
    QueueSuffix.DEADXACT: "Transactional dead letters",
}


class QueueCollection:
    """The queues of one queue manager; each change is requested, stored, and then takes effect.

    @ivar names: the index of their names.
    @ivar awaiting: transactional messages that were delivered and have no FinalAck yet
        ([MS-MQQB] 3.1.1.3.1 AwaitingFinalACKTable); it has no name and no readers.
    @ivar unproven: non-transactional messages that were handed over, and whose journal copy waits for an
        administration acknowledgement; likewise.
    """

    def __init__(
        self,
        identifier: UUID,
        names: QueueNames,
        deadlines: PackedDeadlines[MessagePosition],
        *,
        is_hardened: bool = False,
    ) -> None:
        """Create the system queues.

        @param deadlines: schedules the expiry of packed messages, for all queues.
        """
        self.names = names
        self._deadlines = deadlines
        self._is_hardened = is_hardened
        self._identifier = identifier
        self._outgoing: dict[FormatName, OutgoingQueue] = {}
        self._last_private_number = FIRST_PRIVATE_NUMBER - 1
        self._by_identifier: dict[UUID, Queue] = {}
        self._subqueues = itertools.count()
        for suffix in COMPUTER_SUFFIXES:
            path = f"system${suffix.tail.lower()}"
            definition = QueueDefinition(
                identifier=uuid5(identifier, path),
                path=path,
                type=QueueType.SYSTEM,
                label=_LABELS[suffix],
                transactional=suffix is QueueSuffix.DEADXACT,
            )
            queue = Queue(definition, deadlines)
            names.add_system(suffix, queue)
            self._by_identifier[definition.identifier] = queue

        self.awaiting = self._nameless("system$;awaiting_final_ack", transactional=True)
        self.unproven = self._nameless("system$;awaiting_acknowledgement", transactional=False)

    def _nameless(self, path: str, *, transactional: bool) -> Queue:
        """A queue that no application can open."""
        definition = QueueDefinition(
            identifier=uuid5(self._identifier, path),
            path=path,
            type=QueueType.SYSTEM,
            transactional=transactional,
        )
        queue = self._by_identifier[definition.identifier] = Queue(definition, self._deadlines)
        return queue

    # Queries

    def outgoing_queues(self) -> Iterator[OutgoingQueue]:
        """The outgoing queues, in the order of their creation."""
        return iter(self._outgoing.values())

    @property
    def outgoing_count(self) -> int:
        """The number of outgoing queues."""
        return len(self._outgoing)

    def all_queues(self) -> Iterator[Queue]:
        """All queues, including outgoing and system queues, journals and subqueues."""
        return iter(self._by_identifier.values())

    def of_identifier(self, identifier: UUID) -> Queue | None:
        """The queue of any kind with this Identifier."""
        return self._by_identifier.get(identifier)

    def restore(self, snapshot: Snapshot) -> list[tuple[Queue, MessageColumns]]:
        """Restore the queues from a store; returns them with the messages that each has to restore."""
        if (value := snapshot.state.get(_PRIVATE_NUMBER)) is not None:
            self._last_private_number = int.from_bytes(value, "little")
        parts = [definition for definition in snapshot.queues if definition.parent is not None]
        for definition in snapshot.queues:
            if definition.parent is None:
                self._restore(definition)
        for definition in parts:
            self._restore_part(definition)
        restored: list[tuple[Queue, MessageColumns]] = []
        for definition in snapshot.queues:
            queue = self._by_identifier.get(definition.identifier)
            rows = snapshot.messages.get(definition.identifier)
            if queue is None or not rows:
                continue
            restored.append((queue, rows if isinstance(rows, MessageColumns) else MessageColumns.of(rows)))
        return restored

    def _restore(self, definition: QueueDefinition) -> None:
        if definition.type is QueueType.OUTGOING:
            destination = parse_format_name(definition.path, lenient=True)
            outgoing = OutgoingQueue(
                definition,
                self._deadlines,
                destination=destination,
                is_stored=True,
                state=self.idle_state(destination),
            )
            self._outgoing[destination] = outgoing
            self._by_identifier[definition.identifier] = outgoing
            return
        if definition.type is QueueType.SYSTEM:
            # Its properties are those of this start; only its presence in the store matters.
            if (queue := self._by_identifier.get(definition.identifier)) is not None:
                queue.is_stored = True
            return
        queue = Queue(definition, self._deadlines, is_stored=True)
        self._add(queue)
        self._last_private_number = max(self._last_private_number, definition.number)

    def _restore_part(self, definition: QueueDefinition) -> None:
        parent = self._by_identifier.get(definition.parent) if definition.parent is not None else None
        if parent is None:
            return
        if definition.type is QueueType.SYSTEM:
            if parent.journal is not None:
                parent.journal.is_stored = True
            return
        path = definition.path
        while path.rpartition(";")[2].lower() in parent.subqueues:
            # It was created again while the old one was being deleted, and then the process crashed.
            path += "~"
        self._add_subqueue(
            parent, Queue(attrs.evolve(definition, path=path), self._deadlines, is_stored=True, parent=parent)
        )

    # Creation and deletion

    def create(self, name: PathName, *, identifier: UUID, now: Moment, **properties: Any) -> Creation:
        """Create Queue, for private queues. [MS-MQDMPR] 3.1.7.1.3.

        @param properties: attributes of L{QueueDefinition}.
        @raise MQError: MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, MQ_ERROR_QUEUE_EXISTS, MQ_ERROR_NO_DS for a public
            queue, MQ_ERROR_ACCESS_DENIED for a reserved name, or what L{QueueDefinition} raises.
        """
        path = self.names.path_to_create(name)
        number = self._last_private_number + 1
        definition = QueueDefinition(
            identifier=identifier,
            path=path,
            number=number,
            created=now.unix_seconds,
            modified=now.unix_seconds,
            **properties,
        )
        self._last_private_number = number
        queue = Queue(definition, self._deadlines, is_stored=True)
        self.names.reserve(path)
        # Numbers are not reused: a late message to a deleted queue must not arrive in the next one.
        changes = (PutQueue(definition), PutState(_PRIVATE_NUMBER, number.to_bytes(4, "little")))
        return Creation(queue, changes)

    def adopt(self, definition: QueueDefinition) -> Creation:
        """Create Queue, for a public queue that is in the directory already. [MS-MQDMPR] 3.1.7.1.3.

        @raise MQError: MQ_ERROR_QUEUE_EXISTS.
        """
        self.names.check_free(definition.path)
        self.names.reserve(definition.path)
        return Creation(Queue(definition, self._deadlines, is_stored=True), (PutQueue(definition),))

    def created(self, creation: Creation) -> None:
        """The changes of a creation are stored: the queue exists."""
        self._add(creation.queue)

    def abandon(self, creation: Creation) -> None:
        """The changes of a creation were not stored: its name is free again."""
        self.names.free(creation.queue.definition.path)

    def alter(self, queue: Queue, now: Moment, **properties: Any) -> Alteration:
        """Change properties of a queue; L{altered} has to follow if they are stored. [MS-MQDMPR] 3.1.1.2.

        @param properties: attributes of L{QueueDefinition}.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if it is deleted, MQ_ERROR_ILLEGAL_OPERATION for a journal,
            a subqueue or a system queue, or what L{QueueDefinition} raises.
        """
        _check_main(queue, "is a journal, subqueue or system queue, whose properties cannot be set")
        definition = attrs.evolve(queue.definition, modified=now.unix_seconds, **properties)
        return Alteration(queue, definition, (PutQueue(definition),))

    def altered(self, alteration: Alteration) -> None:
        """The changes of an alteration are stored: the queue has its new properties."""
        alteration.queue.definition = alteration.definition

    def remove(self, queue: Queue) -> list[Queue]:
        """Remove a queue with its journal and its subqueues, and return all of them.

        Its name is reserved until L{removed}: a store could not distinguish two queues of one name.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if it is deleted already, MQ_ERROR_ILLEGAL_OPERATION for a
            journal, a system queue, or an outgoing queue in which messages wait.
        """
        if not queue.is_subqueue:
            _check_main(queue, "is deleted with the queue that it belongs to, not alone")
        if isinstance(queue, OutgoingQueue):
            if queue.positions:
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_OPERATION,
                    f"{len(queue.positions)} messages are pending for {queue.destination}",
                )
            del self._outgoing[queue.destination]
        elif queue.parent is not None:
            del queue.parent.subqueues[_own_name(queue)]
        else:
            self.names.remove(queue)
            self.names.reserve(queue.definition.path)
        family = [queue, *queue.subqueues.values()]
        if queue.journal is not None:
            family.append(queue.journal)
        for member in family:
            self._by_identifier.pop(member.definition.identifier, None)
        return family

    def removed(self, queue: Queue) -> None:
        """The deletion of a queue is stored: its name is free again."""
        if queue.parent is None and not isinstance(queue, OutgoingQueue):
            self.names.free(queue.definition.path)

    def outgoing(self, destination: FormatName, now: Moment, *, base_priority: int = 0) -> OutgoingQueue:
        """The outgoing queue of a format name; it is created if there is none yet. [MS-MQDMPR] 3.1.7.1.5.

        @param base_priority: the priority of the queue in the directory, for a new one.
        """
        queue = self._outgoing.get(destination)
        if queue is None:
            text = str(destination)
            definition = QueueDefinition(
                # The name finds its stored messages again, regardless of case.
                identifier=uuid5(self._identifier, text.lower()),
                path=text,
                type=QueueType.OUTGOING,
                label=text[:124],
                created=now.unix_seconds,
                modified=now.unix_seconds,
                base_priority=base_priority,
            )
            queue = self._outgoing[destination] = OutgoingQueue(
                definition, self._deadlines, destination=destination, state=self.idle_state(destination)
            )
            self._by_identifier[definition.identifier] = queue
        # The caller may send to it later without another look-up.
        queue.idle_since = None
        return queue

    def renewed(
        self, arrivals: Sequence[tuple[Queue, UserMessageView]], now: Moment
    ) -> Sequence[tuple[Queue, UserMessageView]]:
        """The same messages; an outgoing queue that was removed since it was looked up is made again.

        Such a queue is removed only because it was empty and not in use: its name is as good as before.
        """
        gone: set[OutgoingQueue] = set()
        for queue, _ in arrivals:
            if queue.is_deleted and isinstance(queue, OutgoingQueue):
                gone.add(queue)
        if not gone:
            return arrivals
        queues: dict[Queue, Queue] = {
            queue: self.outgoing(queue.destination, now, base_priority=queue.definition.base_priority)
            for queue in gone
        }
        return [(queues.get(queue, queue), view) for queue, view in arrivals]

    def idle_state(self, destination: FormatName) -> OutgoingState:
        """The initial State of an outgoing queue. [MS-MQDMPR] 3.1.3, 3.1.7.1.5.

        On a hardened queue manager it is Locked, except over HTTP (readings 10 and 53).
        """
        is_http = isinstance(destination, DirectFormatName) and destination.protocol.is_http
        return OutgoingState.LOCKED if self._is_hardened and not is_http else OutgoingState.INACTIVE

    def find_outgoing(self, destination: FormatName) -> OutgoingQueue | None:
        """The outgoing queue of a format name, if there is one."""
        return self._outgoing.get(destination)

    # Subqueues

    def subqueue(self, queue: Queue, name: str, now: Moment) -> Queue:
        """A subqueue of a queue; it is created if there is none yet (reading 14). [MS-MQDMPR] 3.1.1.2.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME for a queue that has no subqueues, or a name that is too
            long; MQ_ERROR_QUEUE_NOT_AVAILABLE if the queue is deleted.
        """
        if queue.parent is not None or queue.is_system or isinstance(queue, OutgoingQueue):
            raise MQError(Status.MQ_ERROR_ILLEGAL_FORMATNAME, f"{queue.definition.path} has no subqueues")
        if queue.is_deleted:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, f"{queue.definition.path} is deleted")
        subqueue = queue.subqueues.get(name.lower())
        if subqueue is None:
            if not 1 <= len(name) <= SUBQUEUE_LENGTH:
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_FORMATNAME,
                    f"the subqueue {quoted(name)} has {len(name)} characters, not 1 to {SUBQUEUE_LENGTH}",
                )
            definition = queue.definition
            subqueue = Queue(
                QueueDefinition(
                    # The deletion of one of the same name may not be stored yet.
                    identifier=uuid5(definition.identifier, f"{name} {now.wall} {next(self._subqueues)}"),
                    path=f"{definition.path};{name}",
                    type=definition.type,
                    transactional=definition.transactional,
                    parent=definition.identifier,
                    created=now.unix_seconds,
                    modified=now.unix_seconds,
                ),
                self._deadlines,
                parent=queue,
            )
            self._add_subqueue(queue, subqueue)
        return subqueue

    def forget_empty(self, queue: Queue) -> list[Change]:
        """Delete a subqueue that is empty and not open; returns the changes to store."""
        if (
            not queue.is_subqueue
            or queue.parent is None
            or queue.positions
            or queue.users
            or queue.readers
            or queue.is_deleted
            or queue.parent.subqueues.get(_own_name(queue)) is not queue
        ):
            return []
        del queue.parent.subqueues[_own_name(queue)]
        self._by_identifier.pop(queue.definition.identifier, None)
        queue.is_deleted = True
        return [RemoveQueue(queue.definition.identifier)] if queue.is_stored else []

    def _add(self, queue: Queue) -> None:
        definition = queue.definition
        self.names.add(queue)
        self._by_identifier[definition.identifier] = queue
        journal = QueueDefinition(
            identifier=uuid5(definition.identifier, ";journal"),
            path=f"{definition.path};journal",
            type=QueueType.SYSTEM,
            quota=UNLIMITED,
            parent=definition.identifier,
            created=definition.created,
            modified=definition.created,
        )
        queue.journal = Queue(journal, self._deadlines, parent=queue)
        self._by_identifier[journal.identifier] = queue.journal

    def _add_subqueue(self, parent: Queue, subqueue: Queue) -> None:
        parent.subqueues[_own_name(subqueue)] = subqueue
        self._by_identifier[subqueue.definition.identifier] = subqueue


def _own_name(subqueue: Queue) -> str:
    return subqueue.definition.path.rpartition(";")[2].lower()


def _check_main(queue: Queue, why: str) -> None:
    if queue.is_deleted:
        raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{queue.definition.path} is deleted")
    if queue.is_system or queue.parent is not None:
        raise MQError(Status.MQ_ERROR_ILLEGAL_OPERATION, f"{queue.definition.path} {why}")


def deletion_of(family: list[Queue]) -> tuple[RemoveQueue, ...]:
    """The changes that delete these queues from the store.

    A batch that stores a journal or a subqueue may be pending although another one that was to store it has
    failed, so these are deleted in any case.
    """
    return tuple(
        RemoveQueue(queue.definition.identifier)
        for queue in family
        if queue.is_stored or queue.parent is not None
    )
