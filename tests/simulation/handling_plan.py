"""Plans of runs whose messages are handled one by one: what a seed decides of those."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from msmq.queues.machine_quota import QuotaKind

Arguments: TypeAlias = tuple[Any, ...]
Draw: TypeAlias = tuple[float, str, Arguments]
"""The second of a step, its kind and its arguments."""

ASIDE: Final = "aside"
POISON: Final = "poison"
FOREVER: Final = 345_600.0
"""Seconds that no run has."""


_COUNTS: Final = {
    "calls": (1, 1, 2, 3, 4, 6, 9),
    "events": (0, 1, 2, 4, 8, 14, 25),
    # Right after one, what it stored is there, and was not reported.
    "writes": (1, 1, 1, 2, 3),
}
"""By kind of a kill: after how many of these it comes."""


@attrs.frozen
class Handling:
    """Settings of the queue managers of one run.

    @ivar poison_after: aborted transactions after which a message is moved to the subqueue C{poison}; 0 for
        any number.
    @ivar journaled: the hosts whose queues have a journal from the beginning.
    @ivar is_proven: a journal copy is made when an acknowledgement proves the delivery.
    @ivar wait: for how many seconds that acknowledgement is waited for.
    """

    poison_after: int
    journaled: Sequence[int]
    is_proven: bool
    wait: float


def draw_handling(chance: Random, hosts: int) -> Handling:
    """The settings of a run."""
    return Handling(
        poison_after=chance.choice((0, 1, 1, 2)),
        journaled=[number for number in range(hosts) if chance.random() < 0.5],
        is_proven=chance.random() < 0.5,
        wait=chance.choice((20.0, 900.0, FOREVER)),
    )


def draw_uses(chance: Random, applications: Sequence[int], end: float) -> list[Draw]:
    """The steps of a run, at times until shortly after its other steps.

    @param applications: the hosts that have applications.
    """
    weights = [_KINDS[kind][0] * chance.choice((0, 1, 1, 3)) for kind in _KINDS]
    weights[0] = max(weights[0], 3)
    steps: list[Draw] = []
    for _ in range(chance.randrange(3, 12)):
        [kind] = chance.choices(list(_KINDS), weights)
        at = chance.choice((end, end, end + 3.0)) * chance.random()
        found = _KINDS[kind][1](chance, applications)
        steps += [(round(at + later, 6), name, arguments) for later, name, arguments in found]
    return steps


def _pair(chance: Random, applications: Sequence[int]) -> tuple[int, int]:
    one = chance.choice(applications)
    return one, chance.choice([number for number in applications if number != one])


def _queue(chance: Random) -> str:
    return str(chance.choice(("payments", "payments", "letters")))


def _chain(chance: Random, applications: Sequence[int]) -> list[Draw]:
    """Many messages arrive at a host, which forwards them in one transaction; its commit is interrupted."""
    # To a host with a higher number, so that no message goes in a circle.
    host = chance.choice(applications[:-1])
    receiver = chance.choice([number for number in applications if number > host])
    sender = chance.choice([number for number in applications if number != host])
    # More than a transaction commits in one part, now and then.
    count = chance.choice((3, 8, 12, 30)) if chance.random() < 0.95 else 230
    began = chance.choice((0.5, 3.0, 10.0)) * chance.random()
    held = chance.choice((0.0, 0.0, 0.01, 0.5))
    forward = (host, receiver, count, 3.0, chance.random() < 0.9, held)
    steps: list[Draw] = [(0.0, "send", (sender, host, "payments", count, None, None, False))]
    commit = began + held
    # Before the commit, so that it is counted from there, or while a slow disk stores it.
    moment = chance.choice((began, began, began + held * chance.random(), commit + 0.02 * chance.random()))
    if chance.random() < 0.3:
        steps.append((began, "slow disk", (host, round(chance.choice((0.05, 1.0)) * chance.random(), 6))))
    interruption = chance.choice(("kill", "kill", "kill", "kill", "disk errors", "full", "quota", None))
    match interruption:
        case "kill":
            steps.append((moment, "kill", _kill(chance, host)))
        case "quota":
            quota = (host, QuotaKind.QUEUES, chance.random() < 0.5, chance.choice((0, 2, 12)), 30.0)
            steps.append((commit * chance.random(), "quota", quota))
        case "disk errors" | "full":
            steps.append((moment, interruption, (host, round(chance.choice((0.01, 5.0)), 6))))
    # Steps of the same moment come in this order.
    steps.append((began, "forward", forward))
    if chance.random() < 0.2:
        # Whom it forwards to, and what it has for that host.
        seconds = round(30.0 * chance.random(), 6)
        steps.append((0.0, "redirect", (host, receiver, "payments", chance.random() < 0.5, seconds)))
    if chance.random() < 0.2:
        steps.append((moment, "kill", _kill(chance, receiver)))
    return steps


def _kill(chance: Random, host: int) -> Arguments:
    kind = chance.choice(tuple(_COUNTS))
    count = chance.choice(_COUNTS[kind])
    likelihood = chance.choice((0.0, 0.0, 0.5, 0.9, 1.0))
    return host, kind, count, likelihood, round(chance.choice((0.0, 0.5, 10.0)) * chance.random(), 6)


def _requeue(chance: Random, applications: Sequence[int]) -> list[Draw]:
    """The dead letters of a host are sent again, more often than not by two operators."""
    host = chance.choice(applications)
    steps: list[Draw] = [(0.0, "kill", _kill(chance, host))] if chance.random() < 0.3 else []
    steps.append((0.0, "requeue", (host, chance.random() < 0.5)))
    later = chance.choice((0.0, 0.0, 0.0002, 3.0)) * chance.random()
    if chance.random() < 0.5:
        steps.append((later, "requeue", (host, chance.random() < 0.5)))
    return steps


def _dead(chance: Random, applications: Sequence[int]) -> list[Draw]:
    """Messages that become dead letters, and are sent again."""
    sender, receiver = _pair(chance, applications)
    queue = chance.choice(("missing", "payments", "letters"))
    limit = None if queue == "missing" else chance.choice((1, 3))
    steps: list[Draw] = [
        (0.0, "send", (sender, receiver, queue, chance.choice((4, 9, 20)), limit, None, False)),
        (0.0, "hold", (sender, 8.0 if limit is not None else 0.0)),
    ]
    host = chance.choice((sender, sender, receiver))
    began = round(chance.choice((4.0, 12.0)) * (1.0 + chance.random()), 6)
    return steps + [
        (began + at, kind, (host, *arguments[1:])) for at, kind, arguments in _requeue(chance, [host])
    ]


def _move(chance: Random, applications: Sequence[int]) -> list[Draw]:
    """Messages are moved to a subqueue, and back."""
    host, queue, steps = _filled(chance, applications)
    at = 1.0
    for _ in range(chance.choice((1, 1, 2, 3))):
        names = chance.choice(((queue, f"{queue};{ASIDE}"), (f"{queue};{ASIDE}", queue)))
        if queue == "payments" and chance.random() < 0.2:
            names = (f"{queue};{POISON}", queue)
        how = chance.choice(("together", "each", "commit", "commit", "abort"))
        held = chance.choice((0.0, 0.01, 1.0))
        if chance.random() < 0.3:
            steps.append((at + chance.choice((0.0, held)) * chance.random(), "kill", _kill(chance, host)))
        steps.append((at, "move", (host, *names, chance.choice((1, 3, 20)), how, held)))
        at += chance.choice((0.0, 0.001, 2.0)) * chance.random()
    return steps


def _browse(chance: Random, applications: Sequence[int]) -> list[Draw]:
    """Several readers look through a queue that has messages, and take some of them."""
    host, queue, sent = _filled(chance, applications)
    return [
        *sent,
        *_readers(chance, host, queue),
    ]


def _readers(chance: Random, host: int, queue: str) -> list[Draw]:
    return [
        (
            1.0 + chance.choice((0.0, 0.001, 1.0)) * chance.random(),
            "browse",
            # Messages, seconds between two of them, and after how many one is taken; 0 for never.
            (
                host,
                queue,
                chance.choice((3, 10, 30)),
                chance.choice((0.0, 0.001, 0.5)),
                chance.choice((0, 1, 2, 3)),
            ),
        )
        for _ in range(chance.choice((1, 2, 3)))
    ]


def _look_up(chance: Random, applications: Sequence[int]) -> list[Draw]:
    host, queue, steps = _filled(chance, applications)
    for _ in range(chance.choice((1, 1, 2))):
        at = 1.0 + chance.choice((0.0, 0.001)) * chance.random()
        which, is_kept = chance.choice(("last", "middle")), chance.random() < 0.7
        held = chance.choice((0.0, 0.01, 1.0))
        if chance.random() < 0.2:
            steps.append((at, "kill", _kill(chance, host)))
        steps.append((at, "look up", (host, queue, chance.choice((1, 2, 5)), which, is_kept, held)))
    return steps


def _filled(chance: Random, applications: Sequence[int]) -> tuple[int, str, list[Draw]]:
    """A host and a queue, and a step by which messages come there, more often than not."""
    sender, host = _pair(chance, applications)
    queue = _queue(chance)
    send: Draw = (0.0, "send", (sender, host, queue, chance.choice((3, 9)), None, None, False))
    return host, queue, [send] if chance.random() < 0.7 else []


def _reject(chance: Random, applications: Sequence[int]) -> list[Draw]:
    host, queue, steps = _filled(chance, applications)
    return [*steps, (1.0, "reject", (host, queue, chance.choice((1, 3)), chance.choice((0.0, 0.01, 1.0))))]


def _remove(chance: Random, applications: Sequence[int]) -> list[Draw]:
    host, queue = chance.choice(applications), _queue(chance)
    return [(0.0, "remove", (host, queue, chance.choice((1, 4))))]


def _abort(chance: Random, applications: Sequence[int]) -> list[Draw]:
    """A reader that aborts again and again."""
    host, at = chance.choice(applications), 0.0
    steps: list[Draw] = []
    for _ in range(chance.choice((1, 2, 3))):
        if chance.random() < 0.2:
            steps.append((at, "kill", _kill(chance, host)))
        steps.append((at, "receive", (host, "payments", chance.choice((1, 3, 10)), 3.0, "abort", 0.0)))
        at += chance.choice((0.001, 0.5)) * chance.random()
    return steps


_KINDS: Final[dict[str, tuple[int, Any]]] = {
    "chain": (6, _chain),
    "dead": (4, _dead),
    "requeue": (3, _requeue),
    "move": (5, _move),
    "browse": (3, _browse),
    "look up": (3, _look_up),
    "reject": (2, _reject),
    "remove": (1, _remove),
    "abort": (3, _abort),
}
"""By kind: how often it comes, and what decides its steps."""
