"""Plans of runs: everything that a seed decides before the run begins."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from tests.simulation.changes_plan import Tuning, draw_changes, draw_tuning
from tests.simulation.enterprise import MEMBERS
from tests.simulation.handling_plan import Handling, draw_handling, draw_uses
from tests.simulation.recovery_plan import draw_recoveries, draw_second_restores

Arguments: TypeAlias = tuple[Any, ...]

DIRECT: Final = "direct"
"""Queue managers that know each other by their addresses."""
ROUTED: Final = "routed"
"""Two sites with a gate and a member each, and messages from member to member."""

DRAINS_FROM: Final = 20_000_000
"""The first seed of which runs also drain queues; earlier ones have the plans that they had before."""

CHANGES_FROM: Final = 16_540_000
"""The first seed of which runs change limits and properties as well, up to L{DRAINS_FROM}."""

BOTH_FROM: Final = 30_000_000
"""The first seed of which runs drain queues and change limits and properties."""

HANDLING_FROM: Final = 40_000_000
"""The first seed of which runs also handle messages one by one, and interrupt transactions that forward many;
half of these drain queues as well."""

RECOVERY_FROM: Final = 50_000_000
"""The first seed of which runs back up, restore and replace hosts, and send acknowledgements to third ones;
half of these change limits and properties as well."""

SECOND_FROM: Final = 60_000_000
"""The first seed of which runs also restore a second host for each that is restored; it may be a relay."""

LONG_REFUSAL: Final = 30.0
"""Seconds of a quota after which a run in small pieces does not retry five times a second.

A session to a queue manager over its quota opens, sends, and is closed. The next one is dialled after the
first wait, which does not grow if a session was open; thousands of equal sessions take minutes to simulate.
"""

DAMAGE: Final = ("full", "rot")
"""Faults after which less is promised, so that most plans have none of them."""


@attrs.frozen
class Step:
    """One step.

    @ivar at: the second of the run.
    """

    at: float
    kind: str
    arguments: Arguments


@attrs.frozen
class Plan:
    """One run.

    @ivar hosts: how many queue managers.
    @ivar steps: in the order of their times.
    @ivar skewed: by host, the rate of its monotonic clock and the error of its wall clock.
    @ivar has_drains: queues are drained too, for which each host has a queue of acknowledgements.
    @ivar tuning: settings of runs with changed limits and properties; C{None} for others.
    @ivar handling: settings of runs whose messages are handled one by one; C{None} for others.
    """

    seed: int
    shape: str
    hosts: int
    delay: float
    chunk: int | None
    window: int
    retry: float
    resend: float
    memory: int | None
    handover: bool
    skewed: Sequence[tuple[float, float]]
    steps: Sequence[Step]
    has_drains: bool = False
    tuning: Tuning | None = None
    handling: Handling | None = None

    def keep(self, numbers: Sequence[int]) -> Plan:
        """The same plan with some of its steps."""
        return attrs.evolve(self, steps=[self.steps[number] for number in numbers])


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    chance = Random(f"msmq {seed}")
    shape = ROUTED if chance.random() < 0.25 else DIRECT
    hosts = 4 if shape == ROUTED else chance.choice((2, 2, 3))
    is_skewed = chance.random() < 0.3
    calm = [kind for kind in _KINDS if kind not in DAMAGE]
    kinds = list(_KINDS) if chance.random() < 0.15 else calm
    # Some kinds more, some never: plans that differ more than the mean of all.
    weights = [_KINDS[kind][0] * chance.choice((0, 1, 1, 3)) for kind in kinds]
    weights[kinds.index("send")] = max(weights[kinds.index("send")], 8)
    at = 0.0
    steps = []
    for _ in range(chance.randrange(4, 25)):
        at += chance.choice((0.0, 0.001, 0.02, 0.3, 2.0)) * chance.random()
        [kind] = chance.choices(kinds, weights)
        steps.append(Step(round(at, 6), kind, _KINDS[kind][1](chance, hosts)))
    using = Random(f"msmq handling {seed}") if HANDLING_FROM <= seed < RECOVERY_FROM else None
    recovering = Random(f"msmq recovery {seed}") if seed >= RECOVERY_FROM else None
    if DRAINS_FROM <= seed < RECOVERY_FROM and (using is None or using.random() < 0.5):
        for _ in range(chance.choice((1, 1, 2))):
            steps += _drain(chance, hosts, at)
        steps.sort(key=lambda step: step.at)
    changing = Random(f"msmq changes {seed}") if _has_changes(seed) else None
    if changing is not None:
        steps += [Step(*drawn) for drawn in draw_changes(changing, hosts, at)]
        steps.sort(key=lambda step: step.at)
    if using is not None:
        applications = MEMBERS if shape == ROUTED else range(hosts)
        steps += [Step(*drawn) for drawn in draw_uses(using, applications, at)]
        steps.sort(key=lambda step: step.at)
    if recovering is not None:
        applications = MEMBERS if shape == ROUTED else range(hosts)
        # Numbers are not repeated as long as the clocks advance.
        steps = [step for step in steps if step.kind != "jump"]
        recoveries = draw_recoveries(recovering, applications, hosts, at)
        if seed >= SECOND_FROM:
            recoveries += draw_second_restores(recovering, recoveries, hosts)
        steps += [Step(*drawn) for drawn in recoveries]
        steps.sort(key=lambda step: step.at)
    delay = chance.choice((0.0, 0.002, 0.05))
    chunk = chance.choice((None, None, 300, 1400))
    window = chance.choice((1, 4, 64))
    retry = chance.choice((0.2, 1.0, 5.0))
    if chunk == 300 and any(step.kind == "quota" and step.arguments[-1] > LONG_REFUSAL for step in steps):
        retry = max(retry, 1.0)
    return Plan(
        seed=seed,
        shape=shape,
        hosts=hosts,
        delay=delay,
        chunk=chunk,
        window=window,
        retry=retry,
        resend=chance.choice((1.0, 5.0, 30.0)),
        memory=chance.choice((0, 600, None)),
        handover=chance.random() < 0.7,
        skewed=[
            (chance.uniform(0.98, 1.02), chance.choice((0, 0, -400, 7, 86400))) if is_skewed else (1.0, 0)
            for _ in range(hosts)
        ],
        steps=steps,
        has_drains=DRAINS_FROM <= seed < RECOVERY_FROM,
        tuning=None if changing is None else draw_tuning(changing, hosts),
        handling=None if using is None else draw_handling(using, hosts),
    )


def _has_changes(seed: int) -> bool:
    if seed >= RECOVERY_FROM:
        return seed % 2 == 0
    return CHANGES_FROM <= seed < DRAINS_FROM or seed >= BOTH_FROM


def _drain(chance: Random, hosts: int, end: float) -> Sequence[Step]:
    """A queue is drained to a host with a lower number, so that no message goes in a circle.

    The power of its host is cut meanwhile more often than that of others.
    """
    source = chance.randrange(1, hosts)
    arguments = (
        source,
        chance.randrange(source),
        chance.choice(("payments", "letters")),
        round(chance.choice((0.05, 3.0, 60.0, 4000.0)) * chance.random(), 6),
        # Whether messages that are not transactional are kept until their arrival is acknowledged.
        chance.random() < 0.6,
    )
    began = end * chance.random()
    steps = [Step(round(began, 6), "drain", arguments)]
    if chance.random() < 0.5:
        later = chance.choice((0.01, 0.5, 5.0)) * chance.random()
        steps.append(Step(round(began + later, 6), "kill", (source, *_kill(chance, hosts)[1:])))
    return steps


def _pair(chance: Random, hosts: int) -> Arguments:
    sender = chance.randrange(hosts)
    return sender, (sender + chance.randrange(1, hosts)) % hosts


def _send(chance: Random, hosts: int) -> Arguments:
    queue = chance.choice(("payments", "payments", "letters", "missing"))
    reach, received = (chance.choice((None, None, None, None, 1, 5, 40)) for _ in range(2))
    count = chance.choice((1, 1, 2, 3, 5, 9))
    return *_pair(chance, hosts), queue, count, reach, received, chance.random() < 0.2


def _receive(chance: Random, hosts: int) -> Arguments:
    queue = chance.choice(("payments", "payments", "letters"))
    result = chance.choice(("confirm", "confirm", "confirm", "release", "transaction", "abort"))
    return (
        chance.randrange(hosts),
        queue,
        chance.choice((1, 3, 10)),
        chance.choice((0.0, 3.0)),
        result,
        chance.choice((0.0, 0.0, 0.01, 2.0)),
    )


def _host(chance: Random, hosts: int) -> Arguments:
    return (chance.randrange(hosts),)


def _queue(chance: Random, hosts: int) -> Arguments:
    return chance.randrange(hosts), chance.choice(("payments", "letters"))


def _period(chance: Random, hosts: int) -> Arguments:
    return chance.randrange(hosts), round(chance.choice((0.01, 0.5, 3.0, 20.0)) * chance.random(), 6)


def _between(chance: Random, hosts: int) -> Arguments:
    return *_pair(chance, hosts), round(chance.choice((0.05, 2.0, 30.0)) * chance.random(), 6)


def _kill(chance: Random, hosts: int) -> Arguments:
    return (
        chance.randrange(hosts),
        # After how many calls of the system, or events of the host; 0 is now.
        chance.choice(("calls", "events")),
        chance.choice((0, 1, 2, 3, 5, 8, 20)),
        # What unsynchronised writes become: kept by a kill, and lost in part by a power cut.
        chance.choice((0.0, 0.0, 0.5, 0.9, 1.0)),
        round(chance.choice((0.0, 0.5, 10.0)) * chance.random(), 6),
    )


def _jump(chance: Random, hosts: int) -> Arguments:
    return chance.randrange(hosts), chance.choice((-3600, -30, -1, 1, 30, 3600))


_KINDS: Final[dict[str, tuple[int, Any]]] = {
    "send": (30, _send),
    "receive": (14, _receive),
    "cut": (3, _pair),
    "partition": (3, _between),
    "half": (2, _between),
    "slow network": (2, _between),
    "kill": (6, _kill),
    "restart": (2, _host),
    "disk errors": (3, _period),
    "slow disk": (2, _period),
    "full": (4, _period),
    "rot": (3, _host),
    "jump": (1, _jump),
    "purge": (1, _queue),
    "pause": (1, lambda chance, hosts: (*_queue(chance, hosts), round(chance.random() * 5, 6))),
    "hold": (1, _period),
    "delete": (1, _queue),
    "reload": (1, lambda chance, hosts: (chance.randrange(hosts), chance.choice((1, 3, 16, 64)))),
    "purge outgoing": (1, _host),
    "close sessions": (1, _host),
    "retry": (1, _host),
    "directory": (1, _period),
}
"""By kind: how often it comes, and what decides its arguments."""
