"""A static enterprise of 10,000 sites and 50,000 links: loading it, the routing table, next hops.

Compared with networkx in the same run, which builds a graph of the same links, and computes costs and
predecessors. All of it is computing, so that the time of the processor is taken, whatever else the machine
does.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import attrs
import networkx

from msmq.routing.next_hops import next_hops
from msmq.routing.route import route
from msmq.routing.table import routing_table
from msmq.routing.topology import Topology
from msmq.routing.topology_builder import TopologyBuilder
from rig.measuring import Result, compare

T = TypeVar("T")

SITES = 10_000
LINKS = 50_000
COSTS = 1000
ROUNDS = 7
DECISIONS = 10_000
TABLE_GOAL = 1.0
"""Seconds."""
DECISION_GOAL = 20.0
"""Microseconds."""
ROUTE_GOAL = 20.0
"""Milliseconds."""


class Plan:
    """Contents of a directory: in each site a gate and another queue manager, all sites connected."""

    def __init__(self, sites: int, links: int, seed: int = 1) -> None:
        chance = random.Random(seed)
        self.sites = [UUID(int=chance.getrandbits(128)) for _ in range(sites)]
        self.gates = [UUID(int=chance.getrandbits(128)) for _ in range(sites)]
        self.others = [UUID(int=chance.getrandbits(128)) for _ in range(sites)]
        self.links: list[tuple[int, int, int]] = []
        pairs: set[tuple[int, int]] = set()
        while len(self.links) < links:
            # The first links make a tree, so that every site can be reached.
            number = len(self.links) + 1
            one, two = (
                (chance.randrange(number), number)
                if number < sites
                else sorted(chance.sample(range(sites), 2))
            )
            if (one, two) not in pairs:
                pairs.add((one, two))
                self.links.append((one, two, chance.randint(1, COSTS)))

    def builder(self) -> TopologyBuilder:
        """It, handed over object by object, as a directory does."""
        builder = TopologyBuilder()
        for number, (site, gate, other) in enumerate(zip(self.sites, self.gates, self.others, strict=True)):
            builder.add_site(site, f"site{number}")
            builder.add_queue_manager(gate, f"gate{number}", sites=[site], routing_server=True)
            builder.add_queue_manager(other, f"other{number}", sites=[site])
        for one, two, cost in self.links:
            builder.add_link(self.sites[one], self.sites[two], cost, [self.gates[one], self.gates[two]])
        return builder

    def graph(self) -> networkx.Graph[UUID]:
        """The same sites and links for networkx."""
        graph: networkx.Graph[UUID] = networkx.Graph()
        graph.add_nodes_from(self.sites)
        graph.add_weighted_edges_from(
            (self.sites[one], self.sites[two], cost) for one, two, cost in self.links
        )
        return graph


@attrs.frozen
class Round:
    """Seconds of one round, of the subject and of networkx where it has an
    equivalent.

    @ivar decision: of one next-hop decision.
    """

    loading: tuple[float, float]
    table: tuple[float, float]
    decision: float
    route: float


def measure(
    rounds: int = ROUNDS, sites: int = SITES, links: int = LINKS, decisions: int = DECISIONS
) -> list[Result]:
    """Compare round by round, each round from another gate."""
    plan = Plan(sites, links)
    done = [_round(plan, number % sites, decisions) for number in range(rounds)]
    size = f"{sites:,} sites, {links:,} links"
    tables = [(one.table[0] * 1e3, one.table[1] * 1e3) for one in done]
    return [
        compare(f"load {size}: objects, checks, indexes", [one.loading for one in done], "s"),
        _absolute(compare(f"routing table of {size}", tables, "ms"), TABLE_GOAL * 1e3),
        _absolute(
            _alone(
                "a next-hop decision of a site gate", [one.decision * 1e6 for one in done], "microseconds"
            ),
            DECISION_GOAL,
        ),
        _absolute(
            _alone("the route to the farthest site, explained", [one.route * 1e3 for one in done], "ms"),
            ROUTE_GOAL,
        ),
    ]


def _round(plan: Plan, own: int, decisions: int) -> Round:
    graph, making_graph = _timed(plan.graph)
    topology, loading = _timed(lambda: _load(plan))
    gate, source = plan.gates[own], plan.others[own]
    table, computing = _timed(lambda: routing_table(topology, gate))
    (_, costs), searching = _timed(lambda: networkx.dijkstra_predecessor_and_distance(graph, plan.sites[own]))
    assert {site: row.cost for site, row in table.rows.items()} == costs, "both find the same"
    elsewhere = [other for place, other in enumerate(plan.others) if place != own]
    destinations = elsewhere[: max(1, min(len(elsewhere), decisions))]

    def decide() -> None:
        for destination in destinations:
            next_hops(topology, gate, destination, table)

    _, deciding = _timed(decide)
    far = max(range(len(plan.sites)), key=lambda place: table.rows[plan.sites[place]].cost)
    way, explaining = _timed(lambda: route(topology, source, plan.others[far]))
    assert way.cost == costs[plan.sites[far]], "every queue manager on the way agrees"
    return Round((loading, making_graph), (computing, searching), deciding / len(destinations), explaining)


def _load(plan: Plan) -> Topology:
    enterprise = plan.builder().build()
    assert not enterprise.problems
    return enterprise.topology


def _alone(name: str, figures: list[float], unit: str) -> Result:
    return Result(name, statistics.median(figures), unit)


def _absolute(result: Result, at_most: float) -> Result:
    """The goal is one of the figure itself, not of the ratio."""
    return attrs.evolve(
        result, goal=f"at most {at_most:,.0f} {result.unit}", is_reached=result.value <= at_most
    )


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    result = call()
    return result, time.process_time() - started
