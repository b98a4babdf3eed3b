"""Messages from one queue manager over RabbitMQ to another one, while all three are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import uuid4

import attrs
import pika

from msmq.client import Client, message_to
from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.servers.prepared import PreparedProcess
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER, RabbitServer

PATIENCE: Final = 120.0
"""Seconds without any progress after which the run has failed."""

ROUND: Final = 100
"""Messages for each kill."""

WINDOW: Final = 64
"""The window of the routes."""

ORDERS: Final = ".\\private$\\orders"


class _Server:
    """A C{twistd msmq} with one route, which is killed and started again on what it left behind."""

    def __init__(self, directory: Path, name: str, route: str) -> None:
        self.name = name
        self._data = directory / name
        self.socket = self._data / "control.sock"
        configuration = directory / f"{name}.toml"
        configuration.write_text(
            '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
            f"[[bridge]]\n{route}window = {WINDOW}\nretry = 0.1\nretry_maximum = 0.3\n"
        )
        self._log = directory / f"{name}.log"
        self._command = [
            os.fspath(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", "msmq", "--name", name, "--data", os.fspath(self._data)),
            *("--config", os.fspath(configuration)),
        ]
        self.client = Client(self._data, reconnect=PATIENCE)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; the client waits until it runs."""
        with self._log.open("ab") as log:
            self._process = PreparedProcess(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """Kill the process at any moment."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@attrs.define
class KillRun:
    """One run; an exchange copies each message to a queue for the independent consumer.

    @ivar done: the kills, by their victims, and the copies that the broker had more than once.
    """

    kills: int
    seed: int
    directory: Path
    broker: RabbitServer
    done: Counter[str] = attrs.field(factory=Counter, init=False)

    def run(self) -> list[str]:
        """Run all steps; returns what was lost or doubled."""
        chance = Random(self.seed)
        name = f"kills-{uuid4().hex[:8]}"
        transit, copies = f"{name}.transit", f"{name}.copies"
        self._declare(name, transit, copies)
        address = f"amqp://{USER}:{PASSWORD}@{ADDRESS}:{self.broker.port}/"
        sender = _Server(
            self.directory, "ALPHA", f'name = "out"\nfrom = \'{ORDERS}\'\nto = "{address}?exchange={name}"\n'
        )
        receiver = _Server(
            self.directory, "BETA", f'name = "in"\nfrom = "{address}?queue={transit}"\nto = \'{ORDERS}\'\n'
        )
        wanted: list[bytes] = []
        with ExitStack() as stack:
            for server in (sender, receiver):
                stack.callback(server.kill)
                server.start()
                server.client.create_queue(ORDERS)
            victims = self._victims(chance)
            for number in range(self.kills):
                bodies = [b"%d.%d" % (number, each) for each in range(ROUND)]
                split = chance.randrange(ROUND)
                self._send(sender, bodies[:split])
                self._kill(victims[number], sender, receiver)
                self._send(sender, bodies[split:])
                wanted += bodies
            copied = self._copies(copies, wanted)
            arrived = self._arrived(receiver, len(wanted))
        self.done["copied twice"] = copied.total() - len(copied)
        return [
            *self._judge("the broker", wanted, copied, 1 + self.kills),
            *self._judge("the queue", wanted, arrived, 1),
        ]

    def _victims(self, chance: Random) -> list[str]:
        found = [("broker", "sender", "receiver")[number % 3] for number in range(self.kills)]
        chance.shuffle(found)
        return found

    def _send(self, server: _Server, bodies: Sequence[bytes]) -> None:
        if bodies:
            server.client.send_all([message_to(ORDERS, body) for body in bodies])

    def _kill(self, victim: str, sender: _Server, receiver: _Server) -> None:
        self.done[victim] += 1
        victims: dict[str, _Server | RabbitServer] = {
            "broker": self.broker,
            "sender": sender,
            "receiver": receiver,
        }
        victims[victim].kill()
        victims[victim].start()

    def _declare(self, exchange: str, *queues: str) -> None:
        connection = pika.BlockingConnection(self.broker.parameters)
        channel = connection.channel()
        channel.exchange_declare(exchange, "fanout", durable=True)
        for queue in queues:
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, exchange)
        connection.close()

    def _copies(self, queue: str, wanted: Sequence[bytes]) -> Counter[bytes]:
        """What pika finds in the queue with the copies, until all are there."""
        found: Counter[bytes] = Counter()
        missing = set(wanted)
        give_up = time.monotonic() + PATIENCE
        connection = pika.BlockingConnection(self.broker.parameters)
        channel = connection.channel()
        method: Any
        for method, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=0.5):
            if method is not None:
                found[body] += 1
                missing.discard(body)
            elif not missing or time.monotonic() > give_up:
                # Nothing for a while: no copy is left.
                break
        connection.close()
        return found

    def _arrived(self, server: _Server, number: int) -> Counter[bytes]:
        """What a consumer finds in the queue of the receiver."""
        found: Counter[bytes] = Counter()
        with server.client.consume(ORDERS, timeout=PATIENCE) as consumer:
            while found.total() < number and (batch := consumer.next_batch()):
                found.update(message.body for message in batch)
                batch.confirm()
        # The acknowledgement of the last message may be lost as any other.
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up and self._is_busy(server):
            time.sleep(0.05)
        with server.client.consume(ORDERS, timeout=0) as consumer:
            while batch := consumer.next_batch():
                found.update(message.body for message in batch)
                batch.confirm()
        return found

    @staticmethod
    def _is_busy(server: _Server) -> bool:
        try:
            route = ControlClient(server.socket).bridge("in")
        except MQError:
            return True
        return bool(route["in_flight"] or route["condition"] != "running")

    @staticmethod
    def _judge(where: str, wanted: Sequence[bytes], found: Counter[bytes], most: int) -> list[str]:
        return [
            *(f"{where} lost {body!r}" for body in wanted if not found[body]),
            *(f"{where} has {body!r} {times} times" for body, times in found.items() if times > most),
            *(f"{where} has {body!r}, which was not sent" for body in found.keys() - set(wanted)),
        ]
