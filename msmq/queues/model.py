"""QueueManager: its queues, and the events that change them. [MS-MQDMPR] 3.1.1.1, 3.1.7.1 to 3.1.7.3.

Everything here is synchronous and returns values: the changes to store, and the effects to perform.
A change is requested first, and becomes visible when the caller reports that it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.persistence.definition import UNLIMITED, quota_in_bytes
from msmq.persistence.snapshot import Snapshot
from msmq.queues.arriving.arrivals import QueueArrivals
from msmq.queues.arriving.availability import Availability
from msmq.queues.collection import QueueCollection
from msmq.queues.counters import MessageNumbers
from msmq.queues.creation import Alteration, Creation, Deletion
from msmq.queues.effects import Effect
from msmq.queues.holdings import Holdings, Storage
from msmq.queues.leaving.copies import MessageCopies
from msmq.queues.leaving.deadlines import ExpiringMessages
from msmq.queues.leaving.deletion import QueueDeletion
from msmq.queues.leaving.departure_kinds import Departure, Removal, gone_with_queue
from msmq.queues.leaving.departures import Departures
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.leaving.moves import Moves
from msmq.queues.leaving.purge import PurgePending, finish_purge, purge_available, purge_locked
from msmq.queues.leaving.transaction import Abortion, Commitment
from msmq.queues.leaving.transactions import QueueTransactions
from msmq.queues.machine_quota import MachineQuotas, QuotaKind
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.pauses import QueuePauses
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.queue_names import QueueNames
from msmq.queues.reading.descriptors import OpenQueueDescriptors
from msmq.queues.reading.operations import OnTaken, WaitingReader
from msmq.queues.reading.readers import Readers
from msmq.structures.names.format_name import (
    FormatName,
    MachineFormatName,
)
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import PathName
from msmq.structures.packet.base_header import TIME_TO_REACH_QUEUE

DEFAULT_QUEUE_MANAGER_QUOTA = 0x00100000
"""QueueManagerQuota of a new queue manager, in kilobytes: 1 GiB. [MS-MQDMPR] 3.1.1.1."""


def _no_own_address(address: str) -> bool:
    return False


PEER_DEAD_LETTERS: Final = 64 * 1024
"""Kilobytes of the dead-letter queue that messages of other queue managers may fill by default."""


@attrs.frozen(kw_only=True)
class ModelLimits:
    """Limits that can change while a queue manager runs; see L{QueueManagerModel}."""

    quota: int
    journal_quota: int
    peer_dead_letters: int
    express_memory: int | None
    packet_memory: int | None


class QueueManagerModel:
    """QueueManager and the QueueCollection. [MS-MQDMPR] 3.1.1.1.

    It is composed of parts, and their methods are available here: L{QueueNames.queue_for}, L{MessageNumbers},
    L{QueueArrivals}, L{Departures}, L{Moves}, and C{take} and C{cancel} of L{Readers}.

    @ivar identifier: the GUID of this queue manager.
    @ivar is_hardened: HardenedSecurity, whether messages are transferred over HTTP only.
    @ivar time_to_reach_queue: the default TimeToReachQueue in seconds ([MS-MQDMPR] 3.1.1.6
        DefaultTimeToLive); its owner may set the value of a directory.
    @ivar names: resolves the names of this queue manager and of its queues.
    @ivar collection: the queues.
    @ivar storage: usage and limits of all queues together; its owner may set C{throttled}
        ([MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6, Begin and End Flow Control).
    @ivar quotas: the quotas of all queues together.
    @ivar readers: the reads, including waiting ones.
    @ivar descriptors: the handles of open queues.
    @ivar copying: creates the copies for journals and dead-letter queues.
    @ivar transacting: the transactions.
    """

    def __init__(
        self,
        identifier: UUID,
        *,
        computer_names: Collection[str],
        is_own_address: Callable[[str], bool] = _no_own_address,
        quota: int = DEFAULT_QUEUE_MANAGER_QUOTA,
        journal_quota: int = UNLIMITED,
        peer_dead_letters: int = PEER_DEAD_LETTERS,
        express_memory: int | None = None,
        packet_memory: int | None = None,
        poison_after: int = 0,
        is_hardened: bool = False,
        now: Moment,
    ) -> None:
        """Create a queue manager with only the system queues.

        @param computer_names: the names of this computer in C{DIRECT=OS:} and paths, in addition to C{.} and
            C{localhost}.
        @param is_own_address: whether an IP address in C{DIRECT=TCP:} is one of this computer; called each
            time, since interfaces change.
        @param quota: QueueManagerQuota in kilobytes, 0xFFFFFFFF for none.
        @param journal_quota: JournalQuota in kilobytes, for all journals and dead-letter queues together.
        @param peer_dead_letters: kilobytes of the dead-letter queue up to which messages of other queue
            managers that fail on arrival or in transit are kept there; 0xFFFFFFFF for no limit.
        @param express_memory: bytes of express messages in memory beyond which they are written to the store;
            C{None} for no limit.
        @param packet_memory: bytes of stored packets that are cached in memory; C{None} for all.
        @param poison_after: the number of aborted transactions that received a message after which it is
            moved to the subqueue C{poison}; 0 for never.
        @param is_hardened: HardenedSecurity, whether messages are transferred over HTTP only.
        """
        self.identifier = identifier
        self.is_hardened = is_hardened
        self.time_to_reach_queue = TIME_TO_REACH_QUEUE
        self.names = QueueNames(identifier, computer_names, is_own_address)
        self.storage = Storage(
            quota_in_bytes(quota),
            journal_limit=quota_in_bytes(journal_quota),
            peer_dead_letters=quota_in_bytes(peer_dead_letters),
            express_limit=express_memory,
            cache_limit=packet_memory,
        )
        self.quotas = MachineQuotas(
            self.storage, {QuotaKind.QUEUES: quota, QuotaKind.JOURNALS: journal_quota}
        )
        deadlines = ExpiringMessages()
        self.collection = QueueCollection(identifier, self.names, deadlines, is_hardened=is_hardened)
        self._expiry = Expiry(deadlines)
        self._purge_pending = PurgePending()
        self._pauses = QueuePauses()
        self._departures: list[Departure] = []
        self.readers = Readers(self._expiry)
        self.descriptors = OpenQueueDescriptors(self.collection, self.readers)
        self._numbers = MessageNumbers.beginning(now)
        self.holdings = Holdings(self.storage, self._numbers.sequential)
        self.copying = MessageCopies(
            self.holdings,
            identifier.bytes_le,
            self.system_queue(QueueSuffix.DEADLETTER),
            self.system_queue(QueueSuffix.DEADXACT),
            self.system_queue(QueueSuffix.JOURNAL),
            self.names.find,
        )
        self._deleting = QueueDeletion(
            self.collection, self.holdings, self.readers, self._expiry, self.copying
        )
        self.transacting = QueueTransactions(self.holdings, self.copying, self.collection, poison_after)
        self._bind_methods()

    def _bind_methods(self) -> None:
        # The methods of the parts are available here under the same names. Binding them once saves a second
        # call; some of them are called for every message.
        numbers, holdings, expiry = self._numbers, self.holdings, self._expiry
        self.queue_for = self.names.queue_for
        self.take_message_ids = numbers.take_message_ids
        self.reservations = numbers.reservations
        self.renewed = numbers.renewed
        self.stored = numbers.stored
        self._showing = showing = Availability(holdings, self.readers, expiry)
        arrivals = QueueArrivals(numbers, holdings, expiry, showing, self.copying, self.collection)
        self.admit = arrivals.admit
        self.dead_letter_refused = arrivals.dead_letter_refused
        self.commit = arrivals.commit
        self.withdraw = arrivals.withdraw
        self.overflowed = arrivals.overflowed
        self.cancel = self.readers.cancel
        self.take = self.readers.take
        departures = Departures(numbers, holdings, self.copying, expiry, showing)
        self.remove = departures.remove
        self.removed = departures.removed
        self.restored = departures.restored
        self.release = departures.release
        self.reject = departures.reject
        self.lost = departures.lost
        self.disposed = departures.disposed
        self.settle = departures.settle
        self.settled = departures.settled
        self.unsettle = departures.unsettle
        self.cancel_departure = departures.cancel_departure
        moves = Moves(numbers, holdings, expiry, showing, departures)
        self.move = moves.move
        self.transfer = moves.transfer
        self.move_locked = moves.move_locked
        self.moved = moves.moved
        self.unmove = moves.unmove

    def configure(self, limits: ModelLimits) -> None:
        """Apply new limits at once; existing messages stay, even beyond the limits."""
        storage = self.storage
        self.quotas.configure(limits.quota, limits.journal_quota)
        storage.peer_dead_letters = quota_in_bytes(limits.peer_dead_letters)
        storage.express_limit = limits.express_memory
        storage.cache_limit = limits.packet_memory

    # Queries

    def restore(self, snapshot: Snapshot, now: Moment) -> None:
        """Restore the state from the store; called before anything else. [MS-MQDMPR] 3.1.3.

        Messages that have expired, or that readers had locked when their queue was purged, are removed by the
        first L{expire}.
        """
        self._numbers.resume(snapshot.state, now)
        self.quotas.load(snapshot.state)
        for queue, columns in self.collection.restore(snapshot):
            self.holdings.restore(queue, len(columns), sum(columns.sizes))
            pending = self._purge_pending.restore(queue, snapshot.state)
            positions = queue.restore(columns, pending)
            self._departures += finish_purge([each for each in positions if each.lookup_id in pending])
            self._expiry.remember(each for each in positions if each.lookup_id not in pending)
        for queue in self.queues():
            self._pauses.restore(queue, snapshot.state)

    def queues(self) -> Iterator[Queue]:
        """The queues of this queue manager, in the order of their creation.

        Outgoing queues, journals, subqueues and system queues are excluded.
        """
        return self.names.queues()

    @property
    def dead_letter_counts(self) -> Mapping[int, int]:
        """Messages that entered a dead-letter queue since the process began, by class."""
        return self._showing.dead_letters

    def system_queue(self, suffix: QueueSuffix) -> Queue:
        """The machine journal, SystemDeadletterQueue or SystemTransactionalDeadletterQueue."""
        queue = self.names.find(MachineFormatName(self.identifier, suffix))
        if queue is None:
            raise LocalProtocolError(f"{suffix} is not a system queue")
        return queue

    def outgoing_queues(self) -> Iterator[OutgoingQueue]:
        """The outgoing queues, in the order of their creation."""
        return self.collection.outgoing_queues()

    def find(self, name: FormatName | PathName) -> Queue | None:
        """The local queue with this name; C{None} for any other name."""
        return self.names.find(name)

    def is_local(self, name: FormatName | PathName) -> bool:
        """Whether C{name} is the name of a local queue, whether it exists or not."""
        return self.names.is_local(name)

    def format_name(self, queue: Queue) -> FormatName:
        """The format name of a queue, which is valid on every queue manager."""
        return self.names.format_name(queue)

    @property
    def message_count(self) -> int:
        """The number of messages in all queues of every kind."""
        return self.storage.messages

    @property
    def queue_count(self) -> int:
        """The number of L{queues}."""
        return self.names.queue_count

    @property
    def paused_count(self) -> int:
        """The number of queues whose reading is paused."""
        return self._pauses.count

    # Creation and deletion

    def create_queue(self, name: PathName, *, identifier: UUID, now: Moment, **properties: Any) -> Creation:
        """Create Queue, for private queues. [MS-MQDMPR] 3.1.7.1.3.

        Either L{created} or L{abandon} has to follow.

        @param identifier: a GUID that no other queue ever had.
        @param properties: attributes of L{msmq.persistence.definition.QueueDefinition}.
        @raise MQError: as L{QueueCollection.create}.
        """
        return self.collection.create(name, identifier=identifier, now=now, **properties)

    def created(self, creation: Creation) -> None:
        """The changes of a creation are stored: the queue exists."""
        self.collection.created(creation)

    def abandon(self, creation: Creation) -> None:
        """The changes of a creation were not stored: its name is free again."""
        self.collection.abandon(creation)

    def alter_queue(self, queue: Queue, now: Moment, **properties: Any) -> Alteration:
        """Change properties of a queue; L{altered} has to follow if they are stored. [MS-MQDMPR] 3.1.1.2.

        @raise MQError: as L{QueueCollection.alter}.
        """
        return self.collection.alter(queue, now, **properties)

    def altered(self, alteration: Alteration) -> None:
        """The changes of an alteration are stored: the queue has its new properties."""
        self.collection.altered(alteration)

    def delete_queue(self, queue: Queue) -> Deletion:
        """Delete Queue: it disappears at once, with its journal and its subqueues. [MS-MQDMPR] 3.1.7.1.4.

        The messages in it and in its subqueues are reported to their senders slice by slice
        (L{delete_messages}); those in its journal are not reported (reading 17). Then its fence has to be
        stored, until it is decided, and its changes; L{deleted} has to follow.

        @raise MQError: as L{QueueCollection.remove}.
        """
        deletion = self._deleting.delete(queue)
        forgotten = [change for member in deletion.family for change in self._purge_pending.forget(member)]
        return attrs.evolve(
            deletion, changes=(*deletion.changes, *forgotten, *self._pauses.forget(deletion.queue))
        )

    def delete_messages(
        self, positions: Sequence[MessagePosition], now: Moment, *, in_bulk: bool = False
    ) -> Removal:
        """The changes that remove messages of a deleted queue, each with its event.

        Their packets are in memory, as far as they could be read. L{messages_deleted} has to follow.

        Messages with a pending enqueue or removal stay, since that operation reports them.

        @param in_bulk: as of L{settle}.
        """
        return self._deleting.delete_messages(positions, now, in_bulk=in_bulk)

    def deletion_failed(self, removal: Removal) -> None:
        """The changes of L{delete_messages} are not stored: L{renew_deletion} has to follow."""
        self._deleting.withdraw(removal)

    def renew_deletion(self, removal: Removal, now: Moment, *, in_bulk: bool) -> Removal:
        """The changes of L{delete_messages} once more, after L{deletion_failed}."""
        return self._deleting.renew(removal, now, in_bulk=in_bulk)

    def messages_deleted(self, removal: Removal, now: Moment) -> list[Effect]:
        """The changes of L{delete_messages} are stored: their dead letters become available."""
        self.stored(removal.changes)
        self.copying.dropped += removal.dropped
        return self._showing.show(removal.copies, now) if removal.copies else []

    def pause_change(self, queue: Queue, paused: bool) -> Change:
        """The change that pauses the reading of a queue, or ends that; L{set_paused} has to follow.

        @raise MQError: as L{msmq.queues.pauses.check_pausable}.
        """
        return self._pauses.change(queue, paused)

    def set_paused(self, queue: Queue, paused: bool, now: Moment) -> list[Effect]:
        """The change of L{pause_change} is stored: receives wait as in an empty queue, or go on."""
        self._pauses.set(queue, paused)
        return [] if paused else self.readers.resume([queue, *queue.subqueues.values()], now)

    def deleted(self, deletion: Deletion) -> None:
        """The changes of a deletion are stored: its name is free again."""
        self.collection.removed(deletion.queue)

    def forget_empty(self, queue: Queue) -> list[Change]:
        """Delete a subqueue that is empty and not open; as L{QueueCollection.forget_empty}."""
        changes = self.collection.forget_empty(queue)
        return [*changes, *self._purge_pending.forget(queue)] if queue.is_deleted else changes

    def outgoing(self, destination: FormatName, now: Moment, *, base_priority: int = 0) -> OutgoingQueue:
        """The outgoing queue of a format name; as L{QueueCollection.outgoing}. [MS-MQDMPR] 3.1.7.1.5."""
        return self.collection.outgoing(destination, now, base_priority=base_priority)

    # Reads

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
        """Dequeue Message and Peek Message, without a handle. [MS-MQDMPR] 3.1.7.1.10 and 3.1.7.1.15.

        Available messages complete the read at once, up to C{count}. If there are none the result is empty
        and an effect of a later call completes the read, unless it is cancelled. Received messages stay
        locked until L{remove} and L{removed}, or L{release}.

        @param tag: identifies this read in effects; no other waiting read may have it.
        @param deadline: when it stops waiting, in seconds of the monotonic clock; C{None} for never.
        @param owner: the owner of the locks on its messages, a transaction for example; by default the tag.
        @param allow_peek: AllowPeekWhenLocked of its messages.
        @param on_taken: called with its messages when they are locked; as L{WaitingReader}.
        @raise LocalProtocolError: the tag is in use, or C{count} is below 1.
        """
        reader = WaitingReader(tag, queue, peek, count, deadline, owner, allow_peek, on_taken)
        return self.readers.read(reader, now)

    def deadline(self, now: Moment) -> float | None:
        """When L{expire} has to be called next, in seconds of the monotonic clock."""
        if self._departures:
            return now.monotonic
        end_of_wait, expiry = self.readers.deadline(now), self._expiry.deadline(now)
        if end_of_wait is None or expiry is None:
            return expiry if end_of_wait is None else end_of_wait
        return min(end_of_wait, expiry)

    def expire(self, now: Moment) -> list[Effect]:
        """End expired reads and remove expired messages. [MS-MQDMPR] 3.1.2.3 and 3.1.7.2.7.

        When very many are due together, each call handles some of them.
        """
        effects: list[Effect] = [*self._departures]
        self._departures.clear()
        effects += self.readers.expire(now)
        effects += self._expiry.expire(now)
        return effects + self.readers.look_again(now)

    def schedule_expiry(
        self, positions: Iterable[MessagePosition], now: Moment
    ) -> tuple[list[MessagePosition], list[Effect]]:
        """The messages that have not expired; the effects remove the others.

        It is called when restored messages have been read from the store, since only then their time is
        known.

        @param positions: locked or available.
        """
        fresh, departures = self._expiry.schedule_expiry(positions, now)
        return fresh, [*departures]

    # Purge

    @property
    def last_sequential(self) -> int:
        """The SequentialID of the youngest message."""
        return self._numbers.sequential.last

    def purge(self, queue: Queue, through: int, count: int) -> Departure | None:
        """Purge Queue: remove up to C{count} available messages. [MS-MQDMPR] 3.1.7.1.7.

        Either L{settled} or L{cancel_departure} has to follow. When no more messages are available the result
        is C{None}, and messages locked by readers are going to be removed as well: L{purged} returns the
        changes for that.

        @param through: the SequentialID of the youngest message to remove.
        """
        departure = purge_available(queue, through, count)
        if departure is None:
            purge_locked(queue, through)
        return departure

    def purged(self, queue: Queue) -> list[Change]:
        """The changes that keep the messages of a purged queue from coming back after a crash.

        They are about messages that readers have locked, and those whose removal is pending.
        """
        return self._purge_pending.keep(queue)

    # End of transactions

    def committed(self, commitment: Commitment, now: Moment) -> list[Effect]:
        """The changes of a commit are stored: all operations of the transaction take effect at once."""
        effects = self.part_committed(commitment, now)
        self.transacting.end(commitment.transaction)
        return effects

    def part_committed(self, commitment: Commitment, now: Moment) -> list[Effect]:
        """The same for a part of its operations; C{transacting.end} has to follow the last."""
        effects: list[Effect] = []
        self.stored(commitment.changes)
        effects += self.removed(commitment.removal, now)
        effects += self.moved(commitment.relocation, now)
        for queue, positions in commitment.sent.items():
            if queue.is_deleted:
                effects += gone_with_queue(positions)
            else:
                queue.pack()
                fresh, departures = self._expiry.schedule_expiry(positions, now)
                effects += departures
                if fresh:
                    queue.arrived_count += len(fresh)
                    queue.make_available(fresh)
                    effects += self._showing.serve(queue, fresh, now)
                    self._showing.cache(fresh)
        effects += gone_with_queue(commitment.lost, is_reported=True)
        if commitment.back:
            effects += self.release(commitment.back, now)
        return effects

    def aborted(self, abortion: Abortion, now: Moment) -> list[Effect]:
        """Return the messages of an aborted transaction to their queues; poison messages are moved."""
        return [*self.release(abortion.back, now), *abortion.departures]
