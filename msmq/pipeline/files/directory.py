"""A directory of Parquet files, C{date=2026-01-31/NAME.parquet}: files appear atomically.

An export resumes from the content of the directory alone.
A file contains rows of one topic and one date; its name identifies the rows.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.durable import sync, write_durably
from msmq.pipeline.files.errors import FilesError, FileUnwritable, check_encoding, parquet

LOCK_NAME: Final = "_msmq_export.lock"
"""The lock of the writer; readers of the data ignore names that begin with _ or a dot."""

OWNER_NAME: Final = "_msmq_export.json"
"""Names the queue manager whose export it is."""

NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Partition name of rows without a date, as in Hive."""

_UNFINISHED: Final = ".msmq-"
_DIGITS: Final = 20
_NAME: Final = re.compile(rf"(.+)-(\d{{{_DIGITS}}})-\d{{{_DIGITS}}}\.parquet")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9]+")


def date_of(seconds: float | None) -> str:
    """The date of a time, in UTC."""
    try:
        return NO_DATE if seconds is None else datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return NO_DATE


def file_order(path: Path) -> tuple[str, str, str]:
    """Sort key of files that keeps the row order of each queue.

    Exported files are sorted by the numbers in their names, since dates are not monotonic after a clock was
    set back; other files by their paths.
    """
    match = _NAME.fullmatch(path.name)
    return (
        (str(path.parent), path.name, "") if match is None else (str(path.parent.parent), match[1], match[2])
    )


@attrs.frozen
class DataFile:
    """An existing data file.

    @ivar first: the number of its first row; C{last}: of its last row.
    """

    path: Path
    first: int
    last: int


class TopicFiles:
    """The files of one topic.

    @ivar stem: the beginning of their names.
    @param topic: readable name.
    @param whose: distinguishes it from other topics of the same name.
    """

    def __init__(self, directory: Path, topic: str, whose: Sequence[str]) -> None:
        self._directory = directory
        readable = _NOT_PLAIN.sub("-", topic).strip("-").lower()[-60:]
        mark = blake2b("\0".join(whose).encode(), digest_size=6).hexdigest()
        self.stem = f"{readable}-{mark}"
        self._pattern = re.compile(rf"{re.escape(self.stem)}-(\d{{{_DIGITS}}})-(\d{{{_DIGITS}}})\.parquet")

    def files(self) -> list[DataFile]:
        """The existing files."""
        found = []
        for path in self._directory.glob(f"date=*/{self.stem}-*.parquet"):
            match = self._pattern.fullmatch(path.name)
            if match is not None:
                found.append(DataFile(path, int(match[1]), int(match[2])))
        return sorted(found, key=lambda each: each.first)

    def moments(self, wanted: Any) -> dict[int, int]:
        """The times of arrival of messages in the files, in microseconds, by their C{lookup_id}.

        @param wanted: the numbers to look for, as an array of numpy; files may have those of years.
        @raise FilesError: a file cannot be read.
        """
        import numpy

        found: dict[int, int] = {}
        if not len(wanted):
            return found
        least, greatest = int(wanted.min()), int(wanted.max())
        for each in self.files():
            if each.last < least or each.first > greatest:
                continue
            table = _columns(each.path, "lookup_id", "timestamp")
            table = table.filter(numpy.isin(table.column("lookup_id").to_numpy(), wanted))
            found.update(zip(table.column("lookup_id").to_pylist(), _microseconds(table), strict=True))
        return found

    def last_moment(self) -> int:
        """The time of the last row of a log, in microseconds; there must be a file.

        @raise FilesError: the file cannot be read.
        """
        moment = _microseconds(_columns(max(self.files(), key=lambda each: each.last).path, "timestamp"))[-1]
        return int(moment)

    @property
    def unfinished(self) -> Path:
        """The path of a file in progress, which readers of the data ignore."""
        return self._directory / f"{_UNFINISHED}{self.stem}"

    def publish(self, date: str, first: int, last: int) -> None:
        """Give the file in progress its final name, durably.

        @param first: the number of its first row; C{last}: of its last row.
        @raise FileUnwritable: the directory cannot be written; the file in progress is gone.
        """
        folder = self._directory / f"date={date}"
        path = folder / f"{self.stem}-{first:0{_DIGITS}}-{last:0{_DIGITS}}.parquet"
        try:
            folder.mkdir(exist_ok=True)
            self.unfinished.rename(path)
            sync(folder)
            sync(self._directory)
        except OSError as error:
            self.unfinished.unlink(missing_ok=True)
            raise FileUnwritable(f"{path}: {error.strerror or error}") from error


def _columns(path: Path, *names: str) -> Any:
    try:
        return parquet().read_table(path, columns=list(names), partitioning=None)
    except (OSError, ValueError, KeyError) as error:
        raise FilesError(f"{path}: {error}") from error


def _microseconds(table: Any) -> list[int]:
    moments: list[int] = table.column("timestamp").cast("int64").fill_null(0).to_pylist()
    return moments


def _take(directory: Path, owner: str, stems: Collection[str]) -> None:
    """Note the queue manager whose export a directory is, or check that it is this one.

    An export by an earlier version has no note; its files show by their names whose it is.

    @param stems: the beginnings of the names of files that an export of this queue manager may have.
    @raise FilesError: it is another queue manager's.
    """
    path = directory / OWNER_NAME
    try:
        found = json.loads(path.read_bytes())["queue_manager"]
    except FileNotFoundError:
        there = {
            match[1] for file in directory.glob("date=*/*.parquet") if (match := _NAME.fullmatch(file.name))
        }
        if there and there.isdisjoint(stems):
            raise FilesError(
                f"{directory}: the export of another queue manager, not of {owner}; select another directory"
            ) from None
        write_durably(path, json.dumps({"queue_manager": owner}).encode() + b"\n", 0o666)
        return
    except (ValueError, KeyError, TypeError) as error:
        raise FilesError(
            f"{path}: does not name the queue manager whose export it is ({error}); select another directory"
        ) from error
    if found != owner:
        raise FilesError(f"{directory}: the export of {found}, not of {owner}; select another directory")


def export_owner(directory: Path) -> str:
    """The GUID of the queue manager whose export a directory is; empty if it does not say so."""
    try:
        return str(json.loads((directory / OWNER_NAME).read_bytes())["queue_manager"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


@contextmanager
def writing_into(directory: Path, owner: str, stems: Collection[str]) -> Iterator[None]:
    """Lock a directory, check whose export it is, and remove the files of a writer that was killed.

    @param owner: the GUID of the queue manager that is exported; empty if none has opened its store yet.
    @param stems: the beginnings of the names of files that an export of it may have.
    @raise FilesError: it cannot be created, another process writes there, or it has the export of another
        queue manager.
    """
    check_encoding(directory)
    try:
        # It gets the bodies of messages.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (directory / LOCK_NAME).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FilesError(f"{directory}: another export is writing there") from None
            if owner:
                _take(directory, owner, stems)
            for left in directory.glob(f"{_UNFINISHED}*"):
                left.unlink()
            yield
    except OSError as error:
        where = error.filename or directory
        raise FilesError(f"{where}: {error.strerror or error}") from error
