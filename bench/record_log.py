"""The record log compared with the SQLite store: both in the same round, on the same disk.

Each message is put in one batch and removed in another one, by 1 to 1,000 senders that each wait for both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from statistics import median
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore
from msmq.persistence.changes import PutMessage, PutQueue, PutState, RemoveMessages
from msmq.persistence.definition import QueueDefinition
from msmq.storage.factory import make_store
from rig.measuring import Result, compare

ROUNDS = 5
MESSAGES = {
    1220: {1: 1000, 10: 5000, 100: 20_000, 1000: 30_000},
    65_736: {1: 400, 10: 1500, 100: 2000, 1000: 2000},
}
"""By the size of a packet, how many are measured by the number in flight."""
WARMING = 200
"""Commits before anything is measured."""
QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)


async def _sender(store: IMessageStore, lookup_ids: Iterator[int], count: int, packet: bytes) -> None:
    for lookup_id in islice(lookup_ids, count):
        # Each is an object of its own, as packets from a socket are.
        one = packet + lookup_id.to_bytes(8, "big")
        await store.commit([PutMessage(QUEUE.identifier, lookup_id, one, 0.0)])
        await store.commit([RemoveMessages(QUEUE.identifier, (lookup_id,))])


def _written() -> int:
    """Bytes that this process has had written to disks."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    return 0


async def _measure_store(store: IMessageStore, in_flight: int, size: int) -> None:
    await store.open()
    await store.commit([PutQueue(QUEUE)])
    for _ in range(WARMING):
        # The files that a store makes when it is opened are not counted for its messages.
        await store.commit([PutState("warming", b"up")])
    messages = MESSAGES[size][in_flight]
    lookup_ids, packet = count(), os.urandom(size - 8)
    written, used, started = _written(), time.process_time(), time.perf_counter()
    await DeferredList(
        [
            Deferred.fromCoroutine(_sender(store, lookup_ids, messages // in_flight, packet))
            for _ in range(in_flight)
        ],
        fireOnOneErrback=True,
    )
    seconds = time.perf_counter() - started
    found = {
        "rate": messages / seconds,
        "processor": (time.process_time() - used) / messages * 1e6,
        "written": (_written() - written) / messages,
    }
    sys.stdout.write(json.dumps(found) + "\n")
    await store.close()


def _run(description: str, in_flight: int, size: int) -> None:
    """Be the process in which the store is."""
    from twisted.internet import reactor

    def ended(outcome: object) -> None:
        if isinstance(outcome, Failure):
            sys.stderr.write(outcome.getTraceback())
        reactor.stop()

    store = make_store(description, Path())
    reactor.callWhenRunning(
        lambda: Deferred.fromCoroutine(_measure_store(store, in_flight, size)).addBoth(ended)
    )
    reactor.run()


def one_run(description: str, in_flight: int, size: int) -> dict[str, float]:
    """Messages a second, microseconds of processor and bytes written for each, in a fresh process."""
    with tempfile.TemporaryDirectory(prefix=".msmq-bench-", dir=".") as name:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), description, str(in_flight), str(size)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
            cwd=name,
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(rounds: int = ROUNDS) -> list[Result]:
    """Round by round, one store after the other."""
    results: list[Result] = []
    for size, counts in MESSAGES.items():
        for in_flight in counts:
            pairs = [
                (one_run("log", in_flight, size), one_run("sqlite", in_flight, size)) for _ in range(rounds)
            ]
            what = f"{size // 1000 or 1} KB, {in_flight} in flight"
            results.append(
                compare(
                    f"record log beside SQLite, {what}",
                    [(ours["rate"], theirs["rate"]) for ours, theirs in pairs],
                    "messages/s",
                )
            )
            for key, unit in (("processor", "us/message"), ("written", "bytes/message")):
                ours, theirs = (median(one[place][key] for one in pairs) for place in (0, 1))
                sys.stderr.write(f"{what}: {key} {ours:,.1f} beside {theirs:,.1f} {unit}\n")
    return results


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
