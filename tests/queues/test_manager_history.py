"""A whole queue manager and its store, over any sequence of calls, failures and crashes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.admission import Admission
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from tests.builders import ALPHA, BETA
from tests.queues.builders import ORDERS
from tests.queues.reading.cursor_use import CursorUse
from tests.queues.simulated_store import Store
from tests.queues.simulation import Alpha
from tests.samples import examples

FOREVER = 0xFFFFFFFF
DEAD_LETTERS = (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)

PENDING = "pending"
"""It was handed over, and it is not known yet whether it has come in."""
HERE = "here"
"""It has come in; it is in one place, or an event says what became of it."""
RECEIVED = "received"
"""It was received, durably."""
NEVER = "never"
"""It did not come in."""
LOST = "lost"
"""Nobody has to tell of it: an express message when the process died, or one whose reader has it although its
queue was deleted; somebody may."""


class ManagerHistory(CursorUse):
    """Has for each message, by its number, whether it arrived, and whether it was received.

    All others are in one queue each, or left with one event; recoverable messages survive.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)
        self.fate: dict[int, str] = {}
        self.recoverable: set[int] = set()
        self.mourned: set[int] = set()
        self.journaled: dict[int, UUID] = {}
        self.deleted: dict[UUID, dict[int, UUID]] = {}
        self.dead_letters_read: set[int] = set()
        self.transactions: list[Transaction] = []
        self.sent: dict[Transaction, list[int]] = {}
        self.arrivals: dict[Admission, list[int]] = {}
        self.read: set[object] = set()

    @initialize(
        express=st.sampled_from((None, 0, 900)),
        packets=st.sampled_from((None, 0, 900)),
        poison=st.integers(0, 2),
    )
    def begin(self, express: int | None, packets: int | None, poison: int) -> None:
        """Make a queue manager with three queues, one subqueue and something to send."""
        self.use(
            Alpha(
                store=Store(is_slow=True),
                express_memory=express,
                packet_memory=packets,
                poison_after=poison,
            )
        )
        self.make()

    def use(self, alpha: Alpha) -> None:
        """Go on with this queue manager."""
        self.alpha = alpha
        self.cursors.clear()
        alpha.on_admitted = self.admitted
        alpha.on_arrived = self.arrived
        alpha.on_received = self.received
        alpha.on_forgotten = self.forgotten
        alpha.on_ended = self.ended

    def make(self) -> None:
        """Make the queues that are not there."""
        self.settle()
        there = {queue.definition.path for queue in self.alpha.model.queues()}
        for name, properties in (
            ("plain", {"quota": 3}),
            ("journal", {"journal": True, "log": True}),
            ("xact", {"transactional": True, "journal": True}),
        ):
            if f"private$\\{name}" not in there:
                self.alpha.create(name, **properties)
        self.settle()

    def missing(self) -> bool:
        """Whether one of the queues is gone."""
        return len(list(self.alpha.model.queues())) < 3

    # What the queue manager tells

    def arrived(self, admission: Admission, is_stored: bool) -> None:
        self.decide(self.arrivals.pop(admission), is_stored)

    def ended(self, transaction: Transaction, is_committed: bool) -> None:
        self.decide(self.sent.pop(transaction), is_committed)
        self.transactions.remove(transaction)

    def decide(self, numbers: Sequence[int], is_in: bool) -> None:
        for number in numbers:
            assert self.fate[number] == PENDING
            self.fate[number] = HERE if is_in else NEVER

    def received(self, positions: Sequence[MessagePosition]) -> None:
        for position in positions:
            number = self.number(position)
            if position.queue.is_system:
                if position.queue.parent is None:
                    self.dead_letters_read.add(number)
                else:
                    self.journaled.pop(number, None)
            else:
                assert self.fate[number] == HERE, "nothing is received twice, or before it came in"
                self.fate[number] = RECEIVED
                main = position.queue.main
                if main.definition.journal and not main.is_deleted:
                    self.journaled[number] = main.definition.identifier

    def forgotten(self, positions: Sequence[MessagePosition]) -> None:
        for position in positions:
            if not position.queue.is_system:
                self.fate[self.number(position)] = LOST

    def number(self, position: MessagePosition) -> int:
        return int(self.alpha.body(position).rstrip(b"."))

    def collect(self) -> None:
        """Take what readers that waited have found."""
        for tag in list(self.alpha.reads):
            found = self.alpha.reads.pop(tag)
            if isinstance(found, list) and tag not in self.read:
                self.alpha.load(found)
                self.held.append(found)
            self.read.discard(tag)

    # Choices

    def queues(self) -> list[Queue]:
        """The queues to which messages are sent."""
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        return [*self.alpha.model.queues(), outgoing]

    def all_queues(self) -> list[Queue]:
        """The queues that can be read."""
        return [
            *self.queues(),
            *(each for queue in self.alpha.model.queues() for each in queue.subqueues.values()),
        ]

    def copies(self) -> list[Queue]:
        """The journals and dead-letter queues."""
        dead_letters = [self.alpha.model.system_queue(suffix) for suffix in DEAD_LETTERS]
        return [
            *dead_letters,
            *(queue.journal for queue in self.alpha.model.queues() if queue.journal is not None),
        ]

    def message(self, data: st.DataObject, *, transactional: bool) -> UserMessageView:
        """A new message of any kind."""
        number = next(self.numbers)
        is_recoverable = transactional or data.draw(st.booleans())
        dead_letter = data.draw(st.booleans())
        seconds = data.draw(st.sampled_from((FOREVER, FOREVER, 0, 4)))
        source = data.draw(st.sampled_from((ALPHA, BETA)))
        self.fate[number] = PENDING
        if is_recoverable:
            self.recoverable.add(number)
        if dead_letter and not (transactional and source == BETA):
            self.mourned.add(number)
        message = Message(
            body=b"%d" % number + b"." * data.draw(st.sampled_from((0, 400))),
            priority=data.draw(st.integers(0, 7)),
            delivery=Delivery.RECOVERABLE if is_recoverable else Delivery.EXPRESS,
            transactional=transactional,
            dead_letter=dead_letter,
            time_to_be_received=seconds,
        )
        now = self.alpha.now.unix_seconds
        return UserMessageView(build_packet(message, ORDERS, source=source, message_id=number, sent_time=now))

    # Messages come and go

    @rule(data=st.data(), count=st.integers(1, 4))
    def put(self, data: st.DataObject, count: int) -> None:
        queue = self.choose(data, self.queues())
        views = [self.message(data, transactional=queue.definition.transactional) for _ in range(count)]
        self.alpha.put(queue, *views)

    def admitted(self, admission: Admission) -> None:
        for refusal in admission.refusals:
            self.fate[refusal.view.message_id] = NEVER
        self.arrivals[admission] = [
            position.view.message_id for position in admission.positions if position.view is not None
        ]

    @rule(data=st.data(), count=st.integers(1, 3), kind=st.sampled_from(("now", "wait", "peek")))
    def begin_to_read(self, data: st.DataObject, count: int, kind: str) -> None:
        queue = self.choose(data, [*self.all_queues(), *self.copies()])
        tag = self.alpha.read(queue, count=count, peek=kind == "peek", wait=kind == "wait")
        if kind == "peek":
            self.read.add(tag)
        self.collect()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_received=st.booleans())
    def decide_about_a_read(self, data: st.DataObject, is_received: bool) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        (self.alpha.confirm if is_received else self.alpha.give_back)(held)

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        chosen = self.available(data)
        if chosen is not None:
            self.alpha.move(*chosen)

    def available(self, data: st.DataObject) -> tuple[MessagePosition, Queue] | None:
        """A message, and where it may be moved to."""
        mains = list(self.alpha.model.queues())
        if not mains:
            return None
        queue = self.choose(data, mains)
        family = [queue, self.alpha.subqueue(queue, "a"), self.alpha.subqueue(queue, "b")]
        source, target = data.draw(st.permutations(range(3)))[:2]
        found = family[source].peek(3)
        return (found[data.draw(st.integers(0, len(found) - 1))], family[target]) if found else None

    # Transactions

    @rule()
    def begin_transaction(self) -> None:
        transaction = self.alpha.begin()
        self.transactions.append(transaction)
        self.sent[transaction] = []

    def active(self) -> list[Transaction]:
        return [each for each in self.transactions if each.state.value in ("active", "prepared")]

    @precondition(lambda self: self.active())
    @rule(data=st.data(), kind=st.sampled_from(("send", "receive", "held", "move", "prepare")))
    def operate(self, data: st.DataObject, kind: str) -> None:
        transaction = self.active()[data.draw(st.integers(0, len(self.active()) - 1))]
        transacting = self.alpha.model.transacting
        try:
            transaction.check_active()
        except MQError:
            return
        if kind == "send":
            queue = self.choose(data, self.queues())
            views = [self.message(data, transactional=True) for _ in range(2)]
            numbers = [view.message_id for view in views]
            if self.alpha.send_in(transaction, queue, *views):
                for number in numbers:
                    self.fate[number] = NEVER
            else:
                self.sent[transaction] += numbers
        elif kind == "receive":
            queue = self.choose(data, self.all_queues())
            self.alpha.receive_in(transaction, queue, 2)
        elif kind == "held" and self.held:
            held = [each for each in self.held.pop() if not each.queue.is_deleted and each.is_at_rest]
            transacting.receive(transaction, held)
        elif kind == "move":
            chosen = self.available(data)
            if chosen is not None:
                self.alpha.move_in(transaction, *chosen)
        elif kind == "prepare":
            transacting.transactions.prepare(transaction)

    @precondition(lambda self: self.active())
    @rule(data=st.data(), is_committed=st.booleans())
    def end_transaction(self, data: st.DataObject, is_committed: bool) -> None:
        transaction = self.active()[data.draw(st.integers(0, len(self.active()) - 1))]
        (self.alpha.commit if is_committed else self.alpha.abort)(transaction)

    # Queues

    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        self.alpha.purge(self.choose(data, self.all_queues()))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        queue = self.choose(data, self.all_queues())
        if isinstance(queue, OutgoingQueue) and queue.positions:
            return
        identifier = queue.definition.identifier
        copies = {number: where for number, where in self.journaled.items() if where == identifier}
        self.deleted[identifier] = copies
        for number in copies:
            del self.journaled[number]
        self.alpha.delete(queue)

    @precondition(lambda self: self.missing())
    @rule()
    def make_again(self) -> None:
        self.make()

    @rule()
    def forget_empty(self) -> None:
        for queue in self.alpha.model.queues():
            for subqueue in list(queue.subqueues.values()):
                self.alpha.forget_empty(subqueue)

    # Time, the store, and crashes

    @rule(seconds=st.integers(0, 6))
    def wait(self, seconds: int) -> None:
        self.alpha.later(seconds)

    @precondition(lambda self: self.alpha.store.batches)
    @rule(fails=st.sampled_from((0, 0, 0, 1)), count=st.integers(1, 4))
    def work(self, fails: int, count: int) -> None:
        """Let the store do what waits longest."""
        self.alpha.store.fails = fails
        for _ in range(count):
            if self.alpha.store.batches:
                self.alpha.store.step()
        self.alpha.store.fails = 0

    def settle(self) -> None:
        """Let the store do everything, until nothing is left to do."""
        self.alpha.try_again()
        while self.alpha.store.batches or self.alpha.waiting:
            self.alpha.store.drain()
            self.alpha.try_again()
        assert not self.alpha.dying, "a deleted queue goes when nothing is under way any more"
        self.collect()

    @rule()
    def catch_up(self) -> None:
        self.settle()
        self.alpha.check_store()
        self.check_fates()

    @rule()
    def crash(self) -> None:
        """The process dies, and starts again with what the store has."""
        self.alpha.store.batches.clear()
        self.held.clear()
        self.transactions.clear()
        self.sent.clear()
        self.arrivals.clear()
        self.read.clear()
        for number, fate in list(self.fate.items()):
            if fate == PENDING:
                self.fate[number] = NEVER
            elif fate == HERE and number not in self.recoverable:
                self.fate[number] = LOST
        self.use(self.alpha.restart())
        for queue in self.alpha.model.queues():
            # Its deletion had not come to its end.
            self.journaled |= self.deleted.pop(queue.definition.identifier, {})
        for number in list(self.journaled):
            if number not in self.recoverable:
                del self.journaled[number]
        self.check_fates()
        self.alpha.check_store()
        self.make()

    # What holds

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "alpha"):
            self.collect()
            self.alpha.check()

    @invariant()
    def no_reader_waits_in_vain(self) -> None:
        if hasattr(self, "alpha"):
            for queue in self.all_queues():
                assert not (queue.has_available and queue.readers), "a reader waits beside a message"

    def check_fates(self) -> None:
        """Check that each message is in one queue, or left with one event; nothing may be pending."""
        places: Counter[int] = Counter()
        copies: Counter[int] = Counter()
        dead_letters: Counter[int] = Counter()
        for queue in list(self.alpha.model.collection.all_queues()):
            is_dead_letter = queue.definition.path.startswith("system$;dead")
            for position in queue.positions.values():
                if position.state is PositionState.ARRIVING:
                    continue
                number = self.number(position)
                (dead_letters if is_dead_letter else copies if queue.is_system else places)[number] += 1
        events = [event for event in self.alpha.last_events if not event.queue.startswith("system$")]
        reported = Counter(int.from_bytes(event.identity[16:], "little") for event in events)
        mourned = {
            int.from_bytes(event.identity[16:], "little")
            for event in self.alpha.last_events
            if event.reason == "kept as a dead letter"
        }
        for number, fate in self.fate.items():
            found = places[number], reported[number]
            if fate == HERE:
                assert found in ((1, 0), (0, 1)), (
                    f"message {number} is in {found[0]} places, {found[1]} events"
                )
            elif fate == LOST:
                assert found in ((0, 0), (0, 1)), f"message {number} was lost, and is there"
            else:
                assert found == (0, 0), f"message {number} is {fate}, and {found}"
            assert copies[number] == (number in self.journaled), f"copies of message {number}"
            assert number not in mourned or number in self.mourned
            is_kept = number in mourned and number not in self.dead_letters_read
            assert dead_letters[number] == is_kept or (
                number not in self.recoverable and not dead_letters[number]
            )

    def teardown(self) -> None:
        """When everything has ended and is gone, nothing is left anywhere."""
        if not hasattr(self, "alpha"):
            return
        # What was purged before a crash while readers had it leaves with the first look at the clock.
        self.alpha.later(0)
        self.settle()
        for transaction in self.active():
            self.alpha.abort(transaction)
        for held in self.held:
            self.alpha.give_back(held)
        self.held.clear()
        self.settle()
        for held in self.held:
            self.alpha.give_back(held)
        self.held.clear()
        for opened in list(self.cursors):
            self.close(opened)
        self.alpha.check()
        self.alpha.check_store()
        self.check_fates()
        for queue in self.queues():
            self.alpha.purge(queue)
            self.settle()
            self.alpha.delete(queue)
        # Who waited for dead letters has some by now; what one gives back the next may get.
        self.settle()
        self.collect()
        while self.held:
            self.alpha.give_back(self.held.pop())
            self.settle()
            self.collect()
        for suffix in DEAD_LETTERS:
            self.alpha.purge(self.alpha.model.system_queue(suffix))
        self.settle()
        storage = self.alpha.model.storage
        assert (storage.used, storage.journaled, storage.express, storage.cached) == (0, 0, 0, 0)
        assert not any(self.alpha.store.contents.messages.values())
        assert not any(self.alpha.store.contents.express.values())


class ManagerHistoryTests(SynchronousTestCase):
    """No message is lost or duplicated, and all counts are consistent, for any sequence of operations."""

    def test_queue_manager(self) -> None:
        """Over any sequence of calls, failures of the store and crashes."""
        ManagerHistory.TestCase.settings = settings(
            max_examples=examples(40), stateful_step_count=50, deadline=None
        )
        case = ManagerHistory.TestCase("runTest")
        case.runTest()
