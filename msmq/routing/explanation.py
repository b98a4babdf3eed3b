"""Explanations of alternate hops and of waiting messages, as readable text."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final
from uuid import UUID

from msmq.routing.alternates import Alternates
from msmq.routing.downstream import Rank
from msmq.routing.next_hops import Decision, Rule, decide
from msmq.routing.topology import Topology

_MOST_NAMED: Final = 3
"""Limit on the named gates that are up but not allowed."""


def explain_alternate(alternates: Alternates, own: UUID, destination: UUID, decision: Decision) -> str:
    """Explain why a queue manager uses a hop that [MS-MQBR] would not choose."""
    topology = alternates.topology
    name = topology.queue_manager_name
    hop = decision.hops[0]
    plain = decide(topology, own, destination)
    if plain.rule is not Rule.ROUTING_TABLE:
        what = "site gate" if plain.rule is Rule.SITE_GATE_OF_SITE else "routing server"
        return f"{name(plain.hops[0])} is down, and {name(hop)} is another {what} in reach of {name(own)}"
    target = topology.queue_manager(destination)
    assert target is not None
    ranks = alternates.paths(target).ranks
    return (
        f"the cheapest path is by {name(plain.hops[0])}, and cannot be used; {name(hop)} is nearer to"
        f" {name(destination)} ({_distance(ranks[hop])}) than {name(own)} is ({_distance(ranks[own])})"
    )


def explain_waiting(
    alternates: Alternates, own: UUID, destination: UUID, decision: Decision, missed: Set[UUID]
) -> str:
    """Explain why a message waits while all of its hops are down."""
    topology = alternates.topology
    name = topology.queue_manager_name
    waited_for = " or ".join(map(name, decision.hops))
    text = f"the message waits at {name(own)} for {waited_for}"
    target = topology.queue_manager(destination)
    if decision.rule is not Rule.ROUTING_TABLE or target is None:
        return text
    paths = alternates.paths(target)
    if own not in paths.ranks:
        return text
    allowed = {step[3] for step in paths.steps[own]}
    others = sorted(_neighbors(topology, own) - missed - {own}, key=name)
    reasons = [
        (
            f"{name(gate)} is not an alternate, because every path from it is blocked too"
            if gate in allowed
            else _refusal(topology, own, gate, destination, paths.ranks)
        )
        for gate in others
    ]
    if len(reasons) > _MOST_NAMED:
        reasons = [*reasons[:_MOST_NAMED], f"nor are {len(reasons) - _MOST_NAMED} others"]
    return "; ".join([text, *reasons])


def _refusal(topology: Topology, own: UUID, gate: UUID, destination: UUID, ranks: Mapping[UUID, Rank]) -> str:
    name = topology.queue_manager_name
    text = f"{name(gate)} is not an alternate, because "
    if gate not in ranks:
        return f"{text}no links lead from it to {name(destination)}"
    if ranks[gate] < ranks[own]:
        return f"{text}paths from it may take more hops than a message can make"
    here, there = _distance(ranks[own]), _distance(ranks[gate])
    if here == there:
        return f"{text}it is as far from {name(destination)} ({there}), and may itself use {name(own)}"
    return f"{text}it is farther from {name(destination)} ({there}) than {name(own)} is ({here})"


def _neighbors(topology: Topology, own: UUID) -> set[UUID]:
    """The gates of the sites that are linked to those of a gate."""
    machine = topology.queue_manager(own)
    if machine is None:
        return set()
    graph = topology.graph
    return {
        gate
        for site in topology.gated_sites(machine)
        for there in graph.links[graph.numbers[site]]
        for gate in topology.gates(graph.vertices[there])
    }


def _distance(rank: Rank) -> int:
    return rank[1]
