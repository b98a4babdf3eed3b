"""Plans of runs whose hosts are backed up, restored and replaced: what a seed decides of those."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeAlias

Arguments: TypeAlias = tuple[Any, ...]
Draw: TypeAlias = tuple[float, str, Arguments]
"""The second of a step, its kind and its arguments."""

DOWN: Final = (60.0, 90.0, 400.0)
"""Seconds that an operator takes for a restore; numbers that depend on the clock advance meanwhile."""


def draw_recoveries(chance: Random, applications: Sequence[int], hosts: int, end: float) -> list[Draw]:
    """The steps of a run, at times until shortly after its other steps.

    @param applications: the hosts that have applications.
    @param hosts: how many there are.
    """
    weights = [_KINDS[kind][0] * chance.choice((0, 1, 1, 3)) for kind in _KINDS]
    weights[0] = max(weights[0], 3)
    steps: list[Draw] = []
    for _ in range(chance.randrange(1, 4)):
        [kind] = chance.choices(list(_KINDS), weights)
        at = chance.choice((end, end, end + 3.0)) * chance.random()
        found = _KINDS[kind][1](chance, applications, hosts)
        steps += [(round(at + later, 6), name, arguments) for later, name, arguments in found]
    return steps


def draw_second_restores(chance: Random, steps: Sequence[Draw], hosts: int) -> list[Draw]:
    """For each restore of a run that of another host, a relay for example, before the last traffic.

    @param steps: those of the recoveries.
    @param hosts: how many there are.
    """
    found: list[Draw] = []
    for at, kind, arguments in steps:
        if kind == "restore":
            other = chance.choice([number for number in range(hosts) if number != arguments[0]])
            found.append((round(at * chance.random(), 6), "back up", (other,)))
            later = chance.choice((0.0, 1.0, 80.0)) * chance.random()
            found.append((round(at + later, 6), "restore", (other, chance.choice(DOWN))))
    return found


def _restore(chance: Random, applications: Sequence[int], hosts: int) -> list[Draw]:
    """A host is backed up, goes on, is restarted often, and is restored."""
    host = chance.choice(applications)
    steps = _traffic(chance, applications, host, 0.0)
    at = chance.choice((0.0, 0.02, 2.0)) * chance.random()
    steps.append((at, "back up", (host,)))
    for _ in range(chance.choice((1, 1, 2, 3))):
        at += chance.choice((0.0, 0.02, 3.0)) * chance.random()
        kind = chance.choice(("traffic", "traffic", "restart", "kill", "receive"))
        match kind:
            case "traffic":
                steps += _traffic(chance, applications, host, at)
            case "restart":
                steps.append((at, "restart", (host,)))
            case "kill":
                steps.append((at, "kill", (host, "calls", 0, chance.choice((0.0, 0.5)), 0.5)))
            case "receive":
                steps.append((at, "receive", _receive(chance, host)))
        if kind in ("restart", "kill"):
            at += 1.0 + chance.random()
            steps += _traffic(chance, applications, host, at)
    at += chance.choice((0.0, 0.02, 3.0)) * chance.random()
    steps.append((at, "restore", (host, chance.choice(DOWN))))
    # Before the host is back, and afterwards.
    steps += _traffic(chance, applications, host, at + chance.choice((1.0, 500.0)))
    return [*steps, *_traffic(chance, applications, host, at + 500.0)]


def _traffic(chance: Random, applications: Sequence[int], host: int, at: float) -> list[Draw]:
    """Messages from or to a host."""
    other = chance.choice([number for number in applications if number != host])
    steps: list[Draw] = []
    for _ in range(chance.choice((1, 1, 2))):
        ends = (host, other) if chance.random() < 0.6 else (other, host)
        queue = chance.choice(("payments", "letters"))
        steps.append((at, "send", (*ends, queue, chance.choice((1, 3, 9)), None, None, False)))
        at += chance.choice((0.0, 0.5)) * chance.random()
    return steps


def _receive(chance: Random, host: int) -> Arguments:
    queue = chance.choice(("payments", "letters"))
    return host, queue, chance.choice((1, 3, 10)), 0.0, chance.choice(("confirm", "release")), 0.0


def _replace(chance: Random, applications: Sequence[int], hosts: int) -> list[Draw]:
    """A host is moved to another disk, by a backup that is made after its stop, or its end."""
    host = chance.randrange(hosts)
    steps = _traffic(chance, applications, chance.choice(applications), 0.0)
    at = chance.choice((0.0, 0.02, 3.0)) * chance.random()
    likelihood = chance.choice((None, None, 0.0, 0.5, 1.0))
    steps.append((at, "replace", (host, likelihood, round(10.0 * chance.random(), 6))))
    if chance.random() < 0.3:
        # Also while it is filled.
        later = 10.5 * chance.random()
        count = chance.choice((1, 3, 8))
        steps.append((at + later, "kill", (host, "events", count, chance.choice((0.0, 0.5)), 0.5)))
    return steps


def _answered(chance: Random, applications: Sequence[int], hosts: int) -> list[Draw]:
    """Messages whose acknowledgements another host gets than their sender, which is down now and then."""
    sender = chance.choice(applications)
    receiver = chance.choice([number for number in applications if number != sender])
    third = chance.choice([number for number in range(hosts) if number != sender])
    queue = chance.choice(("payments", "letters", "missing"))
    steps: list[Draw] = []
    if chance.random() < 0.6:
        seconds = round(chance.choice((1.0, 20.0)) * chance.random(), 6)
        steps.append((0.0, "kill", (third, "calls", 0, chance.choice((0.0, 0.5)), seconds)))
    steps.append((0.0, "send answered", (sender, receiver, third, queue, chance.choice((1, 5, 9)))))
    if chance.random() < 0.5:
        at = 2.0 * chance.random()
        steps.append((at, "kill", (receiver, "events", chance.choice((1, 4, 14)), 0.5, 0.5)))
    return steps


_KINDS: Final[dict[str, tuple[int, Any]]] = {
    "restore": (6, _restore),
    "replace": (4, _replace),
    "answered": (3, _answered),
}
"""By kind: how often it comes, and what decides its steps."""
