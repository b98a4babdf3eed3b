"""Durable commits into the store in SQLite, with 1, 10 and 100 batches of one message in flight.

Beside it, in the same round, sqlite3 without a thread, a reactor or an index: as many messages in each
transaction as the store has batches in flight, which is the most that group commit can put together.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

from measuring import Result, compare
from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from msmq.queues.changes import PutMessage, PutQueue
from msmq.queues.definition import QueueDefinition
from msmq.storage.sqlite import SqliteMessageStore

ROUNDS = 5
COMMITS = {1: 1500, 10: 8000, 100: 20_000}
"""By the number in flight, how many are measured."""
PACKET = bytes(1220)
"""As long as a message of 1 KiB with its headers."""
QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)


async def _sender(store: SqliteMessageStore, first: int, count: int) -> None:
    for lookup_id in range(first, first + count):
        await store.commit([PutMessage(QUEUE.identifier, lookup_id, PACKET, 0.0)])


async def _measure_store(directory: Path) -> None:
    for in_flight, commits in COMMITS.items():
        store = SqliteMessageStore(directory / f"{in_flight}.sqlite")
        await store.open()
        await store.commit([PutQueue(QUEUE)])
        each = commits // in_flight
        started = time.perf_counter()
        await DeferredList(
            [Deferred.fromCoroutine(_sender(store, sender * each, each)) for sender in range(in_flight)],
            fireOnOneErrback=True,
        )
        sys.stdout.write(f"{in_flight} {commits / (time.perf_counter() - started)}\n")
        await store.close()


def _run(directory: Path) -> None:
    """Be the process in which the store is."""
    from twisted.internet import reactor

    def ended(outcome: object) -> None:
        if isinstance(outcome, Failure):
            sys.stderr.write(outcome.getTraceback())
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(_measure_store(directory)).addBoth(ended))
    reactor.run()


def store_per_second(directory: Path) -> dict[int, float]:
    """One round in a fresh process: commits in a second by the number in flight."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), str(directory)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return {int(in_flight): float(rate) for in_flight, rate in map(str.split, done.stdout.splitlines())}


def bare_per_second(path: Path, together: int, count: int) -> float:
    """Messages in a second that go into a plain table, so many in a transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE packet (id INTEGER PRIMARY KEY, content BLOB)")
        rows = [(PACKET,)] * together
        started = time.perf_counter()
        for _ in range(count // together):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO packet (content) VALUES (?)", rows)
            connection.execute("COMMIT")
        return count / (time.perf_counter() - started)


def measure(rounds: int = ROUNDS) -> list[Result]:
    """Round by round beside bare sqlite3, on the same disk."""
    pairs: dict[int, list[tuple[float, float]]] = {in_flight: [] for in_flight in COMMITS}
    for _ in range(rounds):
        # Not where temporary files lie, which may be memory.
        with tempfile.TemporaryDirectory(prefix=".msmq-bench-", dir=".") as name:
            directory = Path(name)
            rates = store_per_second(directory)
            for in_flight, commits in COMMITS.items():
                bare = bare_per_second(directory / f"bare{in_flight}.sqlite", in_flight, commits)
                pairs[in_flight].append((rates[in_flight], bare))
    return [
        compare(f"durable commits of 1 KiB, {in_flight} in flight", found, "commits/s")
        for in_flight, found in pairs.items()
    ]


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
