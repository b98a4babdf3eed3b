"""Checks of an archive as plain views of SQL, for DuckDB, dbt, Great Expectations and Spark.

A view C{check_NAME} has the rows that break an expectation; none means that it holds.
"""

from __future__ import annotations

from typing import Final

import attrs

from msmq.pipeline.archive.erased import COLUMNS
from msmq.pipeline.archive.manifest import ERASED
from msmq.pipeline.files.path_patterns import duckdb_pattern, spark_pattern

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
DIALECTS: Final = (DUCKDB, SPARK)

EVENTS_DDL: Final = (
    ("value", "BINARY"),
    ("topic", "STRING"),
    ("offset", "BIGINT"),
    ("timestamp", "TIMESTAMP"),
    ("id", "STRING"),
    ("event", "STRING"),
    ("reason", "STRING"),
    ("class", "INT"),
    ("class_name", "STRING"),
    ("queue", "STRING"),
)
"""The columns of the view of events where an archive has none yet."""


@attrs.frozen
class Check:
    """One expectation.

    @ivar meaning: what the rows of its view are.
    @ivar query: the query of the view, over C{messages}, C{events} and C{erased} (the numbers of erased
        transactional messages), in SQL that all dialects have.
    """

    name: str
    meaning: str
    query: str

    @property
    def view(self) -> str:
        """The name of its view."""
        return f"check_{self.name}"


CHECKS: Final = (
    Check(
        "offset_twice",
        "rows whose queue has another row with the same offset",
        'SELECT stream, topic, "offset", count(*) AS copies FROM messages'
        ' GROUP BY stream, topic, "offset", lookup_id, "timestamp" HAVING count(*) > 1',
    ),
    Check(
        "arrived_twice",
        "messages that are in the message log of one queue more than once",
        "SELECT topic, id, count(*) AS copies FROM messages WHERE stream = 'log' AND id IS NOT NULL"
        " GROUP BY topic, id HAVING count(*) > 1",
    ),
    Check(
        "damaged_packet",
        "packets that cannot be parsed",
        'SELECT stream, topic, "offset", decode_error FROM messages WHERE id IS NULL',
    ),
    Check(
        "sequence_gap",
        "transactional messages whose predecessor is not in the log of their queue and was not erased, except"
        " the first",
        "SELECT topic, id, sequence_number, previous FROM ("
        "SELECT topic, id, sequence_number, previous,"
        " lag(sequence_number) OVER (PARTITION BY topic, source_queue_manager, sequence_id"
        ' ORDER BY sequence_number, "offset") AS found FROM ('
        'SELECT topic, "offset", id, source_queue_manager, transaction.sequence_id AS sequence_id,'
        " transaction.sequence_number AS sequence_number, transaction.previous AS previous"
        " FROM messages WHERE stream = 'log' AND transaction IS NOT NULL"
        # Only between the rows of the log: before them rows have expired, and after them some are fresh.
        ' UNION ALL SELECT erased.topic, erased."offset", NULL AS id, erased.source_queue_manager,'
        " erased.sequence_id, erased.sequence_number, erased.previous FROM erased"
        ' JOIN (SELECT topic, min("offset") AS begin_row, max("offset") AS end_row FROM messages'
        " WHERE stream = 'log' GROUP BY topic) AS extent ON erased.topic = extent.topic"
        ' AND erased."offset" > begin_row AND erased."offset" < end_row'
        " LEFT JOIN (SELECT topic, \"offset\" FROM messages WHERE stream = 'log') AS present"
        ' ON erased.topic = present.topic AND erased."offset" = present."offset"'
        " WHERE present.topic IS NULL) AS both_kinds) AS numbered"
        # A message that arrived twice comes after itself.
        " WHERE found IS NOT NULL AND previous <> found AND sequence_number <> found",
    ),
    Check(
        "arrived_before_sent",
        "messages that arrived more than a minute before they were sent: the clocks differ",
        'SELECT topic, id, sent_time, "timestamp" FROM messages'
        " WHERE id IS NOT NULL AND sent_time > \"timestamp\" + INTERVAL '1' MINUTE",
    ),
    Check(
        "clock_set_back",
        "entries of a message log that arrived before their predecessors",
        'SELECT topic, "offset", "timestamp", before FROM (SELECT topic, "offset", "timestamp",'
        ' lag("timestamp") OVER (PARTITION BY topic ORDER BY "offset") AS before'
        " FROM messages WHERE stream = 'log') AS ordered WHERE \"timestamp\" < before",
    ),
    Check(
        "dead_letter",
        "messages in a dead-letter queue",
        'SELECT stream, id, class_name, destination_queue, "timestamp" FROM messages'
        " WHERE stream IN ('dead_letter', 'dead_letter_transactional')",
    ),
    Check(
        "refused",
        "events of messages that were refused",
        'SELECT id, reason, class_name, queue, "timestamp" FROM events'
        " WHERE event IN ('refused', 'rejected', 'failed', 'unencrypted')",
    ),
    Check(
        "removed_unread",
        "events of messages that expired, or were purged or deleted, before they were received",
        'SELECT id, event, reason, queue, "timestamp" FROM events'
        " WHERE event IN ('expired', 'purged', 'deleted')",
    ),
)
"""All checks; names are stable, so that scripts may rely on them."""


def in_dialect(query: str, dialect: str) -> str:
    """A query with quoted names as a dialect has them."""
    return query.replace('"', "`") if dialect == SPARK else query


def views(
    archive: str, dialect: str, *, has_messages: bool, has_events: bool, has_erased: bool = False
) -> str:
    """The statements that create all views over an archive.

    @param archive: the directory of the archive.
    @param has_messages: whether it has finished files of messages; without them all views are empty.
    @param has_events: whether it has finished files of events.
    @param has_erased: whether it has numbers of erased messages.
    """
    statements = [
        f"-- Checks of {archive.splitlines()[0]}: a view check_NAME has the rows that break an expectation.",
        f"{_create('messages', dialect)} {_rows(archive, 'messages', dialect, has_messages)};",
        f"{_create('events', dialect)} {_rows(archive, 'events', dialect, has_events)};",
        f"{_create('erased', dialect)} {_rows(archive, 'erased', dialect, has_erased)};",
    ]
    for check in CHECKS:
        create = _create(check.view, dialect)
        statements += [f"-- {check.meaning}", f"{create} {in_dialect(check.query, dialect)};"]
    return "\n".join((*statements, ""))


def statements_of(script: str) -> list[str]:
    """The statements of a script that L{views} has written."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [line.removesuffix(";") for line in lines if line]


def _create(name: str, dialect: str) -> str:
    # Views of Spark live in a session: its catalogue refuses permanent ones over temporary ones.
    return f"CREATE OR REPLACE {'TEMPORARY ' if dialect == SPARK else ''}VIEW {name} AS"


def _rows(archive: str, kind: str, dialect: str, has_files: bool) -> str:
    if not has_files:
        return _nothing(kind, dialect)
    archive = spark_pattern(archive) if dialect == SPARK else duckdb_pattern(archive)
    if kind == "erased":
        path = f"{archive}/{ERASED}/*.parquet"
        if dialect == SPARK:
            path = path.replace("`", "``")
            return f"SELECT * FROM parquet.`{path}`"
        path = path.replace("'", "''")
        return f"SELECT * FROM read_parquet('{path}')"
    if dialect == SPARK:
        path = f"{archive}/{kind}".replace("`", "``")
        return f"SELECT * FROM parquet.`{path}`"
    path = f"{archive}/{kind}/**/*.parquet".replace("'", "''")
    return f"SELECT * FROM read_parquet('{path}', hive_partitioning = true, union_by_name = true)"


def _nothing(kind: str, dialect: str) -> str:
    columns = {"events": dict(EVENTS_DDL), "erased": dict(COLUMNS)}.get(kind, _MESSAGES)
    types = (
        columns if dialect == SPARK else {name: _DUCKDB.get(type_, type_) for name, type_ in columns.items()}
    )
    selected = ", ".join(f'CAST(NULL AS {type_}) AS "{name}"' for name, type_ in types.items())
    return in_dialect(f"SELECT {selected} WHERE 1 = 0", dialect)


_TRANSACTION: Final = "STRUCT<sequence_id: BIGINT, sequence_number: BIGINT, previous: BIGINT>"
_MESSAGES: Final = {
    "stream": "STRING",
    "topic": "STRING",
    "offset": "BIGINT",
    "lookup_id": "BIGINT",
    "timestamp": "TIMESTAMP",
    "id": "STRING",
    "class_name": "STRING",
    "destination_queue": "STRING",
    "source_queue_manager": "STRING",
    "sent_time": "TIMESTAMP",
    "decode_error": "STRING",
    "transaction": _TRANSACTION,
}
_DUCKDB: Final = {
    "BINARY": "BLOB",
    "STRING": "VARCHAR",
    "TIMESTAMP": "TIMESTAMPTZ",
    _TRANSACTION: "STRUCT(sequence_id BIGINT, sequence_number BIGINT, previous BIGINT)",
}
