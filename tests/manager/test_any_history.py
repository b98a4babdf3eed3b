"""Any operations of applications with any faults of their store: each message is accounted for.

A history is a list of steps, drawn by hypothesis, which prints the shortest list that fails: messages are
sent, received, moved, purged, expire; queues are deleted, with their messages and waiting readers,
and created again; dead letters are sent again; transactions begin and end; waiting callers cancel; the store
is slow, full, broken or cannot be read; the queue manager is stopped, or killed.
C{MSMQ_SOAK} overrides the number of histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.manager.applications.reservation import Reservation
from msmq.manager.applications.transactions import TransactionHandle
from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.message import Delivery, Message
from msmq.settings import SessionSettings
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.status import MQError
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA
from tests.manager.support import BROKEN, DEADLETTER, DEADXACT, FULL, FaultyStore
from tests.nodes.support import Node
from tests.samples import examples

HISTORIES = examples(40)

ORDERS = ".\\private$\\orders"
PAYMENTS = ".\\private$\\payments"
QUEUES = (ORDERS, PAYMENTS)
KEPT = "kept as a dead letter"
LIFE = 40
"""Seconds that mortal messages live."""


@attrs.define(eq=False)
class ArrivalOutcome:
    """Knowledge of the application about one message.

    @ivar is_sent: whether the send was confirmed; C{None} without a result.
    @ivar received: how often it was received and confirmed.
    @ivar maybe_received: how often a receive had no result.
    """

    queue: str
    is_express: bool = False
    is_sent: bool | None = None
    identifier: MessageIdentifier | None = None
    received: int = 0
    maybe_received: int = 0
    is_excused: bool = False


@attrs.define(eq=False)
class Work:
    """A pending operation.

    @ivar tell: is called with its end: a result, a failure, or C{None} if there was neither.
    """

    done: Deferred[Any]
    tell: Callable[[object], None]


@attrs.define(eq=False)
class Held:
    """A transaction or a reservation, with what it has received and sent."""

    handle: TransactionHandle | Reservation
    received: list[bytes] = attrs.field(factory=list)
    sent: list[bytes] = attrs.field(factory=list)


class World:
    """One queue manager, and what was done with it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.store = FaultyStore()
        self.fates: dict[bytes, ArrivalOutcome] = {}
        self.has_crashed = False
        self.under_way: list[Work] = []
        self.reservations: list[Held] = []
        self.transactions: list[Held] = []
        self.begin()
        for number in range(len(QUEUES)):
            self.create(number)

    def begin(self) -> None:
        """Start a life."""
        self.node = Node(
            self.network,
            self.clock,
            "ALPHA",
            ALPHA,
            SessionSettings(),
            self.store,
            express_memory=1500,
            packet_memory=0,
            poison_after=2,
        )
        self.node.start()

    def do(self, work: Coroutine[Any, Any, Any], tell: Callable[[object], None]) -> None:
        """Begin something."""
        entry = Work(Deferred.fromCoroutine(work), tell)
        self.under_way.append(entry)

        def end(result: object) -> None:
            if entry in self.under_way:
                self.under_way.remove(entry)
                if isinstance(result, Failure):
                    result.trap(MQError)
                tell(result)

        entry.done.addBoth(end)

    # Steps

    def send(self, number: int) -> None:
        """Send one to three messages, in a transaction if there is one."""
        queue = QUEUES[number % 2]
        is_express = queue == ORDERS and number % 5 == 0
        bodies = [b"%d" % (len(self.fates) + index) for index in range(number % 3 + 1)]
        for body in bodies:
            self.fates[body] = ArrivalOutcome(queue, is_express)
        messages = [
            Message(
                body=body + b" " * 200,
                transactional=queue == PAYMENTS,
                delivery=Delivery.EXPRESS if is_express else Delivery.RECOVERABLE,
                dead_letter=True,
                time_to_be_received=LIFE if number % 3 == 0 else INFINITE,
            )
            for body in bodies
        ]
        held = self.transactions[number % len(self.transactions)] if self.transactions else None
        transaction = held.handle if held is not None and queue == PAYMENTS else None

        def tell(result: object) -> None:
            for index, body in enumerate(bodies):
                fate = self.fates[body]
                if isinstance(result, list):
                    fate.identifier = result[index]
                if transaction is not None and held is not None and isinstance(result, list):
                    held.sent.append(body)
                elif result is not None:
                    fate.is_sent = isinstance(result, list)

        assert not isinstance(transaction, Reservation)
        self.do(self.node.service.send(queue, messages, transaction=transaction), tell)

    def receive(self, number: int) -> None:
        """Take up to three messages, in a transaction if there is one."""
        queue = (*QUEUES, f"{ORDERS};aside", f"{PAYMENTS};poison")[number % 4]
        held = self.transactions[number % len(self.transactions)] if self.transactions else None
        transaction = held.handle if held is not None and queue.startswith(PAYMENTS) else None
        assert not isinstance(transaction, Reservation)

        def tell(result: object) -> None:
            if isinstance(result, Reservation):
                bodies = [body_of(message) for message in result.messages]
                if transaction is not None and held is not None:
                    held.received += bodies
                else:
                    self.reservations.append(Held(result, bodies))

        reading = self.node.service.reserve(
            queue, count=number % 3 + 1, timeout=number % 2 * 5, transaction=transaction
        )
        self.do(reading, tell)

    def decide(self, number: int) -> None:
        """Confirm a reservation, or give it back."""
        if not self.reservations:
            return
        held = self.reservations.pop(number % len(self.reservations))
        assert isinstance(held.handle, Reservation)
        if number % 3 == 0:
            held.handle.release()
        else:
            self.do(held.handle.confirm(), lambda result: self.received(held, result))

    def received(self, held: Held, result: object) -> None:
        """A confirmation or a commit has ended."""
        for body in held.received:
            if result is None:
                self.fates[body].maybe_received += 1
            elif not isinstance(result, Failure):
                self.fates[body].received += 1
        for body in held.sent:
            if result is not None:
                self.fates[body].is_sent = not isinstance(result, Failure)

    def transact(self, number: int) -> None:
        """Begin a transaction."""
        if len(self.transactions) < 3:
            self.transactions.append(Held(self.node.service.begin()))

    def commit(self, number: int) -> None:
        """Commit a transaction; one that fails is aborted."""
        if not self.transactions:
            return
        held = self.transactions.pop(number % len(self.transactions))
        handle = held.handle
        assert isinstance(handle, TransactionHandle)

        async def commit() -> bool:
            async with handle:
                pass
            return True

        self.do(commit(), lambda result: self.received(held, result))

    def abort(self, number: int) -> None:
        """Abort a transaction."""
        if self.transactions:
            held = self.transactions.pop(number % len(self.transactions))
            assert isinstance(held.handle, TransactionHandle)
            for body in held.sent:
                self.fates[body].is_sent = False
            self.do(held.handle.abort(), lambda result: None)

    def move(self, number: int) -> None:
        """Move a message to a subqueue or back."""
        known = [fate for fate in self.fates.values() if fate.identifier is not None]
        if known:
            fate = known[number % len(known)]
            target = (f"{fate.queue};aside", fate.queue)[number % 2]
            assert fate.identifier is not None
            self.do(self.node.service.move(fate.identifier, target), lambda result: None)

    def purge(self, number: int) -> None:
        """Purge a queue; seldom."""
        if number % 4 == 0:
            self.do(self.node.service.purge_queue(QUEUES[number % 3 % 2]), lambda result: None)

    def create(self, number: int) -> None:
        """Make a queue; nothing happens if it is there."""
        queue = QUEUES[number % 2]
        making = self.node.service.create_queue(queue, transactional=queue == PAYMENTS, journal=True)
        self.do(making, lambda result: None)

    def delete(self, number: int) -> None:
        """Delete a queue; seldom."""
        if number % 4 == 0:
            self.do(self.node.service.delete_queue(QUEUES[number // 4 % 2]), lambda result: None)

    def requeue(self, number: int) -> None:
        """Send a dead letter again, perhaps one that has just become so."""
        if number % 2:
            self.clock.advance(LIFE)
        dead_letters = [
            identifier_of(event.identity)
            for event in self.events()
            if event.reason == KEPT and event.identity
        ]
        if dead_letters:
            self.do(self.node.service.requeue(dead_letters[number % len(dead_letters)]), lambda result: None)

    def events(self) -> list[AppendEvent]:
        """The event log."""
        found: list[AppendEvent] = []
        reading = self.store.read_events(0, 100_000)
        reading.addCallback(lambda entries: found.extend(entry.event for entry in entries))
        return found

    def look(self, number: int) -> None:
        """Look at things, which changes nothing."""
        service = self.node.service
        self.do(service.reserve(QUEUES[number % 2], count=5, timeout=0, peek=True), lambda result: None)
        self.do(service.inspection.dead_letters(), lambda result: None)
        known = [fate for fate in self.fates.values() if fate.identifier is not None]
        if known:
            identifier = known[number % len(known)].identifier
            assert identifier is not None
            self.do(service.inspection.explain(identifier), lambda result: None)

    def go_away(self, number: int) -> None:
        """A waiting caller cancels."""
        if self.under_way:
            entry = self.under_way.pop(number % len(self.under_way))
            entry.done.addErrback(lambda failure: None)
            entry.done.cancel()
            entry.tell(None)

    def advance(self, number: int) -> None:
        """Some time goes by."""
        self.clock.advance(number % 20)

    def disturb(self, number: int) -> None:
        """The store becomes slow, or fails."""
        if number % 5 == 0:
            self.store.is_slow = True
        elif number % 5 == 1:
            self.store.break_down(FULL)
        elif number % 5 == 2:
            self.store.break_down(BROKEN)
        elif number % 5 == 3:
            self.store.unreadable = BROKEN
        else:
            self.store.fail_commit(number % 3 + 1)

    def work(self, number: int) -> None:
        """A slow store does some of what it was asked for."""
        self.store.finish(number % 4 + 1)

    def recover(self, number: int) -> None:
        """The store works again."""
        self.store.recover()
        self.store.catch_up()

    def restart(self, number: int) -> None:
        """The queue manager stops, or is killed, and starts again."""
        # A caller that waits ends with it, or gets the error that it stops, which is the same to it.
        while self.under_way:
            self.go_away(0)
        if number % 2:
            self.has_crashed = True
            self.network.crash(self.node.address)
            self.store.lose()
        else:
            self.node.service.stopService()
            self.node.deaf()
        for held in self.transactions:
            for body in held.sent:
                self.fates[body].is_sent = False
        self.transactions, self.reservations = [], []
        for fate in self.fates.values():
            fate.is_excused = fate.is_excused or fate.is_express
        self.begin()

    # The end

    def settle(self) -> None:
        """Let everything that goes on come to its end."""
        self.recover(0)
        for held in self.transactions:
            assert isinstance(held.handle, TransactionHandle)
            for body in held.sent:
                self.fates[body].is_sent = False
            Deferred.fromCoroutine(held.handle.abort()).addErrback(lambda failure: None)
        for held in self.reservations:
            assert isinstance(held.handle, Reservation)
            held.handle.release()
        self.clock.advance(1000)
        for number in range(len(QUEUES)):
            self.create(number)

    def drain(self, queue: str) -> list[bytes]:
        """Receive everything that is in a queue."""
        found: list[bytes] = []

        async def drain() -> None:
            while True:
                try:
                    reservation = await self.node.service.reserve(queue, count=100, timeout=0)
                except MQError:
                    return
                found.extend(map(body_of, reservation.messages))
                await reservation.confirm()

        Deferred.fromCoroutine(drain()).addErrback(lambda failure: failure.raiseException())
        self.clock.advance(1)
        return found


def identifier_of(identity: bytes) -> MessageIdentifier:
    return MessageIdentifier(UUID(bytes_le=identity[:16]), int.from_bytes(identity[16:], "little"))


def body_of(message: ReceivedMessage) -> bytes:
    return bytes(message.view.body).strip()


STEPS: dict[str, Callable[[World, int], None]] = {
    "send": World.send,
    "receive": World.receive,
    "decide": World.decide,
    "transact": World.transact,
    "commit": World.commit,
    "abort": World.abort,
    "move": World.move,
    "purge": World.purge,
    "create": World.create,
    "delete": World.delete,
    "requeue": World.requeue,
    "look": World.look,
    "go away": World.go_away,
    "advance": World.advance,
    "disturb": World.disturb,
    "work": World.work,
    "recover": World.recover,
    "restart": World.restart,
}
WEIGHTS = ["send"] * 5 + ["receive"] * 5 + ["transact", "commit", "decide", "work", "requeue"] * 2 + [*STEPS]

steps = st.lists(st.tuples(st.sampled_from(WEIGHTS), st.integers(0, 999)), min_size=20, max_size=200)


class AnyHistoryTests(SynchronousTestCase):
    """Histories of one queue manager."""

    @settings(
        max_examples=HISTORIES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(steps)
    def test_every_message_is_accounted_for(self, history: list[tuple[str, int]]) -> None:
        """Each is in one queue, was received once, or has an event with its fate.

        In the end nothing is left behind, neither in memory nor in the store.
        """
        try:
            self.check(history)
        except Exception as error:
            raise self.failureException(f"{error}\n{history}") from error

    def check(self, history: list[tuple[str, int]]) -> None:
        """Live through a history, and see what it has come to."""
        world = World()
        for name, number in history:
            STEPS[name](world, number)
        world.settle()
        subqueues = [f"{queue};{name}" for queue in QUEUES for name in ("aside", "poison")]
        there = Counter(body for queue in (*QUEUES, *subqueues) for body in world.drain(queue))
        dead_letters = Counter(body for queue in (DEADLETTER, DEADXACT) for body in world.drain(queue))
        journals = [f"{queue};journal" for queue in QUEUES]
        for journal in journals:
            world.drain(journal)
        stored = world.events()
        # A message that is poisoned is moved to a subqueue, and has not left.
        stays = ("requeued", "poisoned")
        events = Counter(event.identity for event in stored if event.event not in stays)
        again = {
            event.identity: MessageIdentifier.parse(event.reason.removeprefix("sent again as ")).to_bytes()
            for event in stored
            if event.event == "requeued"
        }
        missing: list[tuple[bytes, ArrivalOutcome]] = []
        for body, fate in world.fates.items():
            identity = b"-" if fate.identifier is None else fate.identifier.to_bytes()
            while identity in again:
                # It had left, was a dead letter, and is there again under another identifier.
                self.assertEqual(events[identity], 1, (body, fate))
                identity = again[identity]
            reported = events[identity]
            self.assertLessEqual(reported, 1, (body, fate))
            self.assertLessEqual(there[body] + dead_letters[body], 1, (body, fate))
            self.assertLessEqual(fate.received + there[body], 1, (body, fate))
            # What was reported to its sender as deleted was not received as well.
            self.assertLessEqual(fate.received + reported, 1, (body, fate))
            self.assertLessEqual(dead_letters[body], 1, (body, fate))
            if fate.is_sent is False:
                self.assertEqual(
                    (there[body], fate.received, reported, dead_letters[body]), (0, 0, 0, 0), (body, fate)
                )
            if fate.is_sent and not fate.is_excused:
                known = there[body] + (reported or fate.received) or min(1, fate.maybe_received)
                self.assertLessEqual(known, 1, (body, fate))
                if not known:
                    missing.append((body, fate))
        # A message that left without its packet being read has an event that does not name it.
        self.assertLessEqual(len(missing), events[b""], missing)
        self.assertEqual(world.under_way, [])
        status = world.node.service.inspection.status()
        left = status.messages, status.bytes, status.transactions, status.throttled
        self.assertEqual(left, (0, 0, 0, False))
        storage = world.node.model.storage
        self.assertEqual((storage.express, storage.cached, storage.journaled), (0, 0, 0))
        self.successResultOf(world.node.service.stopService())
        if not world.has_crashed:
            self.assertEqual(world.clock.reactor.getDelayedCalls(), [])
        snapshot = self.successResultOf(world.store.open())
        self.assertFalse(any(snapshot.messages.values()))
        self.flushLoggedErrors()
