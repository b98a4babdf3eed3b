"""Routes of the bridge, beside pika alone between two queues of RabbitMQ with the same promises.

Each round moves the same number of persistent messages that wait at the source, with at most 256 in flight:
from a queue with the store C{log} to a classic durable queue, and back, and with pika from one such queue to
another: consumed with acknowledgements, published as mandatory with confirms, acknowledged when confirmed.
The time counts from the start of the route, or of pika's connection, to the removal of the last message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from programs import rabbitmq
from rig.measuring import Result, compare

ROUNDS: Final = 5
MESSAGES: Final = 10_000
SIZE: Final = 1024
WINDOW: Final = 256
GOAL: Final = 0.7
ORDERS: Final = ".\\private$\\orders"
SOURCE: Final = "source"
DESTINATION: Final = "destination"


def _channel(port: int) -> Any:
    import pika

    return pika.BlockingConnection(rabbitmq._parameters(port)).channel()


def prepare(port: int, count: int) -> None:
    """Both queues anew, and messages in the source."""
    import pika

    channel = _channel(port)
    for queue in (SOURCE, DESTINATION):
        channel.queue_delete(queue)
        channel.queue_declare(queue, durable=True)
    for number in range(count):
        properties = pika.BasicProperties(delivery_mode=2, message_id=str(number))
        channel.basic_publish("", SOURCE, bytes(SIZE), properties)
    while channel.queue_declare(SOURCE, passive=True).method.message_count < count:
        time.sleep(0.01)
    channel.connection.close()


class _PikaAlone:
    """Consumes one queue and publishes to the other one on two channels of a connection."""

    def __init__(self, port: int, count: int) -> None:
        import pika

        self._left = count
        self._tags: dict[int, int] = {}
        self._published = 0
        self._connection = pika.SelectConnection(
            rabbitmq._parameters(port), on_open_callback=self._opened, on_close_callback=self._closed
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        self._publisher = connection.channel(on_open_callback=self._may_publish)

    def _may_publish(self, channel: Any) -> None:
        channel.confirm_delivery(self._confirmed, callback=self._selected)

    def _selected(self, _: Any) -> None:
        self._consumer = self._connection.channel(on_open_callback=self._may_consume)

    def _may_consume(self, channel: Any) -> None:
        channel.basic_qos(prefetch_count=WINDOW)
        channel.basic_consume(SOURCE, self._delivered)

    def _delivered(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._published += 1
        self._tags[self._published] = method.delivery_tag
        self._publisher.basic_publish("", DESTINATION, body, properties, mandatory=True)

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        done = [method.delivery_tag]
        if method.multiple:
            done = [tag for tag in self._tags if tag <= method.delivery_tag]
            self._consumer.basic_ack(self._tags[done[-1]], multiple=True)
        else:
            self._consumer.basic_ack(self._tags[method.delivery_tag])
        for tag in done:
            del self._tags[tag]
        self._left -= len(done)
        if not self._left:
            self._connection.close()

    def _closed(self, connection: Any, _: Any) -> None:
        connection.ioloop.stop()


def pika_alone(port: int, count: int) -> float:
    """The seconds of pika."""
    prepare(port, count)
    started = time.monotonic()
    _PikaAlone(port, count).run()
    return time.monotonic() - started


def route(direction: str, port: int, count: int) -> float:
    """The seconds of a route."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    prepare(port, count if direction == "in" else 0)
    found: list[float] = []
    with tempfile.TemporaryDirectory(prefix="msmq-bench-") as data:

        async def work() -> None:
            found.append(await _route(direction, port, count, Path(data)))

        def done(result: Any) -> Any:
            reactor.stop()
            return result

        reactor.callWhenRunning(lambda: Deferred.fromCoroutine(work()).addBoth(done))
        reactor.run()
    return found[0]


async def _route(direction: str, port: int, count: int, data: Path) -> float:
    from twisted.internet import reactor
    from twisted.internet.interfaces import IReactorTime
    from twisted.internet.task import deferLater

    from msmq.bridge_service.manager_queues import ManagerQueues
    from msmq.bridge_service.service import BridgeService
    from msmq.queues.arriving.message import Delivery, Message
    from msmq.service.configuration import Overrides, load
    from msmq.service.server import Server

    ends = {
        "out": (f"'{ORDERS}'", f'"amqp://127.0.0.1:{port}/?queue={DESTINATION}"'),
        "in": (f'"amqp://127.0.0.1:{port}/?queue={SOURCE}"', f"'{ORDERS}'"),
    }
    source, destination = ends[direction]
    (data / "msmq.toml").write_text(
        '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'
    )
    (data / "bridge.toml").write_text(
        f'[[bridge]]\nname = "bench"\nfrom = {source}\nto = {destination}\nwindow = {WINDOW}\n'
    )
    configuration = load(data / "msmq.toml", Overrides(name="BENCH", data=os.fspath(data)), {})
    server = Server(configuration, IReactorTime(reactor))
    server.startService()
    await server.started
    manager = server.manager
    queues = ManagerQueues(manager)
    # The server has no route of its own: this one starts when its messages are there.
    settings = load(data / "bridge.toml", Overrides(name="BENCH"), {}).bridges
    bridge = BridgeService(settings, lambda _: queues, IReactorTime(reactor), data / "bridge")
    await manager.create_queue(ORDERS)
    if direction == "out":
        message = Message(body=bytes(SIZE), delivery=Delivery.RECOVERABLE)
        for _ in range(count // 1000):
            await manager.send(ORDERS, [message] * 1000)
    (measured,) = bridge.routes.values()
    started = time.monotonic()
    bridge.start()
    while measured.counts.forwarded < count or measured.in_flight:
        await deferLater(reactor, 0.005)
    seconds = time.monotonic() - started
    await bridge.stop()
    await server.stopService()
    return seconds


def _child(*arguments: object) -> float:
    command = [sys.executable, __file__, *map(str, arguments)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measure() -> list[Result]:
    """The figures of the table; none without RabbitMQ."""
    if why := rabbitmq.missing():
        sys.stderr.write(f"bridge: left out, {why}\n")
        return []
    rounds: dict[str, list[tuple[float, float]]] = {"out": [], "in": []}
    with rabbitmq.Node() as node:
        for _ in range(ROUNDS):
            alone = MESSAGES / _child("pika", node.port, MESSAGES)
            for direction, figures in rounds.items():
                figures.append((MESSAGES / _child(direction, node.port, MESSAGES), alone))
    names = {"out": "bridge: queue to RabbitMQ, 1 KiB", "in": "bridge: RabbitMQ to queue, 1 KiB"}
    return [
        compare(names[direction], figures, "messages/s", at_least=GOAL)
        for direction, figures in rounds.items()
    ]


def main(arguments: list[str]) -> int:
    """Be the process of one round."""
    what, port, count = arguments
    seconds = pika_alone(int(port), int(count)) if what == "pika" else route(what, int(port), int(count))
    sys.stdout.write(json.dumps(seconds) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
