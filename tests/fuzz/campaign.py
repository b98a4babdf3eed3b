"""C{python -m tests.fuzz.campaign [TARGET ...]}: what C{make fuzz} runs.

A process for each of as many targets as may run at once, each for a while in rotation, until every one has
had its executions.
The figures of all campaigns in a work directory add up in its C{figures.json}.
The status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tests.fuzz.targets import TARGETS

Figures = dict[str, dict[str, int]]


def load(work: Path) -> Figures:
    """The figures of earlier runs."""
    path = work / "figures.json"
    figures: Figures = json.loads(path.read_text()) if path.exists() else {}
    return figures


def save(work: Path, figures: Figures) -> None:
    """Replace the file in one step."""
    partial = work / "figures.json.partial"
    partial.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    partial.replace(work / "figures.json")


def fuzz(target: str, runs: int, seconds: int, work: Path) -> dict[str, int] | None:
    """One process; its executions, seconds, and features; C{None} where it did not get to fuzzing."""
    began = time.monotonic()
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fuzz.run",
            target,
            f"--runs={runs}",
            f"--seconds={seconds}",
            f"--work={work}",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        errors="replace",
        check=False,
    )
    executions = re.findall(r"^(?:#|stat::number_of_executed_units: )(\d+)", finished.stderr, re.MULTILINE)
    if not executions:
        print(finished.stderr, file=sys.stderr)
        return None
    features = re.findall(r" cov: (\d+) ft: (\d+) corp: (\d+)", finished.stderr)
    for line in finished.stderr.splitlines():
        if line.startswith(("finding:", "ERROR:", "==")):
            print(f"{target}: {line}", flush=True)
    branches, combinations, inputs = features[-1] if features else (0, 0, 0)
    return {
        "executions": int(executions[-1]),
        "seconds": round(time.monotonic() - began),
        "branches": int(branches),
        "features": int(combinations),
        "inputs": int(inputs),
    }


def remaining(done: dict[str, int], runs: int) -> float:
    """How many seconds a target is likely to need; without end for one that has not run yet."""
    if not done["executions"]:
        return float("inf")
    return (runs - done["executions"]) * done["seconds"] / done["executions"]


def main() -> int:
    """Go round until there is nothing left to do."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument(
        "--runs", type=int, default=100_000, help="executions of each target, earlier ones too"
    )
    parser.add_argument("--seconds", type=int, default=60, help="how long a target runs in each round")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="how many processes at most")
    parser.add_argument("--jobs", type=int, default=1, help="how many targets at once")
    parser.add_argument("--work", type=Path, default=Path("_fuzz"))
    options = parser.parse_args()
    targets: list[str] = options.targets or list(TARGETS)
    unknown = set(targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    os.nice(19)
    figures = load(work)
    for target in targets:
        figures.setdefault(target, {"executions": 0, "seconds": 0})
    running: dict[Future[dict[str, int] | None], str] = {}
    rounds = 0
    with ThreadPoolExecutor(options.jobs) as processes:
        while True:
            # The one that needs the most time comes first, so that none is left over for one processor alone.
            waiting = [
                target
                for target in sorted(targets, key=lambda name: -remaining(figures[name], options.runs))
                if figures[target]["executions"] < options.runs and target not in running.values()
            ]
            while waiting and len(running) < options.jobs and rounds < options.rounds:
                rounds += 1
                target = waiting.pop(0)
                runs = options.runs - figures[target]["executions"]
                running[processes.submit(fuzz, target, runs, options.seconds, work)] = target
            if not running:
                break
            for finished in wait(running, return_when=FIRST_COMPLETED).done:
                target, outcome = running.pop(finished), finished.result()
                if outcome is None:
                    print(f"{target} does not start", file=sys.stderr)
                    return 1
                done = figures[target]
                done["executions"] += outcome.pop("executions")
                done["seconds"] += outcome.pop("seconds")
                done.update(outcome)
                save(work, figures)
                print(target, done, flush=True)
    findings = sorted(path.name for path in (work / "findings").iterdir() if path.suffix != ".txt")
    for name in findings:
        print(f"finding: {work / 'findings' / name}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
