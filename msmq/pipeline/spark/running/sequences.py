"""Command of the job C{sequences}: gaps and duplicates of streams."""

from __future__ import annotations

from pyspark.sql import functions as F

from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.spark.inputs import JobInput, missing_note, read_erased
from msmq.pipeline.spark.jobs.sequences import KINDS, audit, erased_messages, findings, numbered
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, QueueManagerNames, shown

_HEADINGS = {
    "store": "at",
    "queue": "queue",
    "source": "from",
    "sequence_id": "sequence",
    "priority": "priority",
}


def _run(setting: JobContext) -> JobOutcome:
    messages = setting.estate.messages
    erased = setting.cached(erased_messages(messages, read_erased(setting.spark, setting.inputs)))
    gone = erased.count()
    if gone:
        messages = messages.unionByName(erased, allowMissingColumns=True)
    placed = setting.cached(numbered(messages))
    found = setting.cached(findings(placed))
    streams = setting.cached(audit(placed, found))
    names = QueueManagerNames.of(setting)
    transactional = F.col("sequence_id").isNotNull()
    kinds = {
        (row["transactional"], row["kind"]): row["findings"]
        for row in found.groupBy(transactional.alias("transactional"), "kind")
        .agg(F.count("*").alias("findings"))
        .collect()
    }
    every, audited, broken = streams.agg(
        F.count("*"), F.count_if(transactional), F.count_if(~F.col("exactly_once"))
    ).collect()[0]
    verdict = (
        f"{audited - broken:,} of {audited:,} transactional streams arrived exactly once and in order"
        if audited
        else "there is no transactional stream"
    )
    if gone:
        verdict += f"; {gone:,} erased messages are counted as arrived"
    if missing := missing_note(setting.inputs):
        verdict += f"; {missing}: a gap may be one of these"
    series = [
        Series(
            "transactional" if is_transactional else "not transactional",
            [kind for kind in KINDS if (is_transactional, kind) in kinds],
            [kinds[is_transactional, kind] for kind in KINDS if (is_transactional, kind) in kinds],
        )
        for is_transactional in (True, False)
    ]
    worst = streams.orderBy(
        F.coalesce("exactly_once", F.lit(True)),
        F.desc(F.col("gaps") + F.col("duplicates") + F.col("reordered")),
        "store",
        "queue",
    )
    report = JobReport(
        "Streams: exactly once and in order",
        verdict,
        [*setting.facts, ("messages in streams", placed.count()), ("streams", every)],
        [
            Section(
                "Streams",
                "A stream that is not transactional has no numbers of its own: the identifiers of its"
                " messages may be duplicated and reordered, which the protocol permits.",
                tables=[
                    shown(
                        "Streams, the worst first",
                        worst,
                        {
                            **_HEADINGS,
                            "messages": "messages",
                            "gaps": "gaps",
                            "missing": "missing",
                            "duplicates": "duplicates",
                            "reordered": "reordered",
                            "begins_late": "begins late",
                            "exactly_once": "exactly once",
                        },
                        convert={"source": names, "sequence_id": str},
                    )
                ],
                plots=[Plot("Findings", "bars", [one for one in series if one.values], up="findings")],
            ),
            Section(
                "Findings",
                tables=[
                    shown(
                        "Problems, message by message",
                        found.orderBy(~transactional, "kind", "store", "queue", "number"),
                        {
                            "kind": "kind",
                            **_HEADINGS,
                            "id": "message",
                            "number": "number",
                            "missing": "missing",
                        },
                        convert={"source": names, "sequence_id": str, "number": str},
                    )
                ],
            ),
        ],
    )
    return JobOutcome(report, {"findings": found, "streams": streams})


JOB = Job(
    "sequences",
    "gaps, duplicates and reordering: an audit of exactly-once",
    _run,
    lambda _: JobInput(("queue", "log", "journal", "source_journal"), ("transaction",)),
)
