"""Failures in clusters: by class, destination, and the exception that the receiver reported.

A dead-letter queue has messages that could not be delivered or were not received in time.
NServiceBus and Rebus move failed messages to an error queue, with the reason in their headers.
Others send the exception itself: an object of .NET, or the fault of a service of WCF.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.spark.jobs.estate import ARRIVED, DEAD

EXCEPTION_TYPES: Final = ("NServiceBus.ExceptionInfo.ExceptionType",)
EXCEPTION_TEXTS: Final = ("NServiceBus.ExceptionInfo.Message", "rbs2-error-details")
"""The headers about an exception; the first one present is used."""

_EXCEPTION: Final = ("nrbf", "$.value.ClassName", "$.value.Message")
_FAULTS: Final = (
    ("wcf", "$.value.Envelope.Body.Fault.Code.Value", "$.value.Envelope.Body.Fault.Reason.Text.#text"),
    ("wcf", "$.value.Envelope.Body.Fault.faultcode", "$.value.Envelope.Body.Fault.faultstring"),
)
_BODIES: Final = (_EXCEPTION, *_FAULTS)
"""Bodies that are exceptions: their format, and the paths of the type and the text in the decoded body."""

CLUSTER: Final = ("class_name", "destination", "exception", "pattern")
"""The columns that identify a cluster."""

_LONGEST: Final = 200
_GUID: Final = r"\{?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}?"


def failures(messages: DataFrame) -> DataFrame:
    """Failed messages, each with its exception, if it has one.

    The columns are C{store}, C{place}, C{queue}, C{id}, C{source}, C{sent}, C{arrived}, and those of the
    cluster: C{class_name} (null for a message that a receiver could not handle), C{destination}, C{exception}
    (its type) and C{pattern} (the first line of its message without the numbers, identifiers and quoted
    texts in it).
    """
    dead = F.col("place").isin(*DEAD)
    kind = F.coalesce(_header(*EXCEPTION_TYPES), *(_decoded(form, path) for form, path, _ in _BODIES))
    text = F.coalesce(_header(*EXCEPTION_TEXTS), *(_decoded(form, path) for form, _, path in _BODIES))
    first_line = F.regexp_extract(text, r"^\s*([^\r\n]*)", 1)
    # Rebus writes "3 unhandled exceptions: ...", or the text of an exception, which begins with its type.
    typed = F.regexp_extract(first_line, r"^([A-Za-z_][\w.+`]*(?:Exception|Error))\b:?", 1)
    return (
        messages.where(dead | F.col("place").isin(*ARRIVED))
        .select(
            *("store", "place", "queue", "id", "source", "sent", "arrived"),
            F.when(dead, F.col("class_name")).alias("class_name"),
            "destination",
            F.substring(F.coalesce(F.nullif(kind, F.lit("")), F.nullif(typed, F.lit(""))), 1, _LONGEST).alias(
                "exception"
            ),
            F.nullif(pattern(first_line), F.lit("")).alias("pattern"),
        )
        .where("class_name IS NOT NULL OR exception IS NOT NULL OR pattern IS NOT NULL")
    )


def clusters(failures: DataFrame) -> DataFrame:
    """Counts of failed messages by cluster.

    In addition to the columns of the cluster: C{messages} (each counted once, in however many queues it is),
    C{stores}, C{first} and C{last} (when they were sent) and C{example}, the identifier of one.
    """
    return failures.groupBy(*CLUSTER).agg(
        F.count_distinct("id").alias("messages"),
        F.count_distinct("store").alias("stores"),
        F.min("sent").alias("first"),
        F.max("sent").alias("last"),
        F.min("id").alias("example"),
    )


def pattern(text: Column) -> Column:
    """The common part of texts that differ only in numbers, identifiers and quoted names."""
    common = F.regexp_replace(text, _GUID, "<id>")
    common = F.regexp_replace(common, r"'[^']*'|\"[^\"]*\"", "<text>")
    common = F.regexp_replace(common, r"\d+", "<number>")
    return F.substring(F.trim(common), 1, _LONGEST)


def _header(*names: str) -> Column:
    """The first of these headers that is present, as text."""
    return F.coalesce(*(_value(name) for name in names))


def _decoded(form: str, path: str) -> Column:
    """The value at a path in a body of this format."""
    is_such = F.get_json_object("decoded", "$.format") == form
    return F.when(is_such, F.get_json_object("decoded", path))


def _value(name: str) -> Column:
    found = F.filter("headers", lambda header: header["key"] == name)
    return F.get(found, F.lit(0))["value"].cast("string")
