"""Two queue managers exchange express messages: what an application gets, end to end.

Two processes, each a whole server on an address of its own.
The sender's application hands over messages of 1 KiB in calls of so many; the receiver's application
receives and confirms them in batches, until it has all.
Beside it, in the same run, two bare Twisted processes move the same frames (L{bare_frames}).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bare_frames
from measuring import Result, compare
from twisted.internet import task
from twisted.internet.defer import Deferred

from msmq.queues.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server

MESSAGES = 60_000
ROUNDS = 5
BATCH = 64
BODY = bytes(1024)
SENDER = "127.0.0.71"
RECEIVER = "127.0.0.72"


async def _server(reactor: Any, address: str, data: Path) -> Server:
    server = Server(load(None, Overrides(address=address, data=str(data))), reactor)
    server.startService()
    await server.started
    return server


async def receive(reactor: Any, address: str, data: Path, count: int) -> None:
    """The receiving process: say that it is ready, take all messages, print the time of the last."""
    server = await _server(reactor, address, data)
    assert server.parts is not None
    manager = server.parts.manager
    await manager.create_queue(".\\private$\\orders")
    _say("ready")
    left = count
    while left:
        reservation = await manager.reserve(".\\private$\\orders", count=1000)
        left -= len(reservation.messages)
        await reservation.confirm()
    _say(repr(time.time()))
    await server.stopService()


async def send(reactor: Any, address: str, data: Path, count: int, target: str) -> None:
    """The sending process: send all messages as fast as they go, print the time of the first."""
    server = await _server(reactor, address, data)
    assert server.parts is not None
    manager = server.parts.manager
    destination = f"DIRECT=TCP:{target}\\private$\\orders"
    await manager.send(destination, [Message(body=BODY, label="order 4711")])
    await task.deferLater(reactor, 0.5)
    _say(repr(time.time()))
    messages = [Message(body=BODY, label="order 4711") for _ in range(BATCH)]
    for _ in range((count - 1) // BATCH):
        await manager.send(destination, messages)
        while _waiting(manager) > 4 * BATCH:
            await task.deferLater(reactor, 0)
    await manager.send(destination, messages[: (count - 1) % BATCH or BATCH])
    while _waiting(manager):
        await task.deferLater(reactor, 0.001)
    await server.stopService()


def _waiting(manager: Any) -> int:
    return sum(queue.message_count for queue in manager.model.outgoing_queues())


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def messages_per_second(count: int = MESSAGES) -> float:
    """One round with fresh processes."""
    command = [sys.executable, str(Path(__file__).resolve())]
    with tempfile.TemporaryDirectory() as directory:
        receiving = [*command, "receive", RECEIVER, f"{directory}/b", str(count)]
        sending = [*command, "send", SENDER, f"{directory}/a", str(count), RECEIVER]
        with subprocess.Popen(receiving, stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline().strip() == "ready"
            with subprocess.Popen(sending, stdout=subprocess.PIPE, text=True) as sender:
                assert sender.stdout is not None
                started = float(sender.stdout.readline())
                ended = float(receiver.stdout.readline())
    return (count - 1) / (ended - started)


def measure(rounds: int = ROUNDS, count: int = MESSAGES) -> list[Result]:
    """Rounds of both, in turn."""
    pairs = [(messages_per_second(count), bare_frames.messages_per_second()) for _ in range(rounds)]
    return [
        compare("express messages of 1 KiB between two queue managers", pairs, "messages/s", at_least=0.2)
    ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive", address, data, count]:
            task.react(
                lambda reactor: Deferred.fromCoroutine(receive(reactor, address, Path(data), int(count)))
            )
        case ["send", address, data, count, target]:
            task.react(
                lambda reactor: Deferred.fromCoroutine(send(reactor, address, Path(data), int(count), target))
            )
        case _:
            sys.stderr.write(
                "usage: express.py receive ADDRESS DATA COUNT | send ADDRESS DATA COUNT TARGET\n"
            )
            raise SystemExit(2)
