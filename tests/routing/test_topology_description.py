"""Enterprises and routes as plain values, for people and programs."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.next_hops import NoRoute
from msmq.routing.topology import Topology
from msmq.routing.topology_description import (
    describe_route,
    describe_topology,
    find_ends,
    find_route,
    to_graphviz,
)
from tests.routing.builders import Estate, guid


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

    def test_ends_of_a_route(self) -> None:
        """A queue manager is found by name, case-insensitively, or by GUID; an unknown one is named."""
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
        """Names with quotes and backslashes stay inside their quotes."""
        answer = describe_topology(self.topology)
        answer["sites"][0]["name"] = 'the "old" \\ town'
        drawing = to_graphviz(answer)
        self.assertIn('label="the \\"old\\" \\\\ town"', drawing)
        self.assertIn("2 via gB, gC", drawing)
        self.assertEqual(drawing.count("peripheries=2"), 2)

    def test_unknown_enterprise(self) -> None:
        """An enterprise that is not known yet is an empty graph."""
        answer = describe_topology(Topology())
        self.assertEqual(answer, {"sites": [], "links": [], "queue_managers": []})
        self.assertEqual(to_graphviz(answer).count("\n"), 2)
