"""Command of the job C{deadletters}: clusters of dead letters."""

from __future__ import annotations

from pyspark.sql import functions as F

from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import time_text
from msmq.pipeline.spark.inputs import JobInput
from msmq.pipeline.spark.jobs.deadletters import clusters, failures
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, shown

_HOUR = 3600 * 1_000_000


def _run(setting: JobContext) -> JobOutcome:
    failed = setting.cached(failures(setting.estate.messages))
    alike = setting.cached(clusters(failed))
    largest = alike.orderBy(F.desc("messages"), "class_name", "destination", "exception", "pattern")
    top = largest.take(8)
    count = failed.select("id").distinct().count()
    verdict = f"{count:,} messages failed, in {alike.count():,} clusters"
    if top:
        verdict += (
            f"; the largest has {top[0]['messages']:,}: {top[0]['class_name'] or top[0]['exception'] or '-'}"
        )
    hours = (
        failed.where("sent IS NOT NULL")
        .groupBy((F.floor(F.col("sent") / _HOUR) * _HOUR).alias("hour"))
        .agg(F.count_distinct("id").alias("messages"))
        .orderBy("hour")
        .collect()
    )
    report = JobReport(
        "What failed",
        verdict,
        setting.facts,
        [
            Section(
                "Clusters",
                tables=[
                    shown(
                        "The largest first",
                        largest,
                        {
                            "messages": "messages",
                            "class_name": "class",
                            "destination": "to",
                            "exception": "exception",
                            "pattern": "message",
                            "first": "first sent",
                            "last": "last sent",
                            "example": "example",
                        },
                        convert={"first": time_text, "last": time_text},
                    )
                ],
                plots=[
                    Plot(
                        "The largest clusters",
                        "bars",
                        [
                            Series(
                                "messages",
                                [
                                    f"{number}. {row['exception'] or row['class_name'] or row['pattern']}"
                                    for number, row in enumerate(top, 1)
                                ],
                                [row["messages"] for row in top],
                            )
                        ],
                    ),
                    Plot(
                        "Send times of the failed messages",
                        "lines",
                        [
                            Series(
                                "messages",
                                [row["hour"] for row in hours],
                                [row["messages"] for row in hours],
                            )
                        ],
                        "hour, UTC",
                        is_timed=True,
                    ),
                ],
            )
        ],
    )
    return JobOutcome(report, {"failures": failed, "clusters": alike})


JOB = Job(
    "deadletters",
    "failed messages, by class, destination and exception",
    _run,
    lambda _: JobInput(
        ("queue", "log", "journal", "dead_letter", "dead_letter_transactional"), headers=True, decode="auto"
    ),
)
