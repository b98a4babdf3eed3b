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
from tests.routing.builders import Estate, guid, guids


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

    def test_whole_drawing(self) -> None:
        """Each site is a cluster with the queue managers whose first site it is; routing servers have a
        double line, and links lead from cluster to cluster.
        """
        estate = Estate("A-B 7, B-C 8")
        estate.machine("wide", "B A", routing_server=True)
        estate.machine("homeless", "")
        estate.link("A", "C", 9)
        drawing = to_graphviz(describe_topology(estate.topology))
        self.assertEqual(
            drawing.splitlines(),
            [
                "graph enterprise {",
                "  compound=true; node [shape=box];",
                "  subgraph cluster_0 {",
                '    label="A";',
                '    "site A" [shape=point, style=invis];',
                '    "gA" [label="gA", peripheries=2];',
                '    "cA" [label="cA"];',
                "  }",
                "  subgraph cluster_1 {",
                '    label="B";',
                '    "site B" [shape=point, style=invis];',
                '    "gB" [label="gB", peripheries=2];',
                '    "cB" [label="cB"];',
                '    "wide" [label="wide", peripheries=2];',
                "  }",
                "  subgraph cluster_2 {",
                '    label="C";',
                '    "site C" [shape=point, style=invis];',
                '    "gC" [label="gC", peripheries=2];',
                '    "cC" [label="cC"];',
                "  }",
                '  "site A" -- "site B" [label="7 via gA, gB", ltail=cluster_0, lhead=cluster_1];',
                '  "site B" -- "site C" [label="8 via gB, gC", ltail=cluster_1, lhead=cluster_2];',
                '  "site A" -- "site C" [label="9", ltail=cluster_0, lhead=cluster_2];',
                "}",
            ],
        )

    def test_route_that_waits(self) -> None:
        """A route that does not arrive has its problem, and where the message waits."""
        answer = describe_route(self.topology, find_route(self.topology, "cA", "cC", ["gB"]))
        self.assertEqual(
            (answer["waits_at"], answer["problem"], answer["connector_queue"]),
            ("gA", "the message waits at gA for gB", ""),
        )
        self.assertEqual([hop["name"] for hop in answer["hops"]], ["gA"])
        arrived = describe_route(self.topology, find_route(self.topology, "cA", "cC"))
        self.assertEqual((arrived["waits_at"], arrived["problem"]), ("", ""))
        unknown = self.assertRaises(NoRoute, find_route, self.topology, "cA", "cC", ["gX"])
        self.assertEqual(unknown.detail, "no queue manager gX is known to routing")

    def test_route_to_a_foreign_site(self) -> None:
        """A route to a foreign site ends in the connector queue of that site."""
        estate = Estate("A-B 1", sites="A")
        estate.add_site(guid("B"), "B", is_foreign=True)
        estate.machine("gB", "A B", routing_server=True)
        estate.machine("mainframe", "B")
        topology = estate.sound()
        answer = describe_route(topology, find_route(topology, "gA", "mainframe"))
        self.assertEqual(answer["connector_queue"], f"CONNECTOR={guid('B')}".upper())
        self.assertEqual([hop["name"] for hop in answer["hops"]], ["gB"])

    def test_hop(self) -> None:
        """A hop has its rule, its reason, and the candidates after it."""
        estate = Estate(sites="A")
        estate.machine("to", "A", into="gA rA")
        estate.machine("rA", "A", routing_server=True)
        topology = estate.sound()
        first, last = describe_route(topology, find_route(topology, "cA", "to"))["hops"]
        self.assertEqual(
            first,
            {
                "name": "gA",
                "identifier": str(guid("gA")).upper(),
                "site": "A",
                "cost": 0,
                "total": 0,
                "rule": "3.1.5.1 in-routing servers",
                "reason": "to is in the site A too, and gets everything through its in-routing servers",
                "others": ["rA"],
            },
        )
        self.assertEqual((last["name"], last["others"]), ("to", []))

    def test_queue_manager(self) -> None:
        """A queue manager has the names of its sites and routing servers, and where it is reached."""
        estate = Estate("A-B 1")
        estate.add_queue_manager(
            guid("m"),
            "m",
            sites=guids("B A"),
            in_routing_servers=guids("gB"),
            out_routing_servers=guids("gA gB"),
            qualified_computer_name="m.example.com",
            address="10.0.0.7",
        )
        estate.add_site(guid("F"), "F", gates=guids("gB"), is_foreign=True)
        answer = describe_topology(estate.topology)
        self.assertEqual(
            answer["queue_managers"][-1],
            {
                "name": "m",
                "identifier": str(guid("m")).upper(),
                "dns_name": "m.example.com",
                "address": "10.0.0.7",
                "sites": ["B", "A"],
                "routing_server": False,
                "in_routing_servers": ["gB"],
                "out_routing_servers": ["gA", "gB"],
            },
        )
        self.assertEqual(
            [(site["name"], site["foreign"], site["gates"]) for site in answer["sites"]],
            [("A", False, ["gA"]), ("B", False, ["gB"]), ("F", True, [])],
        )

    def test_unknown_enterprise(self) -> None:
        """An enterprise that is not known yet is an empty graph."""
        answer = describe_topology(Topology())
        self.assertEqual(answer, {"sites": [], "links": [], "queue_managers": []})
        self.assertEqual(to_graphviz(answer).count("\n"), 2)
