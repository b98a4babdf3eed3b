"""[MS-MQDMPR] 3.1.1.1 QueueManager: its queues, and the events that change them.

Everything here is synchronous and answers with values: what has to be stored, and who is to be told what.
What has to be stored is asked for first and takes effect for others when its caller says that it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.queues.admission import Admission, admit
from msmq.queues.changes import Change, PutState
from msmq.queues.collection import QueueCollection
from msmq.queues.copying import Copying
from msmq.queues.counters import ReservedCounter
from msmq.queues.creation import Alteration, Creation, Deletion
from msmq.queues.definition import UNLIMITED, quota_in_bytes
from msmq.queues.deleting import Deleting
from msmq.queues.descriptors import Descriptors
from msmq.queues.effects import Effect, OutgoingReady
from msmq.queues.expiry import Expiry
from msmq.queues.holdings import Holdings, Storage, forget_queues
from msmq.queues.leaving import Departure, Removal, Settlement, by_queue, gone_with_queue, removals
from msmq.queues.moving import Relocation, check_available, check_move, finish_move, relocate, undo_move
from msmq.queues.naming import QueueNames
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import Kept, MessagePosition, PositionState
from msmq.queues.purging import PurgePending, finish_purge, purge_available, purge_locked
from msmq.queues.queue import Queue
from msmq.queues.readers import Readers
from msmq.queues.reading import OnTaken, WaitingReader
from msmq.queues.snapshot import Snapshot
from msmq.queues.transacting import Transacting
from msmq.queues.transaction import Abortion, Commitment
from msmq.structures.format_name import FormatName, MachineFormatName
from msmq.structures.name_text import QueueSuffix
from msmq.structures.path_name import PathName
from msmq.structures.status import Status

if TYPE_CHECKING:
    from msmq.structures.user_message_view import UserMessageView

DEFAULT_QUEUE_MANAGER_QUOTA = 0x00100000
"""[MS-MQDMPR] 3.1.1.1 QueueManagerQuota of a new queue manager, in kilobytes: 1 GiB."""

SEQUENTIAL_BLOCK = 1 << 20
MESSAGE_BLOCK = 1 << 16


def _nowhere(address: str) -> bool:
    return False


class QueueManagerModel:
    """[MS-MQDMPR] 3.1.1.1 QueueManager and the QueueCollection.

    @ivar identifier: the GUID of this queue manager.
    @ivar is_hardened: HardenedSecurity, whether no message is transferred but over HTTP.
    @ivar names: which names are its own, and which queue they mean.
    @ivar collection: the queues.
    @ivar storage: what all queues hold together; its owner may set C{throttled}
        ([MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6, Begin and End Flow Control).
    @ivar readers: the reads, those that wait among them.
    @ivar descriptors: the handles under which queues are open.
    @ivar copying: makes the copies for journals and dead-letter queues.
    @ivar transacting: the transactions.
    """

    def __init__(
        self,
        identifier: UUID,
        *,
        computer_names: Collection[str],
        is_own_address: Callable[[str], bool] = _nowhere,
        quota: int = DEFAULT_QUEUE_MANAGER_QUOTA,
        journal_quota: int = UNLIMITED,
        express_memory: int | None = None,
        packet_memory: int | None = None,
        poison_after: int = 0,
        is_hardened: bool = False,
        now: Moment,
    ) -> None:
        """Make a queue manager without queues but those of the system.

        @param computer_names: the names by which C{DIRECT=OS:} and paths mean this computer, C{.} and
            C{localhost} aside.
        @param is_own_address: whether C{DIRECT=TCP:} and an IP address mean it; asked each time, since
            interfaces come and go.
        @param quota: QueueManagerQuota in kilobytes, 0xFFFFFFFF for none.
        @param journal_quota: JournalQuota in kilobytes, for all journals and dead-letter queues together.
        @param express_memory: bytes of express messages beyond which they go to the store; C{None} for none.
        @param packet_memory: bytes of stored packets that memory keeps as well; C{None} for all.
        @param poison_after: how many aborted transactions a message may have been received in before it is
            moved to the subqueue C{poison}; 0 for any number.
        @param is_hardened: HardenedSecurity, whether no message is transferred but over HTTP.
        """
        self.identifier = identifier
        self.is_hardened = is_hardened
        self.names = QueueNames(identifier, computer_names, is_own_address)
        self.storage = Storage(
            quota_in_bytes(quota),
            journal_limit=quota_in_bytes(journal_quota),
            express_limit=express_memory,
            cache_limit=packet_memory,
        )
        self.collection = QueueCollection(identifier, self.names, is_hardened=is_hardened)
        self._expiry = Expiry()
        self._purge_pending = PurgePending()
        self._departures: list[Departure] = []
        self.readers = Readers(self._expiry)
        self.descriptors = Descriptors(self.collection, self.readers)
        self._sequential = ReservedCounter("sequential_id", 56, SEQUENTIAL_BLOCK)
        self._message_ids = ReservedCounter("message_id", 32, MESSAGE_BLOCK)
        # A store that lost its state must not make the numbers of an earlier life come back, so they
        # begin where the clock says that no earlier life can have come to.
        self._sequential.start(int(now.wall * 1_000_000))
        self._message_ids.start(now.unix_seconds << 10)
        self.holdings = Holdings(self.storage, self._sequential)
        self._deleting = Deleting(self.collection, self.holdings, self.readers, self._expiry)
        self.copying = Copying(
            self.holdings,
            identifier.bytes_le,
            self.system_queue(QueueSuffix.DEADLETTER),
            self.system_queue(QueueSuffix.DEADXACT),
            self.system_queue(QueueSuffix.JOURNAL),
        )
        self.transacting = Transacting(self.holdings, self.copying, self.collection, poison_after)

    # What is there

    def restore(self, snapshot: Snapshot, now: Moment) -> None:
        """[MS-MQDMPR] 3.1.3 take over what the store held; only before anything else happens.

        Messages whose time is over by now, or that readers had when their queue was purged, leave with the
        first L{expire}.
        """
        for counter in (self._sequential, self._message_ids):
            if (value := snapshot.state.get(counter.name)) is not None:
                counter.resume(value)
        for queue, positions in self.collection.restore(snapshot):
            self.holdings.restore(queue, positions)
            if pending := self._purge_pending.restore(queue, snapshot.state):
                purged = [position for position in positions if position.lookup_id in pending]
                positions = [position for position in positions if position.lookup_id not in pending]
                self._departures += finish_purge(purged)
            queue.make_available(positions)
            self._expiry.remember(positions)

    def queues(self) -> Iterator[Queue]:
        """The queues of this queue manager, in the order of their creation.

        Outgoing queues, journals, subqueues and system queues are not among them.
        """
        return self.names.queues()

    def system_queue(self, suffix: QueueSuffix) -> Queue:
        """The machine journal, SystemDeadletterQueue or SystemTransactionalDeadletterQueue."""
        queue = self.names.find(MachineFormatName(self.identifier, suffix))
        if queue is None:
            raise LocalProtocolError(f"{suffix} means no system queue")
        return queue

    def outgoing_queues(self) -> Iterator[OutgoingQueue]:
        """The outgoing queues, in the order of their creation."""
        return self.collection.outgoing_queues()

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
        return self.names.format_name(queue)

    @property
    def message_count(self) -> int:
        """How many messages lie in all queues, whatever their kind."""
        return sum(queue.message_count for queue in self.collection.all_queues())

    # Queues come and go

    def create_queue(self, name: PathName, *, identifier: UUID, now: Moment, **properties: Any) -> Creation:
        """[MS-MQDMPR] 3.1.7.1.3 Create Queue, for private queues.

        Either L{created} or L{abandon} has to follow.

        @param identifier: a GUID that no other queue ever had.
        @param properties: attributes of L{msmq.queues.definition.QueueDefinition}.
        @raise MQError: as L{QueueCollection.create}.
        """
        return self.collection.create(name, identifier=identifier, now=now, **properties)

    def created(self, creation: Creation) -> None:
        """The changes of a creation are stored: the queue is there."""
        self.collection.created(creation)

    def abandon(self, creation: Creation) -> None:
        """The changes of a creation were not stored: its name is free again."""
        self.collection.abandon(creation)

    def alter_queue(self, queue: Queue, now: Moment, **properties: Any) -> Alteration:
        """[MS-MQDMPR] 3.1.1.2 give a queue other properties; L{altered} has to follow if they are stored.

        @raise MQError: as L{QueueCollection.alter}.
        """
        return self.collection.alter(queue, now, **properties)

    def altered(self, alteration: Alteration) -> None:
        """The changes of an alteration are stored: the queue has its new properties."""
        self.collection.altered(alteration)

    def delete_queue(self, queue: Queue) -> Deletion:
        """[MS-MQDMPR] 3.1.7.1.4 Delete Queue: it is gone at once, with its journal and its subqueues.

        What was in it and in its subqueues has to be told of, slice by slice (L{delete_messages}); what was
        in its journal is not told of (reading 17). Then its fence has to be stored, until it is decided, and
        its changes; L{deleted} has to follow.

        @raise MQError: as L{QueueCollection.remove}.
        """
        deletion = self._deleting.delete(queue)
        forgotten = [change for member in deletion.family for change in self._purge_pending.forget(member)]
        return attrs.evolve(deletion, changes=(*deletion.changes, *forgotten))

    def delete_messages(self, positions: Sequence[MessagePosition], now: Moment) -> list[Change]:
        """What has to be stored for messages of a deleted queue to be gone, each with its event.

        What is on its way in or out stays in the queue, since whoever decides about that tells of it.
        """
        return self._deleting.delete_messages(positions, now)

    def deleted(self, deletion: Deletion) -> None:
        """The changes of a deletion are stored: its name is free again."""
        self.collection.removed(deletion.queue)

    def outgoing(self, destination: FormatName, now: Moment, *, base_priority: int = 0) -> OutgoingQueue:
        """[MS-MQDMPR] 3.1.7.1.5 the outgoing queue of a format name; as L{QueueCollection.outgoing}."""
        return self.collection.outgoing(destination, now, base_priority=base_priority)

    # Messages come in

    def take_message_ids(self, count: int) -> int:
        """The MessageIDs of C{count} new messages, which follow each other, as the first of them.

        They may be sent once an admission that was made after this call is committed.
        """
        return self._message_ids.take(count)

    def admit(self, arrivals: Sequence[tuple[Queue, UserMessageView]], now: Moment) -> Admission:
        """[MS-MQDMPR] 3.1.7.1.9 Enqueue Message, for many: put them in their queues, where nobody sees them.

        Either L{commit} or L{withdraw} has to follow, once the changes are stored or were not.
        If there is an overflow as well, it has to be handed to the store, and L{overflowed} to follow.
        """
        admission = admit(arrivals, self._sequential.take(len(arrivals)), self.holdings, now)
        admission.changes += self.reservations()
        return admission

    def reservations(self) -> list[Change]:
        """What has to be stored before the numbers that were taken so far may leave."""
        taken = (counter.reservation() for counter in (self._sequential, self._message_ids))
        return [reservation for reservation in taken if reservation is not None]

    def commit(self, admission: Admission, now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.2.2 the changes are stored: the messages are available to all who wait.

        Those whose time is over already never become so (3.1.2.4, reading 31).
        """
        self.stored(admission.changes)
        effects: list[Effect] = []
        if admission.mortal:
            effects += self._expiry.sift(admission.mortal, now)[1]
        for queue, positions in admission.groups.items():
            if admission.mortal:
                positions = [position for position in positions if position.state is PositionState.ARRIVING]
            if queue.is_deleted:
                effects += gone_with_queue(positions)
            elif positions:
                queue.make_available(positions)
                effects += self._serve(queue, positions, now)
                if admission.changes or admission.overflow:
                    self._cache(positions)
        return effects

    def withdraw(self, admission: Admission) -> list[Change]:
        """The changes were not stored: the messages were never here.

        @return: what the store has to forget if it was handed the overflow; it is not waited for.
        """
        for position in admission.positions:
            self.holdings.unlink(position)
        forget_queues(admission.changes, admission.groups)
        return removals(position for position in admission.positions if position.kept is Kept.OVERFLOW)

    def overflowed(self, admission: Admission, *, is_stored: bool) -> None:
        """The store has the express messages for which memory had no room, or could not take them.

        In the second case memory keeps them all the same.
        """
        for position in admission.positions:
            if (
                position.kept is Kept.OVERFLOW
                and position.state is not PositionState.DELETED
                and not position.queue.is_deleted
            ):
                self.holdings.overflowed(position, is_stored=is_stored)

    def stored(self, changes: Iterable[Change]) -> None:
        """These changes are stored; whoever stores what this model did not ask for together tells it so."""
        for change in changes:
            if isinstance(change, PutState):
                for counter in (self._sequential, self._message_ids):
                    if change.name == counter.name:
                        counter.stored(change)

    def _cache(self, positions: Iterable[MessagePosition]) -> None:
        available = PositionState.AVAILABLE
        self.holdings.cache(position for position in positions if position.state is available)

    def _serve(self, queue: Queue, fresh: Sequence[MessagePosition], now: Moment) -> list[Effect]:
        effects = self.readers.serve(queue, fresh, now) if queue.readers else []
        if isinstance(queue, OutgoingQueue):
            effects.append(OutgoingReady(queue))
        return effects

    def _show(
        self, positions: Iterable[MessagePosition], now: Moment, *, is_return: bool = False
    ) -> list[Effect]:
        """Let readers find messages that have come into their queues, but those whose time is over.

        @param is_return: they were there before; the last goes first, so that each goes in front of those
            behind it.
        """
        fresh, departures = self._expiry.sift(positions, now)
        effects: list[Effect] = [*departures]
        for queue, arrived in by_queue(fresh).items():
            if queue.is_deleted:
                effects += () if queue.is_system else gone_with_queue(arrived)
            else:
                queue.make_available(sorted(arrived, key=_lookup_id, reverse=is_return))
                effects += self._serve(queue, arrived, now)
                self._cache(arrived)
        return effects

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
        owner: Hashable = None,
        allow_peek: bool = False,
        on_taken: OnTaken | None = None,
    ) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.1.10 Dequeue Message and 3.1.7.1.15 Peek Message, straight from a queue.

        What is available completes the read at once, up to C{count} messages. If there is nothing the
        answer is empty and an effect of a later call completes the read, until it is cancelled.
        Messages that are received stay locked until L{remove} and L{removed}, or L{release}.

        @param tag: by which the effects name this read; no other read may wait under it.
        @param deadline: when it stops waiting, in seconds of the monotonic clock; C{None} for never.
        @param owner: whose locks those on its messages are, a transaction for example; by default the tag.
        @param allow_peek: AllowPeekWhenLocked of its messages.
        @param on_taken: told of its messages in the moment in which they are locked; as L{WaitingReader}.
        @raise LocalProtocolError: the tag is taken, or C{count} is below 1.
        """
        reader = WaitingReader(tag, queue, peek, count, deadline, owner, allow_peek, on_taken)
        return self.readers.read(reader, now)

    def cancel(self, tag: Hashable, status: Status = Status.MQ_ERROR_OPERATION_CANCELLED) -> list[Effect]:
        """End the wait of one read; nothing if no read waits under this tag (any more)."""
        return self.readers.cancel(tag, status)

    def deadline(self, now: Moment) -> float | None:
        """When L{expire} has something to do next, in seconds of the monotonic clock."""
        if self._departures:
            return now.monotonic
        end_of_wait, expiry = self.readers.deadline(now), self._expiry.deadline(now)
        if end_of_wait is None or expiry is None:
            return expiry if end_of_wait is None else end_of_wait
        return min(end_of_wait, expiry)

    def expire(self, now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.2.3 and 3.1.7.2.7: end what has waited long enough, reads and messages.

        When very many are due together, each call deals with only some of them.
        """
        effects: list[Effect] = [*self._departures]
        self._departures.clear()
        effects += self.readers.expire(now)
        effects += self._expiry.expire(now)
        return effects + self.readers.look_again(now)

    def take(
        self, queue: Queue, count: int, owner: Hashable, now: Moment
    ) -> tuple[list[MessagePosition], list[Effect]]:
        """Lock what is available, without waiting; as L{Readers.take}."""
        return self.readers.take(queue, count, owner, now)

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

        Either L{removed} has to follow, or L{restored} if the changes were not stored. Positions that are
        not locked (any more), because their queue was deleted for example, are passed over; but the store
        forgets them at once as well, since their reader will be told that they are gone.
        """
        removing = PositionState.REMOVING
        leaving: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        gone: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                gone.append(position)
            elif position.state is PositionState.LOCKED_READER:
                position.state = removing
                leaving.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                purged.append(position)
        forgotten = removals((*gone, *purged))
        removal = self.copying.receive(leaving, finish_purge(purged))
        if not forgotten:
            return removal
        changes = [*removal.changes, *forgotten]
        return Removal(removal.positions, changes, removal.departures, removal.copies)

    def removed(self, removal: Removal, now: Moment) -> list[Effect]:
        """The changes of a removal are stored: the messages are out of their queues, the copies are there."""
        self.stored(removal.changes)
        for position in removal.positions:
            self.holdings.unlink(position)
        self._expiry.forget(removal.positions)
        return self._show(removal.copies, now) if removal.copies else []

    def restored(self, removal: Removal, now: Moment) -> list[Effect]:
        """The changes of a removal were not stored: its messages are given back."""
        self.copying.withdraw(removal.copies)
        forget_queues(removal.changes, (copy.queue for copy in removal.copies))
        return self.release(removal.positions, now)

    def release(self, positions: Iterable[MessagePosition], now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.2.2 give locked messages back, each in its place, to all who wait.

        Those whose time is over, or whose queue was purged meanwhile, leave instead.
        """
        back: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        gone: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                if position.state is PositionState.REMOVING:
                    gone.append(position)
                continue
            if position.state in (PositionState.LOCKED_READER, PositionState.REMOVING):
                position.state = PositionState.LOCKED_READER
                back.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                purged.append(position)
        return [*self._show(back, now, is_return=True), *finish_purge(purged), *gone_with_queue(gone)]

    def settle(self, departure: Departure, now: Moment) -> Settlement:
        """What has to be stored for messages to leave unread; either L{settled} or L{stay} has to follow.

        Whoever can has read their packets before, so that they can be told of and kept as dead letters.
        """
        return self.copying.settle(departure, now.wall)

    def settled(self, settlement: Settlement, now: Moment) -> list[Effect]:
        """The changes of a departure are stored: its messages are out of their queue."""
        self.stored(settlement.changes)
        positions = settlement.departure.positions
        for position in positions:
            self.holdings.unlink(position)
        self._expiry.forget(positions)
        return self._show(settlement.copies, now) if settlement.copies else []

    def unsettle(self, settlement: Settlement) -> None:
        """The changes of a departure were not stored: there are no copies, its messages are still leaving."""
        self.copying.withdraw(settlement.copies)
        forget_queues(settlement.changes, (copy.queue for copy in settlement.copies))

    # Queues are purged

    @property
    def last_sequential(self) -> int:
        """The SequentialID of the youngest message."""
        return self._sequential.last

    def purge(self, queue: Queue, through: int, count: int) -> Departure | None:
        """[MS-MQDMPR] 3.1.7.1.7 Purge Queue: let up to C{count} available messages leave.

        Either L{settled} or L{stay} has to follow. When nothing is left to leave the answer is C{None},
        and what readers have is going to leave as well: L{purged} tells what has to be stored for that.

        @param through: what is younger than this SequentialID stays.
        """
        departure = purge_available(queue, through, count)
        if departure is None:
            purge_locked(queue, through)
        return departure

    def purged(self, queue: Queue) -> list[Change]:
        """What has to be stored for what readers have of a purged queue to leave even after a crash."""
        return self._purge_pending.keep(queue)

    def stay(self, departure: Departure, now: Moment) -> list[Effect]:
        """A departure did not come about: its messages are back in their places."""
        for position in departure.positions:
            if position.state is PositionState.LEAVING:
                position.state = PositionState.REMOVING
        return self.release(departure.positions, now)

    # Messages are moved

    def move(self, position: MessagePosition, target: Queue) -> Relocation:
        """[MS-MQDMPR] 3.1.7.1.16 Move Message outside a transaction; L{moved} or L{unmove} has to follow.

        @param position: available.
        @raise MQError: as L{check_move}, or MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if it is not available.
        """
        check_move(position.queue, target, is_transactional=False)
        check_available(position)
        position.queue.let_go(position)
        position.state = PositionState.REMOVING
        return self.move_locked([position], target)

    def move_locked(self, positions: Sequence[MessagePosition], target: Queue) -> Relocation:
        """Move messages that the caller has locked; L{moved} or L{unmove} has to follow."""
        relocation = Relocation()
        relocate(self.holdings, ((position, target) for position in positions), relocation)
        return relocation

    def moved(self, relocation: Relocation, now: Moment) -> list[Effect]:
        """The changes of a move are stored: the messages are in their new queues, for all who wait there."""
        self.stored(relocation.changes)
        self._expiry.forget(position for position, _ in relocation.moves)
        return self._show(finish_move(self.holdings, relocation), now)

    def unmove(self, relocation: Relocation, now: Moment) -> list[Effect]:
        """The changes of a move were not stored: the messages are where they were."""
        undo_move(self.holdings, relocation)
        forget_queues(relocation.changes, (place.queue for _, place in relocation.moves))
        return self.release((position for position, _ in relocation.moves), now)

    def disposed(
        self, position: MessagePosition, copies: Iterable[MessagePosition], now: Moment
    ) -> list[Effect]:
        """A message that was locked is out of its queue, and its copies are there."""
        self.holdings.unlink(position)
        self._expiry.forget((position,))
        return self._show(copies, now)

    # Transactions end

    def committed(self, commitment: Commitment, now: Moment) -> list[Effect]:
        """The changes of a commit are stored: all that the transaction did is there, at once."""
        effects: list[Effect] = []
        self.stored(commitment.changes)
        effects += self.removed(commitment.removal, now)
        effects += self.moved(commitment.relocation, now)
        for queue, positions in commitment.sent.items():
            if queue.is_deleted:
                effects += gone_with_queue(positions)
            else:
                fresh, departures = self._expiry.sift(positions, now)
                effects += departures
                if fresh:
                    queue.make_available(fresh)
                    effects += self._serve(queue, fresh, now)
                    self._cache(fresh)
        effects += gone_with_queue(commitment.lost, is_told=True)
        if commitment.back:
            effects += self.release(commitment.back, now)
        self.transacting.end(commitment)
        return effects

    def aborted(self, abortion: Abortion, now: Moment) -> list[Effect]:
        """Give the messages of an aborted transaction back, poisonous ones aside."""
        return [*self.release(abortion.back, now), *abortion.departures]


def _lookup_id(position: MessagePosition) -> int:
    return position.lookup_id
