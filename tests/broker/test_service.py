"""A broker as a service of an application, on real sockets of loopback."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.application.service import MultiService
from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from msmq import Broker, Delivery, Message, Outcome, ReceivedMessage, accept, load
from msmq.broker import in_process
from msmq.broker.program import BrokerStartError
from msmq.errors import LocalProtocolError, MsmqError
from msmq.interfaces import StorageError
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.service.server_ports import StartError
from msmq.storage.memory import MemoryMessageStore
from tests.servers.own_address import own_address

ORDERS = ".\\private$\\orders"


class Collector(Broker):
    """Accepts every message once C{gate} has fired.

    @ivar arrived: fires with the first message.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(address=own_address(63), name="COLLECTOR", **options)
        self.arrived: Deferred[ReceivedMessage] = Deferred()
        self.gate: Deferred[None] = Deferred()
        self.bodies: list[bytes] = []

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Report it."""
        if not self.arrived.called:
            self.arrived.callback(message)
        await self.gate
        self.bodies.append(message.body)
        return accept()


class CountedStore(MemoryMessageStore):
    """Counts how often it is opened and closed.

    @param opening: what opening it leads to, if not its contents.
    """

    def __init__(self, opening: Deferred[Any] | None) -> None:
        super().__init__(durable=True)
        self.calls: list[str] = []
        self._opening = opening

    def open(self) -> Deferred[Any]:
        """Count."""
        self.calls.append("open")
        return super().open() if self._opening is None else self._opening

    def close(self) -> Deferred[None]:
        """Count."""
        self.calls.append("close")
        return super().close()


class SlowStore(MemoryMessageStore):
    """Opens at its second attempt, and takes until C{closing} fires to undo the first."""

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.closing: Deferred[None] = Deferred()
        self._attempts = 0

    def open(self) -> Deferred[Any]:
        """Open."""
        self._attempts += 1
        return super().open() if self._attempts > 1 else Deferred()

    def close(self) -> Deferred[None]:
        """Close."""
        return super().close() if self._attempts > 1 else self.closing


class ServiceTests(TestCase):
    """Start, work, stop, and what the next start finds."""

    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.home)
        # Where brokers without a store have their directories.
        self.scratch = self.home / "scratch"
        self.scratch.mkdir()
        self.patch(tempfile, "tempdir", os.fspath(self.scratch))
        self.lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    async def started(self, **options: Any) -> Collector:
        """A broker that listens."""
        broker = Collector(**options)
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.started
        return broker

    async def put(self, broker: Broker, *bodies: bytes) -> None:
        """Send to the queue of a broker."""
        await broker.manager.send(
            ORDERS, [Message(body=body, delivery=Delivery.RECOVERABLE) for body in bodies]
        )

    def directory(self) -> Path:
        """The data directory of the first broker, which the log names."""
        line = next(line for line in self.lines if "data directory" in line)
        return Path(line.rpartition("data directory ")[2])

    def identifier(self, broker: Broker) -> UUID:
        manager: IQueueManager = broker.manager
        return manager.inspection.status().identifier

    async def test_in_memory(self) -> None:
        """Without a store it says what is lost with the process, and leaves no file."""
        broker = await self.started(queues=["orders"])
        self.assertEqual(next(iter(broker.addresses)), f"TCP {own_address(63)}:1801")
        broker.gate.callback(None)
        await self.put(broker, b"1")
        message = await broker.arrived
        self.assertEqual((message.queue, message.body, message.attempt), (ORDERS, b"1", 1))
        [line] = [line for line in self.lines if "has no store" in line]
        self.assertIn("store=PATH keeps them", line)
        directory = self.directory()
        await broker.stopService()
        self.assertFalse(os.path.exists(directory))

    async def test_a_start_during_a_stop(self) -> None:
        """Each has a separate directory, and none is left."""
        broker = await self.started(queues=["orders"])
        stopping = broker.stopService()
        broker.startService()
        await stopping
        try:
            await broker.started
        except MsmqError:
            # The former server still had its port.
            self.assertEqual(list(self.scratch.iterdir()), [])
        else:
            self.assertEqual(len(list(self.scratch.iterdir())), 1)
        await broker.stopService()
        self.assertEqual(list(self.scratch.iterdir()), [])

    async def test_a_start_while_another_is_undone(self) -> None:
        """A stop ends when the start that it has cancelled has closed its store, and no later one suffers."""
        store = SlowStore()
        broker = Collector(store=store, queues=["orders"])
        broker.startService()
        stopping = broker.stopService()
        self.assertNoResult(stopping)
        broker.startService()
        await broker.started
        store.closing.callback(None)
        await stopping
        self.assertEqual(len(list(self.scratch.iterdir())), 1)
        self.assertEqual(next(iter(broker.addresses)), f"TCP {own_address(63)}:1801")
        await broker.stopService()
        self.assertEqual(list(self.scratch.iterdir()), [])

    async def test_two_stops_of_a_starting_broker(self) -> None:
        """Each of them ends when the store is closed again."""
        store = SlowStore()
        broker = Collector(store=store, queues=["orders"])
        broker.startService()
        stops = [broker.stopService() for _ in range(2)]
        for stopping in stops:
            self.assertNoResult(stopping)
        store.closing.callback(None)
        for stopping in stops:
            await stopping
        self.assertEqual(list(self.scratch.iterdir()), [])

    async def restarted(self, **options: Any) -> None:
        """Pending and unfinished messages of a stopped broker are there when the next one starts."""
        broker = await self.started(queues=["orders"], **options)
        await self.put(broker, b"1", b"2")
        first = await broker.arrived
        stopping = broker.stopService()
        await stopping
        self.assertEqual(broker.bodies, [])
        again = await self.started(queues=["orders"], **options)
        second = await again.arrived
        self.assertEqual((second.identifier, second.body), (first.identifier, b"1"))
        again.gate.callback(None)
        await again.stopService()
        self.assertEqual(again.bodies[:1], [b"1"])
        self.assertNotIn("has no store", "".join(self.lines))

    def test_a_data_directory(self) -> Deferred[None]:
        """C{store=} as a path keeps messages, state and identity."""
        self.patch(in_process, "GRACE", 0.01)
        return ensureDeferred(self.restarted(store=self.home / "data"))

    async def test_a_store_of_ones_own(self) -> None:
        """C{store=} as an object: the identifier of the queue manager is in it, too."""
        store = MemoryMessageStore(durable=True)
        broker = await self.started(store=store)
        identifier = self.identifier(broker)
        await broker.stopService()
        again = await self.started(store=store)
        self.assertEqual(self.identifier(again), identifier)

    async def test_a_store_that_is_not_used(self) -> None:
        """It is not left open, whatever the reason: the configuration, the store itself, or a stop."""

        class Plain(Broker):
            async def message_received(self, message: ReceivedMessage) -> Outcome:
                return accept()

        for opening, address in (
            (None, "nowhere"),
            (fail(StorageError("page 7 is damaged")), None),
            (Deferred[Any](), None),
        ):
            store = CountedStore(opening)
            broker = Plain(store=store, address=address)
            broker.startService()
            await broker.stopService()
            self.assertEqual(store.calls.count("open"), store.calls.count("close"))

    async def test_what_is_in_process_ends_first(self) -> None:
        """A broker that stops waits for it, and removes what was accepted."""
        store = MemoryMessageStore(durable=True)
        broker = await self.started(queues=["orders"], store=store)
        await self.put(broker, b"1", b"2")
        await broker.arrived
        stopping = broker.stopService()
        broker.gate.callback(None)
        await stopping
        self.assertEqual(broker.bodies, [b"1"])
        again = await self.started(queues=["orders"], store=store)
        self.assertEqual((await again.arrived).body, b"2")
        again.gate.callback(None)

    async def test_a_stop_that_a_message_asks_for(self) -> None:
        """The coroutine that awaits the stop goes on, its outcome is stored, and then all is stopped."""

        class Ending(Collector):
            async def message_received(self, message: ReceivedMessage) -> Outcome:
                await self.stopService()
                await self.manager.send(ORDERS, [Message(body=b"sent", delivery=Delivery.RECOVERABLE)])
                self.bodies.append(message.body)
                self.arrived.callback(message)
                return accept()

        store = MemoryMessageStore(durable=True)
        broker = Ending(queues=["orders"], store=store)
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.started
        await self.put(broker, b"end")
        await broker.arrived
        await broker.stopService()
        self.assertEqual((broker.bodies, list(broker.addresses)), ([b"end"], []))
        again = await self.started(queues=["orders"], store=store)
        self.assertEqual((await again.arrived).body, b"sent")
        again.gate.callback(None)

    async def test_a_stop_of_the_services_that_a_message_asks_for(self) -> None:
        """The same with the service that the broker is part of, while another message is in process."""

        class Ending(Collector):
            async def message_received(self, message: ReceivedMessage) -> Outcome:
                if message.body == b"other":
                    return await super().message_received(message)
                callLater(0, self.gate.callback, None)
                await services.stopService()
                self.bodies.append(message.body)
                return accept()

            def lane(self, message: ReceivedMessage) -> None:
                """No order."""

        callLater = IReactorTime(reactor).callLater
        store = MemoryMessageStore(durable=True)
        broker = Ending(queues=["orders"], store=store, concurrency=2)
        services = MultiService()
        broker.setServiceParent(services)
        services.startService()
        await broker.started
        await self.put(broker, b"other", b"end")
        await broker.arrived
        await broker.gate
        await broker.stopService()
        self.assertEqual(broker.bodies, [b"other", b"end"])
        again = await self.started(queues=["orders"], store=store)
        self.assertEqual([queue.messages for queue in again.manager.inspection.queues()][:1], [0])

    async def test_paused_before_the_start(self) -> None:
        """It starts without processing messages, after a stop too, until it is resumed."""
        store = MemoryMessageStore(durable=True)
        broker = Collector(queues=["orders"], store=store)
        broker.pause()
        self.addCleanup(broker.stopService)
        for body in (b"1", b"2"):
            broker.startService()
            await broker.started
            await self.put(broker, body)
            if body == b"1":
                await broker.stopService()
        self.assertFalse(broker.arrived.called)
        broker.gate.callback(None)
        broker.resume()
        self.assertEqual((await broker.arrived).body, b"1")

    async def test_a_port_in_use(self) -> None:
        """A start that fails has closed all that it opened, and left no file, before C{started} fires."""
        first = await self.started(queues=["orders"])
        second = Collector(queues=["orders"])
        second.startService()
        with self.assertRaises(StartError) as caught:
            await second.started
        address = first.addresses[0].removeprefix("TCP ")
        self.assertEqual(str(caught.exception), f"cannot listen on TCP {address}: Address already in use")
        [line] = [line for line in self.lines if "cannot start" in line]
        self.assertTrue(line.endswith(f".Collector cannot start: {caught.exception}"), line)
        self.assertEqual(list(self.scratch.iterdir()), [self.directory()])

    async def test_a_queue_of_the_other_kind(self) -> None:
        """A declared queue that exists as the other kind is named, and the broker does not start."""
        store = MemoryMessageStore(durable=True)
        await (await self.started(queues=["orders"], store=store)).stopService()
        broker = Collector(queues={"orders": {"transactional": True}}, store=store)
        broker.startService()
        try:
            await broker.started
        except BrokerStartError as error:
            self.assertIn(f"queue '{ORDERS}' of the store is not transactional", str(error))
        else:
            self.fail("it started")
        await broker.stopService()

    async def test_queues_that_it_does_not_process(self) -> None:
        """A queue of the store that is not declared any more is named in the log."""
        store = MemoryMessageStore(durable=True)
        await (await self.started(queues=["orders", "payments"], store=store)).stopService()
        await self.started(queues=["payments"], store=store)
        [line] = [line for line in self.lines if "does not process" in line]
        self.assertIn(ORDERS, line)

    def test_before_the_start(self) -> None:
        """There is no queue manager before a broker has started."""
        broker = Collector()
        error = self.assertRaises(LocalProtocolError, lambda: broker.manager)
        self.assertIn("Collector has not started", str(error))
        self.assertEqual(list(broker.addresses), [])


class ConfiguredTests(TestCase):
    """A configuration in place of single arguments."""

    async def test_everything_is_configured(self) -> None:
        """Its data directory, name and endpoints apply."""
        home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, home)
        file = home / "msmq.toml"
        file.write_text(
            f'[queue_manager]\nname = "SHOP"\ndata = "{home}/data"\n'
            '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\n[storage]\nbackend = "memory"\n'
        )

        class Plain(Broker):
            async def message_received(self, message: ReceivedMessage) -> Outcome:
                return accept()

        broker = Plain(configuration=load(file))
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.started
        self.assertEqual(broker.manager.inspection.status().name, "SHOP")
        self.assertEqual(len(broker.addresses), 1)
