"""C{python -m tests.fuzz.reduce [TARGET ...]}: the corpus becomes the least that covers all branches.

Of everything in the corpus and the work directory those inputs stay that cover a branch which no
shorter one, and no seed, covers; and all that have broken a promise which they keep now.
L{tests.fuzz.report} shows what they cover together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import coverage

from tests.fuzz.corpus import broken, keep, keep_broken, kept
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

SOURCE = "msmq"

Branch = tuple[str, int, int]


def ways(target: str, inputs: Iterable[bytes]) -> Iterable[tuple[bytes, frozenset[Branch]]]:
    """Each input with the branches that it covers; one that breaks a promise is reported and left out."""
    for data in inputs:
        measured = coverage.Coverage(data_file=None, branch=True, source=[SOURCE], config_file=False)
        measured.start()
        try:
            TARGETS[target](data)
        except Exception as error:
            print(f"{target}: {error!r}: {data.hex()}", file=sys.stderr)
            continue
        finally:
            measured.stop()
        collected = measured.get_data()
        yield (
            data,
            frozenset(
                (path, start, end)
                for path in collected.measured_files()
                for start, end in collected.arcs(path) or ()
            ),
        )


def reduce(target: str, work: Path) -> tuple[int, int]:
    """Write the corpus of a target; give how many inputs it has, and its bytes."""
    findings = set(broken(target))
    findings |= {path.read_bytes() for path in (work / "findings").glob(f"{target}-*.bin")}
    known: set[Branch] = set()
    for _, branches in ways(target, seeds(target)):
        known |= branches
    mended = []
    for data, branches in ways(target, sorted(findings)):
        known |= branches
        mended.append(data)
    if mended:
        keep_broken(target, mended)
    found = set(kept(target))
    directory = work / target
    if directory.is_dir():
        found |= {path.read_bytes() for path in directory.iterdir()}
    chosen = []
    for data, branches in ways(target, sorted(found, key=lambda data: (len(data), data))):
        if not branches <= known:
            known |= branches
            chosen.append(data)
    return len(chosen), keep(target, chosen)


def main() -> None:
    """Reduce the corpus of each target."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.reduce")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--work", type=Path, default=Path("_fuzz"))
    options = parser.parse_args()
    for target in options.targets or TARGETS:
        inputs, size = reduce(target, options.work)
        print(f"{target}: {inputs} inputs, {size} bytes", flush=True)


if __name__ == "__main__":
    main()
