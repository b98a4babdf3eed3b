"""Messages between two queue managers, compared with RabbitMQ, plain Twisted and a plain disk.

C{python bench/transfer.py} measures three things, round by round in one run and on one disk:

  - C{transfer}: from the commit of the send at one queue manager to the removal there after the commit of
    the other, through the Python API;
  - C{ends}: from one application to another over the control API of two queue managers, compared with pika
    and a RabbitMQ node, with 1, 10, 100 and 1,000 messages outstanding;
  - C{bare}: two Twisted processes with the same frames, and a loop that appends to a file and forces it to
    disk.

C{--only} names some of them, C{--rounds} says how often, C{--short} takes a third of the messages.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import ends
from express import run_server
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.server import Server
from programs import bare_frames
from rig.flights import Part, forever, say
from rig.measuring import Result, compare, table

ROUNDS = 2
KINDS: Final = ("express", "recoverable", "transactional")
WINDOWS: Final = (64, 256)
SIZES: Final = {1024: 12_288, 65536: 768}
"""Bytes of a body, and the messages that a round moves: whole windows, also of a third of them."""
SHORTER: Final = 3
"""The part of the messages that C{--short} moves."""
BATCH: Final = 32
"""Messages in one call, or one transaction."""
OUTSTANDING: Final = 8
"""Calls that wait for the disk at one time: 256 messages."""
BACKLOG: Final = 2000
"""Messages that may wait to leave before the sender pauses."""
QUEUE: Final = r".\private$\orders"

GOALS: Final = {("recoverable", 1024, 256): 0.6, ("express", 1024, 64): 0.5}
"""Of the bare processes: the durable ones, and those without a disk."""

_LISTEN: Final = (
    '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'
    '[limits]\nwindow_size = {window}\nexpress_memory = 536870912\n[storage]\nbackend = "{storage}"\n'
)


def _message(kind: str, size: int) -> Message:
    match kind:
        case "express":
            return Message(body=bytes(size))
        case "recoverable":
            return Message(body=bytes(size), delivery=Delivery.RECOVERABLE)
    return Message(body=bytes(size), transactional=True)


async def _receive(server: Server, manager: QueueManagerService, kind: str) -> None:
    await manager.create_queue(QUEUE, transactional=kind == "transactional")
    say(port=server.addresses[0].rpartition(":")[2])
    await forever()


async def _send(manager: QueueManagerService, reactor: Any, kind: str, size: int, count: int) -> None:
    message = _message(kind, size)
    model = manager.model
    committed: deque[float] = deque()
    ages: list[float] = []
    done: Deferred[None] = Deferred()
    removed = model.removed

    def count_removed(removal: Any, now: Any, *, is_received: bool = True) -> Any:
        moment = time.monotonic()
        for _ in removal.positions:
            # An acknowledgement may overtake the report of the commit within one iteration of the reactor.
            ages.append(moment - committed.popleft() if committed else 0.0)
        effects = removed(removal, now, is_received=is_received)
        if len(ages) >= count and not done.called:
            done.callback(None)
        return effects

    model.removed = count_removed
    destination = r"DIRECT=OS:BETA\private$\orders"

    async def send(batch: Sequence[Message]) -> None:
        await manager.send(destination, batch)
        committed.extend([time.monotonic()] * len(batch))

    # The session is there before the time counts; what is less than half a window is acknowledged late.
    await send([message] * (WINDOWS[-1] // 2))
    while model.message_count:
        await deferLater(reactor, 0.01)
    ages.clear()
    processor = time.process_time()
    started = 0.0
    unsent = count
    together = max(1, min(BATCH, (1 << 20) // size))
    while unsent:
        calls = []
        for _ in range(OUTSTANDING):
            batch = [message] * min(together, unsent)
            unsent -= len(batch)
            if batch:
                calls.append(Deferred.fromCoroutine(send(batch)))
        await gatherResults(calls)
        started = started or committed[0] if committed else started or time.monotonic()
        while model.message_count > min(BACKLOG, (32 << 20) // size):
            await deferLater(reactor, 0.0005)
    await done
    ages.sort()
    say(
        seconds=time.monotonic() - started,
        p50=ages[len(ages) // 2],
        p99=ages[len(ages) * 99 // 100],
        cpu=time.process_time() - processor,
    )
    await forever()


def transferred(
    kind: str, window: int, size: int, count: int, storage: str = ends.STORAGE
) -> dict[str, float]:
    """One round with fresh processes: C{rate}, and C{p50} and C{p99} of the time until the removal."""
    with ExitStack() as processes:
        receiver = Part(processes, "transfer", "receive", kind, window, storage)
        port = receiver.hear()["port"]
        sender = Part(processes, "transfer", "send", kind, window, storage, port, size, count)
        figures = sender.hear()
        return {**figures, "rate": count / figures["seconds"]}


def appended_per_second(size: int, count: int, together: int = BATCH) -> float:
    """A bare loop: as many messages as one call has are appended to a file, and forced to disk."""
    with tempfile.TemporaryFile(prefix="msmq-bench-") as file:
        portion = bytes(size * together)
        started = time.perf_counter()
        for _ in range(max(1, count // together)):
            os.write(file.fileno(), portion)
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - started)


def _transfer(rounds: int, shorter: int) -> list[Result]:
    results = []
    for size, count in SIZES.items():
        for window in WINDOWS:
            cells: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
            frames: list[float] = []
            disk: list[float] = []
            for _ in range(rounds):
                for kind in KINDS:
                    cells[kind].append(transferred(kind, window, size, count // shorter))
                frames.append(bare_frames.messages_per_second(count * 8 // shorter // 32 * 32, size, window))
                disk.append(
                    bare_frames.messages_per_second(
                        count * 2 // shorter // 32 * 32, size, window, is_durable=True
                    )
                )
            for kind in KINDS:
                rates = [figures["rate"] for figures in cells[kind]]
                bare, beside = (
                    (frames, "bare Twisted") if kind == "express" else (disk, "the durable prototype")
                )
                p50 = sorted(figures["p50"] for figures in cells[kind])[rounds // 2]
                p99 = sorted(figures["p99"] for figures in cells[kind])[rounds // 2]
                results.append(
                    compare(
                        f"transfer, {kind}, {size >> 10} KiB, window {window}, beside {beside}"
                        f" (removed after {p50 * 1000:.0f} ms, 99 % within {p99 * 1000:.0f})",
                        list(zip(rates, bare, strict=True)),
                        "messages/s",
                        at_least=GOALS.get((kind, size, window)),
                    )
                )
    return results


def _bare(rounds: int, shorter: int) -> list[Result]:
    results = []
    for size, count in SIZES.items():
        frames = sorted(
            bare_frames.messages_per_second(count * 8 // shorter // 32 * 32, size) for _ in range(rounds)
        )
        results.append(Result(f"bare Twisted, {size >> 10} KiB", frames[rounds // 2], "messages/s"))
        for together in (1, BATCH):
            disk = sorted(appended_per_second(size, count // shorter, together) for _ in range(rounds))
            name = f"bare file, {size >> 10} KiB, {together} to an fdatasync"
            results.append(Result(name, disk[rounds // 2], "messages/s"))
    return results


PARTS: Final[dict[str, Callable[[int, int], list[Result]]]] = {
    "bare": _bare,
    "ends": ends.measure,
    "transfer": _transfer,
}


def measure(
    rounds: int = ROUNDS, only: Sequence[str] = tuple(PARTS), shorter: int = 1, window: int = ends.WINDOW
) -> list[Result]:
    """Some of the three, round by round."""
    results = []
    for name in only:
        sys.stderr.write(f"  {name}: load {os.getloadavg()[0]:.1f}\n")
        if name == "ends":
            results += ends.measure(rounds, shorter, window)
        else:
            results += PARTS[name](rounds, shorter)
    sys.stderr.write(f"  load {os.getloadavg()[0]:.1f} at the end\n")
    return results


def main(arguments: list[str]) -> int:
    """Measure, or be one of the two processes."""
    match arguments:
        case ["receive", kind, window, storage]:
            run_server(
                "BETA",
                _LISTEN.format(window=window, storage=storage),
                lambda server, manager, reactor: _receive(server, manager, kind),
            )
            return 0
        case ["send", kind, window, storage, port, size, count]:
            run_server(
                "ALPHA",
                _LISTEN.format(window=window, storage=storage) + f'[hosts]\nBETA = "127.0.0.1:{port}"\n',
                lambda _, manager, reactor: _send(manager, reactor, kind, int(size), int(count)),
            )
            return 0
    parser = argparse.ArgumentParser(description="Measure transfer between queue managers.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--window", type=int, default=ends.WINDOW, help="WindowSize for the part ends")
    parser.add_argument("--short", action="store_true", help="a third of the messages")
    options = parser.parse_args(arguments)
    only = options.only.split(",")
    if unknown := set(only) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    started = time.monotonic()
    results = measure(options.rounds, only, SHORTER if options.short else 1, options.window)
    sys.stdout.write(table(results) + "\n")
    sys.stdout.write(f"{options.rounds} rounds in {time.monotonic() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
