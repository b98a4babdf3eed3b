"""Writes what a store has gained since the last time into its archive."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs

from msmq.interfaces.archived_streams import ARCHIVED_STREAMS
from msmq.persistence.definition import QueueDefinition
from msmq.pipeline.archive.archived_entries import entry_checksum, has_other_anchor
from msmq.pipeline.archive.changes import StreamChanges
from msmq.pipeline.archive.erased import forget_identifiers
from msmq.pipeline.archive.erasures import ErasureRecord
from msmq.pipeline.archive.errors import StoreRestored
from msmq.pipeline.archive.expiry import expire
from msmq.pipeline.archive.kept_rows import KeptRows
from msmq.pipeline.archive.manifest import Archive, StreamManifest, stream_name
from msmq.pipeline.archive.removed_manifests import RemovedManifests
from msmq.pipeline.archive.selection import EVERYTHING, ArchiveSelection
from msmq.pipeline.archive.unowned_numbers import UnownedNumbers
from msmq.pipeline.files.directory import date_of
from msmq.pipeline.files.errors import FilesError, FileUnwritable
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.files.row_parts import (
    RowPart,
    log_bounds,
    logged_pages,
    number_of,
    queued_pages,
    row_parts,
)
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.slices import LEVEL, LEVELS
from msmq.pipeline.reading.streams import Topic
from msmq.pipeline.rows import microseconds
from msmq.pipeline.stored_packets import StoredPacket, signed
from msmq.storage.readers import RowDamaged, StoreReader

FILE_PAGES: Final = 8
"""Pages of rows between two commits of a manifest, which are in memory: 16,000 rows, 32 MiB of packets."""

MOST_GAPS: Final = 10_000
"""Limit on lines about missing entries that no one has taken yet."""

REST: Final = 20.0
"""How many times as long as a scan of a queue took, there is no further one: 5 % of one core."""


@attrs.frozen
class ArchiveProgress:
    """The result of a pass.

    @ivar rows: the number of rows that were archived.
    @ivar behind: the number of log entries and events that are not archived yet.
    @ivar gaps: the lines that name what is missing in the archive, found in this pass, and in failed ones
        before it.
    @ivar complete: what was stored until then is archived; by the monotonic clock.
    """

    rows: int
    behind: int
    gaps: Sequence[str] = ()
    complete: float = attrs.field(default=0.0, eq=False)


class Archiver:
    """Archives one store into one directory.

    @param store: only this thread uses it.
    @param clock: returns the time, in seconds since 1970-01-01 UTC.
    @param seconds: returns the time of a clock that is never set.
    @param selection: what is archived.
    @param on_step: called between two steps, while nothing is locked, with the rows of the latest one; what
        it raises ends the pass.
    @param keep_days: rows of older dates are removed; 0 keeps all.
    """

    def __init__(
        self,
        store: StoreReader,
        archive: Archive,
        *,
        clock: Callable[[], float] = time.time,
        seconds: Callable[[], float] = time.monotonic,
        keep_days: int = 0,
        pages: int = FILE_PAGES,
        selection: ArchiveSelection = EVERYTHING,
        on_step: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self._store = store
        self._archive = archive
        self._clock = clock
        self._seconds = seconds
        self._keep_days = keep_days
        self._pages = pages
        self._selection = selection
        self._on_step = on_step
        self._complete = 0.0
        self._kept: dict[str, KeptRows] = {}
        self._checked: set[str] = set()
        self._notices = RemovalNotices()
        self._forgotten: dict[str, str] = {}
        self._is_begun = False
        # Lines about missing entries: of finished steps, also of passes that have failed, and of this step.
        self._gaps: deque[str] = deque(maxlen=MOST_GAPS)
        self._noted: list[str] = []
        self._problem: FilesError | None = None
        self._damaged: set[tuple[str, int]] = set()
        # Where the logs ended at the beginning of the latest complete pass; and for each queue that there was
        # then, the number before which all of its entries are archived: where the pass before that one ended,
        # since a queue may have been deleted during a pass.
        self._ended = 0
        # The queues that have or had a message log: one that was disabled keeps its entries. C{None} before
        # the manifests were read.
        self._logs: set[UUID] | None = None
        self._archived: dict[UUID, int] = {}

    def run(self) -> ArchiveProgress:
        """Archive everything that the store has now.

        A damaged file of the archive keeps out nothing else; the error about it is raised at the end, when
        everything else is archived and compared as seldom as otherwise.

        @raise ArchiveError: the archive cannot be written, or is not that of this store.
        @raise StorageError: the store cannot be read.
        """
        if not self._store.is_reusable():
            # An older copy, or another store, may have taken its place since the last time.
            self._store.close()
            self._checked.clear()
            for kept in self._kept.values():
                kept.forget()
        owner = self._store.identifier()
        if not owner:
            return ArchiveProgress(0, 0)
        self._problem = None
        self._complete = self._seconds()
        rows = 0
        selected: set[str] = set()
        try:
            with self._archive.locked(create=True):
                self._archive.begin(owner, _path_of(self._store))
                if ErasureRecord(self._archive).complete():
                    # A killed erasure may have left a file with the rows that the manifests have no more.
                    self._is_begun = False
                if not self._is_begun:
                    with self._going_on():
                        self._archive.tidy()
                        self._is_begun = True
                with self._going_on():
                    RemovedManifests(self._archive).complete()
            log_end, definitions = self._store.log_end(), self._store.queues()
            with self._going_on():
                self._find_logs(definitions)
            for stream in ARCHIVED_STREAMS:
                for topic in self._selection.topics(stream, definitions, self._logs or frozenset()):
                    name = stream_name(stream, topic.name, topic.queue.hex)
                    selected.add(name)
                    with self._going_on(name):
                        rows += self._topic(name, stream, topic, log_end)
            behind = 0
            with self._going_on():
                behind = self._maintain(definitions, selected)
        except BaseException:
            # What is in memory may be ahead of the files.
            self._kept.clear()
            raise
        if self._problem is not None:
            raise self._problem
        self._archived = {each.identifier: self._ended for each in definitions}
        self._ended = log_end
        return ArchiveProgress(rows, behind, self.take_gaps(), self._complete)

    def _find_logs(self, definitions: Sequence[QueueDefinition]) -> None:
        """Note which queues may have entries in a message log.

        @raise ArchiveError: a manifest cannot be read.
        """
        logged = {each.identifier for each in definitions if each.log}
        if self._logs is None:
            logged |= {UUID(each.queue) for each in self._archive.streams() if each.stream == "log"}
        self._logs = (logged | (self._logs or set())) & {each.identifier for each in definitions}

    def take_gaps(self) -> tuple[str, ...]:
        """The lines that name what is missing in the archive, found since they were taken last.

        A pass that ends takes them; after one that fails the next does.
        """
        found = tuple(self._gaps)
        self._gaps.clear()
        return found

    @contextmanager
    def _going_on(self, name: str = "") -> Iterator[None]:
        """Go on with other streams if a file of one is damaged; the first such error ends the pass later.

        @param name: the stream, of which what is in memory may be ahead of the files then; empty for none.
        """
        try:
            yield
        except (FileUnwritable, StoreRestored):
            raise
        except FilesError as error:
            self._problem = self._problem or error
            self._kept.pop(name, None)

    def _topic(self, name: str, stream: str, topic: Topic, log_end: int) -> int:
        total = 0
        while True:
            # The lock is released between two commits, so that an erasure need not wait for long.
            with self._archive.locked():
                manifest = self._archive.load(name) or StreamManifest(
                    name, stream, topic.name, topic.queue.hex, begun=-1
                )
                self._noted = []
                # The store has the queue, perhaps again: it was restored.
                manifest.missing.deleted = ()
                changes = StreamChanges(self._archive, manifest, self._clock())
                if stream in ("log", EVENTS):
                    rows, is_done = self._logged(changes, topic, log_end)
                else:
                    rows, is_done = self._queued(changes, topic)
                self._gaps += self._noted
                serial = manifest.serial
                if rows:
                    with self._going_on():
                        changes.merge()
                        serial = manifest.serial
                if (kept := self._kept.get(name)) is not None:
                    kept.serial, kept.erased = serial, manifest.erased
            total += rows
            self._on_step(rows)
            if is_done:
                return total

    def _logged(self, changes: StreamChanges, topic: Topic, log_end: int) -> tuple[int, bool]:
        """Archive the next entries of a log, and return their number and whether these were all."""
        manifest, store = changes.manifest, self._store
        is_events = manifest.stream == EVENTS
        first, end = log_bounds(store, topic, is_events=is_events)
        self._check(manifest, topic, end if is_events else log_end)
        begin = max(manifest.next, first)
        if manifest.begun < 0:
            manifest.begun = begin
            if not is_events and first > self._ended > 0:
                # The pass before has seen a log without entries, or there was none.
                self._trimmed(manifest, self._ended, first - 1)
        elif manifest.next < first:
            self._trimmed(manifest, manifest.next, first - 1)
        if begin >= end:
            if manifest.next < first and manifest.missing.numbers:
                manifest.next = first
                changes.commit()
            return 0, True
        rows = 0
        parts: list[RowPart] = []

        def trimmed(first: int, last: int) -> None:
            self._trimmed(manifest, first, last)
            manifest.next = last + 1

        def damaged(error: RowDamaged) -> None:
            self._noted.append(f"{topic.name}: {manifest.missing.damage(error.number)}: {error}")
            manifest.next = error.number + 1

        is_last = False
        pages = logged_pages(store, topic, begin, end, trimmed, damaged, is_events=is_events)
        for page, is_end in islice(pages, self._pages):
            is_last = is_end
            if page:
                rows += len(page)
                parts += row_parts(page, number_of)
                manifest.anchor = parts[-1].last, entry_checksum(page[-1])
                manifest.next = parts[-1].last + 1
        _add(changes, parts)
        changes.commit()
        return rows, is_last

    def _check(self, manifest: StreamManifest, topic: Topic, end: int) -> None:
        """Check that the store still has the numbers that were archived, with the same rows.

        @raise StoreRestored: it has not.
        """
        if manifest.next > end:
            raise StoreRestored(
                self._restored(topic, f"it ends before {end}, the archive before {manifest.next}")
            )
        is_same = manifest.name in self._checked and end == manifest.next
        if is_same or not manifest.anchor:
            return
        if has_other_anchor(self._store, topic, manifest, self._notices):
            raise StoreRestored(self._restored(topic, f"its entry {manifest.anchor[0]} is another one"))
        self._checked.add(manifest.name)

    def _restored(self, topic: Topic, how: str) -> str:
        return (
            f"{topic.name}: the store is not the one that was archived, {how}: it was"
            " restored from a backup; select another directory for the archive from now on"
        )

    def _trimmed(self, manifest: StreamManifest, first: int, last: int) -> None:
        self._noted.append(f"{manifest.topic}: {manifest.missing.trim(first, last)}")

    def _queued(self, changes: StreamChanges, topic: Topic) -> tuple[int, bool]:
        """Archive the messages of a queue that are not archived yet."""
        manifest = changes.manifest
        kept = self._kept.get(manifest.name)
        if kept is None or kept.serial != manifest.serial or kept.erased != manifest.erased:
            kept = self._kept[manifest.name] = KeptRows(self._archive)
        elif self._seconds() < kept.rest_until:
            self._complete = min(self._complete, kept.scanned)
            return 0, True
        began = kept.scanned = self._seconds()
        kept.list_messages(self._store, topic.queue)
        kept.mark_archived(manifest)
        rows = pages = 0
        parts: list[RowPart] = []
        for page in self._new(kept, topic):
            parts += row_parts(page, _lookup_id)
            rows += len(page)
            pages += 1
            kept.add([(signed(row.lookup_id or 0), microseconds(row.arrived) or 0) for row in page])
            if pages == self._pages:
                break
        _add(changes, parts)
        forgotten = kept.prune(manifest)
        if rows or forgotten:
            changes.commit()
        if pages < self._pages:
            ended = self._seconds()
            kept.rest_until = ended + REST * (ended - began)
        return rows, pages < self._pages

    def _new(self, kept: KeptRows, topic: Topic) -> Iterator[Sequence[StoredPacket]]:
        """The messages that are not archived, page by page."""
        for first, last in kept.missing():
            end = min(last + 1, LEVELS * LEVEL)
            damaged = partial(self._damaged_message, kept, topic)
            yield from queued_pages(self._store, topic, partial(_is_new, kept), damaged, first, end)

    def _damaged_message(self, kept: KeptRows, topic: Topic, error: RowDamaged) -> None:
        """Leave out a message; its server removes it from the queue when it notices."""
        kept.leave_out(signed(error.number))
        if (topic.name, error.number) not in self._damaged:
            self._damaged.add((topic.name, error.number))
            self._gaps.append(
                f"{topic.name}: the message {error.number:#018x} is damaged in the store: {error}"
            )

    def _maintain(self, definitions: Sequence[QueueDefinition], selected: Set[str]) -> int:
        """Compact and expire, and return the number of entries that the archive is behind.

        @param selected: the streams that this pass has archived; what others have is not waited for.
        """
        now, behind = self._clock(), 0
        oldest = date_of(now - self._keep_days * 86_400) if self._keep_days else ""
        manifests = self._archive.streams()
        deletions = self._deletions(manifests, definitions)
        # A queue that is gone, or is selected no more, is not compared again.
        self._kept = {name: kept for name, kept in self._kept.items() if name in selected}
        for name in [manifest.name for manifest in manifests]:
            self._on_step(0)
            with self._going_on():
                manifest = self._maintain_stream(name, now, oldest, deletions)
                if manifest is not None and name in selected:
                    behind += self._behind(manifest)
        return behind

    def _maintain_stream(
        self, name: str, now: float, oldest: str, deletions: _Deletions
    ) -> StreamManifest | None:
        with self._archive.locked():
            manifest = self._archive.load(name)
            if manifest is None:
                return None
            changes = StreamChanges(self._archive, manifest, now)
            kept = self._kept.get(name)
            self._watch_deletion(changes, deletions)
            is_own = kept is not None and (kept.serial, kept.erased) == (manifest.serial, manifest.erased)
            is_deleted = manifest.stream != EVENTS and manifest.queue not in deletions.there
            if is_deleted and manifest.skipped:
                # Nothing of a queue that is gone can be archived again.
                manifest.skipped = []
                changes.commit()
            if oldest and any(file.date < oldest for file in manifest.files):
                expire(self._archive, changes, oldest, is_deleted=is_deleted)
            if oldest and self._forgotten.get(name) != oldest:
                forget_identifiers(self._archive, name, oldest)
                self._forgotten[name] = oldest
            changes.compact()
            changes.forget()
            removed = RemovedManifests(self._archive)
            if is_deleted and not self._is_watched(manifest) and removed.is_removable(manifest):
                removed.remove(manifest)
                self._forgotten.pop(name, None)
                self._checked.discard(name)
                return None
            if kept is not None and is_own:
                kept.serial = manifest.serial
        return manifest

    def _behind(self, manifest: StreamManifest) -> int:
        """How many entries of a log are not archived."""
        if manifest.stream == EVENTS:
            return max(0, self._store.event_bounds()[1] - manifest.next)
        if manifest.stream != "log":
            return 0
        queue = UUID(manifest.queue)
        end = self._store.log_bounds(queue)[1]
        return self._store.log_cuts(queue, manifest.next, end, end)[1] if manifest.next < end else 0

    def _deletions(
        self, manifests: Sequence[StreamManifest], definitions: Sequence[QueueDefinition]
    ) -> _Deletions:
        """The queues that were deleted, with the numbers that they may have had.

        @param definitions: the queues that there were when this pass began.
        """
        there = {each.identifier.hex for each in definitions}
        gone = [each for each in manifests if self._is_watched(each) and each.queue not in there]
        firsts = [self._unarchived(each) for each in gone]
        numbers = None
        if gone:
            numbers = UnownedNumbers(self._store, firsts, self._logs or (), lambda: self._on_step(0))
        return _Deletions(there, numbers)

    def _is_watched(self, manifest: StreamManifest) -> bool:
        """Whether the deletion of its queue is to be noted, which must be selected still."""
        is_log = manifest.stream == "log" and self._selection.has("log", manifest.topic)
        return is_log and not manifest.missing.deleted

    def _unarchived(self, manifest: StreamManifest) -> int:
        """The first number of an entry of a queue that may not be archived."""
        return max(manifest.next, self._archived.get(UUID(manifest.queue), 0))

    def _watch_deletion(self, changes: StreamChanges, deletions: _Deletions) -> None:
        """Note once of a queue that was deleted that it may have had entries that are not archived.

        All logs of a store share their numbers; those that no other queue has may have been of this one.
        """
        manifest = changes.manifest
        if not self._is_watched(manifest) or manifest.queue in deletions.there:
            return
        first, numbers = self._unarchived(manifest), deletions.numbers
        if numbers is None or not numbers.has(first):
            # Another process has archived meanwhile.
            numbers = UnownedNumbers(self._store, [first], self._logs or ())
        most = numbers.most(first)
        line = manifest.missing.delete(first, max(first, numbers.end) - 1, most)
        changes.commit()
        if most > 0:
            self._gaps.append(f"{manifest.topic}: {line}")


@attrs.frozen
class _Deletions:
    """Queues that were deleted.

    @ivar there: the identifiers, without dashes, of those that were not.
    @ivar numbers: those that deleted queues may have had; C{None} without any.
    """

    there: Set[str]
    numbers: UnownedNumbers | None


def _path_of(store: StoreReader) -> str:
    """The path of a store; empty if it is not in files."""
    path = Path(store.text)
    return str(path.absolute()) if path.exists() else ""


def _is_new(kept: KeptRows, lookup_id: int, arrived: float | None) -> bool:
    return not kept.has(signed(lookup_id), microseconds(arrived) or 0)


def _lookup_id(row: StoredPacket) -> int:
    return signed(row.lookup_id or 0)


def _add(changes: StreamChanges, parts: Sequence[RowPart]) -> None:
    """Write parts, those of one date that follow each other into one file."""
    for date, group in groupby(parts, lambda part: part.date):
        same = list(group)
        batches = [part.batch for part in same]
        changes.add(date, batches, min(part.first for part in same), max(part.last for part in same))
