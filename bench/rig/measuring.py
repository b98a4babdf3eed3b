"""Results of a benchmark, and the comparison of a subject with its baseline in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs


@attrs.frozen
class Result:
    """One line of the table.

    @ivar name: what was measured.
    @ivar value: the figure, in C{unit}.
    @ivar baseline: the figure of the bare baseline of the same run, in the same unit.
    @ivar ratio: the median over the rounds of what was measured to its baseline, round by round.
    @ivar spread: the smallest and the largest of these ratios.
    @ivar goal: what the ratio should be, in words; empty for a line that only informs.
    @ivar is_reached: whether it is; C{None} where there is no goal.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    goal: str = ""
    is_reached: bool | None = None


class Turns:
    """Replaces the reactor's poll object: an iteration is the time between two calls of it."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self.begin()

    def begin(self) -> None:
        """Begin to measure; the part of this iteration before does not count."""
        self.longest = 0.0
        self._began = time.thread_time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, *arguments: Any) -> Any:
        """See C{select.epoll.poll}."""
        self.longest = max(self.longest, time.thread_time() - self._began)
        found = self._poller.poll(*arguments)
        self._began = time.thread_time()
        return found


def seconds_each(call: Callable[[], object], times: int) -> float:
    """The time of one call, averaged over this number."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def compare(
    name: str,
    rounds: Sequence[tuple[float, float]],
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Result:
    """The median of several rounds, each of which measured the subject and its baseline side by side.

    @param rounds: pairs of the subject's figure and the baseline's.
    @param at_most: the goal, where a smaller ratio is better.
    @param at_least: the goal, where a greater ratio is better.
    """
    ratios = sorted(subject / baseline for subject, baseline in rounds)
    ratio = statistics.median(ratios)
    goal, is_reached = "", None
    if at_most is not None:
        goal, is_reached = f"at most {at_most:g}", ratio <= at_most
    elif at_least is not None:
        goal, is_reached = f"at least {at_least:g}", ratio >= at_least
    return Result(
        name,
        statistics.median(subject for subject, _ in rounds),
        unit,
        baseline=statistics.median(baseline for _, baseline in rounds),
        ratio=ratio,
        spread=(ratios[0], ratios[-1]),
        goal=goal,
        is_reached=is_reached,
    )


def markdown(results: Sequence[Result]) -> str:
    """The results as a table for C{README.md}."""
    lines = ["| What | Measured | Beside | Ratio (smallest to largest) | Goal |", "|---|---|---|---|---|"]
    for result in results:
        ratio = ""
        if result.ratio is not None:
            ratio = f"{result.ratio:.3g}"
            if result.spread is not None:
                ratio += f" ({result.spread[0]:.3g} to {result.spread[1]:.3g})"
        reached = {None: "", True: ": reached", False: ": **missed**"}[result.is_reached]
        baseline = "" if result.baseline is None else _figure(result.baseline)
        measured = f"{_figure(result.value)} {result.unit}".strip()
        lines.append(
            f"| {result.name.strip()} | {measured} | {baseline} | {ratio} | {result.goal}{reached} |"
        )
    return "\n".join(lines)


def table(results: Sequence[Result]) -> str:
    """The results as people read them."""
    rows = [("what", "measured", "bare", "ratio", "spread", "goal", "")]
    rows += [
        (
            result.name,
            f"{_figure(result.value)} {result.unit}",
            "" if result.baseline is None else _figure(result.baseline),
            "" if result.ratio is None else f"{result.ratio:.3g}",
            "" if result.spread is None else f"{result.spread[0]:.3g} to {result.spread[1]:.3g}",
            result.goal,
            {None: "", True: "reached", False: "missed"}[result.is_reached],
        )
        for result in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _figure(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
