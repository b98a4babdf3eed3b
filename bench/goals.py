"""Everything that has a goal, in one run; C{make bench-goals} does this.

C{python bench/goals.py [--rounds 5] [--only NAME,...] [--lines all] [--output FILE]} prints the table of
C{README.md}. It wants a machine that does nothing else, and takes about forty minutes.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import ends
import express
import latency
import million
import parsing
import routing
import transfer

from rig.measuring import Result, markdown

ROUNDS: Final = 5
PARTS: Final[dict[str, Callable[[int], list[Result]]]] = {
    "ends": ends.measure,
    "latency": latency.measure,
    "transfer": lambda rounds: transfer.measure(rounds, ("transfer",)),
    "express": express.measure,
    "million": lambda rounds: million.measure(),
    "parsing": lambda rounds: parsing.measure(),
    "routing": lambda rounds: routing.measure(),
}


def main(arguments: list[str]) -> int:
    """Measure, and print after each part what is known so far."""
    parser = argparse.ArgumentParser(description="Measure everything that has a goal.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--lines", choices=("goals", "all"), default="goals", help="lines without a goal too")
    parser.add_argument("--output", type=Path, help="a file for the table")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if unknown := set(names) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    results: list[Result] = []
    for name in names:
        sys.stderr.write(f"{name} ... load {os.getloadavg()[0]:.1f}, {time.strftime('%H:%M:%S')}\n")
        found = PARTS[name](options.rounds)
        results += found if options.lines == "all" else [result for result in found if result.goal]
        if options.output is not None:
            options.output.write_text(markdown(results) + "\n", encoding="utf-8")
    sys.stdout.write(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, ")
    sys.stdout.write(f"{os.cpu_count()} cores, {options.rounds} rounds\n\n{markdown(results)}\n")
    missed = sum(result.is_reached is False for result in results)
    sys.stderr.write(f"{sum(result.is_reached is True for result in results)} reached, {missed} missed\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
