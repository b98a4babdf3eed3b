"""Resident memory of real processes in three hard cases, round numbers printed as they are.

  - C{paused}: a fast sender, a receiver that has stopped reading permanently; then one that reads slowly.
    Express messages, so that nothing but memory and the limits hold them.
  - C{million}: a million messages wait for a host that does not answer, with a quota to match.
  - C{sessions}: a thousand sessions are open with one queue manager.

C{python bench/memory.py [NAME ...] [--messages N] [--sessions N]} prints the figures; nothing here fails.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack
from typing import Final

from msmq.control.protocol.records import StreamRecord
from rig.flights import Part
from rig.measuring import Result, table
from rig.servers import Manager, resident

MESSAGES: Final = 1_000_000
SESSIONS: Final = 1000
FLOOD: Final = 200_000
"""Express messages that a fast sender has for a receiver that is paused."""
BODY: Final = 1024
OUTSTANDING: Final = 1000
SLOW: Final = 500
"""Messages a second that a slow receiver takes."""
WATCHED: Final = 20.0
"""Seconds for which a slow receiver is watched."""
QUEUE: Final = r".\private$\orders"
_QUOTA: Final = "quota = 4294967295\n"


class Watch:
    """The largest resident memory of processes, looked at ten times a second."""

    def __init__(self, **processes: int) -> None:
        self._processes = processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.before = {name: resident(pid) for name, pid in processes.items()}
        self.largest = dict(self.before)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            for name, pid in self._processes.items():
                self.largest[name] = max(self.largest[name], resident(pid))


def _memory(what: str, watch: Watch) -> list[Result]:
    return [
        Result(f"{what}: {name}", watch.largest[name], "MB resident", baseline=watch.before[name])
        for name in watch.before
    ]


def _flood(sender: Manager, destination: str, count: int, delivery: str) -> float:
    """Send this number of messages as fast as they are accepted; returns the messages per second."""
    header = {"destination": destination, "delivery": delivery}
    record = StreamRecord(header, bytes(BODY))
    started = time.monotonic()
    for _ in sender.client.send((record for _ in range(count)), pipelined=True, outstanding=OUTSTANDING):
        pass
    return count / (time.monotonic() - started)


def paused(flood: int = FLOOD) -> list[Result]:
    """A receiving queue manager whose process stands still, then one whose application is slow."""
    with ExitStack() as processes:
        receiver = Manager(processes, "BETA", "", _QUOTA)
        sender = Manager(processes, "ALPHA", f'[hosts]\nBETA = "{receiver.endpoint}"\n', _QUOTA)
        receiver.client.create_queue(QUEUE, {})
        destination = r"DIRECT=OS:BETA\private$\orders"
        _flood(sender, destination, 1000, "express")
        os.kill(receiver.pid, signal.SIGSTOP)
        try:
            with Watch(sender=sender.pid, receiver=receiver.pid) as still:
                rate = _flood(sender, destination, flood, "express")
        finally:
            os.kill(receiver.pid, signal.SIGCONT)
        lines = [
            Result(f"receiver stands still, {flood:,} express messages: taken", rate, "messages/s"),
            *_memory("receiver stands still", still),
        ]
        with Watch(sender=sender.pid, receiver=receiver.pid) as slow:
            reader = Part(processes, "programs/applications", "crawl", receiver.socket, QUEUE, SLOW, WATCHED)
            _flood(sender, destination, flood, "express")
            taken = reader.hear()["taken"]
        name = f"receiver takes {taken / WATCHED:.0f} messages/s of {2 * flood:,}"
        return [*lines, *_memory(name, slow)]


def million(messages: int = MESSAGES) -> list[Result]:
    """Recoverable messages for a host that is not there."""
    with socket.socket() as silent, ExitStack() as processes:
        # Bound and not listening: connections are refused, and retried later.
        silent.bind(("127.0.0.1", 0))
        hosts = f'[hosts]\nBETA = "127.0.0.1:{silent.getsockname()[1]}"\n'
        sender = Manager(processes, "ALPHA", hosts, _QUOTA)
        with Watch(sender=sender.pid) as watch:
            rate = _flood(sender, r"DIRECT=OS:BETA\private$\orders", messages, "recoverable")
        [queue] = sender.client.outgoing()
        name = f"{queue['messages']:,} messages for a dead host"
        return [Result(f"{name}: taken", rate, "messages/s"), *_memory(name, watch)]


def sessions(count: int = SESSIONS) -> list[Result]:
    """Sessions that peers have opened."""
    with ExitStack() as processes:
        server = Manager(processes, "BETA", "", f"max_sessions = {2 * count}\n")
        server.client.create_queue(QUEUE, {})
        host, _, port = server.endpoint.rpartition(":")
        identifier = server.client.status()["identifier"]
        before = resident(server.pid)
        peer = Part(processes, "programs/peers", host, port, identifier, count)
        opened = peer.hear()["opened"]
        time.sleep(1.0)
        each = (resident(server.pid) - before) * 1000 / max(1, opened)
        found = len(server.client.sessions())
        return [
            Result(f"{found:,} open sessions", resident(server.pid), "MB resident", baseline=before),
            Result(
                "  each",
                each,
                "KB",
                goal="at most 40 KB",
                is_reached=each <= 40,
            ),
        ]


def main(arguments: list[str]) -> int:
    """Measure what is named, or all."""
    parser = argparse.ArgumentParser(description="Measure resident memory.")
    parser.add_argument("names", nargs="*", default=[], help="some of paused, million, sessions")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--flood", type=int, default=FLOOD)
    options = parser.parse_args(arguments)
    work = {
        "paused": lambda: paused(options.flood),
        "million": lambda: million(options.messages),
        "sessions": lambda: sessions(options.sessions),
    }
    if unknown := set(options.names) - set(work):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(work)}")
    results: list[Result] = []
    for name in options.names or work:
        sys.stderr.write(f"  {name}\n")
        results += work[name]()
    sys.stdout.write(table(results) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
