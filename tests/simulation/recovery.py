"""Backups of simulated hosts, and hosts that are restored from them, or replaced."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.persistence.migration_mark import CopyPosition
from msmq.storage.backup.backup import back_up
from msmq.storage.backup.backup_file import BackedUpFile, BackupFacts, BackupFile
from msmq.storage.migration.digest import StoreDigest
from msmq.storage.migration.pages import END, copy_pages
from msmq.storage.readers.log import LogStoreReader
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.simulation.applications import QUEUES, pause
from tests.simulation.enterprise import MEMBERS
from tests.simulation.plan import ROUTED

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

LOG: Final = "log"


@attrs.frozen
class Backup:
    """A backup of a host.

    @ivar moment: the second of the run of which it is.
    @ivar wall: the same by the clock of the host, in seconds since 1970-01-01 UTC.
    @ivar held: the labels of the messages that it has in queues where applications receive.
    """

    moment: float
    wall: float
    directory: Path
    held: Sequence[str]


def make_backup(host: Host, directory: Path) -> Backup:
    """Back up a host, running or not, from another process that reads its files.

    @param directory: where the backup is made; a later one replaces it.
    @raise StorageError: its log is damaged.
    """
    log = Path(tempfile.mkdtemp(dir=directory)) / LOG
    log.mkdir()
    (directory / "backup").mkdir(exist_ok=True)
    try:
        for path, written in host.disk.names.items():
            if path.parent == host.path / LOG:
                (log / path.name).write_bytes(written.content)
        reader = LogStoreReader(log)

        def describe(identifier: str, sections: StoreDigest) -> BackupFacts:
            return BackupFacts(identifier, 0.0, "", "", "log", "", "", sections)

        def no_files() -> Sequence[BackedUpFile]:
            return ()

        back_up(reader, directory / "backup", describe, no_files, lambda rows: None)
    finally:
        shutil.rmtree(log.parent)
    file = BackupFile.open(directory / "backup")
    try:
        held = [label for each in file.queues() if _is_read(each) for label in _labels(file, each)]
    finally:
        file.close()
    return Backup(host.world.clock.seconds(), host.clock.wall(), directory / "backup", held)


def _is_read(queue: QueueDefinition) -> bool:
    return queue.type is QueueType.PRIVATE and queue.path.lower().endswith(QUEUES)


def _labels(file: BackupFile, queue: QueueDefinition) -> list[str]:
    labels: list[str] = []
    following: int | None = 0
    while following is not None:
        page = file.messages(queue.identifier, following, END, since=None, until=None, bodies=True)
        labels += [f"{UserMessageView(row[-1]).application_tag}" for row in page.rows]
        following = page.next
    return labels


async def fill(store: IMessageStore, backup: Backup) -> None:
    """Write a backup into a new store, as a restore does.

    @raise StorageError: the disk fails.
    """
    await store.open()
    file = BackupFile.open(backup.directory)
    try:
        for page in copy_pages(file, CopyPosition()):
            if page.changes:
                await store.commit(page.changes)
    finally:
        file.close()
        await store.close()


# Steps


def back_up_host(world: World, number: int) -> None:
    """Back up a host, unless it is being restored."""
    host = world.hosts[number]
    if host.restoring is not None:
        return
    try:
        host.backup = make_backup(host, world.directory_of(host))
    except StorageError:
        if not host.is_rotten:
            raise


def restore_host(world: World, number: int, seconds: float) -> None:
    """The disk of a host is gone; it begins anew from its last backup."""
    host = world.hosts[number]
    if (backup := host.backup) is None or not host.is_up:
        return
    world.recorder.note(
        "restore",
        node=host.name,
        moment=backup.moment,
        held=backup.held,
        relays=world.plan.shape == ROUTED and number not in MEMBERS,
    )
    host.restoring = host.restored = backup
    world.down[number] = seconds
    host.lose_power(0.0)


def replace_host(world: World, number: int, likelihood: float | None, seconds: float) -> None:
    """A host stops, or ends without, and begins anew from a backup that is made after that.

    @param likelihood: with which each unsynchronised write is lost; C{None} for a stop in order.
    """
    host = world.hosts[number]
    if not host.is_up:
        return
    if likelihood is not None:
        world.down[number] = seconds
        host.lose_power(likelihood)
        _replace_disk(world, host)
        return

    async def stop() -> None:
        await host.stop()
        if host.host.is_dead and not host.is_up and host.restoring is None:
            _replace_disk(world, host)
            world.later(0.1 + seconds, lambda: world.restart_dead(host, host.life))

    host.begin(stop())


async def remove_refused(host: Host) -> None:
    """Remove the messages that a receiver refuses since a restore, as the events of the host ask for it."""
    for stored in await host.service.store.read_events(0, 1_000_000):
        if stored.event.event == "sequence_passed" and stored.sequence not in host.handled_events:
            host.handled_events.add(stored.sequence)
            [sequence] = re.findall(r"transaction\.sequence_id ([0-9]+)", stored.event.reason)
            await _remove_sequence(host, stored.event.queue, int(sequence))


async def _remove_sequence(host: Host, name: str, sequence: int) -> None:
    service = host.service
    await service.pause_outgoing(name)
    for session in service.inspection.sessions():
        # What was sent on one is in use until it ends.
        service.close_session(session.identifier)
    await pause(host, 1.0)
    page = await service.inspection.browse(name, count=1000)
    identifier = TxSequenceID.from_value(sequence)
    refused = [each for each in page.messages if each.view.tx_sequence_id == identifier]
    labels = [
        f"{each.view.application_tag}" for each in refused if each.view.message_class == MessageClass.NORMAL
    ]
    host.world.recorder.note("remove refused", node=host.name, labels=labels)
    await service.message_administration.remove(name, [each.lookup_id for each in refused])
    await service.resume_outgoing(name)


def _replace_disk(world: World, host: Host) -> None:
    if host.restoring is None and host.system.failing == 0:
        # An earlier one would lack what came since; a disk that is damaged stays in use until it is repaired.
        host.backup = None
        back_up_host(world, host.number)
        host.restoring, host.backup = host.backup, None
