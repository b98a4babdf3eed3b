"""Least-cost tables of any enterprise, and what changes would cost."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.topology import (
    LinkChange,
    SiteChange,
    changed,
    differences,
    reach,
    tables,
    transit,
)
from msmq.routing.topology import Topology
from tests.pipeline.local_spark import FEW, rows, spark
from tests.routing.builders import Estate, guid, name
from tests.routing.enterprises import Plan, well_kept

Ways = dict[tuple[UUID, UUID], tuple[int, UUID]]


def naive(topology: Topology) -> Ways:
    """Floyd's algorithm: for each pair the least cost, and the smallest next site that has it."""
    sites = [site.identifier for site in topology.sites]
    links: dict[tuple[UUID, UUID], int] = {}
    for link in topology.links:
        for pair in ((link.site1, link.site2), (link.site2, link.site1)):
            links[pair] = min(link.cost, links.get(pair, link.cost))
    cost = {**links, **{(site, site): 0 for site in sites}}
    for middle in sites:
        for one in sites:
            for two in sites:
                if (one, middle) in cost and (middle, two) in cost:
                    way = cost[one, middle] + cost[middle, two]
                    cost[one, two] = min(way, cost.get((one, two), way))
    found: Ways = {}
    for (one, two), least in cost.items():
        if one != two:
            nexts = [
                there
                for (here, there), price in links.items()
                if here == one and (there, two) in cost and price + cost[there, two] == least
            ]
            found[one, two] = (least, min(nexts, key=lambda site: site.int))
    return found


def effect(before: tuple[int, UUID] | None, after: tuple[int, UUID] | None) -> str | None:
    """The difference for a pair of sites."""
    if before is None or after is None:
        return None if before is after else ("reachable" if before is None else "unreachable")
    if before[0] != after[0]:
        return "dearer" if after[0] > before[0] else "cheaper"
    return None if before == after else "moved"


def computed(topology: Topology) -> Ways:
    return {
        (UUID(row["source"]), UUID(row["destination"])): (row["cost"], UUID(row["next"]))
        for row in tables(spark(), topology, shares=1).collect()
    }


class TopologyTests(SynchronousTestCase):
    """Tables of every site at once."""

    def test_tables(self) -> None:
        """Every site has its least-cost routes; of two that cost the same the smaller next site counts."""
        topology = Estate("A-B 1, B-D 1, A-C 1, C-D 1, D-E 7", sites="A B C D E F").build().topology
        table = tables(spark(), topology, shares=3).cache()
        ways = {
            (name(UUID(row["source"])), name(UUID(row["destination"]))): (
                name(UUID(row["next"])),
                row["cost"],
                row["tied"],
            )
            for row in table.collect()
        }
        self.assertEqual(len(ways), 20)
        self.assertEqual(ways["A", "D"], ("B", 2, True))
        self.assertEqual(ways["A", "E"], ("B", 9, True))
        self.assertEqual(ways["E", "A"], ("D", 9, False))
        self.assertEqual(ways["B", "A"], ("A", 1, False))
        far = {name(UUID(row[0])): row[1:] for row in rows(reach(table))}
        self.assertEqual(far["E"], (4, 8.0, 9, 0))
        out = {(name(UUID(row[0])), name(UUID(row[1]))): row[2] for row in rows(transit(table))}
        self.assertEqual(out["A", "B"], 3)
        self.assertEqual(out["E", "D"], 4)

    def test_what_if(self) -> None:
        """A dearer link, one that is gone or new, and a site that is gone."""
        topology = Estate("A-B 1, B-C 1, A-C 5, C-D 1").build().topology
        before = tables(spark(), topology, shares=1).cache()

        def effects(*changes: Any) -> dict[tuple[str, str], tuple[Any, ...]]:
            after = tables(spark(), changed(topology, changes), shares=1)
            return {
                (name(UUID(row["source"])), name(UUID(row["destination"]))): (
                    row["effect"],
                    row["cost_before"],
                    row["cost_after"],
                )
                for row in differences(before, after).collect()
                if row["source"] < row["destination"]
            }

        dearer = effects(LinkChange(guid("B"), guid("A"), 9), LinkChange(guid("A"), guid("D"), 6))
        self.assertEqual(
            dearer, {("A", "B"): ("dearer", 1, 6), ("A", "C"): ("dearer", 2, 5), ("A", "D"): ("dearer", 3, 6)}
        )
        gone = effects(LinkChange(guid("C"), guid("D"), None), LinkChange(guid("A"), guid("B"), 5))
        self.assertEqual(gone["C", "D"], ("unreachable", 1, None))
        self.assertEqual(gone["A", "C"], ("dearer", 2, 5))
        self.assertEqual(
            effects(SiteChange(guid("B")))["A", "C"],
            ("dearer", 2, 5),
        )

    def test_unknown_sites_and_links(self) -> None:
        """A change of what there is not is refused, and names it."""
        topology = Estate("A-B 1", sites="A B C").build().topology
        for change, complaint in (
            (SiteChange(guid("X")), "no site"),
            (LinkChange(guid("A"), guid("C"), None), "no link A - C"),
            (LinkChange(guid("A"), guid("B"), 0), "can cost 0"),
            (LinkChange(guid("A"), guid("A"), 1), "no link A - A can cost 1"),
        ):
            self.assertIn(complaint, str(self.assertRaises(ValueError, changed, topology, [change])))

    def test_no_sites(self) -> None:
        """An enterprise without sites has no tables."""
        self.assertEqual(computed(Topology()), {})

    @FEW
    @given(well_kept(), st.data())
    def test_any_enterprise(self, plan: Plan, data: st.DataObject) -> None:
        """The tables of any enterprise, and what a change makes of them, are those of Floyd's algorithm."""
        topology = plan.builder().build().topology
        self.assertEqual(computed(topology), naive(topology))
        sites = [site.identifier for site in topology.sites]
        change: LinkChange | SiteChange = SiteChange(data.draw(st.sampled_from(sites)))
        changes_link: bool = data.draw(st.booleans())
        if topology.links and changes_link:
            link = data.draw(st.sampled_from(topology.links))
            change = LinkChange(link.site1, link.site2, data.draw(st.none() | st.integers(1, 12)))
        after = changed(topology, [change])
        one, two = naive(topology), naive(after)
        table = differences(tables(spark(), topology, shares=1), tables(spark(), after, shares=1))
        self.assertEqual(
            {(UUID(row["source"]), UUID(row["destination"])): row["effect"] for row in table.collect()},
            {
                pair: what
                for pair in {**one, **two}
                if (what := effect(one.get(pair), two.get(pair))) is not None
            },
        )
