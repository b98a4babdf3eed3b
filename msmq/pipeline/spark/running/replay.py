"""Command of the job C{replay}: sends messages of a log again."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from pyspark.sql import functions as F

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.option_text import whole_number
from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.spark.inputs import JobInput, read_rows
from msmq.pipeline.spark.jobs.replay import CHOSEN_BY, CONTENT, addressed, chosen
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, shown
from msmq.pipeline.spark.running.times import add_times
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError

_STREAMS = ("log", "journal", "queue", "source_journal", "dead_letter", "dead_letter_transactional")


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--control",
        required=True,
        metavar="WHERE",
        help="the queue manager that sends: a data directory, a control socket, tcp:... or ssl:...",
    )
    parser.add_argument("--token-file", metavar="FILE", help="the token for tcp: or ssl:")
    parser.add_argument(
        "--into", required=True, metavar="QUEUE", help="a format name, or the path of a queue there"
    )
    parser.add_argument(
        "--stream",
        choices=_STREAMS,
        default="log",
        help="which messages of a store or an archive; log by default",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="PATH",
        help="only messages of this queue; may be repeated",
    )
    add_times(parser, "what came")
    parser.add_argument(
        "--key",
        default="",
        metavar="TEXT",
        help="a name of this replay: with another name the same messages are sent once more",
    )
    parser.add_argument("--rate", type=_rate, metavar="N", help="the most messages in a second")
    parser.add_argument("--dry-run", action="store_true", help="select and check them, and send nothing")


def _rate(text: str) -> int:
    try:
        return whole_number(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _check_destination(text: str) -> None:
    if text.startswith(".\\"):
        return
    try:
        parse_format_name(text)
    except MQError as error:
        raise ReadingError(f"--into {text}: {error}") from None


def _run(setting: JobContext) -> JobOutcome:
    options = setting.options
    _check_destination(options.into)
    names = [*CHOSEN_BY, *CONTENT]
    rows = read_rows(setting.spark, setting.inputs, options.stream, names)
    found = setting.cached(chosen(rows, queues=options.queue, since=options.since, until=options.until))
    count = found.count()
    # One task, so that the order and the rate are kept.
    writer = addressed(found, options.into, options.key).coalesce(1).write.format("msmq").mode("append")
    writer = writer.option("control", options.control).option("destination", options.into)
    writer = writer.option("dryRun", str(options.dry_run).lower())
    if options.token_file:
        writer = writer.option("tokenFile", options.token_file)
    if options.rate:
        writer = writer.option("maxMessagesPerSecond", str(options.rate))
    writer.save()
    queues = found.groupBy("topic").agg(F.count("*").alias("messages")).orderBy(F.desc("messages"), "topic")
    by_queue = queues.collect()
    done = "would be sent" if options.dry_run else "were sent, or had been under the same key,"
    report = JobReport(
        "Replay",
        f"{count:,} messages {done} into {options.into}",
        [*setting.facts, ("through", options.control), ("key", options.key or None)],
        [
            Section(
                "Selected messages",
                tables=[
                    shown("By queue", queues, {"topic": "queue", "messages": "messages"}),
                    shown(
                        "In the order of sending",
                        found.orderBy("turn"),
                        {"id": "message", "topic": "queue", "label": "label", "priority": "priority"},
                    ),
                ],
                plots=[
                    Plot(
                        "Messages by queue",
                        "bars",
                        [
                            Series(
                                "messages",
                                [row["topic"] for row in by_queue],
                                [row["messages"] for row in by_queue],
                            )
                        ],
                    )
                ],
            )
        ],
    )
    return JobOutcome(report, {"chosen": found})


JOB = Job(
    "replay",
    "sends messages again, each once",
    _run,
    lambda options: JobInput((), archived=options.stream),
    _add_options,
)
