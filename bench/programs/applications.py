"""An application that sends and one that receives, each over the control API of its queue manager."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from rig.flights import Tally, body_of, say

KINDS: dict[str, dict[str, object]] = {
    "express": {},
    "recoverable": {"delivery": "recoverable"},
    "transactional": {"transactional": True},
}


def send(socket: Path, queue: str, kind: str, count: int, size: int, outstanding: int) -> None:
    """Send messages, keeping this number of them unacknowledged, until all are accepted."""
    client = ControlClient(socket)
    header = {"destination": f"DIRECT=OS:BETA{queue.removeprefix('.')}", **KINDS[kind]}
    started, used = time.monotonic(), time.process_time()
    messages = (StreamRecord(header, body_of(size)) for _ in range(count))
    for _ in client.send(messages, pipelined=True, stop_at_refusal=False, outstanding=outstanding):
        pass
    say(started=started, ended=time.monotonic(), cpu=time.process_time() - used)


def pace(socket: Path, queue: str, count: int, size: int, rate: float) -> None:
    """Send recoverable messages at this rate a second, and say how long each took to be accepted."""
    client = ControlClient(socket)
    header = {"destination": f"DIRECT=OS:BETA{queue.removeprefix('.')}", **KINDS["recoverable"]}
    tally = Tally()
    sent: deque[bytes] = deque()

    def messages() -> Iterator[StreamRecord]:
        due = time.monotonic()
        for _ in range(count):
            due += 1 / rate
            if (early := due - time.monotonic()) > 0:
                time.sleep(early)
            sent.append(body_of(size))
            yield StreamRecord(header, sent[-1])

    for _ in client.send(messages(), pipelined=True, stop_at_refusal=False, outstanding=1000):
        tally.arrived(sent.popleft())
    say(**tally.figures())


def receive(socket: Path, queue: str, count: int) -> None:
    """Receive this number of messages, and confirm them."""
    tally = Tally()
    client = ControlClient(socket)
    say(ready=True)
    used = time.process_time()
    with client.receive(queue, count=count) as stream:
        for item in stream:
            if isinstance(item, Delivered):
                tally.arrived(item.body)
            else:
                item.confirm(wait=False)
    say(ended=time.monotonic(), cpu=time.process_time() - used, **tally.figures())


def crawl(socket: Path, queue: str, rate: float, seconds: float) -> None:
    """Receive as slowly as this many messages a second, for so long; C{taken} says how many."""
    client = ControlClient(socket)
    over = time.monotonic() + seconds
    taken = 0
    with client.receive(queue, count=1_000_000_000) as stream:
        for item in stream:
            if isinstance(item, Receipt):
                time.sleep(item.count / rate)
                item.confirm()
                taken += item.count
            if time.monotonic() > over:
                break
    say(taken=taken)


def main(arguments: list[str]) -> int:
    """Be one of the two."""
    match arguments:
        case ["send", socket, queue, kind, count, size, outstanding]:
            send(Path(socket), queue, kind, int(count), int(size), int(outstanding))
        case ["pace", socket, queue, count, size, rate]:
            pace(Path(socket), queue, int(count), int(size), float(rate))
        case ["receive", socket, queue, count]:
            receive(Path(socket), queue, int(count))
        case ["crawl", socket, queue, rate, seconds]:
            crawl(Path(socket), queue, float(rate), float(seconds))
        case _:
            sys.stderr.write(
                "usage: applications.py send SOCKET QUEUE KIND COUNT SIZE OUTSTANDING\n"
                "       applications.py pace SOCKET QUEUE COUNT SIZE RATE\n"
                "       applications.py receive SOCKET QUEUE COUNT\n"
                "       applications.py crawl SOCKET QUEUE RATE SECONDS\n"
            )
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
