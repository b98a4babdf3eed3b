"""Backs up a store, of a running server too, and verifies the result."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.migration_mark import MARK
from msmq.storage.backup.backup_file import BackedUpFile, BackupFacts, BackupFile
from msmq.storage.migration.digest import SECTIONS, StoreDigest, digest_of
from msmq.storage.readers.shape import MomentGone, RowPage, StoreReader, one_page

TRIES: Final = 10
"""How often a backup begins anew because the server has reused space; it keeps the packets that it has."""


@attrs.define
class RecordingContents:
    """The contents of a held store, which are written to a backup as they are read.

    @ivar new_packets: packets of messages that the backup did not have.
    """

    _reader: StoreReader
    _file: BackupFile
    new_packets: int = attrs.field(default=0, init=False)
    _queues: list[QueueDefinition] | None = attrs.field(default=None, init=False)

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreContents.queues<msmq.storage.readers.shape.StoreContents.queues>}."""
        if self._queues is None:
            self._queues = self._reader.queues()
            self._file.put_queues(
                [(each, self._reader.log_bounds(each.identifier)[0]) for each in self._queues]
            )
            self._file.put_numbers(self._reader.log_end(), self._reader.event_bounds())
        return self._queues

    def values(self) -> dict[str, bytes]:
        """See L{StoreContents.values<msmq.storage.readers.shape.StoreContents.values>}."""
        values = self._reader.values()
        if MARK in values:
            raise StorageError(
                f"{self._reader.text}: a migration of this store has begun; back up the other one"
            )
        self._file.put_values(values)
        return values

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreContents.messages<msmq.storage.readers.shape.StoreContents.messages>}."""
        page = self._reader.message_rows(queue, begin)
        count, is_more = one_page([(row[0], row[5]) for row in page.rows], True)
        rows = page.rows[:count]
        known = self._file.known_packets(queue, rows)
        if known is not None:
            found = [(*row[:5], packet) for row, packet in zip(rows, known, strict=True)]
            self._file.put_messages(queue, found, has_packets=True)
            return RowPage(found, page.rows[count][0] if is_more or count < len(page.rows) else page.next)
        read = self._reader.messages(queue, begin, end, since=since, until=until, bodies=True)
        self._file.put_messages(queue, read.rows, has_packets=False)
        self.new_packets += len(read.rows)
        return read

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreContents.log<msmq.storage.readers.shape.StoreContents.log>}."""
        page = self._reader.log(queue, begin, end, since=since, until=until, bodies=True)
        self._file.put_entries(queue, page.rows)
        return page

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreContents.events<msmq.storage.readers.shape.StoreContents.events>}."""
        events, following = self._reader.events(begin, end)
        self._file.put_events(events)
        return events, following

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreContents.log_bounds<msmq.storage.readers.shape.StoreContents.log_bounds>}."""
        return self._reader.log_bounds(queue)

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreContents.event_bounds<msmq.storage.readers.shape.StoreContents.event_bounds>}."""
        return self._reader.event_bounds()

    def log_end(self) -> int:
        """See L{StoreContents.log_end<msmq.storage.readers.shape.StoreContents.log_end>}."""
        return self._reader.log_end()


@attrs.frozen
class BackupSummary:
    """Result of a backup.

    @ivar new_messages: messages whose packets were written; those of others were in the previous backup.
    """

    path: Path
    facts: BackupFacts
    new_messages: int


def back_up(
    reader: StoreReader,
    directory: Path,
    describe: Callable[[str, StoreDigest], BackupFacts],
    files: Callable[[], Sequence[BackedUpFile]],
    report: Callable[[int], object],
) -> BackupSummary:
    """Write the contents of a store at one moment to a backup, and verify the backup.

    @param describe: makes the facts from the identifier of the queue manager and the digest.
    @param files: reads the other files of the data directory.
    @param report: called with numbers of rows that were read.
    @raise StorageError: it failed; the previous backup is unchanged unless the verification failed.
    """
    file = BackupFile.begin(directory)
    try:
        found, recorded = _copy(reader, file, report)
        file.put_files(files())
        facts = describe(reader.identifier(), found)
        file.finish(facts)
    finally:
        reader.close()
        file.close()
    check_backup(directory, report)
    return BackupSummary(file.path, facts, recorded.new_packets)


def _copy(
    reader: StoreReader, file: BackupFile, report: Callable[[int], object]
) -> tuple[StoreDigest, RecordingContents]:
    for attempt in range(1, TRIES + 1):
        file.restart()
        recorded = RecordingContents(reader, file)
        try:
            reader.hold()
            return digest_of(recorded, report), recorded
        except MomentGone:
            reader.close()
            if attempt == TRIES:
                raise
    raise AssertionError


def check_backup(directory: Path, report: Callable[[int], object]) -> BackupFacts:
    """Verify a backup: everything in it has the checksums that it was written with.

    @raise StorageError: it is damaged, of another version, or there is none.
    """
    file = BackupFile.open(directory)
    try:
        facts = file.facts()
        for _ in file.files():
            pass
        found = digest_of(file, report)
    except (struct.error, TypeError, AttributeError, OverflowError) as error:
        # A value has another type than it was written with.
        raise StorageError(f"{file.path}: the backup is damaged: {error}") from error
    finally:
        file.close()
    wrong = [name for name in SECTIONS if found[name] != facts.sections.get(name)]
    if wrong:
        raise StorageError(f"{file.path}: the backup is damaged: the checksum of {wrong[0]} does not match")
    return facts
