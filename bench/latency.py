"""How old messages are when they are received, and answered, at rates below what two queue managers can do.

One application sends 20 messages a second, then another one half of what was measured with 1,000 outstanding;
recoverable messages of 1 KiB over the control API of two queue managers.
C{python bench/latency.py [--storage log] [--seconds 10]} prints the figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from typing import Final

from ends import STORAGE, WINDOW, QueueManagers

from rig.flights import Part
from rig.measuring import Result, table

SECONDS: Final = 10.0
"""How long messages are sent at each rate."""
ROUNDS: Final = 3
SLOW: Final = 20
"""Messages a second of a slow producer."""
SIZE: Final = 1024
CAPACITY_COUNT: Final = 15_000
GOALS: Final = {"slow": {"p99": 10.0}, "half": {"p99": 5.0, "p999": 20.0}}
"""Milliseconds."""


def paced(managers: QueueManagers, rate: float, seconds: float) -> dict[str, float]:
    """Send at a rate and receive: percentiles in seconds.

    @return: C{answered_p50}, C{answered_p99} and C{answered_p999} of the time until a message is accepted,
        and C{p50}, C{p99} and C{p999} of its age on receipt.
    """
    count = max(1, int(rate * seconds))
    with ExitStack() as processes:
        receiver = Part(
            processes, "programs/applications", "receive", managers.receiver.socket, managers.plain, count
        )
        receiver.hear()
        sender = Part(
            processes,
            "programs/applications",
            "pace",
            managers.sender.socket,
            managers.plain,
            count,
            SIZE,
            rate,
        )
        sent = sender.hear()
        return {**receiver.hear(), **{f"answered_{key}": value for key, value in sent.items()}}


def measure(rounds: int = ROUNDS, storage: str = STORAGE, seconds: float = SECONDS) -> list[Result]:
    """Medians of the rounds."""
    found: dict[str, list[dict[str, float]]] = {"slow": [], "half": []}
    rates: dict[str, list[float]] = {"slow": [], "half": []}
    with ExitStack() as processes:
        managers = QueueManagers(processes, WINDOW, storage)
        managers.run("recoverable", SIZE, 10, 500)
        for _ in range(rounds):
            capacity = managers.run("recoverable", SIZE, 1000, CAPACITY_COUNT)["rate"]
            for name, rate in (("slow", float(SLOW)), ("half", capacity / 2)):
                rates[name].append(rate)
                found[name].append(paced(managers, rate, seconds))
    results: list[Result] = []
    for name, figures in found.items():
        what = f"recoverable, 1 KiB, {statistics.median(rates[name]):,.0f} messages/s"
        for key, label in (("p50", "median"), ("p99", "99 of 100 within"), ("p999", "999 of 1,000 within")):
            for prefix, subject in (("", "age on receipt"), ("answered_", "accepted")):
                value = statistics.median(each[prefix + key] for each in figures) * 1e3
                limit = GOALS[name].get(key)
                goal = "" if limit is None else f"at most {limit:g} ms"
                reached = None if limit is None else value <= limit
                results.append(
                    Result(f"{what}: {subject}, {label}", value, "ms", goal=goal, is_reached=reached)
                )
    return results


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure latency below capacity.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--storage", default=STORAGE)
    options = parser.parse_args(arguments)
    sys.stdout.write(table(measure(options.rounds, options.storage, options.seconds)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
