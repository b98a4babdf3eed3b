"""Migrates the store of a stopped server to another store, and discards the migrated one."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore, IReactorFromThreads
from twisted.python.failure import Failure

from msmq.persistence.migration_mark import MARK, MigrationRole, read_mark
from msmq.service.data_directory.data_lock import DataLock
from msmq.storage.migration.errors import MigrationError
from msmq.storage.migration.migration import Migration, MigrationSummary
from msmq.storage.migration.store_locations import StoreLocation, store_location_of

LOCAL: Final = ("sqlite", "log")
"""The stores that are found in a data directory."""

_Result = TypeVar("_Result")


def migrate(
    data: Path,
    source: str | None,
    target: str,
    report: Callable[[str, int], object],
    *,
    accepts_loss: bool,
) -> MigrationSummary:
    """Move the complete contents of a store to another one; runs the reactor until it is done.

    @param source: its description; C{None} for the one in the data directory.
    @param accepts_loss: whether the source is moved although it is not the one last used.
    @param report: called after each step, with the C{step} and the C{rows} of L{MigrationProgress
        <msmq.storage.migration.migration.MigrationProgress>}.
    @raise DataDirectoryError: a server uses the data directory.
    @raise StorageError: it failed.
    @raise KeyboardInterrupt: SIGINT or SIGTERM came.
    """
    if not data.is_dir():
        raise MigrationError(f"{data}: there is no such data directory")
    lock = DataLock(data)
    lock.acquire()
    try:
        into = store_location_of(target, data)
        location = _source(data, into) if source is None else store_location_of(source, data)
        return run_reactor(
            lambda reactor: Migration(
                location,
                into,
                reactor,
                accepts_loss=accepts_loss,
                now=time.time,
                new_identifier=uuid4,
                report=lambda progress: report(progress.step, progress.rows),
            ).run()
        )
    finally:
        lock.release()


def discard(data: Path, description: str) -> tuple[str, int]:
    """Delete a store that was moved; the server of the data directory may run on the other one.

    @return: its location, and the bytes of its files.
    @raise StorageError: it was not moved, or is in use.
    """
    location = store_location_of(description, data)
    if not location.exists():
        raise MigrationError(f"{location.text}: there is no such store")
    run_reactor(lambda reactor: _check_moved(location))
    return location.text, location.erase()


async def _check_moved(location: StoreLocation) -> None:
    store = location.make_store()
    try:
        snapshot = await store.open()
    finally:
        await store.close()
    try:
        mark = read_mark(snapshot.state.get(MARK))
    except ValueError as error:
        raise MigrationError(f"{location.text}: {error}") from error
    if mark is None or mark.role is not MigrationRole.MOVED:
        raise MigrationError(f"{location.text}: it was not moved to another store, and is not discarded")
    if not mark.is_finished:
        raise MigrationError(
            f"{location.text}: its migration to {mark.other} has not ended; repeat msmq store migrate first"
        )


def _source(data: Path, target: StoreLocation) -> StoreLocation:
    """The store in a data directory that is not the target."""
    found = [
        location
        for kind in LOCAL
        if (location := store_location_of(kind, data)).text != target.text and location.exists()
    ]
    if not found:
        raise MigrationError(f"{data}: there is no other store to move; give its location with --from")
    if len(found) > 1:
        names = " and ".join(location.text for location in found)
        raise MigrationError(f"{data}: there are {names}; select one with --from")
    return found[0]


def run_reactor(ask: Callable[[IReactorFromThreads], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run the reactor until this is done.

    @raise KeyboardInterrupt: SIGINT or SIGTERM came; the work was cancelled, and has cleaned up.
    """
    from twisted.internet import reactor

    core = IReactorCore(reactor)
    outcome: list[_Result | Failure] = []
    ended: Deferred[None] = Deferred()
    work: list[Deferred[None]] = []
    is_interrupted = False

    def end(result: _Result | Failure) -> None:
        outcome.append(result)
        if is_interrupted:
            ended.callback(None)
        else:
            core.stop()

    def begin() -> None:
        work.append(Deferred.fromCoroutine(ask(IReactorFromThreads(reactor))).addBoth(end))

    def cancel() -> Deferred[None] | None:
        """The reactor's own signal handler stops it: files of unfinished work are removed while it runs."""
        nonlocal is_interrupted
        if outcome or not work:
            return None
        is_interrupted = True
        work[0].cancel()
        return ended

    core.addSystemEventTrigger("before", "shutdown", cancel)
    core.callWhenRunning(begin)
    core.run()
    if not outcome:
        raise KeyboardInterrupt
    [result] = outcome
    if isinstance(result, Failure):
        if is_interrupted:
            raise KeyboardInterrupt
        result.raiseException()
    assert not isinstance(result, Failure)
    return result
