"""Command of the job C{topology}: least-cost routes and what-if changes."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import Cell
from msmq.pipeline.spark.jobs.topology import (
    EFFECTS,
    Change,
    LinkChange,
    SiteChange,
    changed,
    differences,
    reach,
    tables,
    transit,
)
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, shown
from msmq.routing.topology import Site, Topology
from msmq.wire.guid import parse_guid

_LINK = re.compile(r"(.+?)\s*\.\.\s*(.+?)(?:\s*=\s*(\d+))?")
_BINS = 20


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="CHANGE",
        help="'A..B=7' (a link would cost that), 'A..B' (it were gone), 'A' (a site were); may be repeated",
    )


def parse_change(topology: Topology, text: str) -> Change:
    """Parse C{--what-if}.

    @raise ReadingError: it names a site that the enterprise does not have.
    """
    link = _LINK.fullmatch(text)
    if link is None:
        return SiteChange(_site(topology, text, text).identifier)
    cost = None if link[3] is None else int(link[3])
    one, two = (_site(topology, name, text).identifier for name in (link[1], link[2]))
    return LinkChange(one, two, cost)


def _site(topology: Topology, name: str, text: str) -> Site:
    site = topology.site_named(name.strip())
    if site is None:
        raise ReadingError(f"--what-if {text}: the enterprise has no site {name.strip()}")
    return site


def _run(setting: JobContext) -> JobOutcome:
    topology = setting.topology
    if topology is None:
        raise ReadingError("topology needs --enterprise")
    changes = [parse_change(topology, text) for text in setting.options.what_if]
    before = setting.cached(tables(setting.spark, topology))

    def name(guid: object) -> Cell:
        return topology.site_name(parse_guid(str(guid)))

    far = setting.cached(reach(before))
    count = before.count()
    pairs = len(topology.sites) * (len(topology.sites) - 1)
    verdict = f"{count:,} of {pairs:,} pairs of sites have a route"
    costs = before.groupBy("cost").agg(F.count("*").alias("pairs")).orderBy("cost").collect()
    sections = [
        Section(
            "Least-cost tables",
            tables=[
                shown(
                    "How far each site is from the others, the farthest first",
                    far.orderBy(F.desc("largest_cost"), "source"),
                    {
                        "source": "site",
                        "reached": "sites reached",
                        "mean_cost": "mean cost",
                        "largest_cost": "largest cost",
                        "tied": "with another route of equal cost",
                    },
                    convert={"source": name},
                ),
                shown(
                    "Neighbours that the routes of a site use",
                    transit(before).orderBy(F.desc("routes"), "site", "next"),
                    {"site": "site", "next": "neighbour", "routes": "routes"},
                    convert={"site": name, "next": name},
                ),
            ],
            plots=[_histogram([(row["cost"], row["pairs"]) for row in costs])],
        )
    ]
    given = {"tables": before, "reach": far}
    if changes:
        try:
            other = changed(topology, changes)
        except ValueError as error:
            raise ReadingError(f"--what-if: {error}") from None
        after = setting.cached(tables(setting.spark, other))
        differs = setting.cached(differences(before, after))
        given |= {"tables_what_if": after, "differences": differs}
        of_effect = {row["effect"]: row["count"] for row in differs.groupBy("effect").count().collect()}
        effects = ", ".join(f"{of_effect[effect]:,} {effect}" for effect in EFFECTS if effect in of_effect)
        verdict += f"; what if {' and '.join(setting.options.what_if)}: {effects or 'nothing changes'}"
        sections.append(_what_if(differs, of_effect, name))
    facts = [*setting.facts, ("sites", len(topology.sites)), ("links", len(topology.links))]
    return JobOutcome(JobReport("The enterprise", verdict, facts, sections), given)


def _what_if(differs: DataFrame, of_effect: Mapping[str, int], name: Callable[[object], Cell]) -> Section:
    known = [effect for effect in EFFECTS if effect in of_effect]
    columns = {
        "source": "from",
        "destination": "to",
        "effect": "effect",
        "cost_before": "cost before",
        "cost_after": "cost after",
        "next_before": "next before",
        "next_after": "next after",
    }
    by_name = dict.fromkeys(("source", "destination", "next_before", "next_after"), name)
    worst = differs.orderBy(
        F.col("cost_after").isNotNull(),
        F.desc(F.col("cost_after") - F.col("cost_before")),
        "source",
        "destination",
    )
    return Section(
        "What if",
        tables=[shown("Changes, the worst first", worst, columns, convert=by_name)],
        plots=[
            Plot(
                "Changes",
                "bars",
                [Series("pairs", known, [of_effect[effect] for effect in known])],
                up="pairs of sites",
            )
        ],
    )


def _histogram(costs: list[tuple[int, int]]) -> Plot:
    """Histogram of the costs between pairs of sites."""
    title = "Costs between two sites"
    if len(costs) <= _BINS:
        bins = {str(cost): pairs for cost, pairs in costs}
    else:
        least, most = costs[0][0], costs[-1][0]
        width = (most - least) // _BINS + 1
        bins = {}
        for cost, pairs in costs:
            begin = least + (cost - least) // width * width
            label = f"{begin}-{begin + width - 1}"
            bins[label] = bins.get(label, 0) + pairs
    return Plot(title, "bars", [Series("pairs", list(bins), list(bins.values()))], "cost", "pairs of sites")


JOB = Job(
    "topology",
    "least-cost tables of every site, and what changes would cost",
    _run,
    add_options=_add_options,
    needs_enterprise=True,
)
