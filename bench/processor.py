"""Processor time and bytes written of each server for a message, by kind, size and messages outstanding.

These figures depend less than rates do on what else the machine does.
C{python bench/processor.py [--storage log] [--short] [--only KIND:KIB:OUTSTANDING,...]} prints one table;
C{--profile DIRECTORY} has each server write a profile of cProfile there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ends import COUNTS, QUEUES, WINDOW, Cell, cells

from rig.flights import Part
from rig.servers import Manager, processor_seconds, written_bytes

ROUNDS: Final = 3
WARMING: Final = 200
"""Messages before anything is measured."""


class Pair:
    """Two queue managers, and applications that send and receive through them."""

    def __init__(self, processes: ExitStack, window: int, storage: str, profiles: Path | None = None) -> None:
        limits = f"window_size = {window}\n"
        self._receiver = Manager(processes, "BETA", "", limits, storage=storage, profiles=profiles)
        hosts = f'[hosts]\nBETA = "{self._receiver.endpoint}"\n'
        self._sender = Manager(processes, "ALPHA", hosts, limits, storage=storage, profiles=profiles)
        for name, path in QUEUES.items():
            self._receiver.client.create_queue(path, {"transactional": name == "transactional"})

    def run(self, kind: str, size: int, outstanding: int, count: int) -> dict[str, float]:
        """Microseconds and bytes for a message, of each process."""
        queue = QUEUES["transactional" if kind == "transactional" else "plain"]
        servers = {"sender": self._sender.pid, "receiver": self._receiver.pid}
        processor = {name: processor_seconds(pid) for name, pid in servers.items()}
        written = sum(written_bytes(pid) for pid in servers.values())
        with ExitStack() as processes:
            reader = Part(processes, "programs/applications", "receive", self._receiver.socket, queue, count)
            reader.hear()
            writer = Part(
                processes,
                "programs/applications",
                "send",
                self._sender.socket,
                queue,
                kind,
                count,
                size,
                outstanding,
            )
            sent, received = writer.hear(), reader.hear()
        figures = {
            name: (processor_seconds(pid) - processor[name]) / count * 1e6 for name, pid in servers.items()
        }
        figures["producer"] = sent["cpu"] / count * 1e6
        figures["consumer"] = received["cpu"] / count * 1e6
        figures["KB"] = (sum(written_bytes(pid) for pid in servers.values()) - written) / count / 1e3
        figures["rate"] = count / (received["ended"] - sent["started"])
        return figures


def measure(
    chosen: list[Cell], rounds: int, window: int, storage: str, profiles: Path | None = None
) -> dict[Cell, dict[str, float]]:
    """Medians of several rounds."""
    found: dict[Cell, list[dict[str, float]]] = {cell: [] for cell in chosen}
    with ExitStack() as processes:
        pair = Pair(processes, window, storage, profiles)
        for kind in {cell[0] for cell in chosen}:
            pair.run(kind, 1024, 10, WARMING)
        for _ in range(rounds):
            for cell in chosen:
                found[cell].append(pair.run(*cell))
    return {
        cell: {key: statistics.median(each[key] for each in figures) for key in figures[0]}
        for cell, figures in found.items()
    }


def _cell(text: str) -> Cell:
    kind, kib, outstanding = text.split(":")
    size = int(kib) * 1024
    return kind, size, int(outstanding), COUNTS[size][int(outstanding)]


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the processor time of a message.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--storage", default="log")
    parser.add_argument("--short", action="store_true", help="a third of the messages")
    parser.add_argument("--only", default="", help="some cells, such as recoverable:1:100,express:1:1000")
    parser.add_argument("--profile", type=Path, help="a directory for profiles of the servers")
    options = parser.parse_args(arguments)
    chosen = [_cell(text) for text in options.only.split(",")] if options.only else cells(1)
    if options.short:
        chosen = [
            (kind, size, outstanding, max(100, count // 3)) for kind, size, outstanding, count in chosen
        ]
    found = measure(chosen, options.rounds, options.window, options.storage, options.profile)
    columns = ("sender", "receiver", "producer", "consumer", "KB", "rate")
    write = sys.stdout.write
    write(f"microseconds a message, storage {options.storage}, window {options.window}\n")
    write(f"{'':<28}" + "".join(f"{column:>10}" for column in columns) + "\n")
    for (kind, size, outstanding, _), figures in found.items():
        name = f"{kind}, {size >> 10} KiB, {outstanding:,}"
        write(f"{name:<28}" + "".join(f"{figures[column]:>10,.1f}" for column in columns) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
