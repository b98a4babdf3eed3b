"""Backs up, restores and renews the data directory of a server."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import attrs

from msmq.directory.enterprise_copy import COPY_NAME
from msmq.durable import make_directory, sync, write_durably
from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent, Change
from msmq.persistence.migration_mark import CopyPosition
from msmq.security.keys import KEY_FILES
from msmq.service.data_directory.data_lock import DataDirectoryInUse, DataLock
from msmq.service.data_directory.host_fingerprint import HOST_NAME, machine_fingerprint
from msmq.service.data_directory.identity import (
    IdentityError,
    check_renewal,
    has_identity,
    load_identity,
    unfinished_name,
)
from msmq.service.data_directory.store_check import described
from msmq.storage.backup.backup import BackupSummary, back_up, check_backup
from msmq.storage.backup.backup_file import BackedUpFile, BackupFacts, BackupFile, NotFinished
from msmq.storage.backup.new_identity import LeftOut, NewIdentity
from msmq.storage.migration.digest import SECTIONS, StoreDigest, digest_of
from msmq.storage.migration.pages import copy_pages
from msmq.storage.migration.store_locations import StoreLocation, store_location_of
from msmq.storage.readers.shape import StoreContents
from msmq.version import VERSION
from msmq.wire.guid import NULL_GUID, braced, parse_guid

IDENTITY: Final = "identity.json"
_KEYS: Final = "keys"
KEPT: Final = (IDENTITY, COPY_NAME, _KEYS, "certificates")
"""Files and directories of a data directory that a backup has, in addition to the store."""

_OF_THE_ORIGINAL: Final = frozenset({IDENTITY, *(f"{_KEYS}/{name}" for name in KEY_FILES)})
"""Those of them that a queue manager with another identifier does not get."""

LOCAL_KINDS: Final = ("log", "sqlite")
"""The stores into which a backup is restored."""

RESTORED: Final = "restored"
"""The event that says that a store was restored from a backup."""


_BRIDGE: Final = "bridge"
_REQUESTS: Final = "replies-*.jsonl"
"""Files of the bridge with the addresses of requests, as earlier versions have them: the original publishes
the replies. Later versions have these in the store, where L{NewIdentity} leaves them out.
"""

_UNFINISHED: Final = ".restore-"
"""The beginning of the names of directories in an empty data directory that a restore fills, or has left."""

_OF_A_FILE_SYSTEM: Final = "lost+found"
"""The directory that a new file system has; a data directory may be a mount point."""


@attrs.frozen
class RestoreSummary:
    """Result of a restore or of a new identity.

    @ivar sections: the contents of the new store, as they were read from it; of a restore without a new
        identity, equal to those of the backup.
    @ivar moved: messages to other queue managers that became dead letters, for a new identity.
    @ivar left_out: what the original keeps for itself alone, for a new identity.
    @ivar former: where the former data directory is now; C{None} for a restore.
    """

    data: Path
    identifier: UUID
    sections: StoreDigest
    moved: int = 0
    left_out: LeftOut = attrs.field(factory=LeftOut)
    former: Path | None = None


def backup(
    data: Path, description: str | None, directory: Path, report: Callable[[int], object]
) -> BackupSummary:
    """Back up a data directory, whose server may run, into a directory; later backups extend the first.

    @param description: the store, as of a configuration; C{None} for the one in the data directory.
    @raise StorageError: it failed; the previous backup is unchanged.
    """
    _check_has_identity(data)
    if directory.absolute().is_relative_to(data.absolute()):
        raise StorageError(f"{directory}: a backup cannot be inside the data directory")
    chosen = described(data, description)
    location = store_location_of(chosen, data)
    own = braced(load_identity(data))
    _check_directory(directory, own)
    try:
        make_directory(directory)
    except OSError as error:
        raise StorageError(f"{directory}: the directory cannot be created: {error.strerror}") from error

    def describe(identifier: str, sections: StoreDigest) -> BackupFacts:
        if identifier and braced(parse_guid(identifier)) != own:
            raise StorageError(
                f"{location.text}: the store of another queue manager, {identifier}, not of {own}"
            )
        return BackupFacts(
            identifier=own,
            created=time.time(),
            software=VERSION,
            store=location.text,
            kind=location.kind,
            origin=str(data.absolute()),
            host=machine_fingerprint(),
            sections=sections,
        )

    return back_up(location.make_reader(), directory, describe, lambda: list(_kept_files(data)), report)


def _check_has_identity(data: Path) -> None:
    try:
        if has_identity(data):
            return
    except IdentityError as error:
        raise StorageError(str(error)) from error
    raise StorageError(f"{data}: not the data directory of a queue manager; {IDENTITY} is missing")


def _check_directory(directory: Path, own: str) -> None:
    """Refuse to write over the backup of another queue manager."""
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    try:
        file = BackupFile.open(directory)
    except NotFinished:
        return
    try:
        other = file.facts().identifier
    finally:
        file.close()
    if other != own:
        raise StorageError(f"{directory}: has the backup of another queue manager, {other}, not of {own}")


def _kept_files(data: Path) -> Iterator[BackedUpFile]:
    try:
        for name in KEPT:
            path = data / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    text = file.relative_to(data).as_posix()
                    yield BackedUpFile(text, file.stat().st_mode & 0o777, file.read_bytes())
    except OSError as error:
        raise StorageError(f"{error.filename}: cannot be read: {error.strerror}") from error


async def restore(
    directory: Path,
    data: Path,
    *,
    kind: str | None,
    new_identity: bool,
    report: Callable[[int], object],
    make_identifier: Callable[[], UUID] = uuid4,
) -> RestoreSummary:
    """Restore a backup into a data directory that does not exist or is empty.

    An empty one stays, with its owner: its parent may belong to another user, or it may be a mount point.

    @param kind: the store to create, of L{LOCAL_KINDS}; C{None} for that of the original.
    @param new_identity: create another queue manager with its messages, while the original stays.
    @raise StorageError: the backup is damaged or of another version, the data directory is in use, or the
        original is running; nothing was changed.
    """
    data = Path(os.path.abspath(data))
    _check_empty(data)
    facts = check_backup(directory, report)
    if not new_identity:
        _check_original(facts)
    former = parse_guid(facts.identifier)
    chosen = kind or (facts.kind if facts.kind in LOCAL_KINDS else LOCAL_KINDS[0])
    file = BackupFile.open(directory)
    try:
        with _new_directory(data, is_inside=data.is_dir()) as temporary:
            renewal = NewIdentity(former, make_identifier()) if new_identity else None
            event = AppendEvent(time.time(), b"", RESTORED, f"from the backup of {_day(facts.created)}")
            location = store_location_of(chosen, temporary)
            if renewal is None:
                await _fill(location, file, None, [])
                sections = _digest(location, report)
                _compare(location, sections, facts)
                await _fill(location, None, None, [event])
            else:
                await _fill(location, file, renewal, [event])
                sections = _digest(location, report)
            _write_files(temporary, file.files(), None if renewal is None else renewal.identifier)
            if temporary.parent == data:
                _publish_into(temporary, data)
            else:
                _publish(temporary, data)
    finally:
        file.close()
    if renewal is None:
        return RestoreSummary(data, former, sections)
    return RestoreSummary(data, renewal.identifier, sections, renewal.moved, renewal.left_out)


async def renew_identity(
    data: Path,
    description: str | None,
    *,
    report: Callable[[int], object],
    make_identifier: Callable[[], UUID] = uuid4,
) -> RestoreSummary:
    """Give a stopped queue manager, a clone of another one, an identifier of its own; its messages stay.

    The former data directory is kept under another name; a symbolic link leads to the new one.

    @raise StorageError: it failed, and nothing was changed.
    @raise DataDirectoryError: a server uses the data directory.
    """
    # A new directory next to a symbolic link may be on another file system.
    data = Path(os.path.realpath(data))
    try:
        check_renewal(data)
    except IdentityError as error:
        raise StorageError(str(error)) from error
    _check_has_identity(data)
    chosen = described(data, description)
    if chosen.partition(":")[0] not in LOCAL_KINDS or ":" in chosen:
        raise StorageError(
            f"{chosen.partition(':')[0]}: only a store in the data directory gets a new identifier; move it "
            "there with msmq store migrate first"
        )
    lock = DataLock(data)
    lock.acquire()
    try:
        former = load_identity(data)
        renewal = NewIdentity(former, make_identifier())
        reader = store_location_of(chosen, data).make_reader()
        kept = data.with_name(f"{data.name}.{former.hex[:8]}")
        if kept.exists():
            raise StorageError(
                f"{kept}: exists; move it away, since the former data directory gets this name"
            )
        try:
            with _new_directory(data, is_inside=False) as temporary:
                reader.hold()
                # The whole source is read before anything is written: a damaged one is refused.
                digest_of(reader, report)
                location = store_location_of(chosen, temporary)
                await _fill(location, reader, renewal, [])
                sections = _digest(location, report)
                _write_files(temporary, _kept_files(data), renewal.identifier)
                _copy_others(data, temporary)
                _give_to_owner(temporary, data.stat())
                sync(temporary)
                os.rename(data, kept)
                try:
                    _publish(temporary, data)
                except OSError:
                    os.rename(kept, data)
                    raise
        finally:
            reader.close()
        return RestoreSummary(data, renewal.identifier, sections, renewal.moved, renewal.left_out, kept)
    finally:
        lock.release()


def _check_empty(data: Path) -> None:
    if not data.exists():
        return
    if not data.is_dir():
        raise StorageError(f"{data}: there is a file of that name")
    if all(path.name == _OF_A_FILE_SYSTEM or path.name.startswith(_UNFINISHED) for path in data.iterdir()):
        return
    if (data / "lock").exists():
        lock = DataLock(data)
        # Raises DataDirectoryInUse.
        lock.acquire()
        lock.release()
    raise StorageError(f"{data}: is not empty; restore into a new directory, or move this one away")


def _check_original(facts: BackupFacts) -> None:
    """Refuse a second queue manager of one identifier, as far as this computer can tell.

    @raise StorageError: the original is running here.
    """
    origin = Path(facts.origin)
    if not facts.host or facts.host != machine_fingerprint() or not (origin / "lock").exists():
        return
    lock = DataLock(origin)
    try:
        lock.acquire()
    except DataDirectoryInUse as error:
        raise StorageError(
            f"the original is running: {error}; stop it first, or restore a clone with --new-identity"
        ) from None
    lock.release()


@contextmanager
def _new_directory(data: Path, *, is_inside: bool) -> Iterator[Path]:
    """A directory in which a data directory is built, in that or next to it; removed unless it was published.

    @param data: an absolute path.
    """
    parent = data if is_inside else data.parent
    try:
        if not is_inside:
            make_directory(parent, 0o777)
        prefix = _UNFINISHED if is_inside else unfinished_name(data)
        temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        raise StorageError(f"{data}: cannot be created in {parent}: {error.strerror}") from error
    try:
        yield temporary
    except OSError as error:
        raise StorageError(f"{data}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, data: Path) -> None:
    sync(temporary)
    os.rename(temporary, data)
    sync(data.parent)


def _publish_into(temporary: Path, data: Path) -> None:
    """Move what was built in a data directory into its place, the identity last: without it no server
    starts on the rest.
    """
    _check_empty(data)
    for path in sorted(temporary.iterdir(), key=lambda path: path.name == IDENTITY):
        _give_to_owner(path, data.stat())
        os.rename(path, data / path.name)
    sync(data)


def _give_to_owner(path: Path, owner: os.stat_result) -> None:
    """Give files and directories that root has made to the owner of the data directory, the server's user."""
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for each in (path, *path.rglob("*")):
        os.chown(each, owner.st_uid, owner.st_gid, follow_symlinks=False)


async def _fill(
    location: StoreLocation,
    contents: StoreContents | None,
    renewal: NewIdentity | None,
    last: Sequence[Change],
) -> None:
    """Write contents into a new store."""
    store = location.make_store()
    await store.open()
    try:
        if contents is not None:
            if renewal is not None:
                await store.commit(renewal.begin(contents.queues()))
            for page in copy_pages(contents, CopyPosition()):
                changes = page.changes if renewal is None else tuple(renewal.convert(page.changes))
                if changes:
                    await store.commit(changes)
        ending = [*([] if renewal is None else renewal.end(time.time())), *last]
        if ending:
            await store.commit(ending)
    finally:
        await store.close()


def _digest(location: StoreLocation, report: Callable[[int], object]) -> StoreDigest:
    reader = location.make_reader()
    try:
        return digest_of(reader, report)
    finally:
        reader.close()


def _compare(location: StoreLocation, found: StoreDigest, facts: BackupFacts) -> None:
    wrong = [name for name in SECTIONS if found[name] != facts.sections[name]]
    if wrong:
        raise StorageError(f"{location.text}: the restored {wrong[0]} are not those of the backup")


def _write_files(directory: Path, files: Iterator[BackedUpFile], identifier: UUID | None) -> None:
    """Write the files of a backup or of a data directory into a new one.

    @param identifier: of another queue manager, which generates its own keys: with those of the original it
        could decrypt the bodies of that, and sign in its name.
    """
    for file in files:
        path = directory / file.name
        if identifier is not None and file.name in _OF_THE_ORIGINAL:
            continue
        make_directory(path.parent)
        write_durably(path, file.content, file.mode)
    if identifier is not None:
        assert identifier != NULL_GUID
        load_identity(directory, lambda: identifier)


def _copy_others(data: Path, temporary: Path) -> None:
    """Copy what an operator keeps in the data directory, a configuration for example, and nothing that only
    the original goes on with.
    """
    skipped = ("lock", HOST_NAME, "quarantine", _KEYS)
    for path in sorted(data.iterdir()):
        target = temporary / path.name
        is_store = path.name.startswith(("msmq.log", "msmq.sqlite"))
        if is_store or path.name in skipped or target.exists():
            continue
        if path.is_dir():
            left_out = shutil.ignore_patterns(_REQUESTS) if path.name == _BRIDGE else None
            shutil.copytree(path, target, ignore=left_out)
        elif path.is_file():
            shutil.copy2(path, target)
        else:
            continue
        for copied in (target, *target.rglob("*")):
            if not copied.is_symlink():
                sync(copied)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
