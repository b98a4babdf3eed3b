"""Record format of the pipeline: columns and types of messages and events.

The data source, exported files and the jobs all have these columns, under these names and in this order.
The names of the first seven are Kafka's, the others are the keys of a message in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    import pyarrow

VERSION: Final = 1
"""Version of the record format; it increases when a column changes its meaning or is removed."""
VERSION_KEY: Final = b"msmq.record_format"
"""The metadata key of the version in a schema of Arrow, and so in a Parquet file."""

BINARY: Final = "BINARY"
BOOLEAN: Final = "BOOLEAN"
INT: Final = "INT"
BIGINT: Final = "BIGINT"
STRING: Final = "STRING"
TIMESTAMP: Final = "TIMESTAMP"
STRINGS: Final = "ARRAY<STRING>"
HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
TRANSACTION: Final = (
    "STRUCT<sequence_id: BIGINT, sequence_number: BIGINT, previous: BIGINT, first: BOOLEAN, last: BOOLEAN>"
)


@attrs.frozen
class Column:
    """One column.

    @ivar type: as Spark writes it in a schema: C{BIGINT}, C{TIMESTAMP} (microseconds, UTC) and so on.
    @ivar nullable: whether it may be null in a row of a valid packet, or of an event; a malformed packet has
        only the columns of L{KNOWN_OF_DAMAGED}.
    @ivar meaning: its content, and when it is null.
    """

    name: str
    type: str
    meaning: str
    nullable: bool = False


_KAFKA: Final = (
    Column("value", BINARY, "the body, unchanged; of a damaged packet all of its bytes"),
    Column("topic", STRING, r"the path of the queue, as .\private$\orders; events; wire"),
    Column("partition", INT, "always 0: a queue has one log"),
    Column(
        "offset",
        BIGINT,
        "the sequence number in the message log or event log; of a message in a queue, its"
        " lookup_id without the priority, which rises with each arrival; in a capture, the position of the"
        " packet",
    ),
    Column(
        "timestamp",
        TIMESTAMP,
        "when it arrived in the queue, happened, or was captured; null if a capture has no time",
        nullable=True,
    ),
    Column("timestampType", INT, "1 where the queue manager stamped the time, 0 in a capture"),
    Column(
        "headers", HEADERS, "the headers in the extension, if includeHeaders asks for them", nullable=True
    ),
)

MESSAGE_COLUMNS: Final = (
    *_KAFKA,
    Column("id", STRING, r"{guid}\number, the same wherever the message is"),
    Column("lookup_id", BIGINT, "LookupIdentifier in the queue; null in a capture", nullable=True),
    Column("label", STRING, "as Unicode; invalid characters are left out"),
    Column("body", STRING, "the body, if it is UTF-8 without control characters", nullable=True),
    Column("body_base64", STRING, "the body otherwise", nullable=True),
    Column("body_size", BIGINT, "bytes of the body"),
    Column("body_type", BIGINT, "BodyType"),
    Column("priority", INT, "0 to 7"),
    Column("class", INT, "MessageClass"),
    Column("class_name", STRING, "its name, as MQMSG_CLASS_NORMAL"),
    Column("delivery", STRING, "express or recoverable"),
    Column("transactional", BOOLEAN, "whether it was sent in a transaction"),
    Column("sent_time", TIMESTAMP, "by the clock of the sender, whole seconds"),
    Column("arrived_time", TIMESTAMP, "when it arrived in the queue; null in a capture", nullable=True),
    Column("source_queue_manager", STRING, "GUID of the first sender"),
    Column("destination_queue", STRING, "format name of the queue that it was sent to", nullable=True),
    Column("admin_queue", STRING, "format name of the queue for acknowledgements", nullable=True),
    Column("response_queue", STRING, "format name of the queue for answers", nullable=True),
    Column("correlation_id", STRING, r"{guid}\number; of an acknowledgement, the message that it is about"),
    Column("application_tag", BIGINT, "ApplicationTag"),
    Column("hops", INT, "how many routing servers it passed"),
    Column("journal", BOOLEAN, "whether the sender keeps a copy of a delivered message"),
    Column(
        "dead_letter", BOOLEAN, "whether the sender keeps a copy of a message that could not be delivered"
    ),
    Column(
        "dead_letter_queue",
        STRING,
        "the sender's queue for messages that could not be delivered",
        nullable=True,
    ),
    Column("acknowledge", STRINGS, "which acknowledgements were requested"),
    Column("extension_base64", STRING, "the extension in base64"),
    Column("authenticated", BOOLEAN, "whether the queue manager authenticated it"),
    Column("sender_id", STRING, "SID or GUID of the sender", nullable=True),
    Column("transaction", TRANSACTION, "its number in its sequence, if it is transactional", nullable=True),
    Column("time_to_reach_queue", BIGINT, "seconds; null without a limit", nullable=True),
    Column("time_to_be_received", BIGINT, "seconds; null without a limit", nullable=True),
    Column("abort_count", BIGINT, "AbortCount; null in a message log and a capture", nullable=True),
    Column("move_count", BIGINT, "MoveCount; null in a message log and a capture", nullable=True),
    Column("decoded", STRING, "the body as JSON, if decode asks for it and it could be read", nullable=True),
    Column("decode_error", STRING, "why the packet, or else the body, could not be read", nullable=True),
)
"""The columns of a message."""

PACKET_COLUMN: Final = Column(
    "packet", BINARY, "the packet as it is stored, from which everything else was read"
)
"""The additional columns of a message in an exported file, which an import needs."""

EXPORTED_COLUMNS: Final = (*MESSAGE_COLUMNS, PACKET_COLUMN)
"""The columns of a message in an exported file."""

EVENT_COLUMNS: Final = (
    attrs.evolve(_KAFKA[0], meaning="the event as a JSON object, in UTF-8"),
    *_KAFKA[1:],
    Column("id", STRING, "the message whose event it is; null for one of the queue manager", nullable=True),
    Column("event", STRING, "the kind of the event, such as expired"),
    Column("reason", STRING, "the reason, as text"),
    Column(
        "class", INT, "the message class that reports it on the wire; null if there is none", nullable=True
    ),
    Column("class_name", STRING, "its name", nullable=True),
    Column("queue", STRING, "path or format name of the queue, if it is about one", nullable=True),
)
"""The columns of an event."""

KNOWN_OF_DAMAGED: Final = (
    *("value", "topic", "partition", "offset", "timestamp", "timestampType", "lookup_id", "arrived_time"),
    *("abort_count", "move_count", "decode_error", "packet"),
)
"""The columns of a malformed packet; all others are null."""


def names_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """The names of these columns."""
    return tuple(column.name for column in columns)


def is_always_known(column: Column, columns: Sequence[Column]) -> bool:
    """Whether a column of these is not null in any row, also not in that of a malformed packet."""
    has_damaged = any(each.name == "decode_error" for each in columns)
    return not column.nullable and (column.name in KNOWN_OF_DAMAGED or not has_damaged)


def spark_schema(columns: Sequence[Column], *, of: Sequence[Column]) -> str:
    """The schema of some columns as DDL text for Spark, with nullability and comments.

    @param of: all columns of the rows.
    """
    return ", ".join(
        f"`{column.name}` {column.type}{' NOT NULL' if is_always_known(column, of) else ''}"
        f" COMMENT {_literal(column.meaning)}"
        for column in columns
    )


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def columns_of(stream: str) -> Sequence[Column]:
    """The columns of the rows of a stream."""
    return EVENT_COLUMNS if stream == "events" else EXPORTED_COLUMNS


def arrow_type(type_: str) -> pyarrow.DataType:
    """The type in Arrow of a L{Column.type}."""
    import pyarrow

    types = {
        BINARY: pyarrow.binary(),
        BOOLEAN: pyarrow.bool_(),
        INT: pyarrow.int32(),
        BIGINT: pyarrow.int64(),
        STRING: pyarrow.string(),
        TIMESTAMP: pyarrow.timestamp("us", tz="UTC"),
        STRINGS: pyarrow.list_(pyarrow.string()),
        HEADERS: pyarrow.list_(
            pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]),
        ),
        TRANSACTION: pyarrow.struct(
            [
                ("sequence_id", pyarrow.int64()),
                ("sequence_number", pyarrow.int64()),
                ("previous", pyarrow.int64()),
                ("first", pyarrow.bool_()),
                ("last", pyarrow.bool_()),
            ]
        ),
    }
    return types[type_]


def arrow_schema(columns: Sequence[Column]) -> pyarrow.Schema:
    """The schema in Arrow, with the version of the record format."""
    import pyarrow

    return pyarrow.schema(
        [pyarrow.field(column.name, arrow_type(column.type)) for column in columns],
        metadata={VERSION_KEY: str(VERSION).encode()},
    )
