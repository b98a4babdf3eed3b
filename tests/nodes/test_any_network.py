"""Whatever happens on the way, transactional messages arrive exactly once and in order.

Two queue managers with slow stores exchange messages while connections break, hosts are cut off, lose
power and start again, and stores have no space.
A run is a list of steps, drawn by hypothesis, which prints the shortest list that fails.
C{MSMQ_SOAK} is the number of runs where it shall be another than usual.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.service import QueueManagerService
from msmq.net.dialling import DiallingSessionFactory
from msmq.net.resolver import NextHopAddress
from msmq.queues.message import Delivery, Message
from msmq.queues.model import QueueManagerModel
from msmq.queues.naming import one_of
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA, BETA
from tests.nodes.slow_store import SlowStore

RUNS = int(os.environ.get("MSMQ_SOAK", "100"))
HEALING = 1500.0
"""Seconds after which everything has arrived; less than a history of duplicates lasts."""

PAYMENTS = ".\\private$\\payments"
LETTERS = ".\\private$\\letters"
JOURNAL = ".\\system$;journal"


@attrs.define(eq=False)
class Batch:
    """Messages that were sent together.

    @ivar is_confirmed: the sender was told that they are taken; C{None} while nobody knows.
    """

    bodies: list[bytes]
    is_confirmed: bool | None = None


class Host:
    """A queue manager that can lose power; its disk is all that stays."""

    def __init__(self, network: Network, clock: ManualClock, name: str, address: str, guid: UUID) -> None:
        self.network = network
        self.clock = clock
        self.name = name
        self.address = address
        self.guid = guid
        self.disk = MemoryMessageStore(durable=True)
        self.start()

    def start(self) -> None:
        """Begin a life."""
        host = self.network.host(self.address)
        self.store = SlowStore(self.disk, host, 0.004)
        model = QueueManagerModel(
            self.guid,
            computer_names=[self.name],
            is_own_address=one_of([self.address]),
            packet_memory=600,
            now=self.clock.now(),
        )

        async def lookup(name: str) -> Sequence[NextHopAddress]:
            return [NextHopAddress(name, 1801, host.client_endpoint(name, 1801))]

        factory = DiallingSessionFactory(self.guid, reactor=host, clock=self.clock, lookup=lookup)
        self.service = QueueManagerService(
            model=model,
            store=self.store,
            sessions=factory,
            reactor=host,
            clock=self.clock,
            computer_name=self.name,
            dns_name=self.name,
        )
        Deferred.fromCoroutine(self.service.open())
        self.service.startService()
        host.server_endpoint(1801).listen(factory)

    def crash(self) -> None:
        """Lose power, and start again."""
        self.network.crash(self.address)
        self.start()


class World:
    """Both of them, and what was sent."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.alpha = Host(self.network, self.clock, "ALPHA", "127.0.0.2", ALPHA)
        self.beta = Host(self.network, self.clock, "BETA", "127.0.0.3", BETA)
        self.sent: dict[tuple[Host, str], list[Batch]] = {}
        self.numbers: dict[tuple[Host, str], int] = {}
        for host in (self.alpha, self.beta):
            for queue, is_transactional in ((PAYMENTS, True), (LETTERS, False)):
                self.wait(host.service.create_queue(queue, transactional=is_transactional))
                self.sent[host, queue] = []
                self.numbers[host, queue] = 0

    def other(self, host: Host) -> Host:
        return self.beta if host is self.alpha else self.alpha

    def wait(self, coroutine: Any) -> Any:
        """The result of something, after as much time as it takes."""
        results: list[Any] = []
        Deferred.fromCoroutine(coroutine).addBoth(results.append)
        for _ in range(1000):
            if results:
                break
            self.clock.advance(0.01)
        [result] = results
        if hasattr(result, "raiseException"):
            result.raiseException()
        return result

    def send(self, sender: Host, queue: str, count: int) -> None:
        """Send messages to the other, without waiting for anything."""
        receiver = self.other(sender)
        first = self.numbers[sender, queue]
        self.numbers[sender, queue] += count
        bodies = [b"%06d" % number for number in range(first, first + count)]
        batch = Batch(bodies)
        self.sent[sender, queue].append(batch)
        destination = f"DIRECT=TCP:{receiver.address}\\{queue[2:]}"
        is_transactional = queue == PAYMENTS
        messages = [
            Message(
                body=body,
                transactional=is_transactional,
                delivery=Delivery.RECOVERABLE,
                journal=number % 3 == 0,
            )
            for number, body in enumerate(bodies, first)
        ]

        def failed(failure: Any) -> None:
            failure.trap(MQError)
            batch.is_confirmed = False

        Deferred.fromCoroutine(sender.service.send(destination, messages)).addCallbacks(
            lambda _: setattr(batch, "is_confirmed", True), failed
        )

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("send", is_alpha, queue, count):
                self.send(self.alpha if is_alpha else self.beta, queue, count)
            case ("wait", seconds):
                self.clock.advance(seconds)
            case ("cut",):
                self.network.cut(self.alpha.address, self.beta.address)
            case ("partition", seconds):
                self.network.partition(self.alpha.address, self.beta.address)
                self.clock.advance(seconds)
                self.network.heal(self.alpha.address, self.beta.address)
            case ("crash", is_alpha):
                (self.alpha if is_alpha else self.beta).crash()
            case ("full", is_alpha, seconds):
                store = (self.alpha if is_alpha else self.beta).store
                store.is_full = True
                self.clock.advance(seconds)
                store.is_full = False

    def received(self, host: Host, queue: str) -> list[bytes]:
        """Receive all that is there."""
        bodies: list[bytes] = []
        while host.service.queue(queue)["messages"]:
            reservation = self.wait(host.service.reserve(queue, count=100, timeout=1))
            self.wait(reservation.confirm())
            bodies += [bytes(message.view.body) for message in reservation.messages]
        return bodies

    def waiting(self, host: Host) -> int:
        return sum(queue["messages"] for queue in host.service.outgoing())


_SIDE = st.booleans()
_SHORT = st.floats(0.0, 0.3)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), _SIDE, st.sampled_from((PAYMENTS, LETTERS)), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.one_of(_SHORT, _SHORT, st.floats(0.0, 40.0))),
        st.tuples(st.just("cut")),
        st.tuples(st.just("partition"), st.floats(0.0, 30.0)),
        st.tuples(st.just("crash"), _SIDE),
        st.tuples(st.just("full"), _SIDE, st.floats(0.0, 3.0)),
    ),
    min_size=1,
    max_size=40,
)


class AnyNetworkTests(SynchronousTestCase):
    """Two queue managers, and everything that can come between them."""

    @settings(
        max_examples=RUNS,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(_STEPS)
    def test_transfer(self, steps: list[tuple[Any, ...]]) -> None:
        """After everything has healed, what was promised has come about, and nothing else."""
        try:
            self.run_through(steps)
        except Exception as error:
            raise self.failureException(f"{steps}: {error}") from error

    def run_through(self, steps: list[tuple[Any, ...]]) -> None:
        world = World()
        for step in steps:
            world.step(step)
        world.clock.advance(HEALING)
        for sender in (world.alpha, world.beta):
            receiver = world.other(sender)
            journaled: list[bytes] = []
            for queue in (PAYMENTS, LETTERS):
                received = world.received(receiver, queue)
                self.check(world.sent[sender, queue], received, is_ordered=queue == PAYMENTS)
                journaled += [body for body in received if int(body) % 3 == 0]
            world.clock.advance(100)
            self.assertEqual(world.waiting(sender), 0, "something never left")
            self.assertEqual(sorted(world.received(sender, JOURNAL)), sorted(journaled))
            self.assertEqual(sender.service.model.collection.awaiting.message_count, 0)
        for host in (world.alpha, world.beta):
            self.assertEqual(host.service.status()["bytes"], 0)
        gc.collect()
        errors = self.flushLoggedErrors()
        self.assertEqual([str(error.value) for error in errors], [])

    def check(self, batches: Sequence[Batch], received: list[bytes], *, is_ordered: bool) -> None:
        """Batches that were confirmed are there, refused ones are not, and each is whole or not there."""
        self.assertEqual(len(received), len(set(received)), "a message came twice")
        there = set(received)
        expected: list[bytes] = []
        for batch in batches:
            found = [body for body in batch.bodies if body in there]
            if batch.is_confirmed:
                self.assertEqual(found, batch.bodies, "a confirmed message is missing")
            elif batch.is_confirmed is False:
                self.assertEqual(found, [], "a refused message came")
            self.assertIn(len(found), (0, len(batch.bodies)), "half of a batch came")
            expected += found
        if is_ordered:
            self.assertEqual(received, expected)
        else:
            self.assertEqual(sorted(received), sorted(expected))
