"""Verifies the store of a data directory, and repairs it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.task import deferLater

from msmq.interfaces.storage import StorageError
from msmq.service.data_directory.data_lock import DataLock
from msmq.service.data_directory.store_migration import LOCAL, run_reactor
from msmq.storage.checking.log_check import check_log
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.checking.report import StoreReport
from msmq.storage.checking.sqlite_check import check_file
from msmq.storage.checking.sqlite_repair import rebuild
from msmq.storage.damage import DamagePolicy
from msmq.storage.log.factory import DIRECTORY_NAME, mark_name
from msmq.storage.migration.store_locations import store_location_of
from msmq.storage.readers import check_entry, store_in_use
from msmq.storage.scrub_policy import ScrubPolicy
from msmq.storage.sqlite.store import FILE_NAME, MARK_SUFFIX, SqliteMessageStore
from msmq.storage.threaded import ThreadedMessageStore

AT_ONCE: Final = ScrubPolicy(1 << 40, interval=0.0, delay=0.0, pause=3600.0)
"""A scrubber without pauses."""

_LOOK: Final = 0.02


def check(data: Path, description: str | None) -> StoreReport:
    """Verify a store; nothing is changed, and a server may use it.

    @param description: as of a configuration; C{None} for the store in the data directory.
    @raise StorageError: there is no store of this version.
    """
    kind, _, argument = described(data, description).partition(":")
    if kind == "sqlite":
        path = data / (argument or FILE_NAME)
        return check_file(path, data / f"{path.name}{MARK_SUFFIX}")
    if kind == "log":
        directory = data / (argument or DIRECTORY_NAME)
        return check_log(directory, data / mark_name(directory))
    from msmq.storage.checking.postgresql_check import check_schema
    from msmq.storage.postgresql.address import parse_address
    from msmq.storage.postgresql.factory import database_mark_name

    address = parse_address(argument)
    return check_schema(address, data / database_mark_name(address))


@attrs.frozen
class StoreRepair:
    """Result of a repair.

    @ivar found: the damage that a check has found.
    @ivar losses: what the repair could not keep, and warnings, one line each.
    @ivar left: the damage that a check finds afterwards.
    """

    found: StoreReport
    losses: Sequence[str]
    left: StoreReport


def repair(data: Path, description: str | None) -> StoreRepair:
    """Put what is damaged into quarantine; the server must not run. Runs the reactor until it is done.

    @raise DataDirectoryError: a server uses the data directory.
    @raise StorageError: it cannot be repaired; has the reason.
    """
    if not data.is_dir():
        raise StorageError(f"{data}: there is no such data directory")
    lock = DataLock(data, keeps_file=False)
    lock.acquire()
    try:
        chosen = described(data, description)
        before = check(data, chosen)
        losses: list[str] = []
        if before.problems:
            kind, _, argument = chosen.partition(":")
            if kind == "sqlite":
                path = data / (argument or FILE_NAME)
                losses = rebuild(path, data / f"{path.name}{MARK_SUFFIX}")
            if kind == "log":
                directory = data / (argument or DIRECTORY_NAME)
                losses = rebuild_log(directory, data / mark_name(directory), time.time)
            else:
                run_reactor(lambda reactor: _scrub(data, chosen, reactor))
            if kind == "postgresql":
                losses = _repair_logs(data, argument)
        return StoreRepair(before, losses, check(data, chosen))
    finally:
        lock.release()


async def _scrub(data: Path, description: str, reactor: IReactorFromThreads) -> None:
    store = _made(data, description)
    await store.open()
    try:
        while not store.scrubs():
            if (problem := store.scrub_problem()) is not None:
                raise problem
            await deferLater(IReactorTime(reactor), _LOOK)
    finally:
        await store.close()


def _repair_logs(data: Path, argument: str) -> list[str]:
    from msmq.storage.checking.postgresql_repair import repair_logs
    from msmq.storage.postgresql.address import parse_address
    from msmq.storage.postgresql.factory import database_mark_name

    address = parse_address(argument)
    policy = DamagePolicy(data / database_mark_name(address), False, time.time, AT_ONCE)
    return repair_logs(address, policy.quarantine)


def _made(data: Path, description: str) -> ThreadedMessageStore:
    kind, _, argument = description.partition(":")
    if kind == "sqlite":
        path = data / (argument or FILE_NAME)
        policy = DamagePolicy(data / f"{path.name}{MARK_SUFFIX}", False, time.time, AT_ONCE)
        return SqliteMessageStore(path, policy)
    from msmq.storage.postgresql.address import parse_address
    from msmq.storage.postgresql.factory import database_mark_name
    from msmq.storage.postgresql.store import PostgresqlMessageStore

    address = parse_address(argument)
    policy = DamagePolicy(data / database_mark_name(address), False, time.time, AT_ONCE)
    return PostgresqlMessageStore(address, policy)


def described(data: Path, description: str | None) -> str:
    """The description of the store; the one in the data directory if none is given.

    @raise StorageError: there is none, there are several, or the description is invalid.
    """
    if description is not None:
        store_location_of(description, data)
        return description
    check_entry(data)
    found = [kind for kind in LOCAL if store_location_of(kind, data).exists()]
    if not found:
        raise StorageError(
            f"{data}: there is no store of the kinds {' and '.join(LOCAL)}; select one with --store"
        )
    try:
        store = store_in_use(data)
    except StorageError as error:
        raise StorageError(f"{error}; select one with --store") from None
    # A record log without its checkpoints is found by its directory alone.
    return found[0] if store is None else "sqlite" if store.name == FILE_NAME else "log"
