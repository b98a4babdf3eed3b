"""Messages by both kinds of bridges for a long time, with memory and descriptors of each process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs
import pika
import psutil

from msmq.client import Client, Consumer, message_to
from tests.servers.killed import KilledProcess
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER, RabbitServer

PATIENCE: Final = 120.0
"""Seconds for the messages of one round."""

BROKEN: Final = 20
"""After so many rounds all connections of the broker are closed."""

SHORTEST: Final = 4
"""Rounds after which growth is judged."""

_LISTEN: Final = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
_MORE: Final = "retry = 0.1\nretry_maximum = 0.3\n"
_KINDS: Final = ("inside", "beside")


@attrs.frozen
class SoakSample:
    """What was measured after a round.

    @ivar memory: resident bytes by process, and C{descriptors} their open descriptors.
    """

    seconds: float
    rounds: int
    arrived: int
    memory: dict[str, int]
    descriptors: dict[str, int]

    def __str__(self) -> str:
        processes = ", ".join(
            f"{name} {self.memory[name] / 1e6:.1f} MB {self.descriptors[name]} descriptors"
            for name in self.memory
        )
        return f"{self.seconds / 60:6.1f} min, {self.arrived} messages, {processes}"


@attrs.define
class SoakRun:
    """Two queue managers: routes in both of them, and routes of a bridge beside them.

    Each round sends messages by either, and ends when all of them have arrived.

    @ivar size: messages of each kind in a round.
    @ivar is_over: asked after each round.
    @ivar report: called with each sample.
    """

    directory: Path
    broker: RabbitServer
    size: int
    is_over: Callable[[int], bool]
    report: Callable[[SoakSample], object]
    samples: list[SoakSample] = attrs.field(factory=list, init=False)

    def run(self) -> list[str]:
        """Run to the end; returns what was lost, doubled or has grown."""
        name = f"soak-{uuid4().hex[:8]}"
        processes = self._processes(name)
        with ExitStack() as stack:
            for process in processes.values():
                stack.callback(process.kill)
                process.start()
            clients = [Client(processes[each].data, reconnect=PATIENCE) for each in ("ALPHA", "BETA")]
            for client in clients:
                for kind in _KINDS:
                    client.create_queue(_queue(kind))
            consumers = [
                stack.enter_context(clients[1].consume(_queue(kind), timeout=PATIENCE)) for kind in _KINDS
            ]
            return [*self._rounds(processes, clients[0], consumers), *self._growth()]

    def _rounds(
        self, processes: dict[str, KilledProcess], sender: Client, consumers: Sequence[Consumer]
    ) -> Iterator[str]:
        begun = time.monotonic()
        rounds = arrived = 0
        while not self.is_over(rounds):
            rounds += 1
            bodies = [b"%d.%d " % (rounds, number) + bytes(1000) for number in range(self.size)]
            sender.send_all([message_to(_queue(kind), body) for body in bodies for kind in _KINDS])
            if rounds % BROKEN == SHORTEST // 2:
                self.broker.control("close_all_connections", "soak")
            for consumer, kind in zip(consumers, _KINDS, strict=True):
                found = _received(consumer, self.size)
                arrived += len(found)
                if sorted(found) != sorted(bodies):
                    yield f"round {rounds}, {kind}: {len(found)} messages, {len(set(found))} different ones"
            sample = SoakSample(
                time.monotonic() - begun,
                rounds,
                arrived,
                {name: _process(each).memory_info().rss for name, each in processes.items()},
                {name: _process(each).num_fds() for name, each in processes.items()},
            )
            self.samples.append(sample)
            self.report(sample)

    def _growth(self) -> Iterator[str]:
        """What has grown from the second quarter of the run to the last."""
        quarter = len(self.samples) // 4
        if quarter < SHORTEST:
            return
        before, after = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        for name in self.samples[0].memory:
            memory = [min(sample.memory[name] for sample in part) for part in (before, after)]
            if memory[1] > 1.1 * memory[0] + 20e6:
                yield f"{name}: {memory[0] / 1e6:.1f} MB have become {memory[1] / 1e6:.1f}"
            opened = [min(sample.descriptors[name] for sample in part) for part in (before, after)]
            if opened[1] > opened[0] + 2:
                yield f"{name}: {opened[0]} descriptors have become {opened[1]}"

    def _processes(self, name: str) -> dict[str, KilledProcess]:
        address = f"amqp://{USER}:{PASSWORD}@{ADDRESS}:{self.broker.port}/"
        connection = pika.BlockingConnection(self.broker.parameters)
        for kind in _KINDS:
            connection.channel().queue_declare(f"{name}.{kind}", durable=True)
        connection.close()

        def routes(kind: str, out: str, into: str) -> tuple[str, str]:
            there = f'"{address}?queue={name}.{kind}"'
            return (
                f"[[bridge]]\nname = \"out\"\nfrom = '{out}{_queue(kind)}'\nto = {there}\n{_MORE}",
                f"[[bridge]]\nname = \"in\"\nfrom = {there}\nto = '{into}{_queue(kind)}'\n{_MORE}",
            )

        out, into = routes("inside", "", "")
        alpha = KilledProcess(self.directory, "ALPHA", "msmq", _LISTEN + out)
        beta = KilledProcess(self.directory, "BETA", "msmq", _LISTEN + into)
        servers = f'[control_servers]\nALPHA = "{alpha.socket}"\nBETA = "{beta.socket}"\n'
        beside = servers + "".join(routes("beside", "ALPHA:", "BETA:"))
        bridge = KilledProcess(self.directory, "BRIDGE", "msmq-bridge", beside)
        return {"ALPHA": alpha, "BETA": beta, "BRIDGE": bridge}


def _queue(kind: str) -> str:
    return f".\\private$\\{kind}"


def _received(consumer: Consumer, number: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < number and (batch := consumer.next_batch()):
        found += [message.body for message in batch]
        batch.confirm()
    return found


def _process(killed: KilledProcess) -> psutil.Process:
    return psutil.Process(killed.pid)
