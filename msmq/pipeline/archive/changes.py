"""Changes of one stream of an archive: rows are appended, merged, compacted and removed.

Every change writes its files first and then the manifest; a crash in between leaves the former archive, and
files without a name in a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from msmq.durable import sync
from msmq.pipeline.archive.errors import ArchiveError, ArchiveUnwritable
from msmq.pipeline.archive.format import checksum, read_file, write_file
from msmq.pipeline.archive.manifest import Archive, ArchiveFile, StreamManifest
from msmq.pipeline.files.directory import date_of

MERGED: Final = 8
"""Files of one level that are merged into one of the next."""
FULL: Final = 128 * 1024 * 1024
"""Bytes of Arrow files from which they are compacted into Parquet."""
QUIET: Final = 600.0
"""Seconds without a new file after which the rows of a past date are compacted."""
GRACE: Final = 600.0
"""Seconds for which a replaced file is kept for those who are reading it."""


class StreamChanges:
    """Changes of one stream; the caller holds the lock.

    @param now: the time, in seconds since 1970-01-01 UTC.
    @ivar manifest: what the archive has, including each finished change.
    """

    def __init__(self, archive: Archive, manifest: StreamManifest, now: float) -> None:
        self._archive = archive
        self._now = now
        self.manifest = manifest

    def add(self, date: str, batches: Iterable[Any], first: int, last: int) -> None:
        """Write new rows of one date; L{commit} makes them part of the archive.

        @raise ArchiveError: the file cannot be written.
        """
        self.manifest.files.append(self._write(date, batches, first, last, 0, fresh=True))

    def commit(self) -> None:
        """Store the manifest.

        @raise ArchiveError: it cannot be written.
        """
        try:
            self._archive.store(self.manifest)
        except OSError as error:
            where = error.filename or self._archive.directory
            raise ArchiveUnwritable(f"{where}: cannot be written: {error.strerror or error}") from error

    def merge(self) -> None:
        """Merge the newest files while there are enough of one level, so that their number stays small."""
        while (chosen := self._mergeable()) is not None:
            level = chosen[0].level + 1
            self._replace(chosen, self._rewritten(chosen, level, fresh=True))

    def _mergeable(self) -> list[ArchiveFile] | None:
        for _, group in groupby(self._fresh(), lambda file: (file.date, file.level)):
            same = list(group)
            if len(same) >= MERGED and sum(file.size for file in same) < FULL:
                return same
        return None

    def compact(self, *, everything: bool = False) -> None:
        """Write the Arrow files of a date as Parquet, if they are large enough or the date has passed.

        @param everything: compact all of them.
        """
        today = date_of(self._now)
        for date in sorted({file.date for file in self._fresh()}):
            files = [file for file in self._fresh() if file.date == date]
            size = sum(file.size for file in files)
            newest = max(file.written for file in files)
            is_past = date != today and abs(self._now - newest) >= QUIET
            if everything or is_past or size >= FULL:
                self._replace(files, self._rewritten(files, 0, fresh=False))

    def forget(self) -> None:
        """Delete replaced files that nobody can be reading any more."""
        kept = [(path, since) for path, since in self.manifest.retired if abs(self._now - since) < GRACE]
        gone = [path for path, since in self.manifest.retired if (path, since) not in kept]
        if gone:
            self.manifest.retired = kept
            self.commit()
            self._archive.remove(gone)

    def keep(self, file: ArchiveFile, mask: Callable[[Any], Any]) -> int:
        """Rewrite a file with only the rows of a mask, delete the former file, and return how many are gone.

        @param mask: for a batch, which of its rows to keep.
        """
        left: int = sum(batch.filter(mask(batch)).num_rows for batch in read_file(self._archive.path(file)))
        if left == file.rows:
            return 0
        place = self.manifest.files.index(file)
        by = []
        if left:
            batches = (batch.filter(mask(batch)) for batch in read_file(self._archive.path(file)))
            by.append(self._write(file.date, batches, file.first, file.last, file.level, fresh=file.is_fresh))
        self.manifest.files[place : place + 1] = by
        self.commit()
        self._archive.remove([file.path])
        return file.rows - left

    def _fresh(self) -> list[ArchiveFile]:
        return [file for file in self.manifest.files if file.is_fresh]

    def _rewritten(self, files: Sequence[ArchiveFile], level: int, *, fresh: bool) -> ArchiveFile:
        first, last = min(file.first for file in files), max(file.last for file in files)
        written = self._write(files[0].date, self._rows(files), first, last, level, fresh=fresh)
        expected = sum(file.rows for file in files)
        if written.rows != expected:
            raise ArchiveError(f"{self._archive.path(written)}: has {written.rows} rows, not {expected}")
        return written

    def _rows(self, files: Sequence[ArchiveFile]) -> Iterator[Any]:
        for file in files:
            path = self._archive.path(file)
            if checksum(path) != (file.size, file.crc):
                raise ArchiveError(f"{path}: damaged: its checksum is not the one in the manifest")
            yield from read_file(path)

    def _replace(self, files: Sequence[ArchiveFile], by: ArchiveFile) -> None:
        place = self.manifest.files.index(files[0])
        left = [file for file in self.manifest.files if file not in files]
        left.insert(place, by)
        self.manifest.files = left
        self.manifest.retired += [(file.path, self._now) for file in files]
        self.commit()

    def _write(
        self, date: str, batches: Iterable[Any], first: int, last: int, level: int, *, fresh: bool
    ) -> ArchiveFile:
        name = self.manifest.new_path(date, fresh=fresh)
        path = self._archive.directory / name
        # Under its final name it is not part of the archive before the manifest says so; but a reader of
        # plain Parquet must not see half a file.
        unfinished = path.with_name(f".{path.name}") if not fresh else path
        unfinished = unfinished.with_suffix(path.suffix)
        rows = write_file(unfinished, self.manifest.stream, batches)
        size, crc = checksum(unfinished)
        if unfinished != path:
            unfinished.rename(path)
            sync(path.parent)
            sync(path.parent.parent)
        return ArchiveFile(name, date, rows, size, crc, first, last, level, self._now)
