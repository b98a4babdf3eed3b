"""Durable commits into the store in PostgreSQL, with 1, 10 and 100 batches of one message in flight.

For comparison, in the same round and on the same server, psycopg without a thread, a reactor or an index: as
many messages in each transaction as the store has batches in flight, which is the most that group commit can
put together. The server is one of our own, which waits for the disk; it is there as long as the measurement.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import psycopg
from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore
from msmq.persistence.changes import PutMessage, PutQueue
from msmq.persistence.definition import QueueDefinition
from msmq.storage.factory import make_store
from rig.measuring import Result, compare

PROJECT = Path(__file__).resolve().parent.parent
ROUNDS = 5
COMMITS = {1: 1500, 10: 8000, 100: 20_000}
"""By the number in flight, how many are measured."""
PACKET = bytes(1220)
"""As long as a message of 1 KiB with its headers."""
QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)
PLACE = "/var/tmp"
"""Where the server keeps its data: not where temporary files lie, which may be memory."""


async def _sender(store: IMessageStore, first: int, count: int) -> None:
    for lookup_id in range(first, first + count):
        await store.commit([PutMessage(QUEUE.identifier, lookup_id, PACKET, 0.0)])


async def _measure_store(url: str) -> None:
    for in_flight, commits in COMMITS.items():
        store = make_store(f"{url}&schema=bench_{in_flight}", Path())
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


def _run(url: str) -> None:
    """Be the process in which the store is."""
    from twisted.internet import reactor

    def ended(outcome: object) -> None:
        if isinstance(outcome, Failure):
            sys.stderr.write(outcome.getTraceback())
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(_measure_store(url)).addBoth(ended))
    reactor.run()


def store_per_second(url: str) -> dict[int, float]:
    """One round in a fresh process: commits in a second by the number in flight."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), url],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    return {int(in_flight): float(rate) for in_flight, rate in map(str.split, done.stdout.splitlines())}


def bare_per_second(url: str, together: int, count: int) -> float:
    """Messages a second inserted into a plain table, this number in a transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bare")
        connection.execute("CREATE TABLE bare (id bigserial, content bytea)")
        cursor = connection.cursor()
        rows = [(PACKET,)] * together
        started = time.perf_counter()
        for _ in range(count // together):
            with connection.transaction():
                cursor.executemany("INSERT INTO bare (content) VALUES (%b)", rows)
        return count / (time.perf_counter() - started)


def measure(rounds: int = ROUNDS) -> list[Result]:
    """Compare with plain psycopg, round by round, on the same server; skipped without PostgreSQL."""
    # The server that tests start.
    sys.path.append(str(PROJECT))
    from twisted.trial.unittest import SkipTest

    from tests.servers.postgresql import PostgresqlServer

    pairs: dict[int, list[tuple[float, float]]] = {in_flight: [] for in_flight in COMMITS}
    for _ in range(rounds):
        try:
            server = PostgresqlServer(place=PLACE, is_durable=True)
        except SkipTest as reason:
            sys.stderr.write(f"{reason}\n")
            return []
        try:
            rates = store_per_second(server.url())
            for in_flight, commits in COMMITS.items():
                pairs[in_flight].append((rates[in_flight], bare_per_second(server.url(), in_flight, commits)))
        finally:
            server.remove()
    return [
        compare(f"PostgreSQL: durable commits of 1 KiB, {in_flight} in flight", found, "commits/s")
        for in_flight, found in pairs.items()
    ]


if __name__ == "__main__":
    _run(sys.argv[1])
