"""A bridge beside two queue managers, with a real RabbitMQ: the same promises as inside a queue manager."""

from __future__ import annotations

import http.client
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread

from msmq.bridge_program.configuration import load_bridge
from msmq.bridge_program.server import BridgeServer
from msmq.bridge_service.control_queues import ControlQueues
from msmq.bridge_service.dead_letters import REASON
from msmq.bridge_service.outward_route import OutwardRoute
from msmq.control.client.client import ControlClient
from msmq.control.client.locations import UnixLocation
from msmq.interfaces.storage import IMessageStore
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from tests.bridge_service.support import ORDERS, BridgeTestCase, bodies
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER

LISTEN: Final = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
BACK: Final = ".\\private$\\back"


class BridgeServerTests(BridgeTestCase):
    """The bridge in the process of the test; it reaches the queue managers by their control sockets alone."""

    async def begin(self) -> None:
        """Have the queue managers GAMMA and DELTA."""
        await super().begin()
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.gamma = await self.start("GAMMA")
        self.manager = self.gamma.manager
        await self.manager.create_queue(ORDERS)

    async def start(self, name: str, store: IMessageStore | None = None) -> Server:
        """Start a queue manager with a control socket, with a store of before or a new one."""
        data = self.directory / name
        data.mkdir(exist_ok=True)
        (data / "msmq.toml").write_text(LISTEN)
        server = Server(
            load(data / "msmq.toml", Overrides(name=name, data=os.fspath(data)), {}),
            IReactorTime(reactor),
            store=MemoryMessageStore(durable=True) if store is None else store,
        )
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    async def run_bridge(self, *routes: str) -> BridgeServer:
        """Start a bridge with these tables."""
        path = self.directory / "bridge.toml"
        path.write_text(
            f'[program]\nname = "B1"\ndata = "{self.directory}/bridge"\n'
            '[listen]\nweb = "tcp:0:interface=127.0.0.1"\n'
            f'[control_servers]\nGAMMA = "{self.directory}/GAMMA/control.sock"\n'
            f'DELTA = "{self.directory}/DELTA/control.sock"\n'
            + "".join(f"[[bridge]]\nretry = 0.1\nretry_maximum = 0.3\n{route}\n" for route in routes)
        )
        server = BridgeServer(load_bridge(path), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    @property
    def address(self) -> str:
        """The broker."""
        return f"amqp://{USER}:{PASSWORD}@{ADDRESS}:{self.broker.port}/"

    def out(self, queue: str, name: str = "out") -> str:
        """A route from GAMMA to a queue of the broker."""
        return f'name = "{name}"\nfrom = \'GAMMA:{ORDERS}\'\nto = "{self.address}?queue={queue}"'

    def back(self, queue: str, more: str = "") -> str:
        """A route from a queue of the broker to DELTA."""
        return f'name = "in"\nfrom = "{self.address}?queue={queue}"\nto = \'DELTA:{BACK}\'\n{more}'

    async def test_from_one_queue_manager_to_another(self) -> None:
        """Messages with all that they have go from one queue manager over the broker to another, in order."""
        delta = await self.start("DELTA")
        await delta.manager.create_queue(BACK)
        queue = await self.queue()
        await self.run_bridge(self.out(queue), self.back(queue))
        wanted = [b"order %d" % number for number in range(300)]
        await self.send(*wanted, label="order", application_tag=7, extension=b"\x00\x01binary")
        self.manager = delta.manager
        found = await self.receive(300, BACK)
        self.assertEqual([each.body for each in found], wanted)
        first = found[0].view
        self.assertEqual((first.label, first.application_tag), ("order", 7))
        self.assertEqual(bytes(first.extension), b"\x00\x01binary")
        self.manager = self.gamma.manager
        await self.until(lambda: self.count() == 0)

    async def test_queue_manager_that_restarts(self) -> None:
        """While a queue manager is away its routes wait, and go on when it is back; nothing arrives twice."""
        queue = await self.queue()
        store = MemoryMessageStore(durable=True)
        delta = await self.start("DELTA", store)
        await delta.manager.create_queue(BACK)
        server = await self.run_bridge(self.out(queue), self.back(queue))
        assert server.bridge is not None
        await self.send(b"one")
        self.manager = delta.manager
        await self.until(lambda: self.count(BACK) == 1)
        await delta.stopService()
        self.manager = self.gamma.manager
        await self.send(b"two", b"three")
        route = server.bridge.routes["in"]
        await self.until(lambda: route.reason.startswith(f"queue DELTA:{BACK}: "))
        self.assertIn("no queue manager answers", route.reason)
        self.assertEqual(route.condition.value, "waiting")
        # A store keeps what it has when its server stops.
        delta = await self.start("DELTA", store)
        self.manager = delta.manager
        await self.until(lambda: self.count(BACK) == 3)
        self.assertEqual([each.body for each in await self.receive(3, BACK)], [b"one", b"two", b"three"])
        await self.until(lambda: route.condition.value == "running")

    async def test_queue_manager_that_is_away_at_the_start(self) -> None:
        """A route to a queue manager that is away waits, with one line; the others work."""
        queue, other = await self.queue(), await self.queue()
        server = await self.run_bridge(self.out(queue), self.back(other))
        assert server.bridge is not None
        await self.send(b"one")
        self.assertEqual(bodies(await self.get(queue, 1)), [b"one"])
        await self.publish(other, b"two")
        route = server.bridge.routes["in"]
        await self.until(lambda: route.counts.retries > 2)
        lines = [line for line in self.lines if "route in of the bridge waits" in line]
        self.assertEqual(len(lines), 1)
        self.assertIn(f"no queue manager answers at {self.directory}/DELTA/control.sock", lines[0])

    async def test_dead_letters(self) -> None:
        """A message that cannot be forwarded is a dead letter in the queue manager of its source."""
        queue = await self.queue()
        await self.run_bridge(self.out(queue) + "\nlimit = 3")
        await self.send(b"too large", b"ok")
        self.assertEqual(bodies(await self.get(queue, 1)), [b"ok"])
        await self.assert_dead_letter("limit: the body has 9 bytes, and limit is 3", b"too large")
        await self.until(lambda: any("bridge-dead-letter: message {" in line for line in self.lines))

    async def test_message_that_the_queue_manager_refuses(self) -> None:
        """A refused message is a dead letter; those beside it arrive once, with and without a message-id."""
        delta = await self.start("DELTA")
        await delta.manager.create_queue(BACK)
        queue = await self.queue()
        await self.publish(queue, b"one", b"two", message_id=None)
        await self.publish(queue, b"bad", headers={"priority": 9})
        await self.publish(queue, b"three")
        await self.run_bridge(self.back(queue, 'properties = { priority = "headers.priority || `3`" }'))
        self.manager = delta.manager
        ((_, body),) = await self.get_dead(f"{queue}.dead-letters")
        self.assertEqual(body, b"bad")
        await self.until(lambda: self.count(BACK) == 3)
        self.assertEqual([each.body for each in await self.receive(3, BACK)], [b"one", b"two", b"three"])
        self.assertEqual(self.count(BACK), 0)

    async def test_larger_than_the_quota(self) -> None:
        """A message that is larger than the whole quota of its queue is a dead letter; the others arrive as
        the quota has space for them.
        """
        delta = await self.start("DELTA")
        await delta.manager.create_queue(BACK, quota=6)
        queue = await self.queue()
        bodies_ = [bytes([number]) * 2500 for number in range(6)]
        await self.publish(queue, *bodies_[:3], bytes(7000), *bodies_[3:])
        await self.run_bridge(self.back(queue))
        self.manager = delta.manager
        found: list[bytes] = []
        while len(found) < len(bodies_):
            found += [each.body for each in await self.receive(1, BACK)]
        self.assertEqual(found, bodies_)
        ((properties, body),) = await self.get_dead(f"{queue}.dead-letters")
        self.assertEqual(len(body), 7000)
        self.assertIn("is larger than all of it, 6144 bytes", properties.headers[REASON])

    async def test_program_that_maps_to_no_message(self) -> None:
        """What cannot be sent is a dead letter, and the route goes on."""
        delta = await self.start("DELTA")
        await delta.manager.create_queue(BACK)
        queue = await self.queue()
        await self.publish(queue, b"one", b"property", b"value", b"two")
        await self.run_bridge(
            self.back(queue, 'mapping = "tests.bridge_service.test_inward_route:WrongMapping"')
        )
        self.manager = delta.manager
        self.assertEqual([each.body for each in await self.receive(2, BACK)], [b"one", b"two"])
        await self.until_there(f"{queue}.dead-letters")
        found = bodies(await self.get(f"{queue}.dead-letters", 2))
        self.assertEqual(sorted(found), [b"property", b"value"])

    async def get_dead(self, queue: str) -> list[tuple[Any, bytes]]:
        """The first dead letter of the broker."""
        await self.until_there(queue)
        return await self.get(queue, 1)

    async def test_stop_returns_messages(self) -> None:
        """A bridge that stops leaves no message locked, and a paused route takes none."""
        queue = await self.queue()
        server = await self.run_bridge(self.out(queue))
        assert server.bridge is not None
        route = server.bridge.routes["out"]
        assert isinstance(route, OutwardRoute)
        await self.until(lambda: route.condition.value == "running")
        route.pause()
        await self.send(b"one", b"two")
        await server.stopService()
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"two"])

    async def test_pause(self) -> None:
        """A route that waits for messages takes none while it is paused, and goes on when it is resumed, with
        a batch under way too.
        """
        queue = await self.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
        server = await self.run_bridge(self.out(queue))
        assert server.bridge is not None
        route = server.bridge.routes["out"]
        await self.until(lambda: route.condition.value == "running")
        route.pause()
        await self.send(b"for another")
        self.assertEqual([each.body for each in await self.receive(1)], [b"for another"])
        route.resume()
        await self.send(b"one", b"two")
        await self.until(lambda: route.counts.retries > 0)
        route.pause()
        route.resume()
        self.assertEqual(bodies(await self.get(queue, 2)), [b"one", b"two"])
        await self.send(b"three")
        self.assertEqual(bodies(await self.get(queue, 1)), [b"three"])

    async def test_messages_that_a_queue_holds(self) -> None:
        """A broker with transactions asks which of its messages are still in the queue, locked or not."""
        queues = ControlQueues.at(f"{self.directory}/GAMMA/control.sock", reactor)
        self.addCleanup(queues.close)
        await self.send(b"one", b"two", b"three")
        await self.send(b"four", time_to_be_received=1000)
        (*_, limited) = await queues.peek(ORDERS, 4)
        self.assertEqual(limited.properties["time_to_be_received"], 1000)
        held = await queues.receive(ORDERS, 1, 1 << 20)
        wanted = {each.identifier: int(each.properties["lookup_id"]) for each in held.messages}
        gone = {next(iter(wanted)).rpartition("\\")[0] + "\\1": 1}
        self.assertEqual(await queues.holding(ORDERS, wanted | gone), set(wanted))
        with self.assertRaisesRegex(MQError, "MQ_ERROR_QUEUE_NOT_FOUND"):
            await queues.holding(BACK, wanted)
        await held.confirm()
        self.assertEqual(await queues.holding(ORDERS, wanted), set())

    async def test_operators(self) -> None:
        """C{msmq bridge} reaches it by its socket; health and metrics are at its web endpoint."""
        queue = await self.queue()
        server = await self.run_bridge(self.out(queue), self.back(queue))
        client = ControlClient(UnixLocation(self.directory / "bridge" / "control.sock"))
        await self.send(b"one")
        await self.until(lambda: self.count() == 0)
        (out, _) = await deferToThread(client.bridges)
        self.assertEqual(
            (out["name"], out["source"], out["condition"]), ("out", f"GAMMA:{ORDERS}", "running")
        )
        self.assertEqual((await deferToThread(client.pause_bridge, "out"))["condition"], "paused")
        self.assertEqual((await deferToThread(client.resume_bridge, "out"))["condition"], "running")
        self.assertIn("bridge pause out", "".join(self.lines))
        with self.assertRaisesRegex(MQError, "there is no resource /v1/status"):
            await deferToThread(client.status)
        assert server.bridge is not None
        back = server.bridge.routes["in"]
        await self.until(lambda: back.condition.value == "waiting")
        ready = await self.fetch(server, "/health/ready")
        self.assertIn('"status":"degraded"', ready)
        self.assertIn("route in is waiting: ", ready)
        self.assertIn('"status":"live"', await self.fetch(server, "/health/live"))
        metrics = await self.fetch(server, "/metrics")
        self.assertIn('msmq_bridge_forwarded_total{route="out"} 1.0', metrics)
        self.assertIn('name="B1"', metrics)
        self.assertIn('"name":"out"', await self.fetch(server, "/v1/bridges"))
        self.assertIn("no such resource", await self.fetch(server, "/console"))

    async def fetch(self, server: BridgeServer, path: str) -> str:
        """The body of a response of the web endpoint."""
        assert server.web is not None
        host, port = server.web

        def get() -> str:
            connection = http.client.HTTPConnection(host, port)
            connection.request("GET", path)
            body = connection.getresponse().read().decode()
            connection.close()
            return body

        return await deferToThread(get)
