"""Runs every benchmark and prints one table; C{make bench} does this.

C{python bench/run.py NAME ...} runs only those that are named.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

import bridge
import console
import directory
import express
import hostile
import metrics
import million
import parsing
import pipeline
import record_log
import routing
import storage
import storage_postgresql
import stream_latency
import transfer

from programs import bare_frames
from rig.measuring import Result, table

BENCHMARKS: dict[str, Callable[[], list[Result]]] = {
    "parsing": parsing.measure,
    "hostile": hostile.measure,
    "bare_frames": bare_frames.measure,
    "express": express.measure,
    "record_log": record_log.measure,
    "storage": storage.measure,
    "transfer": transfer.measure,
    "million": million.measure,
    "metrics": metrics.measure,
    "routing": routing.measure,
    "directory": directory.measure,
    "storage_postgresql": storage_postgresql.measure,
    "pipeline": pipeline.measure,
    "stream_latency": stream_latency.measure,
    "bridge": bridge.measure,
    "console": console.measure,
}


def main(names: list[str]) -> int:
    """Run these, or all; the exit status says whether the names were right, never how fast it was."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.stderr.write(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}\n")
        return 2
    results: list[Result] = []
    for name in names or BENCHMARKS:
        sys.stderr.write(f"{name} ...\n")
        results += BENCHMARKS[name]()
    sys.stdout.write(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}\n\n")
    sys.stdout.write(table(results) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
