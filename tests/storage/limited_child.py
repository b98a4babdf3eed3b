"""A process whose files may not grow beyond a limit, as on a disk that fails; it prints the result."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore, StorageError
from msmq.persistence.changes import AppendEvent, Change, PutQueue
from msmq.storage.log import LogMessageStore
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.message_store import ORDERS, put
from msmq.testing.contracts.store_contract import remove
from tests.storage.policies import policy_at, policy_of

SEGMENT = 1024 * 1024


def limit_files(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


async def fill(store: IMessageStore) -> dict[str, object]:
    """Put messages until nothing more is taken."""
    limit_files(300_000)
    stored: list[int] = []
    errors: list[str] = []
    number = 0
    while len(errors) < 3:
        number += 1
        try:
            await store.commit([put(number, b"%d" % number * 5000)])
            stored.append(number)
        except StorageError as error:
            errors.append(str(error))
    read = await store.read(ORDERS.identifier, stored)
    limit_files(resource.RLIM_INFINITY)
    await store.commit([put(1000, b"after")])
    return {"stored": stored, "errors": errors, "read": len(read)}


async def fill_log(store: IMessageStore) -> dict[str, object]:
    """Put messages until no segment can be made any more, and remove some; then lift the limit."""
    limit_files(SEGMENT - 1)
    stored: list[int] = []
    errors: list[str] = []
    while len(errors) < 3:
        number = len(stored) + len(errors)
        try:
            await store.commit([put(number, b"%05d" % number * 5000)])
            stored.append(number)
        except StorageError as error:
            errors.append(str(error))
    # A thread prepares segments, so how many messages fit before the limit is not fixed: remove half of them.
    half = len(stored) // 2
    gone, stored = stored[:half], stored[half:]
    for number in gone:
        await store.commit([remove(number), AppendEvent(1.0, b"", "gone")])
    read = await store.read(ORDERS.identifier, stored)
    limit_files(resource.RLIM_INFINITY)
    await store.commit([put(1000, b"after")])
    return {"stored": stored, "errors": errors, "read": len(read)}


async def lose_express(store: IMessageStore) -> dict[str, object]:
    """Have only the file for express messages fail, in batches that hold others too."""
    await store.commit([put(number, bytes(100_000), is_express=True) for number in range(30)])
    # It has grown beyond this already; the other file has not.
    limit_files(2_000_000)
    reported: list[str] = []
    for number in (100, 200):
        batch: list[Change] = [
            put(number, b"durable"),
            put(number + 1, b"express", is_express=True),
            AppendEvent(1.0, b"", str(number)),
        ]
        reported.append(await outcome(store.commit(batch)))
    reported.append(await outcome(store.commit([put(300, b"durable")])))
    limit_files(resource.RLIM_INFINITY)
    reported.append(await outcome(store.commit([put(400, b"express", is_express=True)])))
    packets = await store.read(ORDERS.identifier, [100, 101, 300, 400])
    lost = await outcome(store.read(ORDERS.identifier, [201]))
    events = await store.read_events(0, 10)
    return {
        "reported": reported,
        "packets": [packet.decode() for packet in packets],
        "lost": lost,
        "events": [entry.event.event for entry in events],
    }


async def outcome(asked: Deferred[Any]) -> str:
    """The text of the error, if there is one."""
    try:
        await asked
    except StorageError as error:
        return str(error)
    return "done"


SCENES = {"fill": fill, "fill_log": fill_log, "lose_express": lose_express}


def made_store(path: Path, scene: str) -> IMessageStore:
    if scene != "fill_log":
        return SqliteMessageStore(path, policy_of(path))
    return LogMessageStore(
        path,
        policy_at(path.with_name("mark")),
        clock=time.perf_counter,
        segment_bytes=SEGMENT,
    )


async def main(path: Path, scene: str) -> None:
    store = made_store(path, scene)
    await store.open()
    await store.commit([PutQueue(ORDERS)])
    reported = await SCENES[scene](store)
    await store.close()
    sys.stdout.write(json.dumps(reported))
    sys.stdout.flush()
    os._exit(0)


def failed(failure: Failure) -> None:
    sys.stderr.write(failure.getTraceback())
    os._exit(1)


if __name__ == "__main__":
    Deferred.fromCoroutine(main(Path(sys.argv[1]), sys.argv[2])).addErrback(failed)
    reactor.run()
