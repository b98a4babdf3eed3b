"""Express messages of 1 KiB between two queue managers, each a process of its own, end to end.

From the call that sends the first message to the confirmed receive of the last one, through the
public calls of a queue manager: everything but the control API.
For comparison, in the same round, the same frames between two plain Twisted processes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from programs.bare_frames import TIMEOUT, messages_per_second
from rig.flights import forever
from rig.measuring import Result, compare

MESSAGES = 64_000
ROUNDS = 5
GOAL = 0.5
BATCH = 32
"""Messages in one call that sends: while it runs, no acknowledgement is read, so it is half a window."""
RECEIVED_TOGETHER = 100
"""Messages in one call that receives, at most."""
WINDOW = 64
"""The usual window of both sides."""
WIDE_WINDOW = 512
BACKLOG = 1000
"""Messages that may wait to leave before the sender pauses."""
QUEUE = r".\private$\orders"
BODY = bytes(1024)

_LISTEN = (
    '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\ncontrol = "off"\n'
    "[limits]\nwindow_size = {window}\n"
)


def run_server(
    name: str, listen: str, work: Callable[[Server, QueueManagerService, Any], Awaitable[None]]
) -> None:
    """Run one server in this process and measure, until the process is ended or its time has expired."""
    from twisted.internet import reactor

    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="msmq-bench-") as data:
            path = Path(data) / "msmq.toml"
            path.write_text(listen, encoding="utf-8")
            server = Server(load(path, Overrides(name=name, data=data)), reactor)
            server.startService()
            await server.started
            try:
                await work(server, server.manager, reactor)
            finally:
                await server.stopService()

    def failed(failure: Failure) -> None:
        sys.stderr.write(failure.getTraceback())
        if reactor.running:
            reactor.stop()

    def begin() -> None:
        running = Deferred.fromCoroutine(main())

        def end() -> Deferred[None]:
            # The server is stopped while the reactor still runs.
            running.cancel()
            return running

        reactor.addSystemEventTrigger("before", "shutdown", end)
        running.addErrback(lambda failure: failure.trap(CancelledError) and None).addErrback(failed)

    reactor.callLater(TIMEOUT, reactor.stop)
    reactor.callWhenRunning(begin)
    reactor.run()


async def _receive(server: Server, manager: QueueManagerService, reactor: Any, count: int) -> None:
    await manager.create_queue(QUEUE)
    sys.stdout.write(f"{server.addresses[0].rpartition(':')[2]}\n")
    sys.stdout.flush()
    while count:
        reservation = await manager.reserve(QUEUE, count=RECEIVED_TOGETHER)
        count -= len(reservation.messages)
        await reservation.confirm()
    sys.stdout.write(f"{time.monotonic()}\n")
    sys.stdout.flush()
    await forever()


async def _send(manager: QueueManagerService, reactor: Any, count: int) -> None:
    destination = r"DIRECT=OS:BETA\private$\orders"
    sys.stdout.write(f"{time.monotonic()}\n")
    sys.stdout.flush()
    while count:
        await manager.send(destination, [Message(body=BODY, label="order 4711") for _ in range(BATCH)])
        count -= BATCH
        await deferLater(reactor, 0)
        while manager.model.message_count > BACKLOG:
            await deferLater(reactor, 0.0005)
    await forever()


def express_per_second(count: int = MESSAGES, window: int = WINDOW) -> float:
    """One round with fresh processes; the monotonic clock is the machine's, the same in both."""
    command = [sys.executable, str(Path(__file__).resolve())]
    with ExitStack() as processes:

        def begin(*arguments: str) -> IO[str]:
            process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
            processes.enter_context(process)
            processes.callback(process.terminate)
            assert process.stdout is not None
            return process.stdout

        receiver = begin("receive", str(window), str(count))
        sender = begin("send", str(window), receiver.readline().strip(), str(count))
        started = float(sender.readline())
        return count / (float(receiver.readline()) - started)


def measure(rounds: int = ROUNDS, count: int = MESSAGES) -> list[Result]:
    """Compare with the plain processes, round by round."""
    pairs = [(express_per_second(count), messages_per_second()) for _ in range(rounds)]
    wide = [(express_per_second(count, WIDE_WINDOW), bare) for _, bare in pairs]
    return [
        compare("express messages of 1 KiB, send to receive", pairs, "messages/s", at_least=GOAL),
        compare(f"the same with a window of {WIDE_WINDOW}", wide, "messages/s"),
    ]


def main(arguments: list[str]) -> int:
    """Be one of the two processes."""
    match arguments:
        case ["receive", window, count]:
            run_server(
                "BETA",
                _LISTEN.format(window=window),
                lambda server, manager, reactor: _receive(server, manager, reactor, int(count)),
            )
        case ["send", window, port, count]:
            run_server(
                "ALPHA",
                _LISTEN.format(window=window) + f'[hosts]\nBETA = "127.0.0.1:{port}"\n',
                lambda _, manager, reactor: _send(manager, reactor, int(count)),
            )
        case _:
            sys.stderr.write("usage: express.py receive WINDOW COUNT | send WINDOW PORT COUNT\n")
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
