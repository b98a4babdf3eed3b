"""Rows from files: exported Parquet, concatenated packets, captures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from msmq.decoding.pcap import is_capture
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.opening import is_remote
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.streams import is_called
from msmq.pipeline.rows import EVENTS_TOPIC
from msmq.pipeline.schema import PACKET_COLUMN, VERSION, VERSION_KEY
from msmq.pipeline.stored_packets import StoredPacket
from msmq.quoting import quoted
from msmq.storage.readers import has_store
from msmq.structures.names.name_text import is_outgoing_path
from msmq.wire.framer import SIGNATURE

if TYPE_CHECKING:
    import pyarrow

WIRE_TOPIC: Final = "wire"
"""The topic of captured messages."""

PAGE: Final = 2000
_PARQUET: Final = b"PAR1"
_SQLITE: Final = b"SQLite format 3\0"
_SYSTEM: Final = ".\\system$;"
_MASKED: Final = ("topic", "offset", "timestamp")
_KEPT: Final = ("topic", "offset", "timestamp", "lookup_id", "abort_count", "move_count", "timestampType")


@attrs.frozen
class FileSlice:
    """Part of a file, read by one process.

    @ivar kind: C{parquet}, C{capture} or C{packets}.
    @ivar groups: the row groups of a Parquet file.
    """

    kind: str
    path: str
    groups: tuple[int, ...] = ()


@attrs.frozen
class FilePlan:
    """What a read of files consists of.

    @ivar slices: the slices of the files that have rows of the requested stream.
    @ivar left_out: the number of the other files, by their content: C{events}, C{messages}, C{packets}.
    """

    slices: list[FileSlice]
    left_out: dict[str, int]

    def notice(self, location: str) -> str | None:
        """One line about the files that are left out, for people; C{None} if there are none."""
        if not self.left_out:
            return None
        kinds = (
            f"{count} file{'s' if count > 1 else ''} of {content}"
            for content, count in sorted(self.left_out.items())
        )
        hint = "" if "events" not in self.left_out else "; the option stream = events reads events"
        return f"{location}: left out {' and '.join(kinds)}{hint}"


def are_files(location: str) -> bool:
    """Whether a path contains files of rows or packets, rather than a store.

    @raise ReadingError: the path does not exist.
    """
    if location.startswith(("postgresql:", "postgres:")) or is_remote(location):
        return False
    path = Path(location)
    if path.is_dir():
        return not has_store(path) and bool(_files(path))
    return path.is_file() and _beginning(path)[:16] != _SQLITE


@attrs.frozen
class FileScan:
    """A read of files in batch mode.

    @ivar stream: the stream whose rows of exported files are read; empty for all.
    """

    options: ReadOptions
    wanted: RowSelection
    stream: str

    def slices(self) -> list[FileSlice]:
        """The slices of the files.

        @raise ReadingError: as L{plan}.
        """
        return self.plan().slices

    def plan(self) -> FilePlan:
        """The slices of the files with rows of the stream, and what is left out.

        A directory may have messages and events, as an export of both has; without a stream its messages are
        read.

        @raise ReadingError: a file has no known format, or cannot be read with these options, or no file has
            rows of the stream.
        """
        if self.options.starting is not None or self.options.ending is not None:
            raise ReadingError(
                "startingOffsets and endingOffsets are for stores; files take a filter on offset"
            )
        path = Path(self.options.path)
        plan, are_chosen = FilePlan([], {}), False
        for file in _files(path) if path.is_dir() else [path]:
            kind = _kind(file)
            opened = _parquet(file) if kind == "parquet" else None
            content = _content(opened)
            if not self._has_rows_of(content):
                plan.left_out[content] = plan.left_out.get(content, 0) + 1
                continue
            are_chosen = True
            if opened is None:
                plan.slices.append(FileSlice(kind, str(file)))
            else:
                plan.slices.extend(self._parquet_slices(file, opened))
        if plan.left_out and not are_chosen:
            raise ReadingError(self._mismatch(path, plan))
        return plan

    def _has_rows_of(self, content: str) -> bool:
        if content == "packets":
            return self.stream in ("", WIRE_TOPIC)
        return (content == "events") == (self.stream == "events")

    def _mismatch(self, path: Path, plan: FilePlan) -> str:
        found = " and ".join(sorted(plan.left_out))
        if plan.left_out.keys() == {"events"}:
            return f"{path} has events and no messages: set the option stream to events"
        if plan.left_out.keys() == {"packets"}:
            return f"{path} has packets of the stream wire, not {self.stream}: set the option stream to wire"
        wanted = "events" if self.stream == "events" else f"rows of the stream {self.stream}"
        return f"{path} has {found}, and no {wanted}: leave out the option stream, or set it to another"

    def _parquet_slices(self, path: Path, file: Any) -> list[FileSlice]:
        stored = (file.schema_arrow.metadata or {}).get(VERSION_KEY, b"%d" % VERSION)
        version = stored[:100].decode("ascii", "replace")
        if not version.isdecimal() or int(version) > VERSION:
            found = version if version.isdecimal() else quoted(version)
            raise ReadingError(
                f"{path}: written by a newer version of msmq"
                f" (record format {found}, this one knows {VERSION})"
            )
        for name in self._columns():
            if name not in file.schema_arrow.names:
                raise ReadingError(f"{path} has no column {name}")
        return [FileSlice("parquet", str(path), (group,)) for group in range(file.num_row_groups)]

    def packets(self, part: FileSlice) -> Iterator[Sequence[StoredPacket]]:
        """The messages of a slice, as packets; of a Parquet file only if it has the column C{packet}."""
        if part.kind == "parquet":
            for batch in self._batches(part, (*_KEPT, PACKET_COLUMN.name)):
                yield [_stored(row) for row in batch.to_pylist()]
            return
        # Imported here, since Spark workers that read stores start often and need no capture reader.
        from msmq.decoding.captured_messages import captured_messages

        page: list[StoredPacket] = []
        for index, found in enumerate(captured_messages(_content_of(Path(part.path)))):
            packet = StoredPacket(found.packet, WIRE_TOPIC, index, found.time, timestamp_type=0)
            if self.wanted.takes(packet):
                page.append(packet)
            if len(page) == PAGE:
                yield page
                page = []
        yield page

    def batches(self, part: FileSlice) -> Iterator[pyarrow.RecordBatch]:
        """The exported rows of a slice of a Parquet file."""
        return self._batches(part, self.wanted.names)

    def _columns(self) -> tuple[str, ...]:
        return (*self.wanted.names, *_MASKED)

    def _batches(self, part: FileSlice, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        needed = dict.fromkeys((*names, *_MASKED, *self._needed()))
        for batch in _parquet_batches(Path(part.path), part.groups, list(needed)):
            left = batch.filter(self._mask(batch))
            if left.num_rows:
                yield left.select(list(names))

    def _needed(self) -> tuple[str, ...]:
        """The columns that identify a stream."""
        if self.stream == "report":
            return ("class",)
        return ("abort_count",) if self.stream in ("queue", "log") else ()

    def _mask(self, batch: pyarrow.RecordBatch) -> Any:
        """Mask of the selected rows."""
        import pyarrow

        columns = {name: batch.column(name).to_pylist() for name in (*_MASKED, *self._needed())}
        rows = zip(*columns.values(), strict=True)
        return pyarrow.array(
            [self._takes(dict(zip(columns, row, strict=True))) for row in rows], pyarrow.bool_()
        )

    def _takes(self, row: dict[str, Any]) -> bool:
        time = row["timestamp"]
        arrived = None if time is None else time.timestamp()
        packet = StoredPacket(b"", row["topic"], row["offset"], arrived)
        topics, pattern = self.options.topics, self.options.pattern
        if topics and not any(is_called(packet.topic, name) for name in topics):
            return False
        if pattern and not re.fullmatch(pattern, packet.topic):
            return False
        return self.wanted.takes(packet) and _is_of(self.stream, row)


def _is_of(stream: str, row: dict[str, Any]) -> bool:
    """Whether an exported row belongs to a stream, by its columns."""
    topic = row["topic"]
    match stream:
        case "" | "events" | "wire":
            return bool(not stream or topic == {"events": EVENTS_TOPIC}.get(stream, WIRE_TOPIC))
        case "source_journal" | "dead_letter" | "dead_letter_transactional":
            tail = {"source_journal": "journal", "dead_letter": "deadletter"}.get(stream, "deadxact")
            return bool(topic.lower() == _SYSTEM + tail)
        case "journal":
            return topic.lower().endswith(";journal") and not topic.lower().startswith(_SYSTEM)
        case "outgoing":
            return is_outgoing_path(topic)
        case "report":
            return bool(row["class"] == 1)
    if not topic.startswith(".\\") or topic.lower().endswith(";journal") or topic.lower().startswith(_SYSTEM):
        return False
    return bool((row["abort_count"] is None) == (stream == "log"))


def _stored(row: dict[str, Any]) -> StoredPacket:
    time, lookup_id = row["timestamp"], row["lookup_id"]
    return StoredPacket(
        row[PACKET_COLUMN.name],
        row["topic"],
        row["offset"],
        None if time is None else time.timestamp(),
        None if lookup_id is None else lookup_id % (1 << 64),
        row["abort_count"],
        row["move_count"],
        timestamp_type=row["timestampType"],
    )


def _files(directory: Path) -> list[Path]:
    """The files below a directory, without names that begin with a dot or an underscore, as in Spark."""
    return sorted(
        path
        for path in directory.rglob("*")
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(directory).parts)
    )


def _kind(path: Path) -> str:
    beginning = _beginning(path)
    if beginning[:4] == _PARQUET:
        return "parquet"
    if is_capture(beginning):
        return "capture"
    if beginning[4:8] == SIGNATURE.to_bytes(4, "little"):
        return "packets"
    raise ReadingError(f"{path} is not a store, an exported file, a capture or a packet")


def _content(parquet: Any | None) -> str:
    """What the rows of a file are: C{events}, C{messages}, or C{packets} if it is not Parquet."""
    if parquet is None:
        return "packets"
    return "events" if "event" in parquet.schema_arrow.names else "messages"


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise ReadingError(f"{path}: {error.strerror}") from None


def _content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReadingError(f"{path}: {error.strerror}") from None


def _parquet_batches(path: Path, groups: Sequence[int], names: list[str]) -> Iterator[pyarrow.RecordBatch]:
    """The rows of some row groups.

    @raise ReadingError: they cannot be read.
    """
    from pyarrow.lib import ArrowException

    try:
        yield from _parquet(path).iter_batches(PAGE, list(groups), names)
    except (ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _parquet(path: Path) -> Any:
    from pyarrow.lib import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ReadingError:
    return ReadingError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}")
