"""Records of a message log, exported and edited with faults that are known, for demo_pipeline.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pyarrow
from demo_servers import ServerFailed
from pyarrow import compute, parquet


@attrs.frozen
class Edited:
    """Changes that were made to exported records."""

    removed: Sequence[str]
    repeated: Sequence[str]
    swapped: Sequence[str]
    gaps: int


def edit(records: Path, edited: Path) -> Edited:
    """Remove some records of the transactional messages, repeat some, and swap some with their successors."""
    rows = parquet.read_table(records, partitioning=None)
    rows = rows.take(compute.sort_indices(rows, sort_keys=[("offset", "ascending")]))
    names = rows.column("id").to_pylist()
    removed = [place for place in range(101, len(names) - 1, 397)]
    repeated = [place for place in range(211, len(names) - 1, 499)]
    swapped = [place for place in range(307, len(names) - 1, 601)]
    taken: set[int] = set()
    for chosen in (removed, repeated, swapped):
        chosen[:] = [place for place in chosen if not taken & {place - 1, place, place + 1}]
        taken.update(near for place in chosen for near in (place - 1, place, place + 1))
    order: list[int] = []
    for place in range(len(names)):
        if place in removed:
            continue
        if place - 1 in swapped:
            order += [place, place - 1]
        elif place not in swapped:
            order += [place, place] if place in repeated else [place]
    changed = rows.take(pyarrow.array(order))
    offsets = pyarrow.array(range(1, len(order) + 1), pyarrow.int64())
    changed = changed.set_column(changed.schema.get_field_index("offset"), "offset", offsets)
    parquet.write_table(changed, edited)
    return Edited(
        [names[place] for place in removed],
        [names[place] for place in repeated],
        [names[place] for place in swapped],
        len(removed),
    )


def export(store: Path, queue: str, records: Path) -> None:
    """Export the message log of a queue as Parquet.

    @raise ServerFailed: it cannot be exported.
    """
    command = [sys.executable, "-m", "msmq.cli", "--data", str(store), "export", queue, "--log"]
    print(f"\n$ msmq --data {store} export '{queue}' --log --output {records}", flush=True)
    done = subprocess.run([*command, "--output", str(records)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerFailed(f"msmq export failed: {done.stderr.strip()}")
