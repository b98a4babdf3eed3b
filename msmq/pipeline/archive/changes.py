"""Changes of one stream of an archive: rows are appended, merged, compacted and removed.

Every change writes its files first and then the manifest; a crash in between leaves the former archive, and
files without a name in a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from msmq.durable import sync
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import UNFINISHED, Archive, ArchiveFile, StreamManifest
from msmq.pipeline.files.directory import date_of
from msmq.pipeline.files.errors import FileUnwritable
from msmq.pipeline.files.format import checksum, read_file, read_groups, write_file

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

        @raise FilesError: the file cannot be written.
        """
        self.manifest.files.append(self._write(date, batches, first, last, 0, fresh=True))

    def commit(self) -> None:
        """Store the manifest.

        @raise FileUnwritable: it cannot be written.
        """
        try:
            self._archive.store(self.manifest)
        except OSError as error:
            where = error.filename or self._archive.directory
            raise FileUnwritable(f"{where}: cannot be written: {error.strerror or error}") from error

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
        """Delete replaced files that no reader can be using any more."""
        manifest = self.manifest
        kept = [(path, since) for path, since in manifest.retired if abs(self._now - since) < GRACE]
        replaced = [each for each in manifest.replaced if abs(self._now - each[2]) < GRACE]
        gone = [path for path, since in manifest.retired if (path, since) not in kept]
        if gone or len(replaced) < len(manifest.replaced):
            manifest.retired, manifest.replaced = kept, replaced
            self.commit()
            self._archive.remove(gone)

    def retire(self, files: Sequence[ArchiveFile]) -> None:
        """Remove files from the archive; L{forget} deletes them."""
        self.manifest.files = [file for file in self.manifest.files if file not in files]
        self.manifest.retired += [(file.path, self._now) for file in files]
        self.commit()

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
            by.append(
                self._filtered(self._archive.path(file), mask, file.date, file.first, file.last, file.level)
            )
        self.manifest.files[place : place + 1] = by
        self.manifest.replaced.append((file.path, by[0].path if by else "", self._now))
        self.commit()
        self._archive.remove([file.path])
        return file.rows - left

    def keep_retired(self, path: str, mask: Callable[[Any], Any]) -> int:
        """The same for a file that was replaced, which readers may still need."""
        whole = self._archive.directory / path
        rows = left = 0
        for batch in read_file(whole):
            rows, left = rows + batch.num_rows, left + batch.filter(mask(batch)).num_rows
        if left == rows:
            return 0
        new = ""
        if left:
            new = self._filtered(whole, mask, _date_in(path), 0, 0, 0).path
        self.manifest.retired = [
            (new if each == path else each, since)
            for each, since in self.manifest.retired
            if each != path or new
        ]
        self.manifest.replaced.append((path, new, self._now))
        self.commit()
        self._archive.remove([path])
        return rows - left

    def _filtered(
        self, path: Path, mask: Callable[[Any], Any], date: str, first: int, last: int, level: int
    ) -> ArchiveFile:
        """Write the rows of a mask; row groups stay, so that a reader of the former file finds its own."""
        is_fresh = path.suffix == ".arrow"
        batches = read_file(path) if is_fresh else read_groups(path)
        left = (batch.filter(mask(batch)) for batch in batches)
        return self._write(date, left, first, last, level, fresh=is_fresh, are_groups=True)

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
        self,
        date: str,
        batches: Iterable[Any],
        first: int,
        last: int,
        level: int,
        *,
        fresh: bool,
        are_groups: bool = False,
    ) -> ArchiveFile:
        name = self.manifest.new_path(date, fresh=fresh)
        path = self._archive.directory / name
        # Under its final name it is not part of the archive before the manifest says so; but a reader of
        # plain Parquet must not see half a file.
        unfinished = path if fresh else path.with_name(f".{path.name}{UNFINISHED}")
        rows = write_file(
            unfinished, self.manifest.stream, batches, is_parquet=not fresh, are_groups=are_groups
        )
        size, crc = checksum(unfinished)
        if unfinished != path:
            unfinished.rename(path)
            # Also the names of the folders, which may be new.
            for folder in path.parents:
                sync(folder)
                if folder == self._archive.directory:
                    break
        return ArchiveFile(name, date, rows, size, crc, first, last, level, self._now)


def _date_in(path: str) -> str:
    """The date in the path of a file; a fresh one has none."""
    return path.partition("date=")[2].partition("/")[0]
