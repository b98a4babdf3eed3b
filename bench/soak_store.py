"""Two queue managers on the record log at half of their capacity for hours: nothing of them may grow.

Recoverable messages of 1 KiB go from one application to another over the control API of both; the rate is
half of what was measured with 1,000 outstanding in the beginning.
Each minute memory, files, file descriptors and latency are sampled and printed; the table at the end has the
samples of the minutes 1, 10, 60 and 120 and the last one.
C{python bench/soak_store.py [--minutes 120] [--rate N] [--storage log]}.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import attrs
from ends import STORAGE, WINDOW, QueueManagers
from latency import CAPACITY_COUNT, ROUNDS, SIZE, paced

from rig.servers import Manager, processor_seconds, resident, written_bytes

MINUTES: Final = 120.0
MARKS: Final = (1, 10, 60, 120)
"""Minutes whose samples stand in the table."""
INTERVAL: Final = 60.0
"""Seconds of sending from one sample to the next."""

_COLUMNS: Final = (
    "minute",
    "messages/s",
    "load",
    "MB",
    "files",
    "file MB",
    "descriptors",
    "CPU us/msg",
    "written/msg",
    "p50 ms",
    "p99 ms",
    "p999 ms",
)


@attrs.frozen
class Sample:
    """Measurements of one interval, for both servers as C{sender/receiver}."""

    minute: float
    cells: tuple[str, ...]

    def row(self) -> tuple[str, ...]:
        """The cells of the table."""
        return (f"{self.minute:.0f}", *self.cells)


def _files(manager: Manager) -> tuple[int, float]:
    """How many files the data directory has, and their megabytes on disk."""
    count, size = 0, 0
    for directory, _, names in os.walk(manager.socket.parent):
        for name in names:
            try:
                size += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except FileNotFoundError:
                continue
            count += 1
    return count, size / 1e6


def _descriptors(manager: Manager) -> int:
    return len(os.listdir(f"/proc/{manager.pid}/fd"))


def _both(managers: QueueManagers) -> tuple[Manager, Manager]:
    return managers.sender, managers.receiver


def _sampled(managers: QueueManagers, rate: float, began: float) -> Sample:
    """Send for one interval, then look at the servers."""
    before = [(processor_seconds(one.pid), written_bytes(one.pid)) for one in _both(managers)]
    started = time.monotonic()
    figures = paced(managers, rate, INTERVAL)
    seconds = time.monotonic() - started
    count = int(rate * INTERVAL)
    after = [(processor_seconds(one.pid), written_bytes(one.pid)) for one in _both(managers)]
    files = [_files(one) for one in _both(managers)]
    cells = (
        f"{count / seconds:,.0f}",
        f"{os.getloadavg()[0]:.1f}",
        "/".join(f"{resident(one.pid):.1f}" for one in _both(managers)),
        "/".join(str(found[0]) for found in files),
        "/".join(f"{found[1]:.0f}" for found in files),
        "/".join(str(_descriptors(one)) for one in _both(managers)),
        f"{sum(then[0] - first[0] for first, then in zip(before, after, strict=True)) / count * 1e6:.0f}",
        f"{sum(then[1] - first[1] for first, then in zip(before, after, strict=True)) / count:,.0f}",
        *(f"{figures[key] * 1e3:.1f}" for key in ("p50", "p99", "p999")),
    )
    return Sample((time.monotonic() - began) / 60, cells)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _markdown(rows: list[tuple[str, ...]]) -> str:
    lines = [_COLUMNS, tuple("---" for _ in _COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def soak(minutes: float, rate: float | None, storage: str) -> list[Sample]:
    """Run for so long; each sample is printed as soon as it is there.

    @param rate: messages a second; C{None} for half of the capacity.
    """
    samples: list[Sample] = []
    with ExitStack() as processes:
        managers = QueueManagers(processes, WINDOW, storage)
        managers.run("recoverable", SIZE, 10, 500)
        if rate is None:
            runs = [managers.run("recoverable", SIZE, 1000, CAPACITY_COUNT)["rate"] for _ in range(ROUNDS)]
            rate = statistics.median(runs) / 2
        _say(f"{storage}: {rate:,.0f} messages/s for {minutes:g} minutes; sender/receiver")
        _say("  ".join(_COLUMNS))
        began = time.monotonic()
        while time.monotonic() - began < minutes * 60:
            samples.append(_sampled(managers, rate, began))
            _say("  ".join(samples[-1].row()))
    return samples


def main(arguments: list[str]) -> int:
    """Print the samples, then the table."""
    parser = argparse.ArgumentParser(description="Run two queue managers at half of their capacity.")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--rate", type=float, help="messages a second; half of the capacity by default")
    parser.add_argument("--storage", default=STORAGE)
    parser.add_argument("--output", type=Path, help="a file for the table")
    options = parser.parse_args(arguments)
    samples = soak(options.minutes, options.rate, options.storage)
    chosen = [next((one for one in samples if one.minute >= mark), samples[-1]) for mark in MARKS]
    rows = list(dict.fromkeys(one.row() for one in (*chosen, samples[-1])))
    found = _markdown(rows)
    _say("\n" + found)
    if options.output is not None:
        options.output.write_text(found + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
