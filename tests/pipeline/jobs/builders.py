"""Rows of messages and events as the jobs read them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from msmq.pipeline.spark.jobs.estate import EVENTS, MESSAGES, NO_CORRELATION
from msmq.structures.packet.message_class import class_name
from tests.pipeline.local_spark import table

SOURCE = "A1FA0000-0000-4000-8000-000000000001"
TARGET = r"DIRECT=OS:beta\private$\orders"
QUEUE = r".\private$\orders"
SECOND = 1_000_000
SENT = 1_700_000_000 * SECOND

Row = dict[str, Any]


def name_of(number: int, source: str = SOURCE) -> str:
    """The identifier of a message."""
    return f"{{{source}}}\\{number}"


def message(number: int, place: str, **facts: Any) -> Row:
    """A message of ALPHA for BETA, found at one of them."""
    is_sent = place in ("source_journal", "dead_letter", "dead_letter_transactional")
    row: Row = {
        "store": "ALPHA" if is_sent else "BETA",
        "place": place,
        "queue": r".\system$" if is_sent else QUEUE,
        "position": number,
        "id": name_of(number),
        "class": 0,
        "label": "",
        "priority": 3,
        "source": SOURCE,
        "destination": TARGET,
        "correlation_id": NO_CORRELATION,
        "hops": 0,
        "sent": SENT,
        "arrived": SENT + SECOND,
        "size": 0,
        "body": b"",
        **facts,
    }
    return {"class_name": class_name(row["class"]), **row}


def event(number: int, what: str, **facts: Any) -> Row:
    """An event of a message of ALPHA."""
    row = {"store": "BETA", "id": name_of(number), "event": what, "reason": "", "time": SENT}
    return {**row, "class": 0, "queue": None, **facts}


def messages(*rows: Row) -> DataFrame:
    """The table of messages."""
    return table(rows, MESSAGES)


def events(*rows: Row) -> DataFrame:
    """The table of events."""
    return table(rows, EVENTS)
