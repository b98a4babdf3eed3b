"""Shrinking of a plan that fails, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.plan import Plan
from tests.simulation.world import Result, run_plan

TRIES = 300
"""Runs after which the shortest plan so far is good enough."""


def kind_of(violations: Sequence[str]) -> str:
    """The kind of the first violation, which a shorter plan has to have too."""
    return violations[0].split(":")[0] if violations else ""


def shrink(plan: Plan, run: Callable[[Plan], Result] = run_plan) -> tuple[Sequence[str], str]:
    """Drop steps while the same kind of violation remains; returns the violations, and the command."""
    violations = run(plan).violations
    wanted = kind_of(violations)
    kept = list(range(len(plan.steps)))
    tries = 0
    size = len(kept)
    while size and violations:
        position = 0
        while position < len(kept) and tries < TRIES:
            shorter = kept[:position] + kept[position + size :]
            tries += 1
            found = run(plan.keep(shorter)).violations
            if kind_of(found) == wanted:
                kept, violations = shorter, found
            else:
                position += size
        size //= 2
    return violations, command_of(plan, kept)


def command_of(plan: Plan, kept: Sequence[int]) -> str:
    """The command that repeats some steps of a plan."""
    return f"python -m tests.simulation --seed {plan.seed} --keep {','.join(map(str, kept))}"
