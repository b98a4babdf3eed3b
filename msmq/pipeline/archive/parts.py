"""Parts of a plan, their text, and the files that they name."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.slices import ReadSlice, RowSpan

LAST_OFFSET: Final = (1 << 63) - 1
"""The end of an unlimited range of offsets."""


@attrs.frozen
class FilePart:
    """Rows of one archived file.

    @ivar manifest: the name of the manifest of its stream.
    @ivar topic: the topic of its rows.
    @ivar path: relative to the archive.
    @ivar groups: the row groups of a Parquet file; empty for all.
    @ivar begin: the first offset to read; C{end} the one after the last.
    """

    manifest: str
    topic: str
    path: str
    rows: int
    groups: tuple[int, ...] = ()
    begin: int = 0
    end: int = LAST_OFFSET


@attrs.frozen
class ArchiveSlice:
    """A part of an archive and its store, read by one process.

    @ivar files: rows of files.
    @ivar tail: entries of the store, of the stream with the manifest C{manifest}.
    @ivar numbers: the LookupIdentifiers of the messages of a queue to read, 8 bytes each; C{times}: their
        times of arrival.
    """

    files: tuple[FilePart, ...] = ()
    tail: ReadSlice | None = None
    manifest: str = ""
    numbers: bytes = attrs.field(default=b"", repr=False)
    times: bytes = attrs.field(default=b"", repr=False)

    @property
    def rows(self) -> int:
        """About the number of its rows."""
        return sum(file.rows for file in self.files) + sum(
            span.rows for span in (self.tail.spans if self.tail else ())
        )


def write_plan(slices: Sequence[ArchiveSlice]) -> str:
    """A plan as text, for the option C{archivePlan}."""
    return json.dumps([attrs.asdict(each, value_serializer=_plain) for each in slices])


def read_plan(text: str) -> list[ArchiveSlice]:
    """A plan from its text.

    @raise ReadingError: it is not one.
    """
    try:
        return [_slice(each) for each in json.loads(text)]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ReadingError("the option archivePlan is not a plan of read_archive") from None


def _slice(found: dict[str, Any]) -> ArchiveSlice:
    tail = found["tail"]
    return ArchiveSlice(
        tuple(FilePart(**{**each, "groups": tuple(each["groups"])}) for each in found["files"]),
        None
        if tail is None
        else ReadSlice(
            tail["kind"],
            tuple(
                RowSpan(
                    **{
                        **span,
                        "queue": None if span["queue"] is None else UUID(span["queue"]),
                        "places": b64decode(span["places"]),
                    }
                )
                for span in tail["spans"]
            ),
            tail["is_strict"],
        ),
        found["manifest"],
        b64decode(found["numbers"]),
        b64decode(found["times"]),
    )


def _plain(instance: object, field: object, value: object) -> object:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, UUID) else value


@contextmanager
def opened_parquet(archive: Archive, part: FilePart) -> Iterator[Any]:
    """A Parquet file of a plan, opened; C{None} if all of its rows were erased since.

    @raise ArchiveError: it cannot be read, or is gone.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    path = path_now(archive, part)
    if path is None:
        yield None
        return
    try:
        with ParquetFile(path) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(path, error) from error


def path_now(archive: Archive, part: FilePart) -> Path | None:
    """The path of a file, also after an erasure; C{None} if all of its rows were erased.

    @raise ArchiveError: it is gone.
    """
    path = archive.directory / part.path
    if path.exists():
        return path
    manifest = archive.load(part.manifest)
    now = None if manifest is None else manifest.path_now(part.path)
    if now is None:
        raise ArchiveError(
            f"{path}: was removed from the archive after this read began; read again, and check the archive"
            " if that fails too"
        )
    return archive.directory / now if now else None


def unreadable(path: Path, error: BaseException) -> ArchiveError:
    """Create the error about a file that cannot be read, for the caller to raise."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
    return ArchiveError(f"{path}: cannot be read: {reason}; msmq archive check says what is damaged")
