"""Why a message takes an alternate, and why it waits, in words."""

from __future__ import annotations

from itertools import pairwise

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.route import Route, route
from msmq.routing.topology import Topology
from tests.routing.builders import Estate, guid, guids, names


def with_down(topology: Topology, source: str, destination: str, *down: str) -> Route:
    return route(topology, guid(source), guid(destination), frozenset(guids(down)))


class AlternateTests(SynchronousTestCase):
    """A hop that [MS-MQBR] would not choose."""

    def test_another_server_of_the_site(self) -> None:
        """Within a site the hop that is down is named, and what the other is."""
        estate = Estate("A-B 1 gA hA gB")
        estate.machine("hA", "A", routing_server=True)
        estate.machine("rA", "A", routing_server=True)
        topology = estate.sound()
        for own, what in (("cA", "routing server"), ("rA", "site gate")):
            found = with_down(topology, own, "cB", "gA")
            self.assertEqual(names(hop.queue_manager for hop in found.hops), ["hA", "gB", "cB"])
            self.assertEqual(found.hops[0].reason, f"gA is down, and hA is another {what} in reach of {own}")
            self.assertEqual(
                [(hop.site_name, hop.cost) for hop in found.hops], [("A", 0), ("B", 1), ("B", 0)]
            )

    def test_nearer_gate(self) -> None:
        """Between sites it says how far the alternate and the queue manager itself are."""
        topology = Estate("A-B 10, B-C 10, A-D 15, D-C 16").sound()
        [hop, *_] = with_down(topology, "gA", "cC", "gB").hops
        self.assertEqual(
            hop.reason,
            "the cheapest path is by gB, and cannot be used; gD is nearer to cC (16) than gA is (20)",
        )
        self.assertEqual((hop.cost, hop.total), (15, 15))


class WaitingTests(SynchronousTestCase):
    """A message that waits at a site gate, which knows the gates that it might use."""

    def why(self, topology: Topology, source: str, destination: str, *down: str) -> list[str]:
        found = with_down(topology, source, destination, *down)
        self.assertEqual(found.waits_at, guid(source))
        return found.problem.split("; ")

    def test_farther(self) -> None:
        """A gate that is farther from the destination is named with both distances."""
        self.assertEqual(
            self.why(Estate("A-B 1, B-C 1, A-D 1, D-C 3").sound(), "gA", "cC", "gB"),
            [
                "the message waits at gA for gB",
                "gD is not an alternate, because it is farther from cC (3) than gA is (2)",
            ],
        )

    def test_equally_far(self) -> None:
        """A gate at the same distance might use the one where the message waits."""
        self.assertEqual(
            self.why(Estate("A-X 1, X-Z 1, B-Y 1, Y-Z 1, A-B 1").sound(), "gA", "cZ", "gX"),
            [
                "the message waits at gA for gX",
                "gB is not an alternate, because it is as far from cZ (2), and may itself use gA",
            ],
        )

    def test_blocked_too(self) -> None:
        """A nearer gate whose own paths are all blocked would not help."""
        self.assertEqual(
            self.why(Estate("A-B 2, B-C 1, A-E 5, E-B 1").sound(), "gA", "cC", "gB"),
            [
                "the message waits at gA for gB",
                "gE is not an alternate, because every path from it is blocked too",
            ],
        )

    def test_no_links(self) -> None:
        """A neighbour in a part of the enterprise from which no links lead to the destination is named."""
        estate = Estate("A-B 1, B-C 1, X-Y 1 gA gY")
        estate.add_site(guid("W"), "W")
        estate.machine("both", "A X", routing_server=True)
        estate.link("A", "B", 1, "both")
        estate.link("X", "Y", 1, "both")
        self.assertEqual(
            self.why(estate.topology, "both", "cC", "gB"),
            [
                "the message waits at both for gB",
                "gY is not an alternate, because no links lead from it to cC",
            ],
        )

    def test_too_many_hops(self) -> None:
        """A nearer gate may be left out for the sake of the hop limit."""
        chain = [f"S{number:02}" for number in range(40)]
        links = [f"{one}-{two} 2" for one, two in pairwise(chain)]
        links += [f"{site}-D {100 - number}" for number, site in enumerate(chain)] + ["D-T 1"]
        self.assertEqual(
            self.why(Estate(", ".join(links)).sound(), "gS14", "cT", "gD"),
            [
                "the message waits at gS14 for gD",
                "gS13 is not an alternate, because it is farther from cT (88) than gS14 is (87)",
                "gS15 is not an alternate, because paths from it may take more hops than a message can make",
            ],
        )

    def test_itself_is_no_neighbour(self) -> None:
        """A gate of two linked sites is not its own alternate."""
        estate = Estate("A-B 1, B-C 1, C-D 1")
        estate.machine("both", "A B", routing_server=True)
        estate.link("A", "B", 1, "both")
        self.assertEqual(
            self.why(estate.sound(), "both", "cD", "gC"),
            [
                "the message waits at both for gC",
                "gA is not an alternate, because it is farther from cD (3) than both is (2)",
                "gB is not an alternate, because it is as far from cD (2), and may itself use both",
            ],
        )

    def test_number_of_reasons(self) -> None:
        """Three gates are explained, in the order of their names, and the number of others is named."""
        for count in (3, 4, 6):
            sites = [f"D{number}" for number in range(count)]
            far = ", ".join(f"A-{site} 1, {site}-C 9" for site in reversed(sites))
            found = self.why(Estate(f"A-B 1, B-C 1, {far}").sound(), "gA", "cC", "gB")
            self.assertEqual([text.split()[0] for text in found[1:4]], ["gD0", "gD1", "gD2"])
            self.assertEqual(found[4:], [f"nor are {count - 3} others"] if count > 3 else [])

    def test_all_that_were_tried(self) -> None:
        """The alternates that were tried are named, and not explained."""
        topology = Estate("A-B 10, B-C 10, A-D 15, D-C 15").sound()
        self.assertEqual(self.why(topology, "gA", "cC", "gB", "gD"), ["the message waits at gA for gB or gD"])

    def test_within_a_site(self) -> None:
        """Queue managers of the own site are named alone."""
        estate = Estate("A-B 1, A-C 1")
        for server in ("rA", "sA"):
            estate.machine(server, "A", routing_server=True)
        estate.machine("mA", "A", into="rA sA", out="rA sA")
        topology = estate.sound()
        self.assertEqual(self.why(topology, "mA", "cB", "rA", "sA"), ["the message waits at mA for rA or sA"])
        self.assertEqual(self.why(topology, "gA", "mA", "rA", "sA"), ["the message waits at gA for rA or sA"])
