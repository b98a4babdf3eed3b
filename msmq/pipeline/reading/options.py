"""Read options of the data source, with the names of Spark's Kafka source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

import attrs

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.field_types import check_fields
from msmq.pipeline.reading.option_text import Spelled, duration, parse_options, switch, whole_number

Start: TypeAlias = str | Mapping[str, int]
"""C{earliest} or C{latest}, or offsets by topic, where -1 is the latest and -2 the earliest."""

_Value = TypeVar("_Value")

_LONGEST_NUMBER: Final = 30
_SIZE: Final = re.compile("([0-9]{1,12}) ?([kmg]?)b?")
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30}
_LAST_OFFSET: Final = (1 << 63) - 1
_LAST_MILLISECOND: Final = 253_402_300_799_999
"""The end of the year 9999."""

STREAMS: Final = (
    *("queue", "log", "journal", "source_journal", "dead_letter", "dead_letter_transactional"),
    *("report", "outgoing", "events", "wire"),
)
"""The values of the option C{stream}."""

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

INFER: Final = "infer"
"""The value of C{decodeSchema} for a schema that is inferred from stored bodies."""

LONGEST_DELAY: Final = 900.0
"""Default of C{maxTriggerDelay}, in seconds, as of Kafka's source."""


@attrs.frozen
class ReadOptions:
    """Read options.

    @ivar path: a data directory, a store's file, exported files, packets or captures; empty with C{dsn}.
    @ivar dsn: C{postgresql://...}.
    @ivar stream: one of L{STREAMS}; empty for all streams in files.
    @ivar topics: the queues of C{subscribe}; all queues if it is empty and there is no C{pattern}.
    @ivar pattern: full-match pattern of topics, C{subscribePattern}.
    @ivar since: lower time limit, seconds since 1970-01-01 UTC.
    @ivar until: upper time limit, exclusive.
    @ivar per_trigger: maximum number of rows per streaming batch.
    @ivar bytes_per_trigger: maximum size of the packets of a streaming batch with more than one row.
    @ivar at_least: number of rows for which a streaming batch waits.
    @ivar delay: maximum seconds for which it waits.
    @ivar push_down: whether filters are pushed down; only for a data frame that one query uses once.
    @ivar partitions: minimum number of parallel partitions.
    @ivar columns: the requested columns; empty for all.
    @ivar decode: the body decoder, or C{none}.
    @ivar decode_schema: the fields of C{decoded} as DDL text, or L{INFER}; empty for JSON.
    @ivar store: of an archive, the location of its store; empty for the one that the archive names, C{none}
        to read the archive alone.
    @ivar plan: of an archive, the parts to read, as L{msmq.pipeline.archive.parts} writes them.
    """

    path: str = ""
    dsn: str = ""
    stream: str = ""
    topics: tuple[str, ...] = ()
    pattern: str = ""
    starting: Start | None = None
    ending: Start | None = None
    since: float | None = None
    until: float | None = None
    per_trigger: int | None = None
    bytes_per_trigger: int | None = None
    at_least: int | None = None
    delay: float = LONGEST_DELAY
    push_down: bool = False
    partitions: int = 1
    fail_on_data_loss: bool = True
    headers: bool = False
    columns: tuple[str, ...] = ()
    decode: str = "none"
    decode_schema: str = ""
    store: str = ""
    plan: str = attrs.field(default="", repr=False)

    @property
    def location(self) -> str:
        """The path or the DSN."""
        return self.dsn or self.path


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the read options, whose names are case-insensitive.

    @raise ReadingError: an option is unknown, or its value is invalid.
    """
    options = ReadOptions(**parse_options(given, _SPELLED, "reading"))
    if options.path.startswith(("postgresql:", "postgres:")) and not options.dsn:
        options = attrs.evolve(options, path="", dsn=options.path)
    if not options.location:
        raise ReadingError("the option path (a data directory, or files) or dsn (PostgreSQL) is missing")
    if options.path and options.dsn:
        raise ReadingError("the options path and dsn exclude each other")
    if options.topics and options.pattern:
        raise ReadingError("the options subscribe and subscribePattern exclude each other")
    if options.starting is not None and options.since is not None:
        raise ReadingError("the options startingOffsets and startingTimestamp exclude each other")
    if options.ending is not None and options.until is not None:
        raise ReadingError("the options endingOffsets and endingTimestamp exclude each other")
    if options.at_least and options.per_trigger and options.at_least > options.per_trigger:
        raise ReadingError(
            f"minOffsetsPerTrigger is {options.at_least}, more than maxOffsetsPerTrigger,"
            f" {options.per_trigger}: make it smaller"
        )
    if options.decode_schema and options.decode == "none":
        raise ReadingError("decodeSchema needs decode: auto, or the name of a format")
    return options


def _stream(text: str) -> str:
    if text not in STREAMS:
        raise ValueError(f"must be one of {', '.join(STREAMS)}")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names:
        raise ValueError("must be names with commas between them")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


def _offsets(text: str) -> Start:
    if text in (EARLIEST, LATEST):
        return text
    wrong = 'must be earliest, latest or JSON such as {"orders": {"0": 123}}'
    try:
        found = json.loads(text, parse_int=_offset)
        offsets = {}
        for topic, partitions in found.items():
            if list(partitions) != ["0"] or type(partitions["0"]) is not int:
                raise ValueError(f"{wrong}: {topic} has one partition, 0, with a number")
            if not -2 <= partitions["0"] <= _LAST_OFFSET:
                raise ValueError(f"{wrong}: the number of {topic} is one from -2 to {_LAST_OFFSET}")
            offsets[topic] = partitions["0"]
    except (AttributeError, TypeError, RecursionError, json.JSONDecodeError):
        raise ValueError(wrong) from None
    return offsets


def _offset(text: str) -> int:
    """Parse a number in JSON; one with too many digits for an offset is invalid."""
    return int(text) if len(text) <= _LONGEST_NUMBER else _LAST_OFFSET + 1


def _time(text: str) -> float:
    """Parse milliseconds since 1970, as Kafka has them, or ISO 8601, in UTC unless it has an offset."""
    if text.isascii() and text.isdecimal():
        if len(text) > _LONGEST_NUMBER or int(text) > _LAST_MILLISECOND:
            raise ValueError("must be milliseconds since 1970-01-01 UTC, before the year 10000")
        return int(text) / 1000
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be milliseconds since 1970-01-01 UTC, or a time in ISO 8601") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _bytes(text: str) -> int:
    """Parse a size in the form of Spark's settings, such as C{64m}."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise ValueError("must be bytes, at least 1, or a number with a unit such as 512k, 64m or 1g")
    return int(found[1]) << _SHIFTS[found[2]]


def _decode(text: str) -> str:
    if not re.fullmatch("[a-z]+", text):
        raise ValueError("must be none, auto, or the name of a format")
    return text


def _schema(text: str) -> str:
    if not text.strip():
        raise ValueError("must be infer, or fields such as id BIGINT, lines ARRAY<STRUCT<sku: STRING>>")
    if text.strip() != INFER:
        check_fields(text)
    return text.strip()


_SPELLED: Final[Spelled] = {
    "path": ("path", str),
    "dsn": ("dsn", str),
    "stream": ("stream", _stream),
    "subscribe": ("topics", _names),
    "subscribePattern": ("pattern", _pattern),
    "startingOffsets": ("starting", _offsets),
    "endingOffsets": ("ending", _offsets),
    "startingTimestamp": ("since", _time),
    "endingTimestamp": ("until", _time),
    "maxOffsetsPerTrigger": ("per_trigger", whole_number),
    "maxBytesPerTrigger": ("bytes_per_trigger", _bytes),
    "minOffsetsPerTrigger": ("at_least", whole_number),
    "maxTriggerDelay": ("delay", duration),
    "pushDownFilters": ("push_down", switch),
    "minPartitions": ("partitions", whole_number),
    "failOnDataLoss": ("fail_on_data_loss", switch),
    "includeHeaders": ("headers", switch),
    "columns": ("columns", _names),
    "decode": ("decode", _decode),
    "decodeSchema": ("decode_schema", _schema),
    "store": ("store", str),
    "archivePlan": ("plan", str),
}
