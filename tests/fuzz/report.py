"""C{python -m tests.fuzz.report}: the branches of the pure core that seeds and corpus go over, by room."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import coverage

ROOMS = ("wire", "structures", "session", "discovery", "decoding")
"""The rooms that read what others send; the others of the core get only what these make of it."""


def main() -> None:
    """Run every input once, in a process that has imported nothing of the core before."""
    measured = coverage.Coverage(data_file=None, branch=True, source=["msmq"], config_file=False)
    measured.exclude("if TYPE_CHECKING:")
    measured.exclude(r"assert_never\(")
    measured.start()
    from tests.fuzz.corpus import inputs
    from tests.fuzz.targets import TARGETS

    count = 0
    for name, target in TARGETS.items():
        for data in inputs(name):
            target(data)
            count += 1
    measured.stop()
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        path = Path(directory) / "coverage.json"
        measured.json_report(outfile=str(path))
        files = json.loads(path.read_text())["files"]
    print_rooms(files)
    print(f"{count} inputs", file=sys.stderr)


def print_rooms(files: dict[str, dict[str, dict[str, int]]]) -> None:
    """A line for each room, and one for each file of it that fewer than three quarters are reached of."""
    for room in ROOMS:
        total: Counter[str] = Counter()
        behind = []
        for path, file in sorted(files.items()):
            if f"msmq/{room}/" not in path.replace("\\", "/"):
                continue
            summary = file["summary"]
            if not summary["covered_lines"]:
                # Not imported by any target.
                continue
            total.update({key: summary[key] for key in ("covered_branches", "num_branches")})
            if summary["covered_branches"] * 4 < summary["num_branches"] * 3:
                name = path.rpartition("msmq/")[2]
                behind.append(f"  {name}: {summary['covered_branches']} of {summary['num_branches']}")
        percent = 100 * total["covered_branches"] / max(1, total["num_branches"])
        print(f"{room}: {total['covered_branches']} of {total['num_branches']} branches, {percent:.0f} %")
        print("\n".join(behind))


if __name__ == "__main__":
    main()
