"""The job C{quota}."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.option_text import whole_number
from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import time_text
from msmq.pipeline.spark.inputs import JobInput
from msmq.pipeline.spark.jobs.estate import JOURNAL, QUEUE
from msmq.pipeline.spark.jobs.quota import HOUR, QUOTAS, forecast, growth
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, shown
from msmq.quoting import quoted

_DRAWN = 6
_KILOBYTE = 1024


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--quota",
        action="append",
        default=[],
        type=_quota,
        metavar="PATH=KB",
        help=r"the quota of a queue or, as PATH;journal=KB, of its journal; may be repeated",
    )
    parser.add_argument(
        "--queues",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="quotas as `msmq queue list --json` prints them, of the input NAME or of all",
    )
    parser.add_argument(
        "--step", type=_step, default=HOUR, metavar="S", help="the length of a step in seconds; an hour"
    )


def _quota(text: str) -> tuple[str, int]:
    path, _, kilobytes = text.rpartition("=")
    if not path or not re.fullmatch("[0-9]{1,10}", kilobytes):
        raise ArgumentTypeError(f"{quoted(text[:100])} is not PATH=KB, KB a number of at most ten digits")
    return path, int(kilobytes)


def _step(text: str) -> int:
    try:
        return whole_number(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{error}, in seconds") from None


Quota = tuple[str | None, str, str, int | None, int | None]


def quotas_of(text: str) -> list[Quota]:
    """The quotas in a file that C{msmq queue list --json} wrote.

    @raise ReadingError: it is no such file.
    """
    name, found, path = text.partition("=")
    store, file = (name, path) if found and "/" not in name else (None, text)
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ReadingError(f"the queues {file} cannot be read: {error}") from None
    quotas: list[Quota] = []
    for number, line in enumerate(lines, 1):
        try:
            quotas += _of_queue(store, json.loads(line))
        except (ValueError, TypeError, KeyError):
            raise ReadingError(
                f"{file}:{number} is not a queue as `msmq queue list --json` prints it"
            ) from None
    return quotas


def _of_queue(store: str | None, queue: dict[str, Any]) -> Iterator[Quota]:
    for place, prefix in ((QUEUE, ""), (JOURNAL, "journal_")):
        quota = queue[f"{prefix}quota"]
        limit = None if quota is None else int(quota) * _KILOBYTE
        yield store, str(queue["path"]), place, limit, int(queue[f"{prefix}bytes"])


def _run(setting: JobContext) -> JobOutcome:
    options = setting.options
    quotas: dict[tuple[str | None, str, str], Quota] = {}
    for text in options.queues:
        quotas.update({(one[0], one[1].lower(), one[2]): one for one in quotas_of(text)})
    for path, kilobytes in options.quota:
        queue, suffix, _ = path.partition(";journal")
        place = JOURNAL if suffix else QUEUE
        quotas[None, queue.lower(), place] = (None, queue, place, kilobytes * _KILOBYTE, None)
    grown = growth(setting.estate.messages, options.step).cache()
    told = forecast(grown, setting.spark.createDataFrame(list(quotas.values()), QUOTAS)).cache()
    largest = told.orderBy(F.desc("bytes"), "store", "queue", "place")
    soon = told.where("full_at IS NOT NULL").orderBy("full_at", "store", "queue").first()
    verdict = f"{told.count():,} queues, journals and logs hold messages"
    if soon is not None:
        verdict += (
            f"; {soon['queue']} ({soon['place']}) at {soon['store']} is full at {time_text(soon['full_at'])}"
        )
    elif quotas:
        verdict += "; none of those that have a quota will be full"
    curves = []
    for row in largest.take(_DRAWN):
        same = (
            (F.col("store") == row["store"])
            & (F.col("queue") == row["queue"])
            & (F.col("place") == row["place"])
        )
        steps = grown.where(same).orderBy("since").collect()
        curves.append(
            Series(
                f"{row['store']} {row['queue']} {row['place']}",
                [step["since"] for step in steps],
                [step["bytes_so_far"] / _KILOBYTE for step in steps],
            )
        )
    report = JobReport(
        "How queues fill",
        verdict,
        setting.facts,
        [
            Section(
                "Growth",
                "Messages have their arrival times. Sizes are those of whole packets, which count to a"
                " quota; in a message log is also what was received since.",
                tables=[
                    shown(
                        "The largest first",
                        largest,
                        {
                            "store": "at",
                            "queue": "queue",
                            "place": "place",
                            "messages": "messages",
                            "bytes": "bytes",
                            "messages_an_hour": "messages/h",
                            "bytes_an_hour": "bytes/h",
                            "quota": "quota",
                            "held": "held",
                            "full_at": "full at",
                        },
                        convert={"full_at": time_text},
                    )
                ],
                plots=[Plot("What lies there", "lines", curves, "UTC", "kilobytes", is_timed=True)],
            )
        ],
    )
    return JobOutcome(report, {"growth": grown, "forecast": told})


JOB = Job(
    "quota",
    "how queues, journals and logs grow, and when they are full",
    _run,
    lambda _: JobInput(
        ("queue", "log", "journal", "source_journal", "dead_letter", "dead_letter_transactional"),
        ("packet",),
    ),
    _add_options,
)
