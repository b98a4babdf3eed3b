"""C{python -m tests.simulation}: one seed, or a campaign of many."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.campaign import run_campaign
from tests.simulation.plan import draw_plan
from tests.simulation.shrinking import shrink
from tests.simulation.world import run_plan


def main(arguments: list[str]) -> int:
    """Run what the arguments say; 1 if there was a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone, and print its plan and history")
    parser.add_argument("--keep", help="keep these steps of the plan: 0,3,4; none with an empty value")
    parser.add_argument("--first", type=int, default=None, help="the first seed of a campaign")
    parser.add_argument("--runs", type=int, default=10_000, help="how many seeds a campaign has")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run them")
    parser.add_argument("--shrink", action="store_true", help="shrink the plan of the seed")
    parser.add_argument("--digest", action="store_true", help="print the digest of the run alone")
    options = parser.parse_args(arguments)
    if options.seed is None:
        first = int(time.time()) * 1000 if options.first is None else options.first
        return run_campaign(first, options.runs, options.jobs)
    plan = draw_plan(options.seed)
    if options.keep is not None:
        plan = plan.keep([int(number) for number in options.keep.split(",") if number])
    if options.shrink:
        _, command = shrink(plan)
        sys.stdout.write(f"{command}\n")
        return 0
    result = run_plan(plan, with_digest=True)
    if options.digest:
        sys.stdout.write(f"{result.digest}\n")
        return bool(result.violations)
    sys.stdout.write(f"{plan}\n")
    sys.stdout.writelines(result.history)
    sys.stdout.write("\n".join([*result.violations, ""]))
    sys.stdout.write(
        f"{result.digest}: {result.messages} messages, {result.events} events, {result.kills} kills,"
        f" {result.seconds:.0f} simulated seconds, {len(result.violations)} violations\n"
    )
    return bool(result.violations)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
