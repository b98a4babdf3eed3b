"""A queue of a million recoverable messages of 1 KiB, compared with a queue of a thousand in another server.

Memory, restart, the first receive, the cost of sending and receiving, a purge, a deletion, and what the files
are afterwards. Costs and iterations of the reactor are measured in processor time, so that a machine with
other work changes them little.
C{python bench/million.py [COUNT [STORAGE]]} prints the figures; the messages go through the public calls of
a queue manager, without the control API.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import deferLater, react

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.process.collector import settle
from msmq.service.server import Server
from rig.measuring import Result, Turns

MANY: Final = 1_000_000
FEW: Final = 1_000
MEASURED: Final = 20_000
"""Messages that are received, and sent, while the queue holds all the others."""
BATCH: Final = 100
MEMORY_GOAL: Final = 250
"""Megabytes of resident memory with all messages in the queue."""
RESTART_GOAL: Final = 3
"""Seconds of processor time from the start of the process until the queue manager runs."""
FILES_GOAL: Final = 0.7
"""Part of the files that is left when half of the messages are removed."""
PURGE_GOAL: Final = 2
"""Seconds that a purge or a deletion takes."""
TURN_GOAL: Final = 20
"""Milliseconds of the longest iteration of the reactor meanwhile."""
STORAGE: Final = "log"
SETTLING: Final = 60
"""Seconds at most that the store gets to release space; it is done when nothing changes for some of them."""
QUEUE: Final = r".\private$\orders"
MESSAGE: Final = Message(body=bytes(1024), delivery=Delivery.RECOVERABLE)
_SETTINGS: Final = (
    '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\ncontrol = "off"\n'
    '[limits]\nquota = 4294967295\n[storage]\nbackend = "{storage}"\n'
)


class Child:
    """One server in this process, and what its work measures."""

    def __init__(self, reactor: Any, server: Server, data: str) -> None:
        self.manager: QueueManagerService = server.manager
        self.turns = reactor._poller = Turns(reactor._poller)
        self.figures: dict[str, float] = {}
        self._reactor = reactor
        self._data = data

    async def timed(self, name: str, work: Awaitable[object]) -> None:
        """Processor time of this process, on the clock, and the longest iteration of the reactor."""
        self.turns.begin()
        used, started = time.process_time(), time.perf_counter()
        await work
        self.figures[f"{name}_cpu"] = time.process_time() - used
        self.figures[f"{name}_clock"] = time.perf_counter() - started
        self.figures[f"{name}_turn"] = self.turns.longest * 1000

    def weigh(self, name: str) -> None:
        """Resident memory, in megabytes."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        self.figures[name] = pages * resource.getpagesize() / 1e6

    async def send(self, count: int) -> None:
        """Send that many messages, in batches that follow each other."""
        for _ in range(count // BATCH):
            await self.manager.send(QUEUE, [MESSAGE] * BATCH)

    async def receive(self, count: int) -> None:
        """Receive that many, in the same way."""
        left = count
        while left:
            reservation = await self.manager.reserve(QUEUE, count=min(BATCH, left), timeout=10)
            left -= len(reservation.messages)
            await reservation.confirm()

    async def settle(self) -> None:
        """Let the store release space, until nothing changes for a while."""
        same, size = 0, 0.0
        for _ in range(SETTLING):
            await deferLater(self._reactor, 1.0)
            before, size = size, files_size(self._data)
            same = same + 1 if before == size else 0
            if same == 10:
                return


async def _fill(child: Child, count: int) -> None:
    await child.manager.create_queue(QUEUE)
    await child.timed("fill", child.send(count))
    child.weigh("filled")
    gc.collect()


async def _measure(child: Child, count: int) -> None:
    """With the messages of an earlier process in the queue: memory, first receive, costs."""
    child.weigh("resident")
    await child.timed("first", child.receive(1))
    measured = min(MEASURED, count // 2)
    await child.timed("send", child.send(measured))
    await child.timed("receive", child.receive(measured))
    for name in ("send", "receive"):
        child.figures[f"{name}_each"] = child.figures[f"{name}_cpu"] / measured * 1e6


async def _halve(child: Child, count: int) -> None:
    """Receive until half of the messages are left, and let the store release space."""
    await child.receive(max(0, child.manager.inspection.queue(QUEUE).messages - count // 2))
    await child.settle()
    child.weigh("half")


async def _drain(child: Child, count: int) -> None:
    """Receive all that is left, and let the store release its space."""
    await child.receive(child.manager.inspection.queue(QUEUE).messages)
    await child.settle()


async def _purge(child: Child, count: int) -> None:
    await child.timed("purge", child.manager.purge_queue(QUEUE))
    child.weigh("purged")


async def _delete(child: Child, count: int) -> None:
    await child.timed("delete", child.manager.delete_queue(QUEUE))
    child.weigh("deleted")


_WORK: dict[str, Callable[[Child, int], Awaitable[None]]] = {
    "fill": _fill,
    "measure": _measure,
    "halve": _halve,
    "drain": _drain,
    "purge": _purge,
    "delete": _delete,
}


def _child(work: str, data: str, count: int, storage: str) -> None:
    """Run one server in this process, and print what the work measured."""

    async def main(reactor: Any) -> None:
        path = Path(data) / "msmq.toml"
        path.write_text(_SETTINGS.format(storage=storage), encoding="utf-8")
        server = Server(load(path, Overrides(name="ALPHA", data=data)), reactor)
        server.startService()
        try:
            await server.started
            started = time.process_time()
            settle()
            child = Child(reactor, server, data)
            await _WORK[work](child, count)
            child.figures["started"] = started
            print(" ".join(f"{name}={value}" for name, value in child.figures.items()), flush=True)
        finally:
            await server.stopService()

    react(lambda reactor: ensureDeferred(main(reactor)))


def run(work: str, data: str, count: int, storage: str) -> dict[str, float]:
    """The figures of one process."""
    output = subprocess.run(
        [sys.executable, __file__, work, data, str(count), storage],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return {name: float(value) for name, _, value in (word.partition("=") for word in output.split())}


def files_size(data: str) -> float:
    """Megabytes of the files of a data directory, as the disk holds them."""
    size = 0
    for path in Path(data).rglob("*"):
        try:
            size += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            continue
    return size / 1e6


def cycle(count: int, storage: str) -> dict[str, float]:
    """All measurements with this number of messages."""
    with tempfile.TemporaryDirectory(prefix="msmq-bench-") as data:
        found = run("fill", data, count, storage)
        found["size"] = files_size(data)
        found |= run("measure", data, count, storage)
        found |= run("halve", data, count, storage)
        found["halved"] = files_size(data)
        found["part"] = found["halved"] / found["size"]
        run("drain", data, count, storage)
        found["drained"] = files_size(data)
    for work in ("purge", "delete"):
        with tempfile.TemporaryDirectory(prefix="msmq-bench-") as data:
            run("fill", data, count, storage)
            found |= run(work, data, count, storage)
    return found


def measure(count: int = MANY, storage: str = STORAGE) -> list[Result]:
    """The table's lines."""
    few, many = cycle(FEW, storage), cycle(count, storage)
    name = f"a queue of {count:,} messages"

    def line(what: str, key: str, unit: str, at_most: float | None = None, scale: float = 1.0) -> Result:
        value = many[key] * scale
        goal = "" if at_most is None else f"at most {at_most:g} {unit}"
        return Result(
            f"{name}: {what}",
            value,
            unit,
            baseline=few[key] * scale,
            ratio=many[key] / few[key] if few[key] else None,
            goal=goal,
            is_reached=None if at_most is None else value <= at_most,
        )

    return [
        line("resident memory after sending", "filled", "MB", MEMORY_GOAL),
        line("resident memory after a restart", "resident", "MB", MEMORY_GOAL),
        line("restart", "started", "s", RESTART_GOAL),
        line("first receive", "first_cpu", "ms", scale=1000),
        line("send", "send_each", "microseconds"),
        line("receive", "receive_each", "microseconds"),
        line("files, filled", "size", "MB"),
        line("files, half removed", "halved", "MB"),
        line("files, half removed, part of filled", "part", "", FILES_GOAL),
        line("files, drained", "drained", "MB"),
        line("purge", "purge_cpu", "s", PURGE_GOAL),
        line("purge, longest iteration", "purge_turn", "ms", TURN_GOAL),
        line("deletion", "delete_cpu", "s", PURGE_GOAL),
        line("deletion, longest iteration", "delete_turn", "ms", TURN_GOAL),
    ]


if __name__ == "__main__":
    if len(sys.argv) == 5:
        _child(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        from rig.measuring import table

        print(
            table(
                measure(
                    int(sys.argv[1]) if len(sys.argv) > 1 else MANY,
                    sys.argv[2] if len(sys.argv) > 2 else STORAGE,
                )
            )
        )
