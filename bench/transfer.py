"""Messages of 1 KiB that must not be lost, between two queue managers with SQLite, end to end.

From the call that sends the first message to the confirmed receive of the last one, through the public
calls of two queue managers, each a process of its own: a message is on disk at the sender, then at the
receiver, is removed from the sender's disk, and from the receiver's when it was received.
Beside it, in the same round, the same for express messages, and a bare loop that appends 1 KiB to a file
and forces it to disk once for as many messages as one call sends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from express import run_server
from measuring import Result, compare
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from msmq.manager.service import QueueManagerService
from msmq.queues.message import Delivery, Message
from msmq.service.server import Server

MESSAGES = 20_000
ROUNDS = 3
BATCH = 32
"""Messages in one call, or one transaction."""
OUTSTANDING = 8
"""Calls that wait for the disk at one time: 256 messages."""
RECEIVED_TOGETHER = 100
BACKLOG = 4000
"""Messages that may wait to leave before the sender pauses."""
WINDOW = 256
QUEUE = r".\private$\orders"
BODY = bytes(1024)
KINDS = {
    "express": Message(body=BODY),
    "recoverable": Message(body=BODY, delivery=Delivery.RECOVERABLE),
    "transactional": Message(body=BODY, transactional=True),
}

_LISTEN = (
    '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\ncontrol = "off"\n'
    f"[limits]\nwindow_size = {WINDOW}\n"
)


async def _receive(server: Server, manager: QueueManagerService, kind: str, count: int) -> None:
    await manager.create_queue(QUEUE, transactional=kind == "transactional")
    sys.stdout.write(f"{server.addresses[0].rpartition(':')[2]}\n")
    sys.stdout.flush()
    while count:
        reservation = await manager.reserve(QUEUE, count=RECEIVED_TOGETHER)
        count -= len(reservation.messages)
        await reservation.confirm()
    sys.stdout.write(f"{time.monotonic()}\n")
    sys.stdout.flush()
    await Deferred()


async def _send(manager: QueueManagerService, reactor: Any, kind: str, count: int) -> None:
    destination = r"DIRECT=OS:BETA\private$\orders"
    messages = [KINDS[kind]] * BATCH
    sys.stdout.write(f"{time.monotonic()}\n")
    sys.stdout.flush()
    while count > 0:
        calls = [Deferred.fromCoroutine(manager.send(destination, messages)) for _ in range(OUTSTANDING)]
        await gatherResults(calls)
        count -= BATCH * OUTSTANDING
        while manager.model.message_count > BACKLOG:
            await deferLater(reactor, 0.0005)
    await Deferred()


def per_second(kind: str, count: int = MESSAGES) -> float:
    """One round with fresh processes; the monotonic clock is the machine's, the same in both."""
    count -= count % (BATCH * OUTSTANDING)
    command = [sys.executable, str(Path(__file__).resolve())]
    with ExitStack() as processes:

        def begin(*arguments: str) -> IO[str]:
            process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
            processes.enter_context(process)
            processes.callback(process.terminate)
            assert process.stdout is not None
            return process.stdout

        receiver = begin("receive", kind, str(count))
        sender = begin("send", kind, receiver.readline().strip(), str(count))
        started = float(sender.readline())
        return count / (float(receiver.readline()) - started)


def appended_per_second(count: int = MESSAGES) -> float:
    """A bare loop: as many messages as one call has are appended to a file, and forced to disk."""
    with tempfile.TemporaryFile(prefix="msmq-bench-") as file:
        portion = BODY * BATCH
        started = time.perf_counter()
        for _ in range(count // BATCH):
            os.write(file.fileno(), portion)
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - started)


def measure(rounds: int = ROUNDS, count: int = MESSAGES) -> list[Result]:
    """Round by round beside express messages, and beside the bare loop."""
    results = []
    express = [per_second("express", count) for _ in range(rounds)]
    bare = [appended_per_second(count) for _ in range(rounds)]
    for kind in ("recoverable", "transactional"):
        figures = [per_second(kind, count) for _ in range(rounds)]
        results.append(
            compare(f"{kind} beside express", list(zip(figures, express, strict=True)), "messages/s")
        )
        results.append(
            compare(f"{kind} beside a bare file", list(zip(figures, bare, strict=True)), "messages/s")
        )
    return results


def main(arguments: list[str]) -> int:
    """Be one of the two processes."""
    match arguments:
        case ["receive", kind, count]:
            run_server(
                "BETA", _LISTEN, lambda server, manager, reactor: _receive(server, manager, kind, int(count))
            )
        case ["send", kind, port, count]:
            run_server(
                "ALPHA",
                _LISTEN + f'[hosts]\nBETA = "127.0.0.1:{port}"\n',
                lambda _, manager, reactor: _send(manager, reactor, kind, int(count)),
            )
        case _:
            sys.stderr.write("usage: transfer.py receive KIND COUNT | send KIND PORT COUNT\n")
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
