"""The corpus: for each target a file, an input a line in base64, the shortest first.

Inputs that have broken a promise are in a directory of their own, since they may cover no further branch.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.seeds import seeds

DIRECTORY = Path(__file__).resolve().parent / "corpus"


def kept(target: str) -> list[bytes]:
    """Inputs that fuzzing has found to cover another branch of the code."""
    return _read(DIRECTORY / f"{target}.txt")


def broken(target: str) -> list[bytes]:
    """Inputs that have broken a promise once; they stay permanently."""
    return _read(DIRECTORY / "findings" / f"{target}.txt")


def inputs(target: str) -> list[bytes]:
    """All of that, and the seeds that are made of packets."""
    return [*seeds(target), *broken(target), *kept(target)]


def keep(target: str, found: Iterable[bytes]) -> int:
    """Write these as the corpus; give the size of the file."""
    return _write(DIRECTORY / f"{target}.txt", found)


def keep_broken(target: str, found: Iterable[bytes]) -> int:
    """Write these as what has broken a promise; give the size of the file."""
    return _write(DIRECTORY / "findings" / f"{target}.txt", found)


def _read(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    return [base64.b64decode(line, validate=True) for line in path.read_text(encoding="ascii").splitlines()]


def _write(path: Path, found: Iterable[bytes]) -> int:
    ordered = sorted(set(found), key=lambda data: (len(data), data))
    text = "".join(base64.b64encode(data).decode("ascii") + "\n" for data in ordered)
    return path.write_text(text, encoding="ascii")
