"""From one application to another: over the control API of two queue managers, and over RabbitMQ with pika.

The applications are processes of their own, two of ours (C{applications.py}) and two with pika
(C{rabbitmq.py}), and keep a fixed number of messages outstanding: sent, and not yet acknowledged as stored.
RabbitMQ does it with one node, and with two nodes and a shovel between them.
The time counts from the first message that is sent to the last one that is received and confirmed; how old
a message is when it is received comes from the time in its body.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, Protocol

from programs import rabbitmq
from rig.flights import Part
from rig.measuring import Result, compare
from rig.servers import Manager, processor_seconds, written_bytes

COUNTS: Final = {
    1024: {1: 1000, 10: 4000, 100: 10_000, 1000: 15_000},
    65536: {1: 300, 10: 600, 100: 900, 1000: 900},
}
"""Messages of a round, by the bytes of a body and by how many are outstanding."""
WINDOW: Final = 256
"""The usual window of both queue managers."""
STORAGE: Final = "log"
QUEUES: Final = {"plain": r".\private$\plain", "transactional": r".\private$\transactional"}
RIVALS: Final = {"express": "transient", "recoverable": "persistent", "transactional": "persistent"}
"""With what at RabbitMQ a kind of message is compared; an express one only where bodies are short."""
GOALS: Final = {
    ("express", 1024): (1.5, 1.5, 1.5, 1.5),
    ("recoverable", 1024): (1.0, 1.5, 2.0, 2.0),
    ("transactional", 1024): (1.0, 1.3, 1.7, 1.7),
    ("recoverable", 65536): (1.0, 1.2, 1.0, 1.0),
}
"""Of our rate to that of one node, with 1, 10, 100 and 1,000 outstanding."""
SHOVEL_GOAL: Final = 2.0
"""Of our rate to that of two nodes and a shovel."""

Cell = tuple[str, int, int, int]
Figures = dict[str, float]


class Contender(Protocol):
    """A way to pass messages from one application to another."""

    def run(self, kind: str, size: int, outstanding: int, count: int) -> Figures:
        """One round of two applications."""


class QueueManagers:
    """Two queue managers, as C{twistd} processes.

    @ivar plain: a queue of the receiver that is not transactional.
    """

    plain = QUEUES["plain"]

    def __init__(self, processes: ExitStack, window: int, storage: str) -> None:
        limits = f"window_size = {window}\n"
        self.receiver = Manager(processes, "BETA", "", limits, storage=storage)
        hosts = f'[hosts]\nBETA = "{self.receiver.endpoint}"\n'
        self.sender = Manager(processes, "ALPHA", hosts, limits, storage=storage)
        for name, path in QUEUES.items():
            self.receiver.client.create_queue(path, {"transactional": name == "transactional"})

    def run(self, kind: str, size: int, outstanding: int, count: int) -> Figures:
        """One round of two applications."""
        queue = QUEUES["transactional" if kind == "transactional" else "plain"]
        spent = _spent([self.sender.pid, self.receiver.pid], count)
        with ExitStack() as processes:
            receiver = Part(processes, "programs/applications", "receive", self.receiver.socket, queue, count)
            receiver.hear()
            sender = Part(
                processes,
                "programs/applications",
                "send",
                self.sender.socket,
                queue,
                kind,
                count,
                size,
                outstanding,
            )
            figures = _figures(count, sender.hear(), receiver.hear())
        return {**figures, **spent()}


class RabbitMQ:
    """One RabbitMQ node, or two with a shovel from the one to the other."""

    def __init__(self, processes: ExitStack, has_shovel: bool) -> None:
        self._nodes = [processes.enter_context(rabbitmq.Node())]
        if has_shovel:
            self._nodes.append(processes.enter_context(rabbitmq.Node(self._nodes[0].port)))

    def run(self, kind: str, size: int, outstanding: int, count: int) -> Figures:
        """One round of pika's publisher and consumer."""
        first, last = self._nodes[0], self._nodes[-1]
        queue = rabbitmq.QUEUE if first is last else rabbitmq.OUTGOING
        spent = _spent([process for node in self._nodes for process in node.processes], count)
        with ExitStack() as processes:
            consumer = Part(
                processes, "programs/rabbitmq", "consume", first.port, count, outstanding, "classic"
            )
            consumer.hear()
            publisher = Part(
                processes,
                *("programs/rabbitmq", "publish", last.port, queue, count, size, outstanding, RIVALS[kind]),
            )
            figures = _figures(count, publisher.hear(), consumer.hear())
        return {**figures, **spent()}


def _spent(servers: Sequence[int], count: int) -> Callable[[], Figures]:
    """Processor time of these processes for each message, from now until it is called."""

    def now() -> tuple[float, int]:
        return sum(map(processor_seconds, servers)), sum(map(written_bytes, servers))

    processor, written = now()

    def spent() -> Figures:
        processor_now, written_now = now()
        return {"servers": (processor_now - processor) / count, "written": (written_now - written) / count}

    return spent


def _figures(count: int, sent: Figures, received: Figures) -> Figures:
    return {
        "rate": count / (received["ended"] - sent["started"]),
        "p50": received["p50"],
        "p99": received["p99"],
        "applications": (sent["cpu"] + received["cpu"]) / count,
    }


def cells(shorter: int) -> list[Cell]:
    """The measured cases: kind, bytes of a body, outstanding, messages."""
    return [
        (kind, size, outstanding, max(100, count // shorter))
        for size, counts in COUNTS.items()
        for outstanding, count in counts.items()
        for kind in RIVALS
        if kind != "express" or size == 1024
    ]


def measure(rounds: int, shorter: int = 1, window: int = WINDOW, storage: str = STORAGE) -> list[Result]:
    """The median of several rounds, each of which has ours, one node, and two nodes, one after the other.

    @param window: WindowSize of both queue managers.
    @param storage: the store of both.
    """
    why_not = rabbitmq.missing()
    if why_not:
        sys.stderr.write(f"  RabbitMQ is SKIPPED: {why_not}\n")
    found: dict[str, dict[Cell, list[Figures]]] = {"ours": {}, "node": {}, "shovel": {}}
    with ExitStack() as processes:
        ours: Contender = QueueManagers(processes, window, storage)
        rivals: dict[str, Contender] = {}
        if not why_not:
            rivals = {"node": RabbitMQ(processes, False), "shovel": RabbitMQ(processes, True)}
        for _ in range(rounds):
            shared: dict[tuple[str, Cell], Figures] = {}
            for cell in cells(shorter):
                kind, size, outstanding, count = cell
                found["ours"].setdefault(cell, []).append(ours.run(*cell))
                for name, rival in rivals.items():
                    key = (name, (RIVALS[kind], size, outstanding, count))
                    if key not in shared:
                        shared[key] = rival.run(*cell)
                    found[name].setdefault(cell, []).append(shared[key])
    return [
        line
        for cell, figures in found["ours"].items()
        for line in _lines(cell, figures, found["node"].get(cell, []), found["shovel"].get(cell, []))
    ]


def _lines(cell: Cell, ours: list[Figures], node: list[Figures], shovel: list[Figures]) -> list[Result]:
    kind, size, outstanding, _ = cell
    name = f"{kind}, {size >> 10} KiB, {outstanding:,} outstanding"

    def median(figures: list[Figures], key: str, scale: float) -> float:
        return statistics.median(each[key] for each in figures) * scale

    def line(what: str, unit: str, key: str, scale: float) -> Result:
        value = median(ours, key, scale)
        if not node:
            return Result(f"  {what}", value, unit)
        baseline = median(node, key, scale)
        return Result(
            f"  {what}", value, unit, baseline=baseline, ratio=value / baseline if baseline else None
        )

    def rate(beside: str, theirs: list[Figures], goal: float | None) -> Result:
        pairs = [(mine["rate"], other["rate"]) for mine, other in zip(ours, theirs, strict=True)]
        return compare(f"{name}{beside}", pairs, "messages/s", at_least=goal)

    if not node:
        rates = [Result(name, median(ours, "rate", 1), "messages/s")]
    else:
        goals = GOALS.get((kind, size))
        goal = None if goals is None else goals[list(COUNTS[size]).index(outstanding)]
        rates = [
            rate(", beside one node", node, goal),
            rate(", beside two nodes and a shovel", shovel, SHOVEL_GOAL),
        ]
    return [
        *rates,
        line("age on receipt, median", "ms", "p50", 1e3),
        line("99 of 100 within", "ms", "p99", 1e3),
        line("processor, servers", "microseconds each", "servers", 1e6),
        line("written to disk, servers", "KB each", "written", 1e-3),
        line("processor, applications", "microseconds each", "applications", 1e6),
    ]
