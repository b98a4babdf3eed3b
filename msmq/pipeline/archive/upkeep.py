"""What operators do with an archive: look at it, verify it, erase rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs

from msmq.pipeline.archive.changes import StreamChanges
from msmq.pipeline.archive.erased import record_identifiers, record_numbers
from msmq.pipeline.archive.erasures import LOG, ErasureRecord
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.expiry import skip
from msmq.pipeline.archive.manifest import Archive, ArchiveFile, StreamManifest
from msmq.pipeline.archive.removed_manifests import RemovedCounts, RemovedManifests
from msmq.pipeline.archive.where import RowCondition
from msmq.pipeline.files.errors import FilesError
from msmq.pipeline.files.format import EVENTS, checksum, read_file
from msmq.pipeline.schema import EVENT_COLUMNS, EXPORTED_COLUMNS, columns_of, names_of


@attrs.frozen
class StreamSummary:
    """One stream of an archive, for people and programs.

    @ivar next: of a log, the first number that is not archived; C{None} of a queue.
    @ivar gaps: the numbers of log entries that were trimmed before they were archived.
    @ivar damaged: the numbers of entries that were damaged in the store, and could not be archived.
    @ivar missing: how many numbers of both there are; the lists have the latest thousand of each.
    @ivar deleted: the first and last number between which the queue may have had more entries when it was
        deleted, and how many at most.
    @ivar erased: rows that were erased; C{expired}: rows that were removed by age.
    """

    topic: str
    stream: str
    rows: int
    files: int
    bytes: int
    next: int | None
    gaps: Sequence[tuple[int, int]]
    erased: int
    expired: int
    damaged: Sequence[int]
    missing: int
    deleted: Sequence[int]


def summaries(archive: Archive) -> list[StreamSummary]:
    """All streams.

    @raise ArchiveError: there is no archive, or it is damaged.
    """
    archive.owner()
    return [
        StreamSummary(
            each.topic,
            each.stream,
            each.rows,
            len(each.files),
            sum(file.size for file in each.files),
            each.next if each.stream in ("log", EVENTS) else None,
            tuple(each.missing.trimmed),
            each.erased,
            each.expired,
            tuple(each.missing.damaged),
            each.missing.numbers,
            each.missing.uncertain,
        )
        for each in archive.streams()
    ]


def problems(archive: Archive, on_rows: Callable[[int], None] = lambda rows: None) -> Iterator[str]:
    """Verify every file, and name what is wrong: damage, missing files, rows twice, gaps.

    @param on_rows: called with the number of further rows that were verified.
    @raise ArchiveError: there is no archive.
    """
    archive.owner()
    removed = RemovedCounts()
    try:
        removed = RemovedManifests(archive).counts()
    except ArchiveError as error:
        yield str(error)
    if removed.missing or removed.uncertain:
        yield (
            f"queues that were deleted, of which nothing is archived any more: {removed.missing} numbers of"
            f" their logs were trimmed or damaged before they were archived, and at most {removed.uncertain}"
            " entries were deleted with them"
        )
    for manifest in archive.streams():
        for line in manifest.missing.lines():
            yield f"{manifest.topic}: {line}"
        is_log = manifest.stream in ("log", EVENTS)
        shared = _Shared.of(manifest) if is_log else None
        for file in manifest.files:
            try:
                rows, numbers = _verified(archive, manifest, file)
            except FilesError as error:
                yield str(error)
                continue
            on_rows(rows)
            if shared is not None and numbers and shared.has_twice(file, numbers):
                yield f"{archive.path(file)}: entries before {max(numbers)} are there twice"


class _Shared:
    """The numbers of a log that more than one file may have.

    Files of two dates may have numbers in between each other, since a clock was set back over midnight or an
    entry was committed later than the next one.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._seen: set[int] = set()

    @classmethod
    def of(cls, manifest: StreamManifest) -> _Shared:
        """For the files of a manifest."""
        ranges: list[tuple[int, int]] = []
        last = -1
        for file in sorted(manifest.files, key=lambda file: file.first):
            if file.first <= last:
                ranges.append((file.first, min(file.last, last)))
            last = max(last, file.last)
        return cls(ranges)

    def has_twice(self, file: ArchiveFile, numbers: Sequence[int]) -> bool:
        """Whether a file has a number twice, or one of an earlier file."""
        ranges = [each for each in self._ranges if each[0] <= file.last and each[1] >= file.first]
        found = {number for number in numbers if any(first <= number <= last for first, last in ranges)}
        is_twice = len(set(numbers)) < len(numbers) or not self._seen.isdisjoint(found)
        self._seen |= found
        return is_twice


def _verified(archive: Archive, manifest: StreamManifest, file: ArchiveFile) -> tuple[int, list[int]]:
    path = archive.path(file)
    if checksum(path) != (file.size, file.crc):
        raise ArchiveError(f"{path}: damaged: its checksum is not the one in the manifest")
    column = "offset" if manifest.stream in ("log", EVENTS) else "lookup_id"
    numbers: list[int] = []
    for batch in read_file(path, (column,)):
        numbers += batch.column(0).to_pylist()
    if len(numbers) != file.rows:
        raise ArchiveError(f"{path}: has {len(numbers)} rows, not {file.rows}")
    return len(numbers), numbers


def compact(archive: Archive, now: float) -> None:
    """Write all rows as Parquet.

    @raise FilesError: there is no archive, or a file cannot be read or written.
    """
    archive.owner()
    for name in [each.name for each in archive.streams()]:
        with archive.locked():
            if (manifest := archive.load(name)) is not None:
                StreamChanges(archive, manifest, now).compact(everything=True)


def erase(archive: Archive, condition: RowCondition, now: float, *, dry_run: bool = False) -> dict[str, int]:
    """Erase the rows that fulfil a condition, and return their number by topic and stream.

    The record of erasures has no values of the condition. What was erased is not archived again.
    The identifiers of the messages are kept, and of the transactional messages of a log their numbers in
    their sequences, for reports of losses and gaps.
    An erasure waits for another one to end. One that is killed is recorded by the next writer.

    @param dry_run: only count them.
    @raise FilesError: the condition names an unknown column, or the archive cannot be written.
    """
    known = {*names_of(EXPORTED_COLUMNS), *names_of(EVENT_COLUMNS)}
    for name in condition.columns:
        if name not in known:
            raise ArchiveError(f"there is no column {name}")
    archive.owner()
    if dry_run:
        return _erase_rows(archive, condition, now, dry_run=True)
    record = ErasureRecord(archive)
    with record.locked():
        record.end(is_interrupted=True)
        record.begin(condition.columns, now)
        try:
            found = _erase_rows(archive, condition, now, dry_run=False)
            with archive.locked():
                # An erasure that was killed has left a file with its rows, which no manifest names any more.
                archive.tidy()
        except (Exception, KeyboardInterrupt):
            # If this fails too, the next writer does it.
            with suppress(FilesError):
                with archive.locked():
                    archive.tidy()
                record.end(is_interrupted=True)
            raise
        record.end()
    return found


def _erase_rows(archive: Archive, condition: RowCondition, now: float, *, dry_run: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in [each.name for each in archive.streams()]:
        with archive.locked():
            manifest = archive.load(name)
            if manifest is None or not condition.fits(columns_of(manifest.stream)):
                continue
            if count := _erase(archive, manifest, condition, now, dry_run):
                # A queue that was created again has the path of the former.
                place = f"{manifest.topic} {manifest.stream}"
                found[place] = found.get(place, 0) + count
    return found


def _erase(
    archive: Archive, manifest: StreamManifest, condition: RowCondition, now: float, dry_run: bool
) -> int:
    mask = condition.mask(columns_of(manifest.stream))
    changes = StreamChanges(archive, manifest, now)

    def others(batch: Any) -> Any:
        import pyarrow.compute

        return pyarrow.compute.invert(mask(batch))

    # Only the columns of the condition, since most files have no such row.
    counts = [
        (file, sum(mask(batch).true_count for batch in read_file(archive.path(file), condition.columns)))
        for file in manifest.files
    ]
    found = [(file, chosen) for file, chosen in counts if chosen]
    total: int = sum(chosen for _, chosen in found)
    if found and not dry_run:
        files = [file for file, _ in found]
        record_identifiers(archive, manifest, files, mask, condition.columns)
        if manifest.stream == LOG:
            record_numbers(archive, manifest, files, mask, condition.columns)
    for file, chosen in () if dry_run else found:
        if manifest.stream not in ("log", EVENTS):
            skip(archive, manifest, file.path, mask)
        manifest.erased += chosen
        changes.keep(file, others)
    if not dry_run:
        # Replaced files may still have the rows.
        for path, _ in list(manifest.retired):
            if not (archive.directory / path).exists():
                # A copy of an archive that was in use lacks those that were deleted meanwhile.
                continue
            batches = read_file(archive.directory / path, condition.columns)
            if any(mask(batch).true_count for batch in batches):
                changes.keep_retired(path, others)
    return total


def rows(archive: Archive, stream: str, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a stream, each once, in batches.

    @raise FilesError: a file cannot be read.
    """
    for manifest in archive.streams():
        if manifest.stream == stream:
            for file in manifest.files:
                yield from read_file(archive.path(file), columns)
