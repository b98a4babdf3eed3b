"""Read options of the data source, with the names of Spark's Kafka source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

import attrs

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.option_text import Spelled, parse_options, switch, whole_number

Start: TypeAlias = str | Mapping[str, int]
"""C{earliest} or C{latest}, or offsets by topic, where -1 is the latest and -2 the earliest."""

_Value = TypeVar("_Value")

_LONGEST_NUMBER: Final = 30
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


@attrs.frozen
class ReadOptions:
    """Read options.

    @ivar path: a data directory, a store's file, exported files, packets or captures; empty with C{dsn}.
    @ivar dsn: C{postgresql://...}.
    @ivar stream: one of L{STREAMS}; empty for all streams in files.
    @ivar topics: the queues of C{subscribe}; all queues if it is empty and there is no C{pattern}.
    @ivar pattern: full-match pattern of topics, C{subscribePattern}.
    @ivar since: lower time limit, seconds since 1970-01-01 UTC.
    @ivar per_trigger: maximum number of rows per streaming batch.
    @ivar partitions: minimum number of parallel partitions.
    @ivar columns: the requested columns; empty for all.
    @ivar decode: the body decoder, or C{none}.
    """

    path: str = ""
    dsn: str = ""
    stream: str = ""
    topics: tuple[str, ...] = ()
    pattern: str = ""
    starting: Start | None = None
    ending: Start | None = None
    since: float | None = None
    per_trigger: int | None = None
    partitions: int = 1
    fail_on_data_loss: bool = True
    headers: bool = False
    columns: tuple[str, ...] = ()
    decode: str = "none"

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


def _decode(text: str) -> str:
    if not re.fullmatch("[a-z]+", text):
        raise ValueError("must be none, auto, or the name of a format")
    return text


_SPELLED: Final[Spelled] = {
    "path": ("path", str),
    "dsn": ("dsn", str),
    "stream": ("stream", _stream),
    "subscribe": ("topics", _names),
    "subscribePattern": ("pattern", _pattern),
    "startingOffsets": ("starting", _offsets),
    "endingOffsets": ("ending", _offsets),
    "startingTimestamp": ("since", _time),
    "maxOffsetsPerTrigger": ("per_trigger", whole_number),
    "minPartitions": ("partitions", whole_number),
    "failOnDataLoss": ("fail_on_data_loss", switch),
    "includeHeaders": ("headers", switch),
    "columns": ("columns", _names),
    "decode": ("decode", _decode),
}
