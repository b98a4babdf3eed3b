"""Command of the job C{sla}: whether service levels are kept."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import Final

from msmq.pipeline.reading.queue_quotas import queue_quotas
from msmq.pipeline.reports import JobReport, Section, Table
from msmq.pipeline.reports.model import Cell
from msmq.pipeline.spark.inputs import EVENTS_STREAM, JobInput, read_erased_identifiers
from msmq.pipeline.spark.jobs.latency import bounds, delays, skews
from msmq.pipeline.spark.jobs.loss import fates
from msmq.pipeline.spark.jobs.sla import (
    AGE,
    COUNTS,
    EXCEEDED,
    LATENCIES,
    UNKNOWN,
    VERDICTS,
    Judgement,
    Limit,
    judged,
    trusted,
)
from msmq.pipeline.spark.running import job as jobs
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome
from msmq.pipeline.spark.running.loss import archive_note, within
from msmq.pipeline.spark.running.times import add_times, time_of
from msmq.quoting import quoted

_STREAMS: Final = (
    *("queue", "log", "journal", "source_journal", "dead_letter", "dead_letter_transactional"),
    EVENTS_STREAM,
)
_NAMES: Final = (*LATENCIES, AGE, *COUNTS)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        action="append",
        required=True,
        type=limit_of,
        metavar="[QUEUE:]NAME=VALUE",
        help="a limit, for all queues or one: p50, p90, p99, max and age in seconds, or a number of messages:"
        f" {', '.join(COUNTS)}; may be repeated",
    )
    parser.add_argument(
        "--trust-clocks", action="store_true", help="the clocks of all machines agree, as with NTP"
    )
    parser.add_argument(
        "--at", type=time_of, metavar="TIME", help="the time to which ages are computed; now by default"
    )
    add_times(parser, "what was sent")


def limit_of(text: str) -> Limit:
    """Parse C{--limit}.

    @raise ArgumentTypeError: it is not a limit.
    """
    what, _, number = text.rpartition("=")
    queue, _, name = what.rpartition(":")
    if name not in _NAMES:
        raise ArgumentTypeError(
            f"{quoted(text[:100])} is not [QUEUE:]NAME=VALUE, NAME one of {', '.join(_NAMES)}"
        )
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (0 <= value < math.inf) or (name in COUNTS and value != int(value)):
        kind = "a whole number" if name in COUNTS else "a number"
        raise ArgumentTypeError(f"{quoted(text[:100])}: the value of {name} is {kind} of at least 0")
    return Limit(queue, name, value)


def _run(setting: JobContext) -> JobOutcome:
    options, estate = setting.options, setting.estate
    erased = read_erased_identifiers(setting.spark, setting.inputs)
    every = setting.cached(
        within(fates(estate.messages, estate.events, erased), options.since, options.until)
    )
    delayed = setting.cached(within(delays(estate.messages, estate.owners), options.since, options.until))
    bounded = trusted(delayed) if options.trust_clocks else bounds(delayed, skews(delayed))
    now = round(time.time() * 1_000_000) if options.at is None else options.at
    stores = [one for one in setting.inputs if not one.is_parquet and not one.is_capture]
    # A queue without messages is in no row.
    has_named = any(one.name == AGE and one.queue for one in options.limit)
    found = judged(
        options.limit,
        every,
        setting.cached(bounded),
        estate.messages,
        now,
        stores={one.name for one in stores},
        queues={path for one in stores if has_named for path, _, _ in queue_quotas(one.location)},
    )
    count = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    listed = ", ".join(f"{count[verdict]:,} {verdict}" for verdict in VERDICTS if count[verdict])
    rows = [_row(one) for one in sorted(found, key=lambda one: VERDICTS.index(one.verdict))]
    columns = ("limit", "queue", "at most", "verdict", "measured at least", "measured at most", "messages")
    report = JobReport(
        "Service levels",
        f"{len(found):,} limits: {listed}{archive_note(setting.inputs)}",
        setting.facts,
        [
            Section(
                "Limits",
                "A limit is unknown if the input does not decide it: there is no message, no queue for an"
                " age, or the clocks of two machines leave room for both.",
                tables=[Table("The exceeded first", columns, rows)],
            )
        ],
    )
    table = setting.spark.createDataFrame(
        [(*_row(one)[:4], one.at_least, one.at_most, one.messages) for one in found],
        "name STRING, queue STRING, value DOUBLE, verdict STRING, at_least DOUBLE, at_most DOUBLE,"
        " messages BIGINT",
    )
    status = jobs.EXCEEDED if count[EXCEEDED] else jobs.UNDECIDED if count[UNKNOWN] else 0
    return JobOutcome(report, {"limits": table}, status=status)


def _row(one: Judgement) -> list[Cell]:
    return [
        one.limit.name,
        one.limit.queue or None,
        one.limit.value,
        one.verdict,
        one.at_least,
        one.at_most,
        one.messages,
    ]


JOB = Job(
    "sla",
    "whether limits on latency, losses and age are kept; exit status 3 if not",
    _run,
    lambda _: JobInput(_STREAMS),
    _add_options,
)
