"""Least-cost tables of an enterprise of any size, one task for each source site, and what-if changes.

The sites and links go to every executor once; each computes the tables of its share of the sites, by the
same function that a site gate uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from msmq.routing.table import table_of_site
from msmq.routing.topology import MAXIMUM_COST, MINIMUM_COST, RoutingLink, Site, Topology
from msmq.wire.guid import format_guid

if TYPE_CHECKING:
    import pyarrow

TABLE: Final = "source STRING, destination STRING, next STRING, cost BIGINT, tied BOOLEAN"
"""The columns of the tables: GUIDs of sites, the cost, and whether another next site would cost the same."""

UNREACHABLE: Final = "unreachable"
"""Effect: the route is lost."""
REACHABLE: Final = "reachable"
"""Effect: there was no route before."""
DEARER: Final = "dearer"
CHEAPER: Final = "cheaper"
MOVED: Final = "moved"
"""Effect: the same cost, through another next site."""

EFFECTS: Final = (UNREACHABLE, REACHABLE, DEARER, CHEAPER, MOVED)

_SHARES: Final = 4
"""Partitions of the sites for each core, so that the load is balanced."""


@attrs.frozen
class LinkChange:
    """What-if change of a link: new cost, addition or removal.

    @ivar cost: its new cost; C{None} if it is removed.
    """

    site1: UUID
    site2: UUID
    cost: int | None


@attrs.frozen
class SiteChange:
    """What-if removal of a site with all its links."""

    site: UUID


Change = LinkChange | SiteChange


def changed(topology: Topology, changes: Sequence[Change]) -> Topology:
    """Apply changes to an enterprise, in order.

    @raise ValueError: a change names an unknown site or link, or an invalid cost.
    """
    for change in changes:
        topology = _changed(topology, change)
    return topology


def _changed(topology: Topology, change: Change) -> Topology:
    named = (change.site,) if isinstance(change, SiteChange) else (change.site1, change.site2)
    for site in named:
        if topology.site(site) is None:
            raise ValueError(f"the enterprise has no site {topology.site_name(site)}")
    if isinstance(change, SiteChange):
        return attrs.evolve(
            topology,
            sites=tuple(site for site in topology.sites if site.identifier != change.site),
            links=tuple(link for link in topology.links if change.site not in (link.site1, link.site2)),
        )
    ends = {change.site1, change.site2}
    others = tuple(link for link in topology.links if {link.site1, link.site2} != ends)
    names = " - ".join(topology.site_name(site) for site in named)
    if change.cost is None:
        if len(others) == len(topology.links):
            raise ValueError(f"the enterprise has no link {names}")
        return attrs.evolve(topology, links=others)
    if not MINIMUM_COST <= change.cost <= MAXIMUM_COST or len(ends) == 1:
        raise ValueError(f"no link {names} can cost {change.cost}")
    return attrs.evolve(topology, links=(*others, RoutingLink(change.site1, change.site2, change.cost)))


def tables(spark: SparkSession, topology: Topology, shares: int | None = None) -> DataFrame:
    """The least-cost route from every site to every reachable site; the columns are L{TABLE}.

    A site itself is not in its table.

    @param shares: the number of partitions of the sites.
    """
    # Queue managers and names are not needed.
    sites = tuple(Site(site.identifier) for site in topology.sites)
    links = tuple(RoutingLink(link.site1, link.site2, link.cost) for link in topology.links)
    shared = spark.sparkContext.broadcast((sites, links))

    def compute(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        own = Topology(*shared.value)
        for batch in batches:
            for name in batch.column(0).to_pylist():
                table = table_of_site(own, UUID(name))
                rows = [row for row in table.rows.values() if row.previous_site_id is not None]
                yield pyarrow.RecordBatch.from_arrays(
                    [
                        pyarrow.array([name] * len(rows), pyarrow.string()),
                        pyarrow.array(
                            [format_guid(row.destination_site_id) for row in rows], pyarrow.string()
                        ),
                        pyarrow.array([format_guid(row.next_hop_site_id) for row in rows], pyarrow.string()),
                        pyarrow.array([row.cost for row in rows], pyarrow.int64()),
                        pyarrow.array([row.is_tied for row in rows], pyarrow.bool_()),
                    ],
                    names=["source", "destination", "next", "cost", "tied"],
                )

    wanted = shares or max(1, min(len(sites), spark.sparkContext.defaultParallelism * _SHARES))
    names = [(format_guid(site.identifier),) for site in sites]
    return spark.createDataFrame(names, "source STRING").repartition(wanted).mapInArrow(compute, TABLE)


def differences(before: DataFrame, after: DataFrame) -> DataFrame:
    """The pairs of sites whose route differs.

    The columns are C{source}, C{destination}, C{effect}, C{cost_before}, C{cost_after}, C{next_before} and
    C{next_after}.
    """
    pair = ["source", "destination"]
    one = before.select(*pair, F.col("cost").alias("cost_before"), F.col("next").alias("next_before"))
    two = after.select(*pair, F.col("cost").alias("cost_after"), F.col("next").alias("next_after"))
    effect = (
        F.when(F.col("cost_after").isNull(), UNREACHABLE)
        .when(F.col("cost_before").isNull(), REACHABLE)
        .when(F.col("cost_after") > F.col("cost_before"), DEARER)
        .when(F.col("cost_after") < F.col("cost_before"), CHEAPER)
        .when(F.col("next_after") != F.col("next_before"), MOVED)
    )
    return (
        one.join(two, pair, "full")
        .select(*pair, effect.alias("effect"), "cost_before", "cost_after", "next_before", "next_after")
        .where("effect IS NOT NULL")
    )


def reach(tables: DataFrame) -> DataFrame:
    """Distances of each site: C{source}, C{reached}, C{mean_cost}, C{largest_cost}, C{tied}."""
    return tables.groupBy("source").agg(
        F.count("*").alias("reached"),
        F.avg("cost").alias("mean_cost"),
        F.max("cost").alias("largest_cost"),
        F.count_if("tied").alias("tied"),
    )


def transit(tables: DataFrame) -> DataFrame:
    """Number of routes over each link, by direction: C{site}, C{next}, C{routes}."""
    return tables.groupBy(F.col("source").alias("site"), "next").agg(F.count("*").alias("routes"))
