"""Inputs of a job: stores, PostgreSQL, captures and Parquet, of any number of queue managers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Final

import attrs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from msmq.interfaces.archived_streams import ARCHIVED_STREAMS
from msmq.pipeline.archive.erased import COLUMNS, IDENTIFIER_COLUMNS, has_identifiers, has_numbers
from msmq.pipeline.archive.erasures import LOG, ErasureRecord, ErasuresSummary
from msmq.pipeline.archive.manifest import ERASED, ERASED_IDENTIFIERS, MANIFESTS, Archive
from msmq.pipeline.archive.plan import NO_STORE
from msmq.pipeline.archive.removed_manifests import RemovedCounts, counted
from msmq.pipeline.files.directory import export_owner
from msmq.pipeline.files.path_patterns import spark_pattern
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.nonempty_streams import owner_and_streams
from msmq.pipeline.reading.opening import is_remote, parts_of, shown_location
from msmq.pipeline.schema import (
    EVENT_COLUMNS,
    MESSAGE_COLUMNS,
    PACKET_COLUMN,
    VERSION,
    VERSION_KEY,
    names_of,
)
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.jobs.estate import EVENTS, MESSAGES, WIRE, Estate, events, messages
from msmq.storage.readers import has_store

EVENTS_STREAM: Final = "events"

LITTLE_DATA: Final = 256 * 1024 * 1024
"""Bytes of the files of L{are_small} inputs: some hundred thousand messages."""

ALWAYS: Final = (
    *("topic", "offset", "timestamp", "timestampType", "id", "class", "class_name", "priority"),
    *("sent_time", "source_queue_manager", "destination_queue", "correlation_id", "abort_count"),
)
"""The columns of messages that every job reads."""

_OF_EVENTS: Final = tuple(
    name for name in names_of(EVENT_COLUMNS) if name not in ("value", "headers", "partition")
)

_NAMED: Final = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
_SECRET: Final = re.compile(
    r"(://[^:@/]*:)[^@/]*(?=@)|((?:password|oauth_client_secret|scram_client_key|scram_server_key)=)[^&]*",
    re.IGNORECASE,
)
_LONGEST_VERSION: Final = 100
_CAPTURES: Final = (".pcap", ".pcapng", ".cap")


@attrs.frozen
class Input:
    """Input of a job.

    @ivar name: the name of its queue manager in reports.
    @ivar location: a data directory, the file of a store, C{postgresql://...}, a capture, or Parquet.
    @ivar allows_loss: whether rows of a store that are trimmed while they are read, or are damaged, are left
        out; otherwise they are an error.
    """

    name: str
    location: str
    allows_loss: bool = False

    @property
    def path(self) -> Path | None:
        """The path of a local file or directory, or C{None}."""
        is_elsewhere = "://" in self.location or self.location.startswith(("postgresql:", "postgres:"))
        return None if is_elsewhere or is_remote(self.location) else Path(self.location)

    @property
    def shown(self) -> str:
        """Its location for display, without secrets."""
        if is_remote(self.location):
            return shown_location(self.location)
        return _SECRET.sub(r"\1\2...", self.location)

    @property
    def is_capture(self) -> bool:
        """Whether it is a capture."""
        return self.location.lower().endswith(_CAPTURES)

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive."""
        return self.path is not None and (self.path / MANIFESTS).is_dir()

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file, or a directory of them."""
        if self.is_archive:
            return True
        if self.path is None or self.path.is_file():
            return self.location.lower().endswith(".parquet")
        # An archive, or an export, may be in the data directory.
        return not has_store(self.path) and next(self.path.rglob("*.parquet"), None) is not None


@attrs.frozen
class JobInput:
    """Input requirements of a job.

    @ivar streams: the streams of a store.
    @ivar columns: the columns that it reads in addition to L{ALWAYS}.
    @ivar headers: whether it reads the headers in extensions.
    @ivar decode: the body decoder.
    @ivar archived: the stream of an archive that it reads; empty for all.
    """

    streams: Sequence[str]
    columns: Sequence[str] = ()
    headers: bool = False
    decode: str = "none"
    archived: str = ""


def parse_input(text: str) -> Input:
    r"""Parse C{--input}: C{[NAME=]LOCATION}.

    The default name is the last part of the location.
    """
    named = _NAMED.fullmatch(text)
    if named is not None and "://" not in named[1]:
        return Input(named[1], named[2])
    if is_remote(text):
        # The computer.
        return Input(parts_of(text)[1].replace("\\:", ":"), text)
    bare = text.partition("?")[0].rstrip("/")
    name = bare.rpartition("/")[2] or text
    return Input(re.sub(r"\.(parquet|pcapng|pcap|cap|sqlite)$", "", name), text)


def check_inputs(inputs: Iterable[Input]) -> None:
    """Check that inputs are distinct, and exist.

    @raise ReadingError: an input is neither.
    """
    names: dict[str, Input] = {}
    earlier: list[Input] = []
    for one in inputs:
        for other in earlier:
            if _is_same(one, other):
                raise ReadingError(f"the input {one.shown} is given twice")
            for inner, outer in ((one, other), (other, one)):
                if _is_part(inner, outer):
                    raise ReadingError(
                        f"the input {inner.shown} is in the input {outer.shown}, and would count twice"
                    )
        earlier.append(one)
        if one.name in names and not one.is_parquet and not names[one.name].is_parquet:
            raise ReadingError(
                f"two inputs are called {one.name}: give them names, as --input NAME={one.shown}"
            )
        if one.path is not None and not one.path.exists():
            raise ReadingError(f"the input {one.location} is not there")
        names[one.name] = one


def _is_same(one: Input, other: Input) -> bool:
    """Whether two inputs are one file or directory, or have equal locations."""
    if one.path is None or other.path is None:
        return one.location == other.location
    return _real(one.path) == _real(other.path)


def _real(path: Path) -> Path:
    """The path without links; of a loop of links, which no input is, the path itself."""
    return Path(os.path.realpath(path))


def _is_part(inner: Input, outer: Input) -> bool:
    """Whether an input is a file or directory with Parquet that is read as a part of another."""
    if inner.path is None or outer.path is None:
        return False
    path, directory = _real(inner.path), _real(outer.path)
    if directory not in path.parents or _is_hidden(path, directory):
        return False
    return inner.is_parquet and outer.is_parquet


def are_small(inputs: Iterable[Input]) -> bool:
    """Whether all inputs are local, and have at most L{LITTLE_DATA} bytes together."""
    size = 0
    for one in inputs:
        if one.path is None:
            return False
        for file in chain([one.path], one.path.rglob("*")):
            with suppress(OSError):
                size += file.stat().st_size
            if size > LITTLE_DATA:
                return False
    return True


def read_estate(spark: SparkSession, inputs: Sequence[Input], wanted: JobInput) -> Estate:
    """The messages and events of all inputs.

    @raise ReadingError: an input is invalid.
    """
    found = [spark.createDataFrame([], MESSAGES)]
    happened = [spark.createDataFrame([], EVENTS)]
    owners, named = dict[str, str](), dict[str, str]()
    for one in inputs:
        if one.is_parquet:
            kinds, where = _files_of(one), Path(one.location)
            owner = Archive(where).owner() if one.is_archive else export_owner(where)
            _check_name(named, one, owner)
            if one.is_archive:
                _note_owner(owners, one, owner)
                if not kinds:
                    raise ReadingError(
                        f"the archive {one.location} has no finished file yet: run msmq archive update"
                        f" {one.location} --compact"
                    )
            for files in kinds:
                if files.are_events:
                    happened.append(events(_read_parquet(spark, one, files, _OF_EVENTS), one.name))
                    continue
                rows = _read_parquet(spark, one, files, ALWAYS)
                needs_packets = wanted.headers or wanted.decode != "none"
                if needs_packets and PACKET_COLUMN.name in rows.columns:
                    # Headers are not exported, and bodies only if they were decoded then.
                    found += [messages(each, one.name) for each in _from_packets(spark, one, wanted)]
                else:
                    found.append(messages(rows, one.name))
        elif one.is_capture:
            found.append(messages(_load(spark, one, WIRE, wanted), one.name, WIRE))
        else:
            owner, streams = owner_and_streams(one.location, wanted.streams)
            _check_name(named, one, owner)
            _note_owner(owners, one, owner)
            for stream in streams:
                rows = _load(spark, one, stream, wanted)
                if stream == EVENTS_STREAM:
                    happened.append(events(rows, one.name))
                else:
                    found.append(messages(rows, one.name, stream))
    return Estate(_all(found), _all(happened), owners)


def read_erased(spark: SparkSession, inputs: Sequence[Input]) -> DataFrame:
    """The numbers of the transactional messages that were erased from the message logs of archives.

    The columns are C{store} and L{COLUMNS<msmq.pipeline.archive.erased.COLUMNS>}.
    """
    columns = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)
    found = [spark.createDataFrame([], f"store STRING, {columns}")]
    for one in inputs:
        if one.is_archive and has_numbers(Path(one.location)):
            path = f"{spark_pattern(str(Path(one.location).absolute()))}/{ERASED}/*.parquet"
            rows = spark.read.schema(columns).parquet(path)
            found.append(rows.select(F.lit(one.name).alias("store"), *rows.columns))
    return _all(found)


def read_erased_identifiers(spark: SparkSession, inputs: Sequence[Input]) -> DataFrame | None:
    """Which messages the rows were about that were erased from archives; C{None} without any.

    The columns are C{store} and L{IDENTIFIER_COLUMNS<msmq.pipeline.archive.erased.IDENTIFIER_COLUMNS>}.
    """
    columns = ", ".join(f"`{name}` {kind}" for name, kind in IDENTIFIER_COLUMNS)
    found = []
    for one in inputs:
        if one.is_archive and has_identifiers(Path(one.location)):
            path = f"{spark_pattern(str(Path(one.location).absolute()))}/{ERASED_IDENTIFIERS}/*.parquet"
            rows = spark.read.schema(columns).parquet(path)
            found.append(rows.select(F.lit(one.name).alias("store"), *rows.columns))
    return reduce(DataFrame.unionAll, found) if found else None


def erasures_of(inputs: Sequence[Input]) -> ErasuresSummary:
    """What the archives among the inputs have recorded of erasures, in all.

    @raise ArchiveError: a record cannot be read.
    """
    found = [ErasureRecord(Archive(Path(one.location))).summary() for one in inputs if one.is_archive]
    return ErasuresSummary(*(sum(values) for values in zip(*map(attrs.astuple, found), strict=True)))


def missing_entries(inputs: Sequence[Input]) -> int:
    """The largest number of entries of message logs that the archives among the inputs lack.

    They were trimmed, damaged or deleted with their queue before they were archived.

    @raise ArchiveError: a manifest is damaged.
    """
    archives = [Archive(Path(one.location)) for one in inputs if one.is_archive]
    logs = [counted(archive).get(LOG, RemovedCounts()) for archive in archives]
    return sum(each.missing + each.uncertain for each in logs)


def missing_note(inputs: Sequence[Input]) -> str:
    """The part of a verdict about L{missing_entries}; empty without any.

    @raise ArchiveError: a manifest is damaged.
    """
    missing = missing_entries(inputs)
    return f"archives lack up to {missing:,} entries of message logs (msmq archive check)" if missing else ""


def unread_rows(inputs: Sequence[Input], stream: str = "") -> int:
    """The number of rows of archives that are not in finished files yet.

    @param stream: the stream that is read; empty for all.
    @raise ArchiveError: a manifest is damaged.
    """
    return sum(
        file.rows
        for one in inputs
        if one.is_archive
        for manifest in Archive(Path(one.location)).streams()
        if stream in ("", manifest.stream)
        for file in manifest.files
        if file.is_fresh
    )


def _check_name(named: dict[str, str], one: Input, owner: str) -> None:
    """Note the queue manager of an input, if it is known, by the name of the input.

    @raise ReadingError: an input of another queue manager has this name, and the queues of both would be one.
    """
    if owner and named.setdefault(one.name, owner) != owner:
        raise ReadingError(
            f"two inputs of different queue managers are called {one.name}: give them names, as --input"
            f" NAME={one.shown}"
        )


def _note_owner(owners: dict[str, str], one: Input, owner: str) -> None:
    """Note the queue manager of a store or of an archive.

    @raise ReadingError: another input has its messages, which would count twice.
    """
    if not owner:
        return
    for name, other in owners.items():
        if other == owner:
            raise ReadingError(
                f"the inputs {name} and {one.name} are of one queue manager, and what is in both would count"
                " twice: give its archive or its store"
            )
    owners[one.name] = owner


def read_rows(spark: SparkSession, inputs: Sequence[Input], stream: str, columns: Sequence[str]) -> DataFrame:
    """Read columns of the messages of all inputs, as the data source returns them.

    @param stream: the stream of a store or an archive; of other files all messages are read.
    @raise ReadingError: an input is invalid.
    """
    types = {column.name: column.type for column in MESSAGE_COLUMNS}
    found = [spark.createDataFrame([], ", ".join(f"`{name}` {types[name]}" for name in columns))]
    for one in inputs:
        if one.is_parquet:
            for files in _files_of(one, stream):
                if not files.are_events:
                    found.append(_read_parquet(spark, one, files, columns).select(*columns))
            continue
        present = [WIRE] if one.is_capture else owner_and_streams(one.location, [stream])[1]
        for place in present:
            reader = _reader(spark, one).option("stream", place)
            found.append(reader.option("columns", ",".join(columns)).load().select(*columns))
    return _all(found)


def _all(tables: Sequence[DataFrame]) -> DataFrame:
    """The union of all rows; the first table is empty, for the case without any input."""
    return reduce(DataFrame.unionAll, tables[1:] or tables)


def _reader(spark: SparkSession, one: Input) -> DataFrameReader:
    strictness = str(not one.allows_loss).lower()
    return spark.read.format("msmq").option("path", one.location).option("failOnDataLoss", strictness)


def _load(spark: SparkSession, one: Input, stream: str, wanted: JobInput, store: str = "") -> DataFrame:
    """The rows of a stream; of files all messages, if the stream is empty.

    @param store: of an archive, the option of this name.
    """
    reader = _reader(spark, one)
    if store:
        reader = reader.option("store", store)
    if stream:
        reader = reader.option("stream", stream)
    if stream != EVENTS_STREAM:
        columns = [*ALWAYS, *wanted.columns]
        if wanted.headers:
            columns.append("headers")
            reader = reader.option("includeHeaders", "true")
        if wanted.decode != "none":
            columns += ["decoded", "decode_error"]
            reader = reader.option("decode", wanted.decode)
        reader = reader.option("columns", ",".join(columns))
    return reader.load()


def _from_packets(spark: SparkSession, one: Input, wanted: JobInput) -> list[DataFrame]:
    """The messages of files, or of each archived stream, with what only their packets have."""
    if not one.is_archive:
        return [_load(spark, one, "", wanted)]
    archived = {each.stream for each in Archive(Path(one.location)).streams()}
    streams = [each for each in wanted.streams if each in archived and each != EVENTS_STREAM]
    return [_load(spark, one, stream, wanted, store=NO_STORE) for stream in streams]


@attrs.frozen
class _Files:
    """Parquet files with the same kind of rows."""

    paths: tuple[str, ...]
    are_events: bool


def _files_of(one: Input, stream: str = "") -> list[_Files]:
    """The files of an input, those of messages and those of events separately.

    @param stream: of an archive, the stream of messages; empty for all.
    @raise ReadingError: a file is not in Parquet, or has a newer record format, or no archive has the stream.
    """
    import pyarrow
    from pyarrow import parquet

    found: dict[bool, list[str]] = {}
    for file in _paths_of(one, stream):
        try:
            schema = parquet.read_schema(file)
        except FileNotFoundError:
            raise ReadingError(
                f"the input {file} is gone: run the job again, and msmq archive check if that fails too"
            ) from None
        except (pyarrow.ArrowException, OSError):
            raise ReadingError(f"the input {file} is not a file in Parquet") from None
        version = (schema.metadata or {}).get(VERSION_KEY, b"0")[:_LONGEST_VERSION]
        if not version.isdigit() or int(version) > VERSION:
            raise ReadingError(
                f"the input {file} has version {version.decode('ascii', 'replace')} of the record format;"
                f" this msmq reads {VERSION}"
            )
        found.setdefault("event" in schema.names, []).append(str(file.absolute()))
    return [_Files(tuple(paths), are_events) for are_events, paths in found.items()]


def _paths_of(one: Input, stream: str) -> list[Path]:
    """The files of an input; of an archive those that its manifests name.

    @raise ReadingError: no archive has the stream.
    """
    path = Path(one.location)
    if one.is_archive:
        if stream and stream not in ARCHIVED_STREAMS:
            raise ReadingError(
                f"the archive {one.location} has the streams {', '.join(ARCHIVED_STREAMS)}, not {stream}"
            )
        return Archive(path).finished(stream)
    if path.is_file():
        return [path]
    every = [file for file in sorted(path.rglob("*.parquet")) if not file.is_dir()]
    return [file for file in every if not _is_hidden(file, path)]


def _is_hidden(path: Path, directory: Path) -> bool:
    """Whether a path below a directory is no data: as in Spark, by the first character of a name."""
    return any(part.startswith((".", "_")) for part in path.relative_to(directory).parts)


def _read_parquet(spark: SparkSession, one: Input, files: _Files, needed: Sequence[str]) -> DataFrame:
    """Read the rows of these files.

    @param needed: the required columns.
    """
    try:
        rows = spark.read.parquet(*map(spark_pattern, files.paths))
    except AnalysisException as error:
        raise ReadingError(f"the input {one.location} cannot be read: {reason(error)}") from None
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        raise ReadingError(
            f"the input {one.location} has no column {missing[0]}: it is not an export of messages or events"
        )
    types = {column.name: column.type for column in (EVENT_COLUMNS if files.are_events else MESSAGE_COLUMNS)}
    for name, kind in rows.dtypes:
        if name in types and _sort_of(kind) != _sort_of(types[name]):
            raise ReadingError(
                f"the input {one.location} has the column {name} as {kind}, not {types[name].lower()}"
            )
    return rows


def _sort_of(kind: str) -> str:
    """A type normalized for comparison: without blanks and without the width of whole numbers."""
    return re.sub(r"\b(tiny|small|big)int\b", "int", re.sub(r"\s+", "", kind.lower()))
