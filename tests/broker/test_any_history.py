"""Whatever happens to a broker, its network and its store: nothing is lost, and the order is kept."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.broker import Broker
from msmq.broker.outcomes import Outcome, accept, later, reject
from msmq.broker.program import BrokerProgram
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.storage import StorageError
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from tests.faults import IS_THOROUGH, tell
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\"
HISTORIES = 600 if IS_THOROUGH else 6
STEPS = 25
QUEUES = {"orders": False, "payments": True}


class Chances(Broker):
    """Takes its time, fails, defers, rejects and accepts, by chance.

    Each message that it accepts or rejects is in C{World.finished}, with its queue and its position there.
    """

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(
            queues={name: {"transactional": kind} for name, kind in QUEUES.items()}, backlog=20, **options
        )
        self._world = world

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Do something."""
        world = self._world
        if world.chance.random() < 0.5:
            await deferLater(world.clock.reactor, world.chance.choice([0, 0.1, 3, 50]))
        if world.beta.broker is not self:
            # Its process was killed.
            await Deferred()
        match world.chance.randrange(10):
            case 0:
                raise ZeroDivisionError
            case 1:
                return later(world.chance.choice([0, 1, 30]))
            case 2:
                world.finished.append((message.queue, message.body, message.lookup_id))
                return reject()
        world.finished.append((message.queue, message.body, message.lookup_id))
        return accept()


class World(NodesTestCase):
    """ALPHA sends to BETA, the broker, whose store and network fail now and then."""

    def begin(self, seed: int, concurrency: int) -> None:
        self.chance = random.Random(seed)
        self.concurrency = concurrency
        self.finished: list[tuple[str, bytes, int]] = []
        self.sent: dict[str, list[bytes]] = {name: [] for name in QUEUES}
        self.ends = 0
        self.programs: list[BrokerProgram] = []
        self.disk = MemoryMessageStore(durable=True)
        self.setUp()
        self.clock.advance(1)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name != "BETA":
            return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)
        self.store = SlowStore(self.disk, self.clock.reactor, 0.0)
        broker = Chances(self, concurrency=self.concurrency)
        return super().node(name, identifier, store=self.store, broker=broker, **kwargs)

    def step(self) -> None:
        """Something happens."""
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                name = self.chance.choice(list(QUEUES))
                count = self.chance.choice([1, 5, 40])
                bodies = [b"%d" % (len(self.sent[name]) + number) for number in range(count)]
                self.sent[name] += bodies
                messages = [
                    Message(body=body, transactional=QUEUES[name], delivery=Delivery.RECOVERABLE)
                    for body in bodies
                ]
                self.run_to_end(self.alpha.service.send(TO_BETA + name, messages))
            case 3:
                self.network.cut("127.0.0.2", "127.0.0.3")
            case 4:
                self.restart()
            case 5:
                self.store.trouble = StorageError("the disk is on fire")
                self.clock.advance(self.chance.choice([1, 20]))
                self.store.trouble = None
            case 6:
                assert self.beta.broker is not None
                self.beta.broker.pause()
                self.clock.advance(self.chance.choice([1, 400]))
                self.beta.broker.resume()
        self.clock.advance(self.chance.choice([0.01, 1, 60]))

    def restart(self) -> None:
        """The broker stops, in order or not, and the next one begins on the same disk."""
        assert self.beta.program is not None
        self.ends += 1
        self.programs.append(self.beta.program)
        self.beta.deaf()
        if self.chance.random() < 0.5:
            ending = self.beta.program.end()
            self.clock.advance(20)
            self.successResultOf(ending)
        identifier = self.beta.model.identifier
        self.beta.service.stopService()
        self.clock.advance(1)
        self.beta = self.node("BETA", identifier)
        self.beta.start()
        self.clock.advance(1)

    def judge(self) -> None:
        """Everything is finished, nothing is left, and the order was kept."""
        self.clock.advance(40_000)
        for name, is_ordered in QUEUES.items():
            bodies = self.sent[name]
            path = f".\\private$\\{name}"
            finished = [body for queue, body, _ in self.finished if queue == path]
            once = list(dict.fromkeys(finished))
            # Without transactions messages may arrive in another order after a lost connection.
            self.assertEqual(once if is_ordered else sorted(once), bodies if is_ordered else sorted(bodies))
            positions = list(dict.fromkeys(each for queue, _, each in self.finished if queue == path))
            self.assertEqual(positions, sorted(positions))
            again = sum(Counter(finished).values()) - len(bodies)
            self.assertLessEqual(again, self.ends * self.concurrency)
            self.assertEqual(self.beta.service.inspection.queue(path).messages, 0)
        self.assertEqual(
            [queue.messages for queue in self.alpha.service.inspection.outgoing() if queue.messages], []
        )
        assert self.beta.program is not None
        for program in (*self.programs, self.beta.program):
            ending = program.end()
            self.clock.advance(20)
            self.successResultOf(ending)


class HistoryTests(SynchronousTestCase):
    """Chance chooses the histories, the same in each run."""

    def test_any_history(self) -> None:
        """Each message is finished; a second time only after an end of the broker; each queue in order."""
        for seed in range(HISTORIES):
            world = World()
            world.begin(seed, concurrency=seed % 3 + 1)
            try:
                for _ in range(STEPS):
                    world.step()
                world.judge()
            except Exception as error:
                raise self.failureException(f"seed {seed}: {error}") from error
            self.flushLoggedErrors(ZeroDivisionError)
        tell(f"{HISTORIES} histories of a broker of {STEPS} steps each")
