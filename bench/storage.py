"""Durable commits into the store in SQLite, with 1 to 1,000 senders that each wait for one message.

For comparison, in the same round and on the same disk, plain Python: C{sqlite3} without a thread, a
reactor or an index, and a file to which is appended. Each puts as many messages together as the store has
in flight, which is the most that group commit can do.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from msmq.persistence.changes import PutMessage, PutQueue
from msmq.persistence.definition import QueueDefinition
from msmq.storage.damage import DamagePolicy
from msmq.storage.scrub_policy import SCRUBBING
from msmq.storage.sqlite import SqliteMessageStore
from rig.measuring import Result, compare

ROUNDS = 5
COMMITS = {1: 1500, 10: 8000, 100: 20_000, 1000: 40_000}
"""By the number in flight, how many are measured."""
PACKET = bytes(1220)
"""As long as a message of 1 KiB with its headers."""
GOALS = {10: 0.5, 100: 0.5}
"""By the number in flight, the ratio to bare C{sqlite3} that is wanted."""
QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)


async def _sender(store: SqliteMessageStore, lookup_ids: Iterator[int], count: int) -> None:
    # One count for all, since a queue gives its LookupIdentifiers one after the other.
    for lookup_id in islice(lookup_ids, count):
        await store.commit([PutMessage(QUEUE.identifier, lookup_id, PACKET, 0.0)])


async def _measure_store(directory: Path, in_flight: int) -> None:
    policy = DamagePolicy(directory / f"{in_flight}.mark", False, time.time, SCRUBBING)
    store = SqliteMessageStore(directory / f"{in_flight}.sqlite", policy)
    await store.open()
    await store.commit([PutQueue(QUEUE)])
    commits = COMMITS[in_flight]
    lookup_ids = count()
    started = time.perf_counter()
    await DeferredList(
        [Deferred.fromCoroutine(_sender(store, lookup_ids, commits // in_flight)) for _ in range(in_flight)],
        fireOnOneErrback=True,
    )
    sys.stdout.write(f"{commits / (time.perf_counter() - started)}\n")
    await store.close()


def _run(directory: Path, in_flight: int) -> None:
    """Be the process in which the store is."""
    from twisted.internet import reactor

    def ended(outcome: object) -> None:
        if isinstance(outcome, Failure):
            sys.stderr.write(outcome.getTraceback())
        reactor.stop()

    reactor.callWhenRunning(
        lambda: Deferred.fromCoroutine(_measure_store(directory, in_flight)).addBoth(ended)
    )
    reactor.run()


def store_per_second(directory: Path, in_flight: int) -> float:
    """Commits in a second of a fresh process."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), str(directory), str(in_flight)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return float(done.stdout)


def bare_per_second(path: Path, together: int, commits: int) -> float:
    """Messages a second inserted into a plain table, this number in a transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE packet (id INTEGER PRIMARY KEY, content BLOB)")
        rows = [(PACKET,)] * together
        started = time.perf_counter()
        for _ in range(commits // together):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO packet (content) VALUES (?)", rows)
            connection.execute("COMMIT")
        return commits / (time.perf_counter() - started)


def appended_per_second(path: Path, together: int, commits: int) -> float:
    """Messages a second appended to a file, which is synced after this number."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        packets = PACKET * together
        started = time.perf_counter()
        for _ in range(commits // together):
            os.write(descriptor, packets)
            os.fdatasync(descriptor)
        return commits / (time.perf_counter() - started)
    finally:
        os.close(descriptor)


def measure(rounds: int = ROUNDS) -> list[Result]:
    """Compare with plain Python, round by round, on the same disk."""
    against_sqlite: dict[int, list[tuple[float, float]]] = {in_flight: [] for in_flight in COMMITS}
    against_append: dict[int, list[tuple[float, float]]] = {in_flight: [] for in_flight in COMMITS}
    for _ in range(rounds):
        # Not where temporary files lie, which may be memory.
        with tempfile.TemporaryDirectory(prefix=".msmq-bench-", dir=".") as name:
            directory = Path(name)
            for in_flight, commits in COMMITS.items():
                rate = store_per_second(directory, in_flight)
                bare = bare_per_second(directory / f"bare{in_flight}.sqlite", in_flight, commits)
                appended = appended_per_second(directory / f"append{in_flight}", in_flight, commits)
                against_sqlite[in_flight].append((rate, bare))
                against_append[in_flight].append((rate, appended))
    return [
        compare(
            f"durable commits of 1 KiB, {in_flight} in flight",
            found,
            "commits/s",
            at_least=GOALS.get(in_flight),
        )
        for in_flight, found in against_sqlite.items()
    ] + [
        compare(f"the same beside an appended file, {in_flight} in flight", found, "commits/s")
        for in_flight, found in against_append.items()
    ]


if __name__ == "__main__":
    _run(Path(sys.argv[1]), int(sys.argv[2]))
