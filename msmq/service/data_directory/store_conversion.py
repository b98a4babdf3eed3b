"""Converts a data directory with a SQLite store to the record log when a server starts with the record
log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

from twisted.internet.interfaces import IReactorFromThreads

from msmq.interfaces.storage import StorageError, StoreIncomplete
from msmq.persistence.migration_mark import MARK, MigrationRole, read_mark
from msmq.storage.migration.errors import TargetInUse
from msmq.storage.migration.migration import Migration, MigrationProgress
from msmq.storage.migration.store_locations import StoreLocation, store_location_of
from msmq.storage.sqlite.peek import stored_value
from msmq.storage.sqlite.store import MARK_SUFFIX

FORMER: Final = "sqlite"
"""The store that was the default before the record log."""
DEFAULT: Final = "log"
"""The record log."""


def former_store(storage: str, data: Path, *, accepts_loss: bool) -> StoreLocation | None:
    """The SQLite store of a data directory that a server with this storage converts before it starts.

    @param accepts_loss: whether it may be missing although it was used last.
    @return: C{None} for another storage, or if there is no such store, or if the messages are not in it.
    @raise StorageError: the server would start on an empty store, while the data directory has another one.
    """
    kind = storage.partition(":")[0]
    if kind not in (FORMER, DEFAULT):
        return None
    configured, former = store_location_of(storage, data), store_location_of(FORMER, data)
    if kind == FORMER:
        log = store_location_of(DEFAULT, data)
        if not configured.exists() and log.exists():
            raise StorageError(
                f"{configured.text}: there is no such store, but {log.text}: set [storage] backend to"
                f' "{DEFAULT}", or move that one with msmq store migrate --to {storage}'
            )
        return None
    if not former.exists():
        if not configured.exists() and not accepts_loss and Path(f"{former.text}{MARK_SUFFIX}").exists():
            raise StoreIncomplete(
                f"{former.text}: the store that was used last is missing; restore it, or start with"
                " --accept-loss to begin with an empty one"
            )
        return None
    try:
        mark = read_mark(stored_value(Path(former.text), MARK))
    except ValueError as error:
        raise StorageError(f"{former.text}: {error}") from error
    if mark is None:
        return former
    if mark.role is MigrationRole.MOVED and not mark.is_finished and configured.is_named(mark.other):
        return former
    if not configured.exists():
        moved = "was moved to" if mark.role is MigrationRole.MOVED else "is filled from"
        raise StorageError(
            f"{configured.text}: there is no such store, and {former.text} {moved} {mark.other}:"
            " set [storage] backend to that one, or restore the missing store"
        )
    return None


async def convert_former_store(
    storage: str,
    data: Path,
    reactor: IReactorFromThreads,
    *,
    accepts_loss: bool,
    report: Callable[[MigrationProgress], object] = lambda progress: None,
) -> str:
    """Move the SQLite store of a data directory to the record log, if there is one that was not moved.

    The data directory is locked meanwhile. A killed conversion is resumed by the next start.

    @param accepts_loss: whether it is converted although it is not the store last used.
    @return: one line with the result; empty if there was nothing to convert.
    @raise StorageError: it failed; no store on which a server would start was changed.
    """
    former = former_store(storage, data, accepts_loss=accepts_loss)
    if former is None:
        return ""
    target = store_location_of(storage, data)
    migration = Migration(
        former,
        target,
        reactor,
        accepts_loss=accepts_loss,
        now=time.time,
        new_identifier=uuid4,
        report=report,
    )
    try:
        summary = await migration.run()
    except TargetInUse as error:
        raise StorageError(
            f"{data}: there are two stores, {former.text} and {target.text}, and neither was made from the"
            f' other; set [storage] backend to "{FORMER}", or move the unused one away'
        ) from error
    return f"{summary}; the old file stays until msmq store discard {FORMER}"
