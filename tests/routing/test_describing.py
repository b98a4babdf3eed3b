"""Enterprises without those that cannot be reached, and as people and programs are told of them."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.avoiding import avoiding
from msmq.routing.describing import describe_route, describe_topology, find_ends, find_route, to_graphviz
from msmq.routing.next_hops import NoRoute, next_hops
from msmq.routing.topology import Topology
from tests.routing.builders import Estate, guid, names


def ways(topology: Topology, source: str, destination: str) -> list[str]:
    return names(next_hops(topology, guid(source), guid(destination)))


class AvoidingTests(SynchronousTestCase):
    """Another way while somebody cannot be reached."""

    def setUp(self) -> None:
        self.topology = Estate("A-B 1, B-C 1, A-C 5").topology

    def without(self, *unreachable: str) -> Topology:
        return avoiding(self.topology, {guid(name) for name in unreachable})

    def test_nobody(self) -> None:
        """There is nothing to do."""
        self.assertIs(self.without(), self.topology)
        self.assertEqual(ways(self.without("nobody"), "gA", "cC"), ["gB"])

    def test_gate(self) -> None:
        """The links of a site whose only gate is away are not used, and the site is there all the same."""
        rest = self.without("gB")
        self.assertEqual(ways(rest, "gA", "cC"), ["gC"])
        self.assertEqual(len(rest.sites), 3)
        self.assertEqual([link.cost for link in rest.links], [5])
        self.assertEqual(ways(rest, "cB", "cB"), ["cB"])

    def test_one_of_two_gates(self) -> None:
        """Another gate of the site takes its place."""
        estate = Estate("A-B 1 gA gB hB, B-C 1 gB hB gC, A-C 5")
        estate.machine("hB", "B", routing_server=True)
        topology = estate.topology
        self.assertEqual(ways(avoiding(topology, {guid("gB")}), "gA", "cC"), ["hB"])

    def test_no_other_way(self) -> None:
        """There is none, and who asks falls back on the way that there was."""
        topology = Estate("A-B 1, B-C 1").topology
        self.assertRaises(NoRoute, next_hops, avoiding(topology, {guid("gB")}), guid("gA"), guid("cC"))

    def test_somebody_else(self) -> None:
        """Who is no gate changes no way but those that lead to it."""
        rest = self.without("cB")
        self.assertEqual(len(rest.links), 3)
        self.assertEqual(ways(rest, "gA", "cC"), ["gB"])


class DescribingTests(SynchronousTestCase):
    """Plain values."""

    def setUp(self) -> None:
        self.topology = Estate("A-B 1, B-C 2").topology

    def test_route(self) -> None:
        """Each hop with what it costs, and what it has cost so far; JSON can hold it."""
        answer = describe_route(self.topology, find_route(self.topology, "cA", str(guid("cC"))))
        self.assertEqual(json.loads(json.dumps(answer)), answer)
        self.assertEqual((answer["source"], answer["destination"], answer["cost"]), ("cA", "cC", 3))
        self.assertEqual(
            [(hop["name"], hop["cost"], hop["total"]) for hop in answer["hops"]],
            [("gA", 0, 0), ("gB", 1, 1), ("gC", 2, 3), ("cC", 0, 3)],
        )
        self.assertFalse(answer["problem"])

    def test_ends(self) -> None:
        """By name whatever its case, or by GUID; who is not there is named."""
        self.assertEqual(find_ends(self.topology, "CA", str(guid("cC"))), (guid("cA"), guid("cC")))
        for ends in (("nobody", "cA"), ("cA", "nobody")):
            refused = self.assertRaises(NoRoute, find_ends, self.topology, *ends)
            self.assertIn("no queue manager nobody", str(refused))

    def test_topology(self) -> None:
        """Sites with their gates, links with their sites, queue managers with theirs."""
        answer = describe_topology(self.topology)
        self.assertEqual(json.loads(json.dumps(answer)), answer)
        self.assertEqual(
            [(site["name"], site["gates"]) for site in answer["sites"]],
            [("A", ["gA"]), ("B", ["gB"]), ("C", ["gC"])],
        )
        self.assertEqual(
            [(link["sites"], link["cost"], link["gates"]) for link in answer["links"]],
            [(["A", "B"], 1, ["gA", "gB"]), (["B", "C"], 2, ["gB", "gC"])],
        )
        self.assertEqual(
            {each["name"]: each["routing_server"] for each in answer["queue_managers"]},
            {"gA": True, "cA": False, "gB": True, "cB": False, "gC": True, "cC": False},
        )

    def test_graphviz(self) -> None:
        """Names with quotes and backslashes do not break out of their places."""
        answer = describe_topology(self.topology)
        answer["sites"][0]["name"] = 'the "old" \\ town'
        drawing = to_graphviz(answer)
        self.assertIn('label="the \\"old\\" \\\\ town"', drawing)
        self.assertIn("2 via gB, gC", drawing)
        self.assertEqual(drawing.count("peripheries=2"), 2)

    def test_nothing(self) -> None:
        """An enterprise that is not known yet is an empty graph."""
        answer = describe_topology(Topology())
        self.assertEqual(answer, {"sites": [], "links": [], "queue_managers": []})
        self.assertEqual(to_graphviz(answer).count("\n"), 2)
