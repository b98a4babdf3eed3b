"""A queue manager and its store, which executes commits in order, at once or later, or fails them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID, uuid5

from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent, Change
from msmq.queues.arriving.admission import Admission, EnqueueRefusal
from msmq.queues.creation import Deletion
from msmq.queues.effects import Effect, OutgoingReady, ReadCompleted, ReadFailed
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.leaving.relocation import Relocation
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.model import QueueManagerModel
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.queue_names import one_of
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.user_message_rewrites import in_transaction
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA
from tests.queues.builders import NOW, arriving
from tests.queues.simulated_store import Store, nothing

_numbers = itertools.count(1)


class Alpha:
    """ALPHA with its store, doing what a queue manager does with the answers of its model.

    @ivar reads: the result of each read, by its tag.
    @ivar departures: all messages that left unread, in order.
    @ivar waiting: removals that the store refused.
    @ivar deleting: how many deleted queues have messages without an event yet.
    @ivar dying: deleted queues that are still in the store.
    @ivar undecided: those of them for which something cannot be decided just now.
    @ivar on_admitted: called with messages that are about to be stored.
    @ivar on_arrived: called with whether they were.
    @ivar on_received: called with messages that were received permanently.
    @ivar on_forgotten: called with messages that their readers have, although their queues were deleted.
    @ivar on_ended: called with transactions and whether they were committed.
    """

    def __init__(self, *, store: Store | None = None, now: Moment = NOW, **limits: Any) -> None:
        self.store = Store() if store is None else store
        self.limits = limits
        self.now = now
        self.model = QueueManagerModel(
            ALPHA,
            computer_names=["ALPHA", "alpha.example.com"],
            is_own_address=one_of(["127.0.0.2"]),
            now=now,
            **limits,
        )
        self.model.restore(self.store.contents.snapshot(), now)
        self.reads: dict[object, list[MessagePosition] | ReadFailed] = {}
        self.departures: list[Departure] = []
        self.waiting: list[Departure] = []
        self.deleting = 0
        self.dying: list[Deletion] = []
        self.undecided: list[Deletion] = []
        self.tags = itertools.count()
        self.on_admitted: Callable[[Admission], None] = lambda admission: None
        self.on_arrived: Callable[[Admission, bool], None] = lambda admission, is_stored: None
        self.on_received: Callable[[Sequence[MessagePosition]], None] = lambda positions: None
        self.on_forgotten: Callable[[Sequence[MessagePosition]], None] = lambda positions: None
        self.on_ended: Callable[[Transaction, bool], None] = lambda transaction, is_committed: None

    def restart(self) -> Alpha:
        """The next life, with what the store has by now."""
        self.store.batches.clear()
        self.store.contents.express.clear()
        return Alpha(store=self.store, now=self.now, **self.limits)

    # Queues

    def create(self, name: str = "orders", **properties: Any) -> Queue:
        """A private queue."""
        creation = self.model.create_queue(
            parse_path_name(f".\\private$\\{name}"),
            identifier=uuid5(ALPHA, f"{name}/{next(_numbers)}"),
            now=self.now,
            **properties,
        )
        self.store.ask(
            creation.changes,
            lambda: self.model.created(creation),
            lambda: self.model.abandon(creation),
        )
        return creation.queue

    def subqueue(self, queue: Queue, name: str = "sub") -> Queue:
        """A subqueue, created if it does not exist."""
        return self.model.collection.subqueue(queue, name, self.now)

    def find(self, path: str) -> Queue:
        """The queue of a path."""
        queue = self.model.find(parse_path_name(path))
        assert queue is not None, path
        return queue

    def delete(self, queue: Queue, *, at_once: int = 2) -> Deletion:
        """Delete a queue, telling of its messages a few at a time."""
        deletion = self.model.delete_queue(queue)
        self.perform(deletion.effects)
        self.dying.append(deletion)
        self.deleting += 1
        self._delete_some(deletion, at_once)
        return deletion

    def _delete_some(self, deletion: Deletion, at_once: int) -> None:
        if not deletion.positions:
            self.deleting -= 1
            self._end_deletion(deletion)
            return
        some = deletion.positions.take(at_once)
        self.load(position for position in some if position.is_at_rest)
        removal = self.model.delete_messages(some, self.now)

        def deleted() -> None:
            self.perform(self.model.messages_deleted(removal, self.now))
            self._delete_some(deletion, at_once)

        self._insist(removal.changes, deleted)

    def _end_deletion(self, deletion: Deletion) -> None:
        if deletion.is_decided:
            self.dying.remove(deletion)
            self._insist(deletion.changes, lambda: self.model.deleted(deletion))
        elif self.store.batches:
            self._insist(deletion.fence, lambda: self._end_deletion(deletion))
        else:
            self.undecided.append(deletion)

    def _insist(self, changes: Sequence[Change], done: Callable[[], None]) -> None:
        self.store.ask(changes, done, lambda: self._insist(changes, done))

    def purge(self, queue: Queue) -> None:
        """Purge a queue."""
        self._purge(queue, self.model.last_sequential)

    def _purge(self, queue: Queue, through: int) -> None:
        departure = self.model.purge(queue, through, 2)
        if departure is not None:
            self.departures.append(departure)
            self._finish(
                departure,
                lambda: self._purge(queue, through),
                lambda: self.perform(self.model.cancel_departure(departure, self.now)),
            )
        else:
            self.store.ask(self.model.purged(queue))

    def forget_empty(self, queue: Queue) -> None:
        """Let a subqueue go if nothing is in it."""
        changes = self.model.collection.forget_empty(queue)
        if changes:
            self._insist(changes, lambda: None)

    # Messages come

    def put(self, queue: Queue, *messages: UserMessageView | bytes) -> Admission:
        """Let messages come in."""
        views = [arriving(each, recoverable=True) if isinstance(each, bytes) else each for each in messages]
        admission = self.model.admit([(queue, view) for view in views], self.now)
        self.on_admitted(admission)
        if admission.overflow:
            self.store.ask(
                admission.overflow,
                lambda: self.model.overflowed(admission, is_stored=True),
                lambda: self.model.overflowed(admission, is_stored=False),
            )

        def done() -> None:
            self.on_arrived(admission, True)
            self.perform(self.model.commit(admission, self.now))

        def failed() -> None:
            self.on_arrived(admission, False)
            removals = self.model.withdraw(admission)
            if removals:
                self._insist(removals, lambda: None)

        self.store.ask(admission.changes, done, failed)
        return admission

    # Messages are read

    def read(self, queue: Queue, *, count: int = 1, peek: bool = False, wait: bool = False) -> object:
        """Begin a read; answers with its tag."""
        tag = next(self.tags)
        self.perform(
            self.model.receive(
                queue,
                tag=tag,
                now=self.now,
                peek=peek,
                count=count,
                deadline=None if wait else self.now.monotonic,
            )
        )
        return tag

    def receive(self, queue: Queue, count: int = 1) -> list[MessagePosition]:
        """Lock what is there, and read its packets."""
        found = self.reads.pop(self.read(queue, count=count))
        positions = [] if isinstance(found, ReadFailed) else found
        self.load(positions)
        return positions

    def confirm(self, positions: Iterable[MessagePosition]) -> None:
        """These were received."""
        held = list(positions)
        orphans = [position for position in held if position.queue.is_deleted]
        removal = self.model.remove(held)
        self.perform(removal.departures)

        def done() -> None:
            self.on_received(removal.positions)
            self.on_forgotten(orphans)
            self.perform(self.model.removed(removal, self.now))

        self.store.ask(removal.changes, done, lambda: self.perform(self.model.restored(removal, self.now)))

    def give_back(self, positions: Iterable[MessagePosition]) -> None:
        """These were not."""
        self.perform(self.model.release(positions, self.now))

    def bodies(self, queue: Queue) -> list[bytes]:
        """The bodies that a reader would get, in order."""
        return [self.body(position) for position in queue.peek(1 << 20)]

    def body(self, position: MessagePosition) -> bytes:
        """The body of a message, from memory or the store."""
        return bytes(self.view(position).body)

    def view(self, position: MessagePosition) -> UserMessageView:
        """The packet of a message, wherever it is."""
        if position.view is not None:
            return position.view
        self.store.drain()
        packet = self.store.contents.packet(position.queue.definition.identifier, position.lookup_id)
        assert packet is not None, f"there is no packet of {position}"
        return UserMessageView(packet)

    def load(self, positions: Iterable[MessagePosition]) -> None:
        """Read packets from the store."""
        for position in positions:
            if position.view is None:
                position.view = self.view(position)

    # Messages are moved

    def move(self, position: MessagePosition, target: Queue) -> None:
        """Move an available message."""
        self._relocate(self.model.move(position, target))

    def transfer(self, positions: Sequence[MessagePosition], target: Queue) -> None:
        """Move available messages of one queue to any other."""
        self._relocate(self.model.transfer(positions, target))

    def _relocate(self, relocation: Relocation) -> None:
        self.store.ask(
            relocation.changes,
            lambda: self.perform(self.model.moved(relocation, self.now)),
            lambda: self.perform(self.model.unmove(relocation, self.now)),
        )

    # Transactions

    def begin(self) -> Transaction:
        """A new transaction."""
        identifier = UUID(int=next(_numbers))
        return self.model.transacting.transactions.create(identifier, self.now.wall)

    def send_in(
        self, transaction: Transaction, queue: Queue, *messages: UserMessageView | bytes
    ) -> list[EnqueueRefusal]:
        """Send transactional messages."""
        views = [arriving(each, transactional=True) if isinstance(each, bytes) else each for each in messages]
        return self.model.transacting.send(transaction, [(queue, view) for view in views], self.now)

    def receive_in(self, transaction: Transaction, queue: Queue, count: int = 1) -> list[MessagePosition]:
        """Receive what is there."""
        positions = self.receive(queue, count)
        self.model.transacting.receive(transaction, positions)
        return positions

    def move_in(self, transaction: Transaction, position: MessagePosition, target: Queue) -> None:
        """Move an available message."""
        self.model.transacting.lock_and_move(transaction, position, target)

    def commit(self, transaction: Transaction) -> None:
        """Commit, or abort if a queue from which it has received was deleted."""
        try:
            commitment = self.model.transacting.commit(transaction, self.give_places, self.now)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_QUEUE_DELETED:
                raise
            self.abort(transaction)
            return

        def done() -> None:
            self.on_ended(transaction, True)
            self.on_received(commitment.removal.positions)
            effects = self.model.committed(commitment, self.now)
            self.perform(commitment.removal.departures)
            self.perform(effects)

        self.store.ask(
            commitment.changes,
            done,
            lambda: self.perform(self.model.transacting.uncommit(commitment)),
        )

    def give_places(self, queue: Queue, positions: Sequence[MessagePosition]) -> Sequence[Change]:
        """Number the messages that a transaction sends to a queue."""
        sequence = TxSequenceID(self.model.take_message_ids(1), self.now.unix_seconds)
        views = [UserMessageView(position.packet) for position in positions]
        for position, view in zip(positions, in_transaction(views, sequence.value, 1, 7), strict=True):
            position.view = view
        return self.model.reservations()

    def abort(self, transaction: Transaction) -> None:
        """Abort, and move poisonous messages aside."""
        abortion = self.model.transacting.abort(transaction, self.now)
        self.on_ended(transaction, False)
        self.store.ask(abortion.changes)
        self.perform(self.model.aborted(abortion, self.now))
        for relocation in self.model.transacting.poison(abortion, self.now):
            self._relocate(relocation)

    # Time, and what follows

    def later(self, seconds: float) -> None:
        """Let time pass, and let leave what is due."""
        self.now = self.now.later(seconds)
        while (deadline := self.model.deadline(self.now)) is not None and deadline <= self.now.monotonic:
            self.perform(self.model.expire(self.now))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Believe what the model answers."""
        for effect in effects:
            match effect:
                case ReadCompleted(tag, positions):
                    self.reads[tag] = list(positions)
                case ReadFailed(tag):
                    self.reads[tag] = effect
                case Departure():
                    self.departures.append(effect)
                    self._finish(effect)
                case OutgoingReady():
                    pass

    def _finish(
        self,
        departure: Departure,
        done: Callable[[], None] = nothing,
        failed: Callable[[], None] | None = None,
    ) -> None:
        self.load(position for position in departure.positions if position.is_stored)
        settlement = self.model.settle(departure, self.now)

        def settled() -> None:
            self.perform(self.model.settled(settlement, self.now))
            done()

        def unsettled() -> None:
            self.model.unsettle(settlement)
            if failed is None:
                self.waiting.append(departure)
            else:
                failed()

        self.store.ask(settlement.changes, settled, unsettled)

    def try_again(self) -> None:
        """Ask the store again to let messages go, and then deleted queues."""
        waiting, self.waiting = self.waiting, []
        for departure in waiting:
            self._finish(departure)
        undecided, self.undecided = self.undecided, []
        for deletion in undecided:
            self._end_deletion(deletion)

    # What can be seen

    @property
    def events(self) -> list[tuple[str, str]]:
        """The entries of the event log: what happened, and in which queue."""
        return [(entry.event.event, entry.event.queue) for entry in self.store.contents.events]

    @property
    def last_events(self) -> list[AppendEvent]:
        """The whole event log."""
        return [entry.event for entry in self.store.contents.events]

    def stored(self, queue: Queue) -> list[bytes]:
        """The messages of a queue that the store has durably, in order."""
        kept: Any = self.store.contents.messages.get(queue.definition.identifier, {})
        return [bytes(UserMessageView(kept[number].packet).body) for number in sorted(kept)]

    def check(self) -> None:
        """Check that all counts are consistent, with any pending operations."""
        storage = self.model.storage
        queues = list(self.model.collection.all_queues())
        for queue in queues:
            inside = list(queue.positions.values())
            assert all(position.queue is queue for position in inside), "a position is in its own queue"
            assert queue.total_bytes == sum(position.size for position in inside), queue
            parts = [*queue.subqueues.values(), *(each.queue for each in self.dying)]
            of_parts = sum(each.total_bytes for each in parts if each.parent is queue)
            assert queue.subqueue_bytes == of_parts, queue
            seen = [position.lookup_id for position in queue.peek(1 << 20)]
            available = sorted(
                position.lookup_id for position in inside if position.state is PositionState.AVAILABLE
            )
            assert seen == available, "what is available can be received, in order, and nothing else"
            assert PositionState.DELETED not in {position.state for position in inside}
            for number, position in queue.positions.items():
                assert number == position.lookup_id
                assert position.view is not None or position.is_stored, "the packet is stored or in memory"
                assert position.view is None or position.size == position.view.size
        queues += (queue for each in self.dying for queue in (each.queue, *each.queue.subqueues.values()))
        everything = [position for queue in dict.fromkeys(queues) for position in queue.positions.values()]
        assert storage.used == sum(position.size for position in everything)
        assert storage.messages == len(everything)
        assert storage.journaled == sum(position.size for position in everything if position.queue.is_system)
        assert 0 <= storage.express and 0 <= storage.cached
        if not self.deleting:
            assert storage.express == sum(
                position.size for position in everything if position.kept is PacketHolder.MEMORY
            )
            assert storage.cached == sum(position.size for position in everything if position.is_cached)

    def check_store(self) -> None:
        """Check that the store has what the model believes that it has; nothing may be pending."""
        assert not self.store.batches
        contents = self.store.contents
        on_the_way = (PositionState.ARRIVING,)
        for queue in self.model.collection.all_queues():
            identifier = queue.definition.identifier
            assert not queue.is_stored or contents.queues[identifier] == queue.definition
            for kept, part in (
                (PacketHolder.STORE, contents.messages),
                (PacketHolder.OVERFLOW, contents.express),
            ):
                believed = {
                    (
                        position.lookup_id,
                        position.size,
                        position.arrived,
                        position.due,
                        position.aborts,
                        position.moves,
                    )
                    for position in queue.positions.values()
                    if position.kept is kept and position.state not in on_the_way
                }
                held = {
                    (number, len(put.packet), put.arrived, put.due, put.aborts, put.moves)
                    for number, put in part.get(identifier, {}).items()
                }
                assert believed == held, f"{queue}: {believed ^ held}"
        known = {queue.definition.identifier for queue in self.model.collection.all_queues()}
        assert known >= set(contents.queues), "a queue that is gone is stored"
        for part in (contents.messages, contents.express):
            assert known >= {identifier for identifier, kept in part.items() if kept}
