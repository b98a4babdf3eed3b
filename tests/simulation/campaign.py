"""Campaigns: many seeds, in several processes."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator

import attrs
from twisted.logger import globalLogBeginner

from tests.simulation.plan import draw_plan
from tests.simulation.shrinking import shrink
from tests.simulation.world import run_plan

PROGRESS = 500
"""Runs after which the totals are printed."""


@attrs.define
class Totals:
    """What a campaign has done."""

    runs: int = 0
    failed: int = 0
    hours: float = 0.0
    messages: int = 0
    kills: int = 0
    events: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.hours:.0f} simulated hours, {self.messages} messages,"
            f" {self.kills} kills, {self.events} events, {self.failed} failed"
        )


@attrs.frozen
class Outcome:
    """Of one run; C{violations} is empty for one that kept every promise."""

    seed: int
    violations: tuple[str, ...]
    command: str
    seconds: float
    messages: int
    kills: int
    events: int


def run_seed(seed: int) -> Outcome:
    """Run one seed, and shrink it if it fails."""
    plan = draw_plan(seed)
    result = run_plan(plan)
    violations, command = result.violations, ""
    if violations:
        violations, command = shrink(plan)
        # One that does not fail again has its first violations, since a run is the same each time.
        violations = violations or result.violations
    return Outcome(
        seed, tuple(violations), command, result.seconds, result.messages, result.kills, result.events
    )


def _discard_log() -> None:
    """Twisted keeps the first 65,536 events for observers to come, and with them the hosts of past runs."""
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)


def _outcomes(seeds: range, jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        _discard_log()
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _discard_log) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=10)


def run_campaign(first: int, runs: int, jobs: int) -> int:
    """Run seeds, and print each that fails with the command that repeats it; 1 if there is one."""
    totals = Totals()
    started = time.monotonic()
    for outcome in _outcomes(range(first, first + runs), jobs):
        totals.runs += 1
        totals.hours += outcome.seconds / 3600
        totals.messages += outcome.messages
        totals.kills += outcome.kills
        totals.events += outcome.events
        if outcome.violations:
            totals.failed += 1
            sys.stdout.write(f"seed {outcome.seed}: {outcome.command}\n")
            sys.stdout.writelines(f"    {each}\n" for each in outcome.violations[:3])
            sys.stdout.flush()
        if totals.runs % PROGRESS == 0:
            sys.stdout.write(f"{totals}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{totals}; {time.monotonic() - started:.0f} s\n")
    return bool(totals.failed)
