"""Ranks of gates, the steps that they allow, and what those cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.downstream import DownstreamPaths, downstream_paths
from msmq.routing.topology import Topology
from tests.routing.builders import Estate, guid, guids, name, names

FOUR = "A-B 2, B-C 3, A-D 9, D-C 1"


def paths_to(topology: Topology, destination: str) -> DownstreamPaths:
    target = topology.queue_manager(guid(destination))
    assert target is not None
    return downstream_paths(topology, target)


def costs(paths: DownstreamPaths, avoided: str = "") -> dict[str, int]:
    return {name(gate): cost for gate, cost in paths.costs(frozenset(guids(avoided))).items()}


class RankTests(SynchronousTestCase):
    """How near a gate is."""

    def ranks(self, paths: DownstreamPaths) -> list[tuple[str, tuple[int, int, int]]]:
        return [(name(gate), paths.ranks[gate]) for gate in paths.order]

    def test_client(self) -> None:
        """Gates of the destination's sites come first, then the others by their distances."""
        paths = paths_to(Estate(FOUR).sound(), "cC")
        self.assertEqual(
            self.ranks(paths), [("gC", (1, 0, 0)), ("gD", (2, 1, 3)), ("gB", (2, 3, 1)), ("gA", (2, 5, 0))]
        )
        self.assertEqual([paths.delivers(gate) for gate in guids("gC gD gB gA")], [True] + [False] * 3)
        self.assertFalse(paths.delivers(guid("nobody")))

    def test_gate(self) -> None:
        """A destination that is a gate itself comes before other gates of its site."""
        estate = Estate("A-B 2, B-C 3 gB aC gC")
        estate.machine("aC", "C", routing_server=True)
        paths = paths_to(estate.sound(), "gC")
        self.assertEqual(
            self.ranks(paths), [("gC", (0, 0, 0)), ("aC", (1, 0, 0)), ("gB", (2, 3, 1)), ("gA", (2, 5, 0))]
        )
        self.assertTrue(paths.delivers(guid("gC")) and paths.delivers(guid("aC")))

    def test_in_routing_server(self) -> None:
        """A gate that is an in-routing server hands over itself, wherever it is."""
        estate = Estate(FOUR)
        estate.machine("to", "C", into="gA gC")
        self.assertEqual(
            self.ranks(paths_to(estate.sound(), "to")),
            [("gA", (0, 0, 0)), ("gC", (0, 0, 0)), ("gD", (2, 1, 3)), ("gB", (2, 3, 1))],
        )

    def test_gate_of_several_sites(self) -> None:
        """A gate is as near as the nearest of its sites."""
        estate = Estate("A-B 2, B-C 3, A-D 7")
        estate.machine("both", "A B", routing_server=True)
        for one, two in (("A", "D"), ("B", "C")):
            estate.link(one, two, 50, "both")
        paths = paths_to(estate.sound(), "cC")
        self.assertEqual(paths.ranks[guid("both")], (2, 3, 1))
        self.assertEqual(paths.ranks[guid("gA")], (2, 5, 0))

    def test_several_sites_of_the_destination(self) -> None:
        """The distance is that to the nearest site of the destination."""
        estate = Estate("A-B 2, B-C 3, C-D 4, D-E 1")
        estate.machine("to", "E A")
        self.assertEqual(
            self.ranks(paths_to(estate.sound(), "to")),
            [
                ("gA", (1, 0, 0)),
                ("gE", (1, 0, 0)),
                ("gD", (2, 1, 3)),
                ("gB", (2, 2, 1)),
                ("gC", (2, 5, 2)),
            ],
        )

    def test_out_of_reach(self) -> None:
        """Gates from which no links lead to the destination have no rank."""
        paths = paths_to(Estate("A-B 2, C-D 3").topology, "cB")
        self.assertEqual(names(paths.order), ["gB", "gA"])
        self.assertEqual(set(paths.ranks), set(guids("gA gB")))


class CostTests(SynchronousTestCase):
    """What is left to pay from each gate."""

    def test_costs(self) -> None:
        """Costs lead around gates that are down; such a gate has the cost that it would have itself."""
        paths = paths_to(Estate(FOUR).sound(), "cC")
        for avoided, expected in (
            ("", {"gC": 0, "gD": 1, "gB": 3, "gA": 5}),
            ("gB", {"gC": 0, "gD": 1, "gB": 3, "gA": 10}),
            ("gD", {"gC": 0, "gD": 1, "gB": 3, "gA": 5}),
            ("gB gD", {"gC": 0, "gD": 1, "gB": 3}),
            ("gC", {"gC": 0}),
        ):
            self.assertEqual(costs(paths, avoided), expected, avoided)

    def test_in_routing_servers(self) -> None:
        """A gate of the destination's site delivers while an in-routing server is up."""
        estate = Estate("A-B 2")
        for server in ("rB", "sB"):
            estate.machine(server, "B", routing_server=True)
        estate.machine("to", "B", into="rB sB")
        paths = paths_to(estate.sound(), "to")
        for avoided, expected in (
            ("", {"gB": 0, "gA": 2}),
            ("rB", {"gB": 0, "gA": 2}),
            ("sB", {"gB": 0, "gA": 2}),
            ("rB sB", {}),
        ):
            self.assertEqual(costs(paths, avoided), expected, avoided)

    def test_gate_that_is_an_in_routing_server(self) -> None:
        """Such a gate reaches the destination whatever else is down, and without it nothing does."""
        estate = Estate("A-B 2, B-C 1")
        estate.machine("to", "C", into="gC")
        paths = paths_to(estate.sound(), "to")
        self.assertEqual(costs(paths), {"gC": 0, "gB": 1, "gA": 3})
        self.assertEqual(costs(paths, "gC"), {"gC": 0})


class StepTests(SynchronousTestCase):
    """Which steps are allowed."""

    def test_steps(self) -> None:
        """A step leads to any nearer gate of a neighbouring site; those that serve the link come first."""
        estate = Estate(FOUR)
        estate.machine("aD", "D", routing_server=True)
        estate.link("C", "D", 8, "aD")
        paths = paths_to(estate.sound(), "cC")
        self.assertEqual(
            {name(gate): [(*step[:3], name(step[3])) for step in paths.steps[gate]] for gate in paths.order},
            {
                "gC": [],
                "aD": [(1, 2, False, "gC")],
                "gD": [(1, 2, False, "gC")],
                "gB": [(3, 2, False, "gC")],
                "gA": [(2, 1, False, "gB"), (9, 3, False, "gD"), (9, 3, True, "aD")],
            },
        )

    def longest(self, paths: DownstreamPaths) -> Mapping[str, int]:
        """The largest number of gates that a message can pass from each."""
        found: dict[UUID, int] = {}
        for gate in paths.order:
            found[gate] = 1 + max((found[step[3]] for step in paths.steps[gate]), default=0)
        return {name(gate): count for gate, count in found.items()}

    def beside_a_chain(self, count: int) -> DownstreamPaths:
        """Sites S00 to S19, each a bit nearer to T than the one before and all by D; and a chain of sites
        from T, in which there is one way only.
        """
        chain = ["T", *(f"P{number:02}" for number in range(1, count + 1))]
        links = [f"{one}-{two} 1" for one, two in pairwise(chain)]
        sites = [f"S{number:02}" for number in range(20)]
        links += [f"{one}-{two} 2" for one, two in pairwise(sites)]
        links += [f"{site}-D {100 - number}" for number, site in enumerate(sites)] + ["D-T 1"]
        return paths_to(Estate(", ".join(links)).sound(), "cT")

    def test_hops_that_alternates_may_add(self) -> None:
        """The longest of the cheapest paths leaves some hops of the limit, which alternates may add to any
        other.
        """
        longest = self.longest(self.beside_a_chain(20))
        self.assertEqual(longest["gP20"], 21)
        # 27 less 21 are left.
        found = [longest[f"gS{number:02}"] for number in range(19, 8, -1)]
        self.assertEqual(found, [3, 4, 5, 6, 7, 8, 9, 3, 4, 5, 6])

    def test_no_hops_left(self) -> None:
        """Where the cheapest paths need the whole limit, or more, only steps that add none remain."""
        for count, expected in ((25, 4), (26, 3), (27, 3), (40, 3)):
            paths = self.beside_a_chain(count)
            longest = self.longest(paths)
            self.assertEqual(longest[f"gP{count}"], count + 1)
            self.assertEqual(max(longest[f"gS{number:02}"] for number in range(20)), expected)
            self.assertEqual(names(step[3] for step in paths.steps[guid("gS19")]), ["gD"])
