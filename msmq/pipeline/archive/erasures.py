"""The record of erasures: when how many rows of which streams were erased from an archive.

C{_erasures.jsonl} has a line, or several, for each erasure. Before it changes anything an erasure writes
C{_erasing.json}: when it began, and how many rows each stream had lost to erasures then. The manifests count
erased rows in the step that removes them, so what a killed erasure has removed is the difference; the next
writer records it, as interrupted.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.durable import sync, write_durably
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import ERASING, ERASURE_LOCK, ERASURES, Archive
from msmq.pipeline.archive.removed_manifests import counted
from msmq.pipeline.files.errors import FileUnwritable

LOG: Final = "log"
"""The stream whose erased transactional messages leave their numbers."""

NUMBERS_KEY: Final = "numbers"
"""Key of a record whose numbers of transactional messages were kept; versions before kept none."""
IDENTIFIERS_KEY: Final = "identifiers"
"""Key of a record whose identifiers of messages were kept; versions before kept none."""
INTERRUPTED_KEY: Final = "interrupted"
"""Key of the record of an erasure that ended before it had removed all of its rows."""

MOST_STREAMS: Final = 40
"""Limit on streams in one line: the path of a queue has up to 124 characters, of up to 6 bytes in JSON."""

LONGEST_LINE: Final = 256 * 1024
"""Limit on the bytes of a line: earlier versions wrote one for all streams; what is longer is unreadable."""

_READ: Final = 64 * 1024


@attrs.frozen
class ErasuresSummary:
    """How much was erased from an archive, and of how much nothing else is known.

    @ivar rows: erased rows, as the manifests count them.
    @ivar unnumbered: those of message logs for which the record does not say that the numbers of
        transactional messages were kept.
    @ivar unidentified: those for which it does not say that the identifiers of messages were kept.
    """

    rows: int = 0
    unnumbered: int = 0
    unidentified: int = 0


class ErasureRecord:
    """The record of an archive; one erasure at a time writes it."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._path = archive.directory / ERASURES
        self._intent = archive.directory / ERASING

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        """Hold the lock of erasures, which the end of a process releases.

        @param wait: whether to wait for an erasure that runs; otherwise the value is false during one.
        @raise FileUnwritable: the directory cannot be written.
        """
        path = self._archive.directory / ERASURE_LOCK
        try:
            lock = path.open("ab")
        except OSError as error:
            raise _unwritable(path, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True

    def begin(self, columns: Sequence[str], now: float) -> None:
        """Note durably that an erasure begins; the caller holds the lock.

        @param columns: the columns of the condition, without its values.
        @param now: the time, in seconds since 1970-01-01 UTC.
        @raise FilesError: a manifest is damaged, or the note cannot be written.
        """
        intent = {
            "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "columns": list(columns),
            "erased": {each.name: each.erased for each in self._archive.streams()},
        }
        self._write(intent)

    def end(self, *, is_interrupted: bool = False) -> bool:
        """Record what the erasure that was noted has removed; the caller holds the lock.

        A process that is killed meanwhile is continued by the next call.

        @return: whether an erasure was noted.
        @raise FilesError: a manifest or the note is damaged, or the record cannot be written.
        """
        try:
            intent = json.loads(self._intent.read_bytes())
            if "lines" not in intent:
                intent["lines"] = self._lines(intent, is_interrupted=is_interrupted)
                intent["place"] = self._end()
                self._write(intent)
            self._append(int(intent["place"]), "".join(intent["lines"]).encode())
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArchiveError(
                f"{self._intent}: not the note of an erasure: {error}; remove it, and erase again"
            ) from error
        except OSError as error:
            raise _unwritable(self._path, error) from error
        try:
            self._intent.unlink()
            sync(self._archive.directory)
        except OSError as error:
            raise _unwritable(self._intent, error) from error
        return True

    def complete(self) -> bool:
        """Record what a killed erasure has removed, unless an erasure runs.

        @return: whether there was a killed erasure.
        @raise FilesError: see L{end}.
        """
        if self._intent.exists():
            with self.locked(wait=False) as is_free:
                return is_free and self.end(is_interrupted=True)
        return False

    def summary(self) -> ErasuresSummary:
        """How much was erased.

        @raise ArchiveError: the record or a manifest cannot be read.
        """
        numbered = identified = 0
        for record in self._records():
            counts = {} if record is None else record["rows"]
            if record is not None and IDENTIFIERS_KEY in record:
                identified += sum(counts.values())
            if record is not None and NUMBERS_KEY in record:
                numbered += sum(count for name, count in counts.items() if name.endswith(f" {LOG}"))
        by_stream = {stream: each.erased for stream, each in counted(self._archive).items()}
        rows, logged = sum(by_stream.values()), by_stream.get(LOG, 0)
        return ErasuresSummary(rows, max(0, logged - numbered), max(0, rows - identified))

    def after(self, begin: int) -> tuple[list[dict[str, Any] | None], int]:
        """The next records, C{None} for each line that cannot be read, and the position after them.

        @param begin: a position in bytes; 0 for the first record. A line that has no end yet is left out.
        @raise FileUnwritable: the record cannot be read.
        """
        found: list[dict[str, Any] | None] = []
        end = begin
        try:
            with self._path.open("rb") as file:
                file.seek(begin)
                while end - begin < _READ and (line := file.readline(LONGEST_LINE)):
                    if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                        break
                    found.append(parse_record(line))
                    end += len(line)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise FileUnwritable(f"{self._path}: cannot be read: {error.strerror or error}") from error
        return found, end

    def _records(self) -> Iterator[dict[str, Any] | None]:
        try:
            with self._path.open("rb") as file:
                while line := file.readline(LONGEST_LINE):
                    yield parse_record(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ArchiveError(f"{self._path}: cannot be read: {error.strerror or error}") from error

    def _lines(self, intent: dict[str, Any], *, is_interrupted: bool) -> list[str]:
        before, found = intent["erased"], dict[str, int]()
        for each in self._archive.streams():
            if count := each.erased - int(before.get(each.name, 0)):
                name = f"{each.topic} {each.stream}"
                found[name] = found.get(name, 0) + count
        rows = list(found.items())
        record = {"time": str(intent["time"]), "columns": list(intent["columns"])}
        kept = {
            NUMBERS_KEY: True,
            IDENTIFIERS_KEY: True,
            **({INTERRUPTED_KEY: True} if is_interrupted else {}),
        }
        parts = [rows[place : place + MOST_STREAMS] for place in range(0, len(rows), MOST_STREAMS)]
        return [json.dumps({**record, "rows": dict(part), **kept}) + "\n" for part in parts]

    def _append(self, place: int, content: bytes) -> None:
        """Append what is missing of lines that belong after these bytes."""
        if not content:
            return
        with self._path.open("a+b") as file:
            file.seek(place)
            present = file.read(len(content))
            # Otherwise an earlier version has recorded an erasure meanwhile.
            left = content[len(present) :] if content.startswith(present) else content
            file.write(left)
            file.flush()
            os.fsync(file.fileno())
        sync(self._archive.directory)

    def _end(self) -> int:
        """The size of the record, after half a line of an earlier version was ended."""
        try:
            with self._path.open("r+b") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
                        file.flush()
                        os.fsync(file.fileno())
                        size += 1
                return size
        except FileNotFoundError:
            return 0

    def _write(self, intent: dict[str, Any]) -> None:
        try:
            write_durably(self._intent, json.dumps(intent).encode() + b"\n", 0o666)
        except OSError as error:
            raise _unwritable(self._intent, error) from error


def parse_record(line: bytes) -> dict[str, Any] | None:
    """A line of the record; C{None} if it cannot be read."""
    try:
        found = json.loads(line)
        is_record = (
            isinstance(found["time"], str)
            and all(isinstance(name, str) for name in found["columns"])
            and all(type(count) is int for count in found["rows"].values())
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(found) if is_record else None


def _unwritable(path: Path, error: OSError) -> FileUnwritable:
    return FileUnwritable(f"{path}: cannot be written: {error.strerror or error}")
