"""From one application to another: over the control API of two queue managers, and over RabbitMQ with pika.

The applications are processes of their own, two of ours (C{applications.py}) and two with pika
(C{rabbitmq.py}), and keep so many messages outstanding: sent, and not yet acknowledged as safe.
The time counts from the first message that is sent to the last one that is received and confirmed; how old
a message is when it is received comes from the time in its body.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import rabbitmq
from flights import Part
from measuring import Result, compare
from servers import Manager, processor_seconds, written_bytes

COUNTS: Final = {
    1024: {1: 1000, 10: 4000, 100: 10_000, 1000: 15_000},
    65536: {1: 300, 10: 600, 100: 900, 1000: 900},
}
"""Messages of a round, by the bytes of a body and by how many are outstanding."""
WINDOW: Final = 64
"""The usual window of both queue managers."""
QUEUES: Final = {"plain": r".\private$\plain", "transactional": r".\private$\transactional"}
RIVALS: Final = {"express": "transient", "recoverable": "persistent", "transactional": "persistent"}
"""With what at RabbitMQ a kind of message is compared; an express one only where bodies are short."""

Cell = tuple[str, int, int, int]
Figures = dict[str, float]


class Ours:
    """Two queue managers, as C{twistd} processes."""

    def __init__(self, processes: ExitStack, window: int) -> None:
        limits = f"window_size = {window}\n"
        self._receiver = Manager(processes, "BETA", "", limits)
        hosts = f'[hosts]\nBETA = "{self._receiver.endpoint}"\n'
        self._sender = Manager(processes, "ALPHA", hosts, limits)
        for name, path in QUEUES.items():
            self._receiver.client.create_queue(path, {"transactional": name == "transactional"})

    def run(self, kind: str, size: int, outstanding: int, count: int) -> Figures:
        """One round of two applications."""
        queue = QUEUES["transactional" if kind == "transactional" else "plain"]
        spent = _spent([self._sender.pid, self._receiver.pid], count)
        with ExitStack() as processes:
            receiver = Part(processes, "applications", "receive", self._receiver.socket, queue, count)
            receiver.hear()
            sender = Part(
                processes, "applications", "send", self._sender.socket, queue, kind, count, size, outstanding
            )
            figures = _figures(count, sender.hear(), receiver.hear())
        return {**figures, **spent()}


class Rivals:
    """A RabbitMQ node."""

    def __init__(self, processes: ExitStack) -> None:
        self._node = processes.enter_context(rabbitmq.Node())

    def run(self, kind: str, size: int, outstanding: int, count: int) -> Figures:
        """One round of pika's publisher and consumer."""
        spent = _spent(self._node.processes, count)
        with ExitStack() as processes:
            consumer = Part(processes, "rabbitmq", "consume", self._node.port, count, outstanding, "classic")
            consumer.hear()
            publisher = Part(
                processes, "rabbitmq", "publish", self._node.port, count, size, outstanding, RIVALS[kind]
            )
            figures = _figures(count, publisher.hear(), consumer.hear())
        return {**figures, **spent()}


def _spent(servers: Sequence[int], count: int) -> Callable[[], Figures]:
    """What these processes spend for each message, from now until it is asked."""

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
    """What is measured: kind, bytes of a body, outstanding, messages."""
    return [
        (kind, size, outstanding, max(100, count // shorter))
        for size, counts in COUNTS.items()
        for outstanding, count in counts.items()
        for kind in RIVALS
        if kind != "express" or size == 1024
    ]


def measure(rounds: int, shorter: int = 1, window: int = WINDOW) -> list[Result]:
    """The median of several rounds, each of which has ours and RabbitMQ side by side.

    @param window: WindowSize of both queue managers.
    """
    ours: dict[Cell, list[Figures]] = {}
    theirs: dict[Cell, list[Figures]] = {}
    why_not = rabbitmq.missing()
    if why_not:
        sys.stderr.write(f"  RabbitMQ is SKIPPED: {why_not}\n")
    with ExitStack() as processes:
        mine = Ours(processes, window)
        rival = None if why_not else Rivals(processes)
        for _ in range(rounds):
            shared: dict[Cell, Figures] = {}
            for cell in cells(shorter):
                kind, size, outstanding, count = cell
                ours.setdefault(cell, []).append(mine.run(*cell))
                if rival is not None:
                    key = (RIVALS[kind], size, outstanding, count)
                    if key not in shared:
                        shared[key] = rival.run(*cell)
                    theirs.setdefault(cell, []).append(shared[key])
    return [line for cell, figures in ours.items() for line in _lines(cell, figures, theirs.get(cell, []))]


def _lines(cell: Cell, ours: list[Figures], theirs: list[Figures]) -> list[Result]:
    kind, size, outstanding, _ = cell
    name = f"{kind}, {size >> 10} KiB, {outstanding:,} outstanding"

    def median(figures: list[Figures], key: str, scale: float) -> float:
        return statistics.median(each[key] for each in figures) * scale

    def line(what: str, unit: str, value: Callable[[list[Figures]], float]) -> Result:
        return Result(
            f"  {what}",
            value(ours),
            unit,
            baseline=value(theirs) if theirs else None,
            ratio=value(ours) / value(theirs) if theirs else None,
        )

    pairs = [(mine["rate"], other["rate"]) for mine, other in zip(ours, theirs, strict=False)]
    rate = (
        compare(name, pairs, "messages/s", at_least=1.0)
        if pairs
        else Result(name, median(ours, "rate", 1), "messages/s")
    )
    return [
        rate,
        line("age on receipt, median", "ms", lambda figures: median(figures, "p50", 1e3)),
        line("99 of 100 within", "ms", lambda figures: median(figures, "p99", 1e3)),
        line("processor, servers", "microseconds each", lambda figures: median(figures, "servers", 1e6)),
        line("written to disk, servers", "KB each", lambda figures: median(figures, "written", 1e-3)),
        line(
            "processor, applications",
            "microseconds each",
            lambda figures: median(figures, "applications", 1e6),
        ),
    ]
