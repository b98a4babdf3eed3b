"""A queue of a million recoverable messages of 1 KiB, compared with a queue of a thousand in another server.

Memory, restart, the first receive, the rates of sending and receiving, and what the file is afterwards.
C{python bench/million.py [COUNT [STORAGE]]} prints the figures; the messages go through the public calls of
a queue manager, without the control API.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from measuring import Result
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import deferLater, react

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server

MANY = 1_000_000
FEW = 1_000
MEASURED = 20_000
"""Messages that are received, and sent, while the queue holds all the others."""
BATCH = 100
MEMORY_GOAL = 250
"""Megabytes of resident memory with all messages in the queue."""
RESTART_GOAL = 3
FILES_GOAL = 0.7
"""Part of the files that is left when half of the messages are removed."""
STORAGE = "log"
"""Seconds from the start of the process until the queue manager runs."""
SETTLING = 20
"""Seconds that the store gets to give space back once half of the messages are removed."""
GIVING_BACK = 30
"""Seconds that the store gets to give space back once the queue is empty."""
QUEUE = r".\private$\orders"
MESSAGE = Message(body=bytes(1024), delivery=Delivery.RECOVERABLE)
_SETTINGS = (
    '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\ncontrol = "off"\n'
    '[limits]\nquota = 4294967295\n[storage]\nbackend = "{storage}"\n'
)


def _resident() -> float:
    """Megabytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


async def _fill(manager: QueueManagerService, count: int, reactor: Any) -> dict[str, float]:
    """Send that many messages, in batches that follow each other."""
    await manager.create_queue(QUEUE)
    await _send(manager, count)
    return {"resident": _resident()}


async def _send(manager: QueueManagerService, count: int) -> None:
    for _ in range(count // BATCH):
        await manager.send(QUEUE, [MESSAGE] * BATCH)


async def _receive(manager: QueueManagerService, count: int) -> None:
    left = count
    while left:
        reservation = await manager.reserve(QUEUE, count=min(BATCH, left), timeout=10)
        left -= len(reservation.messages)
        await reservation.confirm()


async def _measure(manager: QueueManagerService, count: int, reactor: Any) -> dict[str, float]:
    """With the messages of an earlier process in the queue: memory, first receive, rates."""
    figures = {"resident": _resident()}
    started = time.perf_counter()
    await _receive(manager, 1)
    figures["first"] = time.perf_counter() - started
    measured = min(MEASURED, count // 2)
    started = time.perf_counter()
    await _send(manager, measured)
    figures["send"] = measured / (time.perf_counter() - started)
    started = time.perf_counter()
    await _receive(manager, measured)
    figures["receive"] = measured / (time.perf_counter() - started)
    return figures


async def _halve(manager: QueueManagerService, count: int, reactor: Any) -> dict[str, float]:
    """Receive until half of the messages are left, and let the store give space back."""
    await _receive(manager, max(0, manager.inspection.queue(QUEUE).messages - count // 2))
    await deferLater(reactor, SETTLING)
    return {"resident": _resident()}


async def _drain(manager: QueueManagerService, count: int, reactor: Any) -> dict[str, float]:
    """Receive all that is left, and let the store give its space back."""
    await _receive(manager, manager.inspection.queue(QUEUE).messages)
    started = time.perf_counter()
    while time.perf_counter() - started < GIVING_BACK:
        await deferLater(reactor, 1.0)
    return {"resident": _resident()}


_WORK: dict[str, Callable[[QueueManagerService, int, Any], Awaitable[dict[str, float]]]] = {
    "fill": _fill,
    "measure": _measure,
    "halve": _halve,
    "drain": _drain,
}


def _child(work: str, data: str, count: int, storage: str) -> None:
    """Run one server in this process, and print what the work measured."""
    begun = time.perf_counter()

    async def main(reactor: Any) -> None:
        path = Path(data) / "msmq.toml"
        path.write_text(_SETTINGS.format(storage=storage), encoding="utf-8")
        server = Server(load(path, Overrides(name="ALPHA", data=data)), reactor)
        server.startService()
        try:
            await server.started
            started = time.perf_counter() - begun
            assert server.parts is not None
            figures = await _WORK[work](server.parts.manager, count, reactor)
            figures["started"] = started
            print(" ".join(f"{name}={value}" for name, value in figures.items()), flush=True)
        finally:
            await server.stopService()

    react(lambda reactor: ensureDeferred(main(reactor)))


def _run(work: str, data: str, count: int, storage: str) -> dict[str, float]:
    """The figures of one process."""
    started = time.perf_counter()
    output = subprocess.run(
        [sys.executable, __file__, work, data, str(count), storage],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    figures = {name: float(value) for name, _, value in (word.partition("=") for word in output.split())}
    figures["process"] = time.perf_counter() - started
    return figures


def _size(data: str) -> float:
    return sum(path.stat().st_size for path in Path(data).rglob("*") if path.is_file()) / 1e6


def measure(count: int = MANY, storage: str = STORAGE) -> list[Result]:
    """The table's lines."""
    figures: dict[int, dict[str, float]] = {}
    for messages in (FEW, count):
        with tempfile.TemporaryDirectory(prefix="msmq-bench-") as data:
            filled = _run("fill", data, messages, storage)
            size = _size(data)
            found = figures[messages] = _run("measure", data, messages, storage)
            found["filled"] = filled["resident"]
            found["size"] = size
            _run("halve", data, messages, storage)
            found["halved"] = _size(data)
            found["part"] = found["halved"] / size
            _run("drain", data, messages, storage)
            found["drained"] = _size(data)
    few, many = figures[FEW], figures[count]
    name = f"a queue of {count:,} messages"

    def line(what: str, key: str, unit: str, at_most: float | None = None, scale: float = 1.0) -> Result:
        value = many[key] * scale
        goal = "" if at_most is None else f"at most {at_most:g} {unit}"
        return Result(
            f"{name}: {what}",
            value,
            unit,
            baseline=few[key] * scale,
            ratio=many[key] / few[key],
            goal=goal,
            is_reached=None if at_most is None else value <= at_most,
        )

    return [
        line("resident memory after sending", "filled", "MB", MEMORY_GOAL),
        line("resident memory after a restart", "resident", "MB", MEMORY_GOAL),
        line("restart", "started", "s", RESTART_GOAL),
        line("first receive", "first", "ms", scale=1000),
        line("send", "send", "messages/s"),
        line("receive", "receive", "messages/s"),
        line("files, filled", "size", "MB"),
        line("files, half removed", "halved", "MB"),
        line("files, half removed, part of filled", "part", "", FILES_GOAL),
        line("files, drained", "drained", "MB"),
    ]


if __name__ == "__main__":
    if len(sys.argv) == 5:
        _child(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        from measuring import table

        print(
            table(
                measure(
                    int(sys.argv[1]) if len(sys.argv) > 1 else MANY,
                    sys.argv[2] if len(sys.argv) > 2 else STORAGE,
                )
            )
        )
