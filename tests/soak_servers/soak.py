"""The soak: load for some minutes, samples meanwhile, a drain, and the comparison with the start.

C{python -m tests.soak_servers.soak --minutes 60} prints the table; its status is 1 if something did not come
back that has no reason.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from typing import Final

from tests.soak_servers.comparison import comparison, grown_types, left_over
from tests.soak_servers.estate import Estate, Sample
from tests.soak_servers.load import Load

WARM: Final = 2
"""Rounds before the first sample: caches and connections exist then."""


def soak(minutes: float, rounds: int = 0) -> tuple[list[str], str]:
    """Run for so long, and at least this number of rounds; returns the problems, and the table."""
    with ExitStack() as processes:
        estate = Estate(processes)
        load = Load(estate)
        for _ in range(WARM):
            load.round()
        load.drain()
        samples: dict[str, list[Sample]] = {
            name: [server.sample()] for name, server in estate.servers.items()
        }
        types = {name: server.types for name, server in estate.servers.items()}
        began = sampled = time.monotonic()
        done = 0
        while done < rounds or time.monotonic() - began < 60 * minutes:
            load.round()
            done += 1
            if time.monotonic() - sampled > 60:
                sampled = time.monotonic()
                for name, server in estate.servers.items():
                    samples[name].append(server.sample())
        load.drain()
        passed = (time.monotonic() - began) / 60
        problems: list[str] = []
        if load.sent != load.received:
            problems.append(f"{load.sent} messages were sent, {load.received} received")
        for name, server in estate.servers.items():
            samples[name].append(server.sample())
            problems += left_over(name, samples[name][0], samples[name][-1], passed)
            problems += grown_types(name, types[name], server.types)
            problems += [f"{name}: {line}" for line in server.log.splitlines() if "Traceback" in line]
        head = f"{done} rounds in {passed:.1f} minutes, {load.received} messages through the relay\n"
        return problems, head + comparison(samples)


def main(arguments: list[str]) -> int:
    """Print the table, and what is wrong."""
    parser = argparse.ArgumentParser(description="Soak three servers with a relay.")
    parser.add_argument("--minutes", type=float, default=60.0)
    problems, table = soak(parser.parse_args(arguments).minutes)
    sys.stdout.write(table + "\n" + "".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
