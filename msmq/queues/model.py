"""[MS-MQDMPR] 3.1.1.1 QueueManager: its queues, and the events that change them.

Everything here is synchronous and answers with values: what has to be stored, and who is to be told what.
What has to be stored is asked for first and takes effect for others when its caller says that it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.queues.admission import Admission, Storage, admit
from msmq.queues.changes import PutQueue, PutState, RemoveQueue
from msmq.queues.counters import ReservedCounter
from msmq.queues.creation import Alteration, Creation, Deletion
from msmq.queues.definition import UNLIMITED, QueueDefinition, QueuePrivacy, QueueType, quota_in_bytes
from msmq.queues.effects import Effect, OutgoingReady, ReadCompleted, ReadFailed
from msmq.queues.expiry import Expiry
from msmq.queues.leaving import Departure, Removal, by_queue, removals
from msmq.queues.naming import QueueNames
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import MessagePosition, PositionState
from msmq.queues.purging import finish_purge, purge_available, purge_locked
from msmq.queues.queue import Queue
from msmq.queues.reading import WaitingReader, WaitingReaders
from msmq.queues.snapshot import Snapshot
from msmq.structures.format_name import FormatName, PrivateFormatName, parse_format_name
from msmq.structures.path_name import PathName
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.structures.user_message_view import UserMessageView

DEFAULT_QUEUE_MANAGER_QUOTA = 0x00100000
"""[MS-MQDMPR] 3.1.1.1 QueueManagerQuota of a new queue manager, in kilobytes: 1 GiB."""

SEQUENTIAL_BLOCK = 1 << 20
MESSAGE_BLOCK = 1 << 16
FIRST_PRIVATE_NUMBER = 16
"""Smaller PrivateQueueNumbers are for the system's own queues, such as 4, C{order_queue$}."""

_PRIVATE_NUMBER = "private_queue_number"


def _nowhere(address: str) -> bool:
    return False


class QueueManagerModel:
    """[MS-MQDMPR] 3.1.1.1 QueueManager and the QueueCollection.

    @ivar identifier: the GUID of this queue manager.
    @ivar names: which names are its own, and which queue they mean.
    @ivar storage: what all queues hold together; its owner may set C{throttled}
        ([MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6, Begin and End Flow Control).
    """

    def __init__(
        self,
        identifier: UUID,
        *,
        computer_names: Collection[str],
        is_own_address: Callable[[str], bool] = _nowhere,
        quota: int = DEFAULT_QUEUE_MANAGER_QUOTA,
        now: Moment,
    ) -> None:
        """Make a queue manager without queues.

        @param computer_names: the names by which C{DIRECT=OS:} and paths mean this computer, C{.} and
            C{localhost} aside.
        @param is_own_address: whether C{DIRECT=TCP:} and an IP address mean it; asked each time, since
            interfaces come and go.
        @param quota: QueueManagerQuota in kilobytes, 0xFFFFFFFF for none.
        """
        self.identifier = identifier
        self.names = QueueNames(identifier, computer_names, is_own_address)
        self.storage = Storage(quota_in_bytes(quota))
        self._outgoing: dict[FormatName, OutgoingQueue] = {}
        self._waiting = WaitingReaders()
        self._expiry = Expiry()
        self._last_private_number = FIRST_PRIVATE_NUMBER - 1
        self._sequential = ReservedCounter("sequential_id", 56, SEQUENTIAL_BLOCK)
        self._message_ids = ReservedCounter("message_id", 32, MESSAGE_BLOCK)
        # A store that lost its state must not make the numbers of an earlier life come back, so they
        # begin where the clock says that no earlier life can have come to.
        self._sequential.start(int(now.wall * 1_000_000))
        self._message_ids.start(now.unix_seconds << 10)

    # What is there

    def restore(self, snapshot: Snapshot) -> None:
        """[MS-MQDMPR] 3.1.3 take over what the store held; only before anything else happens."""
        for counter in (self._sequential, self._message_ids):
            if (value := snapshot.state.get(counter.name)) is not None:
                counter.resume(value)
        if (value := snapshot.state.get(_PRIVATE_NUMBER)) is not None:
            self._last_private_number = int.from_bytes(value, "little")
        for definition in snapshot.queues:
            queue = self._restored(definition)
            positions = queue.positions
            for lookup_id, size, arrived in snapshot.messages.get(definition.identifier, ()):
                positions[lookup_id] = MessagePosition(queue, lookup_id, None, size, arrived)
                queue.total_bytes += size
            queue.make_available(positions.values())
            self.storage.used += queue.total_bytes

    def _restored(self, definition: QueueDefinition) -> Queue:
        if definition.type is QueueType.OUTGOING:
            destination = parse_format_name(definition.path, lenient=True)
            outgoing = OutgoingQueue(definition, destination=destination, is_stored=True)
            self._outgoing[destination] = outgoing
            return outgoing
        queue = Queue(definition)
        self.names.add(queue)
        self._last_private_number = max(self._last_private_number, definition.number)
        return queue

    def queues(self) -> Iterator[Queue]:
        """The queues of this queue manager, outgoing ones aside, in the order of their creation."""
        return self.names.queues()

    def outgoing_queues(self) -> Iterator[OutgoingQueue]:
        """The outgoing queues, in the order of their creation."""
        return iter(self._outgoing.values())

    def find(self, name: FormatName | PathName) -> Queue | None:
        """The queue of this queue manager that C{name} means; C{None} for any other name."""
        return self.names.find(name)

    def is_local(self, name: FormatName | PathName) -> bool:
        """Whether C{name} means a queue of this queue manager, be there one of that name or not."""
        return self.names.is_local(name)

    def queue_for(self, view: UserMessageView) -> Queue | None:
        """The queue that an arriving message is for.

        It has come to this queue manager already, so a direct name counts only by its queue part.
        """
        return self.names.queue_for(view)

    def format_name(self, queue: Queue) -> FormatName:
        """The name by which a queue is known everywhere."""
        if isinstance(queue, OutgoingQueue):
            return queue.destination
        return PrivateFormatName(self.identifier, queue.definition.number)

    @property
    def message_count(self) -> int:
        """How many messages lie in all queues, outgoing ones included."""
        queues = (*self.names.queues(), *self._outgoing.values())
        return sum(queue.message_count for queue in queues)

    # Queues come and go

    def create_queue(
        self,
        name: PathName,
        *,
        identifier: UUID,
        now: Moment,
        label: str = "",
        transactional: bool = False,
        journal: bool = False,
        log: bool = False,
        quota: int = UNLIMITED,
        journal_quota: int = UNLIMITED,
        authenticate: bool = False,
        privacy: QueuePrivacy = QueuePrivacy.OPTIONAL,
    ) -> Creation:
        """[MS-MQDMPR] 3.1.7.1.3 Create Queue, for private queues.

        Either L{created} or L{abandon} has to follow.

        @param identifier: a GUID that no other queue ever had.
        @raise MQError: MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, MQ_ERROR_QUEUE_EXISTS, MQ_ERROR_NO_DS for a public
            queue, MQ_ERROR_ACCESS_DENIED for a name of the system's own, or what L{QueueDefinition} raises.
        """
        path = self.names.path_to_create(name)
        number = self._last_private_number + 1
        definition = QueueDefinition(
            identifier=identifier,
            path=path,
            number=number,
            label=label,
            transactional=transactional,
            journal=journal,
            log=log,
            quota=quota,
            journal_quota=journal_quota,
            authenticate=authenticate,
            privacy=privacy,
            created=now.unix_seconds,
            modified=now.unix_seconds,
        )
        self._last_private_number = number
        queue = Queue(definition)
        self.names.reserve(path)
        # The number outlives the queue: a late message to a deleted queue is not for the next one.
        changes = (PutQueue(definition), PutState(_PRIVATE_NUMBER, number.to_bytes(4, "little")))
        return Creation(queue, changes)

    def created(self, creation: Creation) -> None:
        """The changes of a creation are stored: the queue is there."""
        self.names.add(creation.queue)

    def abandon(self, creation: Creation) -> None:
        """The changes of a creation were not stored: its name is free again."""
        self.names.free(creation.queue.definition.path)

    def alter_queue(self, queue: Queue, now: Moment, **properties: Any) -> Alteration:
        """[MS-MQDMPR] 3.1.1.2 give a queue other properties; L{altered} has to follow if they are stored.

        @param properties: attributes of L{QueueDefinition}.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if it is gone, or what L{QueueDefinition} raises.
        """
        if queue.is_deleted:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{queue.definition.path} is deleted")
        definition = attrs.evolve(queue.definition, modified=now.unix_seconds, **properties)
        return Alteration(queue, definition, (PutQueue(definition),))

    def altered(self, alteration: Alteration) -> None:
        """The changes of an alteration are stored: the queue has its new properties."""
        alteration.queue.definition = alteration.definition

    def delete_queue(self, queue: Queue) -> Deletion:
        """[MS-MQDMPR] 3.1.7.1.4 Delete Queue: it is gone at once, with all that is in it.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if it is gone already.
        """
        if queue.is_deleted:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{queue.definition.path} is deleted")
        if isinstance(queue, OutgoingQueue):
            del self._outgoing[queue.destination]
        else:
            self.names.remove(queue)
        self.storage.used -= queue.total_bytes
        positions = queue.clear()
        effects: list[Effect] = []
        for tag in list(queue.readers):
            self._waiting.discard(tag)
            effects.append(ReadFailed(tag, Status.MQ_ERROR_QUEUE_DELETED))
        return Deletion(queue, (RemoveQueue(queue.definition.identifier),), effects, positions)

    def outgoing(self, destination: FormatName, now: Moment) -> OutgoingQueue:
        """[MS-MQDMPR] 3.1.7.1.5 the outgoing queue of a format name; it is made if there is none yet."""
        queue = self._outgoing.get(destination)
        if queue is None:
            text = str(destination)
            definition = QueueDefinition(
                # The same name finds its stored messages again, whatever case it is written in.
                identifier=uuid5(self.identifier, text.lower()),
                path=text,
                type=QueueType.OUTGOING,
                label=text[:124],
                created=now.unix_seconds,
                modified=now.unix_seconds,
            )
            queue = self._outgoing[destination] = OutgoingQueue(definition, destination=destination)
        return queue

    # Messages come in

    def take_message_ids(self, count: int) -> int:
        """The MessageIDs of C{count} new messages, which follow each other, as the first of them.

        They may be sent once an admission that was made after this call is committed.
        """
        return self._message_ids.take(count)

    def admit(self, arrivals: Sequence[tuple[Queue, UserMessageView]], now: Moment) -> Admission:
        """[MS-MQDMPR] 3.1.7.1.9 Enqueue Message, for many: put them in their queues, where nobody sees them.

        Either L{commit} or L{withdraw} has to follow, once the changes are stored or were not.
        """
        admission = admit(arrivals, self._sequential.take(len(arrivals)), self.storage, now)
        for counter in (self._sequential, self._message_ids):
            if (reservation := counter.reservation()) is not None:
                admission.changes.append(reservation)
        return admission

    def commit(self, admission: Admission, now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.2.2 the changes are stored: the messages are available to all who wait.

        Those whose time is over already never become so (3.1.2.4, reading 31).
        """
        for change in admission.changes:
            if isinstance(change, PutState):
                self._stored(change)
        effects: list[Effect] = []
        if admission.mortal:
            effects += self._expiry.sift(admission.mortal, now)[1]
        for queue, positions in admission.groups.items():
            if admission.mortal:
                positions = [position for position in positions if position.state is PositionState.ARRIVING]
            if not queue.is_deleted and positions:
                queue.make_available(positions)
                effects += self._serve(queue)
        return effects

    def withdraw(self, admission: Admission) -> None:
        """The changes were not stored: the messages were never here."""
        for position in admission.positions:
            self.storage.used -= position.queue.unlink(position)
        for change in admission.changes:
            if isinstance(change, PutQueue):
                for queue in admission.groups:
                    if isinstance(queue, OutgoingQueue) and queue.definition is change.definition:
                        queue.is_stored = False

    def _stored(self, change: PutState) -> None:
        for counter in (self._sequential, self._message_ids):
            if change.name == counter.name:
                counter.stored(change)

    def _serve(self, queue: Queue) -> list[Effect]:
        if isinstance(queue, OutgoingQueue):
            return [OutgoingReady(queue)]
        return self._waiting.serve(queue) if queue.readers else []

    # Messages are read

    def receive(
        self,
        queue: Queue,
        *,
        tag: Hashable,
        now: Moment,
        peek: bool = False,
        count: int = 1,
        deadline: float | None = None,
    ) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.1.10 Dequeue Message and 3.1.7.1.15 Peek Message.

        What is available completes the read at once, up to C{count} messages. If there is nothing the
        answer is empty and an effect of a later call completes the read, until it is cancelled.
        Messages that are received stay locked until L{remove} and L{removed}, or L{release}.

        @param tag: by which the effects name this read; no other read may wait under it.
        @param deadline: when it stops waiting, in seconds of the monotonic clock; C{None} for never.
        @raise LocalProtocolError: the tag is taken, or C{count} is below 1.
        """
        if count < 1:
            raise LocalProtocolError(f"a read takes at least one message, not {count}")
        if queue.is_deleted:
            return [ReadFailed(tag, Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)]
        look = (lambda: queue.peek(count)) if peek else (lambda: queue.take(count, tag))
        found, departures = self._expiry.find(look, now)
        effects: list[Effect] = [*departures]
        if found:
            effects.append(ReadCompleted(tag, found))
        elif deadline is not None and deadline <= now.monotonic:
            effects.append(ReadFailed(tag, Status.MQ_ERROR_IO_TIMEOUT))
        else:
            self._waiting.add(WaitingReader(tag, queue, peek, count, deadline))
        return effects

    def cancel(self, tag: Hashable, status: Status = Status.MQ_ERROR_OPERATION_CANCELLED) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.1.17 Cancel Waiting Message Read Request.

        @return: nothing if no read waits under this tag (any more).
        """
        return [] if self._waiting.discard(tag) is None else [ReadFailed(tag, status)]

    def deadline(self, now: Moment) -> float | None:
        """When L{expire} has something to do next, in seconds of the monotonic clock."""
        end_of_wait, expiry = self._waiting.deadline(), self._expiry.deadline(now)
        if end_of_wait is None or expiry is None:
            return expiry if end_of_wait is None else end_of_wait
        return min(end_of_wait, expiry)

    def expire(self, now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.2.3 and 3.1.7.2.7: end what has waited long enough, reads and messages.

        When very many messages are due together, each call lets only some of them leave.
        """
        timed_out = Status.MQ_ERROR_IO_TIMEOUT
        reads = [ReadFailed(reader.tag, timed_out) for reader in self._waiting.due(now.monotonic)]
        departures = self._expiry.expire(now)
        effects: list[Effect] = [*reads, *departures]
        for queue in {departure.queue for departure in departures}:
            # Who found nothing but what leaves waits now, though there may be more behind it.
            if queue.readers and queue.has_available:
                effects += self._serve(queue)
        return effects

    def take(
        self, queue: Queue, count: int, owner: Hashable, now: Moment
    ) -> tuple[list[MessagePosition], list[Effect]]:
        """Lock what is available, up to C{count} messages, without waiting.

        Messages whose time is over are not among them; the effects let them leave.
        """
        found, departures = self._expiry.find(lambda: queue.take(count, owner), now)
        return found, [*departures]

    def sift(
        self, positions: Iterable[MessagePosition], now: Moment
    ) -> tuple[list[MessagePosition], list[Effect]]:
        """Those messages whose time is not over; the effects let the others leave.

        To be asked when messages that were restored have been read, for only then it is known.

        @param positions: locked or available.
        """
        fresh, departures = self._expiry.sift(positions, now)
        return fresh, [*departures]

    # Messages leave

    def remove(self, positions: Iterable[MessagePosition]) -> Removal:
        """[MS-MQDMPR] 3.1.7.2.1 ask that locked messages leave; their readers have them.

        Either L{removed} has to follow, or L{release} if the changes were not stored. Positions that are
        not locked (any more), because their queue was deleted for example, are passed over.
        """
        removing = PositionState.REMOVING
        leaving: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                continue
            if position.state is PositionState.LOCKED_READER:
                position.state = removing
                leaving.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                purged.append(position)
        return Removal(leaving, removals(leaving), finish_purge(purged))

    def removed(self, removal: Removal | Departure) -> None:
        """The changes of a removal are stored: the messages are out of their queues."""
        for position in removal.positions:
            self.storage.used -= position.queue.unlink(position)
        self._expiry.forget(removal.positions)

    def release(self, positions: Iterable[MessagePosition], now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.2.2 give locked messages back, each in its place, to all who wait.

        Those whose time is over, or whose queue was purged meanwhile, leave instead.
        """
        back: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                continue
            if position.state in (PositionState.LOCKED_READER, PositionState.REMOVING):
                position.state = PositionState.LOCKED_READER
                back.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                purged.append(position)
        back, departures = self._expiry.sift(back, now)
        effects: list[Effect] = [*departures]
        effects += finish_purge(purged)
        for queue, returned in by_queue(back).items():
            # The last first, so that each goes in front of those behind it.
            queue.make_available(sorted(returned, key=_lookup_id, reverse=True))
            effects += self._serve(queue)
        return effects

    def forget(self, positions: Iterable[MessagePosition]) -> None:
        """Messages that went with their queue: nothing waits for their time any more."""
        self._expiry.forget(positions)

    # Queues are purged

    @property
    def last_sequential(self) -> int:
        """The SequentialID of the youngest message."""
        return self._sequential.last

    def purge(self, queue: Queue, through: int, count: int) -> Departure | None:
        """[MS-MQDMPR] 3.1.7.1.7 Purge Queue: let up to C{count} available messages leave.

        Either L{removed} or L{stay} has to follow. When nothing is left to leave the answer is C{None},
        and what readers have is going to leave as well.

        @param through: what is younger than this SequentialID stays.
        """
        departure = purge_available(queue, through, count)
        if departure is None:
            purge_locked(queue, through)
        return departure

    def stay(self, departure: Departure, now: Moment) -> list[Effect]:
        """The changes of a departure were not stored: its messages are back in their places."""
        for position in departure.positions:
            if position.state is PositionState.LEAVING:
                position.state = PositionState.LOCKED_READER
        return self.release(departure.positions, now)


def _lookup_id(position: MessagePosition) -> int:
    return position.lookup_id
