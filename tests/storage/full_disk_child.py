"""A process whose disk is small, and becomes full; it asserts what has to be true then.

C{python -m tests.storage.full_disk_child DIRECTORY SCENARIO STORE}: the directory is a file system of its
own, of 40 MiB.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore
from msmq.interfaces.storage import StorageFull
from msmq.persistence.changes import AppendEvent, Change, PutQueue, PutState, TrimEvents
from msmq.storage.log import LogMessageStore
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put, remove
from msmq.testing.contracts.store_moves import move
from tests.storage.policies import policy_at, policy_of

LARGE = bytes(100_000)
SEGMENT = 1 << 20


class Disk:
    """The directory, which another program can fill, and the store in it."""

    def __init__(self, directory: Path, store: str) -> None:
        self.directory = directory
        self.filler = directory / "filler"
        self._store = store
        self.reuses_space = store != "sqlite"

    def make_store(self) -> IMessageStore:
        """The store, which is not open yet."""
        if self._store == "sqlite":
            path = self.directory / "msmq.sqlite"
            return SqliteMessageStore(path, policy_of(path))
        return LogMessageStore(
            self.directory / "log",
            policy_at(self.directory / "mark"),
            clock=time.perf_counter,
            segment_bytes=SEGMENT,
        )

    def fill(self) -> None:
        """Leave nothing."""
        with self.filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def clear(self) -> None:
        self.filler.unlink()


async def opened(disk: Disk) -> IMessageStore:
    store = disk.make_store()
    await store.open()
    await store.commit([PutQueue(ORDERS), PutQueue(BILLS)])
    return store


async def is_done(store: IMessageStore, *changes: Change) -> bool:
    """Whether there was space for them."""
    try:
        await store.commit(changes)
    except StorageFull as error:
        assert str(error).startswith(sys.argv[1]), error
        assert "no space left" in str(error) or "No space left" in str(error), error
        return False
    return True


async def filled(store: IMessageStore, *, is_express: bool = False) -> list[int]:
    """Put messages until one is refused."""
    kept: list[int] = []
    while await is_done(store, put(len(kept), LARGE, is_express=is_express)):
        kept.append(len(kept))
    return kept


async def until_done(store: IMessageStore, *changes: Change) -> None:
    """Space is released in slices, while others are at work."""
    for number in range(20_000):
        if await is_done(store, *changes):
            return
        await store.commit([PutState("number", b"%d" % number)])
    raise AssertionError("it stays full")


async def check(store: IMessageStore, kept: Sequence[int]) -> None:
    """These messages are kept, and no others, now and after a restart."""
    assert list(await store.read(ORDERS.identifier, kept)) == [LARGE] * len(kept)
    await store.close()
    snapshot = await store.open()
    found = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
    assert found == list(kept), (found, kept)


async def fills_it(disk: Disk) -> None:
    """The store itself takes all space; removing gives it back."""
    store = await opened(disk)
    kept = await filled(store)
    assert len(kept) > 50, kept
    await check(store, kept)
    while len(kept) > 20:
        gone = kept.pop(0)
        await store.commit([remove(gone), AppendEvent(1.0, b"", "purged")])
    await check(store, kept)
    assert len(await store.read_events(0, 1000)) > 30
    await until_done(store, put(1000, LARGE))
    await check(store, [*kept, 1000])
    await store.close()


async def another_process_fills_it(disk: Disk) -> None:
    """Another program fills the disk: commits fail until there is space, then the store continues."""
    store = await opened(disk)
    for number in range(20):
        await store.commit([put(number, LARGE)])
    disk.fill()
    while await is_done(store, put(500)):
        # What is left of its log is used up first.
        await store.commit([remove(500)])
        for number in range(20, 60):
            if await is_done(store, put(number, LARGE)):
                await store.commit([remove(number)])
    assert not await is_done(store, put(30, LARGE), PutState("half", b""))
    await store.commit([remove(*range(5)), AppendEvent(1.0, b"", "purged")])
    await store.commit([move(number, number) for number in range(5, 10)])
    assert not await is_done(store, put(30, LARGE))
    # Nor is what is left for removing taken for space by who asks whether there is some.
    assert not await is_done(store, PutState("space_probe", bytes(1024 * 1024)))
    disk.clear()
    assert await is_done(store, put(30, LARGE))
    assert len(await store.read(BILLS.identifier, range(5, 10))) == 5
    await check(store, [*range(10, 20), 30])
    await store.close()


async def starts_on_it(disk: Disk) -> None:
    """A start on a full disk finds everything, and can delete it."""
    store = await opened(disk)
    for number in range(20):
        await store.commit([put(number, LARGE)])
    await store.close()
    disk.fill()
    await check_start(store)
    assert not await is_done(store, *(put(number, LARGE + b"%d" % number) for number in range(100, 200)))
    await store.commit([remove(*range(10)), AppendEvent(1.0, b"", "purged")])
    await check(store, range(10, 20))
    disk.clear()
    assert await is_done(store, put(30, LARGE))
    await check(store, [*range(10, 20), 30])
    await store.close()


async def check_start(store: IMessageStore) -> None:
    snapshot = await store.open()
    assert len(snapshot.messages[ORDERS.identifier]) == 20


async def express_fills_it(disk: Disk) -> None:
    """Express messages that find no space take nothing durable with them, and do not come in halves."""
    store = await opened(disk)
    await store.commit([put(0, LARGE)])
    express = await filled(store, is_express=True)
    assert len(express) > 50, express
    for number in range(1, 100):
        both = put(number, LARGE), put(number + 500, LARGE, is_express=True)
        assert not await is_done(store, *both, AppendEvent(1.0, b"", "both"))
    assert len(await store.read_events(0, 1000)) == 0
    read = await store.read(ORDERS.identifier, express[1:])
    assert len(read) == len(express) - 1
    await store.commit([remove(*express[:-1], is_express=True), AppendEvent(1.0, b"", "expired")])
    await until_done(store, put(1, LARGE), put(501, LARGE, is_express=True))
    await check(store, [0, 1])
    await store.close()


async def removed_one_by_one(disk: Disk) -> None:
    """Each message can be removed alone, in any order, though that takes as much space as it had itself."""
    store = await opened(disk)
    small = range(1000, 4600)
    for first in small[::100]:
        await store.commit([put(number, b"%d" % number * 150) for number in range(first, first + 100)])
    disk.fill()
    order = list(small)
    random.Random(1).shuffle(order)
    for number, gone in enumerate(order[600:]):
        changes: list[Change] = [remove(gone)]
        if number % 3 == 0:
            changes += [AppendEvent(1.0, b"", "expired", "not received in time"), TrimEvents(1000)]
        await store.commit(changes)
    # The log may have reused segments that became empty, so that there is space again.
    assert disk.reuses_space or not await is_done(store, put(1, LARGE), put(2, LARGE * 10))
    kept = sorted(order[:600])
    found = await store.read(ORDERS.identifier, kept)
    assert list(found) == [b"%d" % number * 150 for number in kept]
    disk.clear()
    await until_done(store, put(2, LARGE))
    await store.close()


async def begins_on_it(disk: Disk) -> None:
    """A store that finds no space to begin with says so, and begins when there is some."""
    disk.fill()
    store = disk.make_store()
    try:
        await store.open()
    except StorageFull as error:
        assert str(error).endswith(
            "log: cannot open: No space left on device; free space on its file system"
        ), error
    else:
        raise AssertionError("it opened")
    disk.clear()
    store = await opened(disk)
    assert await is_done(store, put(1, LARGE))
    await check(store, [1])
    await store.close()


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        fills_it,
        another_process_fills_it,
        starts_on_it,
        express_fills_it,
        removed_one_by_one,
        begins_on_it,
    )
}


def ended(outcome: object) -> None:
    if isinstance(outcome, Failure):
        sys.stderr.write(outcome.getTraceback())
    sys.stderr.flush()
    os._exit(int(isinstance(outcome, Failure)))


if __name__ == "__main__":
    scenario = SCENARIOS[sys.argv[2]]
    Deferred.fromCoroutine(scenario(Disk(Path(sys.argv[1]), sys.argv[3]))).addBoth(ended)
    reactor.run()
