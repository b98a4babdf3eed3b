"""Command of the job C{routes}: routes of traced messages."""

from __future__ import annotations

from pyspark.sql import functions as F

from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.spark.inputs import JobInput
from msmq.pipeline.spark.jobs.routes import LEAST_COST, VERDICTS, judged, paths, steps
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, QueueManagerNames, shown

_ARROW = " > "


def _run(setting: JobContext) -> JobOutcome:
    rebuilt = setting.cached(paths(steps(setting.estate.messages)))
    names = QueueManagerNames.of(setting)

    def readable(path: list[str]) -> str:
        return _ARROW.join(names(one) or "-" for one in path)

    count = rebuilt.count()
    arrived = rebuilt.where("arrived").count()
    verdict = f"{count:,} traced messages, {arrived:,} of which arrived"
    tables = {"paths": rebuilt}
    if setting.topology is None:
        routes = rebuilt.groupBy("path", "arrived").agg(F.count("*").alias("messages"))
        columns = {"path": "route", "arrived": "arrived", "messages": "messages"}
        plots = []
    else:
        routes = setting.cached(judged(rebuilt, setting.topology))
        tables["routes"] = routes
        columns = {
            "path": "route",
            "messages": "messages",
            "verdict": "verdict",
            "cost": "cost",
            "least": "least cost",
            "expected": "expected route",
        }
        of_verdict = {
            row["verdict"]: row["count"]
            for row in routes.groupBy("verdict").agg(F.sum("messages").alias("count")).collect()
        }
        verdict += f"; {of_verdict.get(LEAST_COST, 0):,} took the route of least cost"
        known = [one for one in VERDICTS if one in of_verdict]
        plots = [
            Plot(
                "Routes compared with those of least cost",
                "bars",
                [Series("messages", known, [of_verdict[one] for one in known])],
            )
        ]
    hops = rebuilt.groupBy((F.size("path") - 1).alias("hops")).agg(F.count("*").alias("messages"))
    by_hops = hops.orderBy("hops").collect()
    plots.append(
        Plot(
            "Hops of the routes",
            "bars",
            [Series("messages", [str(row["hops"]) for row in by_hops], [row["messages"] for row in by_hops])],
            "steps",
        )
    )
    report = JobReport(
        "The routes of traced messages",
        verdict,
        setting.facts,
        [
            Section(
                "Routes",
                tables=[
                    shown(
                        "The most taken first",
                        routes.orderBy(F.desc("messages"), F.concat_ws(",", "path")),
                        columns,
                        convert={"path": readable, "expected": readable},
                    )
                ],
                plots=plots,
            )
        ],
    )
    return JobOutcome(report, tables)


JOB = Job(
    "routes",
    "the routes of traced messages, compared with those of least cost",
    _run,
    lambda _: JobInput(("queue", "log", "journal", "source_journal"), ("label", "value")),
)
