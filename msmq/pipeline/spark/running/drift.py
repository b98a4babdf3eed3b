"""Command of the job C{drift}: bodies that change their shape."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from pyspark.sql import functions as F

from msmq.pipeline.reading.option_text import whole_number
from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import time_text
from msmq.pipeline.spark.inputs import JobInput
from msmq.pipeline.spark.jobs.drift import KINDS, SETTLED, changes, numbered, paths
from msmq.pipeline.spark.running.job import EXCEEDED, Job, JobContext, JobOutcome, QueueManagerNames, shown


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--settled",
        type=_settled,
        default=SETTLED,
        metavar="N",
        help=f"messages that a producer sends before a change counts, and without a removed field; {SETTLED}",
    )
    parser.add_argument(
        "--decode", default="auto", metavar="FORMAT", help="the format of the bodies; auto by default"
    )
    parser.add_argument("--strict", action="store_true", help="exit status 3 if a body has changed its shape")


def _settled(text: str) -> int:
    try:
        return whole_number(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _run(setting: JobContext) -> JobOutcome:
    each = setting.cached(numbered(setting.estate.messages))
    found = setting.cached(changes(each, paths(each), setting.options.settled))
    names = QueueManagerNames.of(setting)
    of_kind = {row["change"]: row["count"] for row in found.groupBy("change").count().collect()}
    producers = each.groupBy("store", "queue", "source").agg(
        F.count("*").alias("messages"), F.count("decoded").alias("decoded")
    )
    count, bodies, readable = producers.agg(
        F.count("*"), F.coalesce(F.sum("messages"), F.lit(0)), F.coalesce(F.sum("decoded"), F.lit(0))
    ).collect()[0]
    total = sum(of_kind.values())
    listed = ", ".join(f"{of_kind[kind]:,} {kind}" for kind in KINDS if kind in of_kind)
    verdict = f"{count:,} producers, {bodies:,} messages, of which {readable:,} could be decoded: "
    if total:
        verdict += f"{total:,} changes ({listed})"
    elif readable:
        verdict += f"no change after {setting.options.settled} messages"
    else:
        verdict += "nothing to compare"
    report = JobReport(
        "Shapes of bodies",
        verdict,
        setting.facts,
        [
            Section(
                "Changes",
                "A path is a field of the decoded body, with [] for the elements of a list. The message is"
                " the first that has the change, or the last that has a removed field.",
                tables=[
                    shown(
                        "The latest first",
                        found.orderBy(F.desc("arrived"), "queue", "path"),
                        {
                            "change": "change",
                            "path": "path",
                            "kind": "is",
                            "before": "was",
                            "source": "from",
                            "store": "at",
                            "queue": "queue",
                            "arrived": "arrived",
                            "id": "message",
                        },
                        convert={"source": names, "arrived": time_text},
                    )
                ],
                plots=[
                    Plot(
                        "Changes",
                        "bars",
                        [
                            Series(
                                "changes",
                                [kind for kind in KINDS if kind in of_kind],
                                [of_kind[kind] for kind in KINDS if kind in of_kind],
                            )
                        ],
                    )
                ],
            ),
            Section(
                "Producers",
                tables=[
                    shown(
                        "By number of messages",
                        producers.orderBy(F.desc("messages"), "store", "queue", "source"),
                        {
                            "source": "from",
                            "store": "at",
                            "queue": "queue",
                            "messages": "messages",
                            "decoded": "decoded",
                        },
                        convert={"source": names},
                    )
                ],
            ),
        ],
    )
    status = EXCEEDED if total and setting.options.strict else 0
    return JobOutcome(report, {"changes": found, "producers": producers}, status=status)


JOB = Job(
    "drift",
    "when the bodies of a producer change their shape",
    _run,
    lambda options: JobInput(("queue", "log", "journal"), decode=options.decode),
    _add_options,
)
