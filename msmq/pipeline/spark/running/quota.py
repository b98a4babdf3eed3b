"""Command of the job C{quota}: growth of queues and journals."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.option_text import whole_number
from msmq.pipeline.reading.queue_quotas import queue_quotas
from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import time_text
from msmq.pipeline.spark.inputs import EVENTS_STREAM, Input, JobInput
from msmq.pipeline.spark.jobs.estate import JOURNAL, QUEUE
from msmq.pipeline.spark.jobs.quota import HOUR, PLACE, QUOTAS, forecast, growth, refusals
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, shown
from msmq.quantities import SIZE_FORM, parse_size
from msmq.quoting import quoted
from msmq.spelling import closest

_DRAWN = 6
_KILOBYTE = 1024


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--quota",
        action="append",
        default=[],
        type=_quota,
        metavar="PATH=SIZE",
        help=r"quota of a queue or, as PATH;journal=SIZE, of its journal: in KiB, or with a unit; repeatable",
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
    path, _, size = text.rpartition("=")
    try:
        if path and re.fullmatch("[0-9]{1,10}", size):
            return path, int(size)
        if path:
            return path, -(-parse_size(size) // _KILOBYTE)
    except ValueError:
        pass
    raise ArgumentTypeError(
        f"{quoted(text[:100])} is not PATH=SIZE, SIZE a number of KiB of at most ten digits, or {SIZE_FORM}"
    )


def _step(text: str) -> int:
    try:
        return whole_number(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{error}, in seconds") from None


Quota = tuple[str | None, str, str, int | None, int | None]


def quotas_of(text: str) -> list[Quota]:
    """The quotas in a file that C{msmq queue list --json} wrote.

    @raise ReadingError: it is not such a file.
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


def _known(inputs: Sequence[Input]) -> list[Quota]:
    """The quotas of the queues in the input stores."""
    return [
        (one.name, path, JOURNAL if is_journal else QUEUE, quota, None)
        for one in inputs
        if not one.is_parquet and not one.is_capture
        for path, is_journal, quota in queue_quotas(one.location)
    ]


def _asked(options: Namespace) -> Iterator[Quota]:
    """The quotas from options: those of C{--quota} after those of C{--queues}."""
    for text in options.queues:
        yield from quotas_of(text)
    for path, kilobytes in options.quota:
        queue, suffix, _ = path.partition(";journal")
        yield None, queue, JOURNAL if suffix else QUEUE, kilobytes * _KILOBYTE, None


def merged_quotas(known: Iterable[Quota], asked: Iterable[Quota]) -> list[Quota]:
    """One quota for each place; a later one replaces an earlier one, including one for every store."""
    found: dict[tuple[str, str], dict[str | None, Quota]] = {}
    for quota in (*known, *asked):
        store, queue, place = quota[0], quota[1].lower(), quota[2]
        stores = found.setdefault((queue, place), {})
        if store is None:
            stores.clear()
        stores[store] = quota
    return [quota for stores in found.values() for quota in stores.values()]


def _check_paths(setting: JobContext, known: Iterable[Quota]) -> None:
    """Check that the queues of C{--quota} exist.

    @raise ReadingError: a queue is in no input.
    """
    if not setting.options.quota:
        return
    seen = setting.estate.messages.select("queue").distinct().collect()
    there = {str(row["queue"]).lower() for row in seen} | {quota[1].lower() for quota in known}
    for path, _ in setting.options.quota:
        if path.partition(";journal")[0].lower() not in there:
            close = closest(path, sorted(there))
            hint = "" if close is None else f"; did you mean {close}?"
            raise ReadingError(f"--quota {path}: no input has that queue{hint}")


def headline(forecasts: DataFrame, refused: Row | None, total: int) -> str:
    """The headline: refusals over quota, the next full place, or else the place with the highest use."""
    verdict = f"{forecasts.count():,} queues, journals and logs hold messages"
    if refused is not None:
        verdict += f"; {total:,} were refused over a quota, {refused['messages']:,} of them for"
        verdict += f" {refused['queue']} at {refused['store']}"
    soon = forecasts.where("full_at IS NOT NULL").orderBy("full_at", "store", "queue").first()
    if soon is not None:
        place = f"{soon['queue']} ({soon['place']}) at {soon['store']}"
        if soon["held"] >= soon["quota"]:
            return f"{verdict}; {place} is full since {time_text(soon['full_at'])} (UTC)"
        # The input may end before that, and it need not have gone on.
        return (
            f"{verdict}; {place} is full at {time_text(soon['full_at'])} if it goes on as it did until"
            f" {time_text(soon['last'])} (UTC)"
        )
    fullest = forecasts.where("filled IS NOT NULL").orderBy(F.desc("filled"), "store", "queue").first()
    if fullest is None:
        return f"{verdict}; none of them has a known quota"
    place = f"{fullest['queue']} ({fullest['place']}) at {fullest['store']}"
    grows = (
        "its growth is unknown, since all of it came within one --step"
        if fullest["bytes_an_hour"] is None
        else "does not grow"
    )
    return f"{verdict}; the fullest, {place}, holds {fullest['filled']:.1%} of its quota and {grows}"


def _steps(grown: DataFrame, places: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """The steps of each of these places in order, from one query."""
    found: dict[tuple[str, str, str], list[Row]] = {
        (row["store"], row["queue"], row["place"]): [] for row in places
    }
    if found:
        is_drawn = F.lit(False)
        for place in found:
            same = [F.col(name) == value for name, value in zip(PLACE, place, strict=True)]
            is_drawn = is_drawn | reduce(and_, same)
        for step in grown.where(is_drawn).orderBy("since").collect():
            found[step["store"], step["queue"], step["place"]].append(step)
    return found


def _run(setting: JobContext) -> JobOutcome:
    options = setting.options
    known = _known(setting.inputs)
    _check_paths(setting, known)
    quotas = merged_quotas(known, _asked(options))
    grown = setting.cached(growth(setting.estate.messages, options.step))
    forecasts = setting.cached(forecast(grown, setting.spark.createDataFrame(quotas, QUOTAS)))
    refused = setting.cached(refusals(setting.estate.events))
    total = refused.agg(F.coalesce(F.sum("messages"), F.lit(0))).collect()[0][0]
    verdict = headline(forecasts, refused.orderBy(F.desc("messages"), "store", "queue").first(), total)
    largest = forecasts.orderBy(F.desc("bytes"), "store", "queue", "place")
    curves = [
        Series(
            " ".join(map(str, place)),
            [step["since"] for step in steps],
            [step["bytes_so_far"] / _KILOBYTE for step in steps],
        )
        for place, steps in _steps(grown, largest.take(_DRAWN)).items()
    ]
    report = JobReport(
        "How queues fill",
        verdict,
        setting.facts,
        [
            Section(
                "Growth",
                "Messages have their arrival times. Sizes are those of whole packets, which count to a"
                " quota; a message log includes messages that were received since.",
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
                            "filled": "filled",
                            "full_at": "full at",
                        },
                        convert={"full_at": time_text, "filled": "{:.1%}".format},
                    ),
                    shown(
                        "Refused over a quota",
                        refused.orderBy(F.desc("messages"), "store", "queue"),
                        {
                            "store": "at",
                            "queue": "destination",
                            "messages": "messages",
                            "first": "first",
                            "last": "last",
                        },
                        convert={"first": time_text, "last": time_text},
                    ),
                ],
                plots=[Plot("Contents", "lines", curves, "UTC", "kilobytes", is_timed=True)],
            )
        ],
    )
    return JobOutcome(report, {"growth": grown, "forecast": forecasts, "refusals": refused})


JOB = Job(
    "quota",
    "how queues, journals and logs grow, and when they are full",
    _run,
    lambda _: JobInput(
        (
            *("queue", "log", "journal", "source_journal", "dead_letter", "dead_letter_transactional"),
            EVENTS_STREAM,
        ),
        ("packet",),
    ),
    _add_options,
)
