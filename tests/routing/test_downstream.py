"""Alternates while queue managers are down: no routing loop, in any enterprise, with any beliefs.

C{MSMQ_SOAK} overrides the number of enterprises of each kind.
"""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.alternates import Alternates
from msmq.routing.downstream import MOST_GATES, downstream_paths
from msmq.routing.next_hops import Rule
from msmq.routing.topology import Topology
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT
from tests.routing.builders import Estate, guid, name, names
from tests.routing.enterprises import Plan, neglected, well_kept
from tests.routing.test_any_enterprise import any_enterprise

BRANCHES = "Branch-North 1, Head-North 1, Branch-South 5, Head-South 1"
"""Head reaches Branch by North; so does South, at 3, as its own link costs 5."""


def hops(topology: Topology, own: str, destination: str, *down: str) -> list[str]:
    avoided = frozenset(guid(each) for each in down)
    return names(Alternates(topology).decide(guid(own), guid(destination), avoided).hops)


class ExampleTests(SynchronousTestCase):
    """Enterprises in which one can follow what is decided."""

    def test_backup_that_would_send_back(self) -> None:
        """South would hand the message back, so it waits for North and is not handed to South."""
        topology = Estate(BRANCHES).sound()
        self.assertEqual(hops(topology, "gHead", "cBranch", "gNorth"), ["gNorth"])
        self.assertEqual(hops(topology, "gSouth", "cBranch", "gNorth"), ["gBranch"])

    def test_backup_that_is_nearer(self) -> None:
        """Costs by which South is nearer to Branch than Head is make it an alternate, in both directions."""
        topology = Estate("Branch-North 10, Head-North 10, Branch-South 15, Head-South 15").sound()
        self.assertEqual(hops(topology, "gHead", "cBranch", "gNorth"), ["gSouth"])
        self.assertEqual(hops(topology, "gBranch", "cHead", "gNorth"), ["gSouth"])
        self.assertEqual(hops(topology, "gHead", "cBranch"), ["gNorth"])
        self.assertEqual(hops(topology, "gHead", "cBranch", "gSouth"), ["gNorth"])

    def test_all_alternates_are_down(self) -> None:
        """All that would do are dialled, the next hop of the document first."""
        topology = Estate("Branch-North 10, Head-North 10, Branch-South 15, Head-South 15").sound()
        self.assertEqual(hops(topology, "gHead", "cBranch", "gNorth", "gSouth"), ["gNorth", "gSouth"])

    def test_another_gate_of_the_next_site(self) -> None:
        """It is as near as the first, so it replaces it; if both are down both are dialled."""
        estate = Estate("A-B 1 gA gB hB, B-C 1 gB hB gC, A-C 5")
        estate.machine("hB", "B", routing_server=True)
        topology = estate.sound()
        self.assertEqual(hops(topology, "gA", "cC", "gB"), ["hB"])
        self.assertEqual(hops(topology, "gA", "cC", "gB", "hB"), ["gC"])
        self.assertEqual(hops(topology, "gA", "cC", "gB", "hB", "gC"), ["gB", "gC"])

    def test_unreachable_gates_beyond_the_next_hop(self) -> None:
        """A gate that is down beyond the next hop is avoided too, if there is a route without it."""
        topology = Estate("A-B 1, B-C 1, C-D 1, A-E 5, E-D 5, B-E 9").sound()
        self.assertEqual(hops(topology, "gA", "cD", "gC"), ["gB"])
        topology = Estate("A-B 5, B-C 5, C-D 5, A-E 9, E-D 9").sound()
        self.assertEqual(hops(topology, "gA", "cD", "gC"), ["gE"])

    def test_equally_near(self) -> None:
        """Of two at the same distance, one may use the other: the one with the greater identifier."""
        topology = Estate("A-X 1, X-Z 1, B-Y 1, Y-Z 1, A-B 1").sound()
        self.assertEqual(hops(topology, "gB", "cZ", "gY"), ["gA"])
        self.assertEqual(hops(topology, "gA", "cZ", "gX"), ["gX"])

    def test_routing_servers_of_a_site(self) -> None:
        """A queue manager that routes nothing takes another routing server of its site, not one elsewhere."""
        estate = Estate("A-B 1 gA hA gB")
        estate.machine("hA", "A", routing_server=True)
        estate.machine("rA", "A", routing_server=True)
        topology = estate.sound()
        self.assertEqual(hops(topology, "cA", "cB", "gA"), ["hA"])
        self.assertEqual(hops(topology, "cA", "cB", "gA", "hA"), ["gA", "hA"])
        self.assertEqual(hops(topology, "rA", "cB", "gA"), ["hA"])
        self.assertEqual(hops(topology, "rA", "cB", "gA", "hA"), ["gA", "hA"])

    def test_site_without_gates(self) -> None:
        """A queue manager there takes another routing server of its site if that reaches a gate elsewhere."""
        estate = Estate("B-C 1", "B C")
        estate.add_site(guid("A"), "A")
        estate.machine("mA", "A")
        for server in ("rA", "sA"):
            estate.machine(server, "A B", routing_server=True)
        topology = estate.sound()
        self.assertEqual(hops(topology, "mA", "cC"), ["rA"])
        self.assertEqual(hops(topology, "mA", "cC", "rA"), ["sA"])
        self.assertEqual(hops(topology, "mA", "cC", "rA", "sA"), ["rA", "sA"])
        # The gate of the other site is down: nothing is gained by the other server.
        self.assertEqual(hops(topology, "mA", "cC", "rA", "gB"), ["rA"])

    def test_listed_servers(self) -> None:
        """Of in- and out-routing servers those that can be reached are used, and no others."""
        estate = Estate("A-B 1")
        for server in ("rA", "sA"):
            estate.machine(server, "A", routing_server=True)
        estate.machine("mA", "A", into="rA sA", out="rA sA")
        topology = estate.sound()
        self.assertEqual(hops(topology, "mA", "cB", "rA"), ["sA"])
        self.assertEqual(hops(topology, "mA", "cB", "rA", "sA"), ["rA", "sA"])
        self.assertEqual(hops(topology, "gA", "mA", "rA"), ["sA"])
        self.assertEqual(hops(topology, "gA", "mA", "rA", "sA"), ["rA", "sA"])

    def test_destination(self) -> None:
        """The destination is not avoided, nor is a queue manager that is on no path."""
        topology = Estate("A-B 1, B-C 1, A-C 5").sound()
        self.assertEqual(hops(topology, "gC", "cC", "cC"), ["cC"])
        self.assertEqual(hops(topology, "gA", "gB", "gB"), ["gB"])
        self.assertEqual(hops(topology, "gA", "cC", "cB"), ["gB"])

    def test_hop_limit(self) -> None:
        """Alternates add no more hops than the limit leaves."""
        chain = [f"S{number:02}" for number in range(40)]
        links = [f"{one}-{two} 2" for one, two in pairwise(chain)]
        links += [f"{site}-D {100 - number}" for number, site in enumerate(chain)] + ["D-T 1"]
        topology = Estate(", ".join(links)).sound()
        target = topology.queue_manager(guid("cT"))
        assert target is not None
        paths = downstream_paths(topology, target)
        longest: dict[UUID, int] = {}
        for gate in paths.order:
            longest[gate] = 1 + max((longest[step[3]] for step in paths.steps[gate]), default=0)
        self.assertEqual(max(longest.values()), MOST_GATES)
        self.assertEqual(hops(topology, "gS00", "cT", "gD"), ["gD"])
        # The last of the chain are near enough.
        self.assertEqual(longest[guid("gS30")], 12)


class AnyEnterpriseTests(SynchronousTestCase):
    """Properties of any enterprise."""

    def follow(self, topology: Topology, data: st.DataObject) -> None:
        """A message goes from hop to hop, by the state that each queue manager has when it has the message.

        Any of the hops that are answered may be the one that can be reached.
        """
        machines = [machine.identifier for machine in topology.queue_managers]
        if len(set(machines)) < 2:
            return
        source, destination = data.draw(
            st.lists(st.sampled_from(machines), min_size=2, max_size=2, unique=True), label="ends"
        )
        alternates = Alternates(topology)
        here, passed = source, [source]
        while here != destination:
            believed = data.draw(st.frozensets(st.sampled_from(machines)), label=f"{name(here)} believes")
            found = alternates.decide(here, destination, believed).hops
            self.assertEqual(bool(found), bool(alternates.decide(here, destination, frozenset()).hops))
            if not found:
                return
            here = data.draw(st.sampled_from(found))
            self.assertNotIn(here, passed)
            passed.append(here)
            machine = topology.queue_manager(here)
            assert machine is not None
            self.assertTrue(here == destination or machine.routing_server)
        self.assertLessEqual(len(passed) - 2, MAXIMUM_HOP_COUNT)

    @given(plan=well_kept(), data=st.data())
    @any_enterprise
    def test_no_second_visit(self, plan: Plan, data: st.DataObject) -> None:
        """A message visits no queue manager twice, with any beliefs that change at any time."""
        self.follow(plan.builder().build().topology, data)

    @given(plan=neglected(), data=st.data())
    @any_enterprise
    def test_neglected(self, plan: Plan, data: st.DataObject) -> None:
        """The same holds in enterprises with mistakes of any kind."""
        self.follow(plan.builder().build().topology, data)

    @given(plan=well_kept(), data=st.data())
    @any_enterprise
    def test_waits_or_arrives(self, plan: Plan, data: st.DataObject) -> None:
        """With some queue managers down, which others detect when they dial, a message arrives or waits for
        one of them; when they are back it arrives from where it is.
        """
        topology = plan.builder().build().topology
        machines = [machine.identifier for machine in topology.queue_managers]
        if len(machines) < 2:
            return
        source, destination, *down = data.draw(st.permutations(machines))
        down = down[: data.draw(st.integers(0, len(down)))]
        alternates = Alternates(topology)
        here, passed, learned = source, [source], {machine: set[UUID]() for machine in machines}
        while here != destination:
            found = alternates.decide(here, destination, learned[here]).hops
            up = [hop for hop in found if hop not in down]
            if not up:
                if set(found) <= learned[here]:
                    # It waits; everything is started again.
                    down = []
                    continue
                learned[here].update(found)
                continue
            here = up[0]
            self.assertNotIn(here, passed)
            passed.append(here)

    @given(plan=well_kept())
    @any_enterprise
    def test_nothing_more_could_be_allowed(self, plan: Plan) -> None:
        """Between gates of neighboring sites one direction is allowed, so that allowing more would make a
        circle of two; a smaller rank alone decides, unless the hop limit does.
        """
        topology = plan.builder().build().topology
        for target in topology.queue_managers:
            paths = downstream_paths(topology, target)
            for gate in paths.order:
                for step in paths.steps[gate]:
                    self.assertLess(paths.ranks[step[3]], paths.ranks[gate])
                if paths.delivers(gate):
                    self.assertFalse(paths.steps[gate])
                    continue
                machine = topology.queue_manager(gate)
                assert machine is not None
                allowed = {step[3] for step in paths.steps[gate]}
                neighbors = {
                    other
                    for site in topology.gated_sites(machine)
                    for neighbor in topology.sites
                    if topology.link_between(site, neighbor.identifier) is not None
                    for other in topology.gates(neighbor.identifier)
                }
                for other in neighbors - {gate}:
                    if paths.ranks[other] != paths.ranks[gate]:
                        self.assertEqual(other in allowed, paths.ranks[other] < paths.ranks[gate])

    @given(plan=well_kept(), data=st.data())
    @any_enterprise
    def test_nothing_is_believed_to_be_down(self, plan: Plan, data: st.DataObject) -> None:
        """A queue manager that avoids nothing on a path decides as [MS-MQBR] does."""
        topology = plan.builder().build().topology
        alternates = Alternates(topology)
        for source in topology.queue_managers:
            for target in topology.queue_managers:
                if source != target:
                    plain = alternates.decide(source.identifier, target.identifier, frozenset())
                    own = alternates.decide(source.identifier, target.identifier, {target.identifier})
                    self.assertEqual(own, plain)
                    self.assertIsNot(plain.rule, Rule.ALTERNATE)
