"""The corpus: for each target a file, an input a line in base64, the shortest first."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.seeds import seeds

DIRECTORY = Path(__file__).resolve().parent / "corpus"


def kept(target: str) -> list[bytes]:
    """What fuzzing has found to take another way through the code, and every input that failed once."""
    path = DIRECTORY / f"{target}.txt"
    if not path.exists():
        return []
    return [base64.b64decode(line, validate=True) for line in path.read_text(encoding="ascii").splitlines()]


def inputs(target: str) -> list[bytes]:
    """All of that, and the seeds that are made of packets."""
    return [*seeds(target), *kept(target)]


def keep(target: str, found: Iterable[bytes]) -> int:
    """Write these as the corpus; give the size of the file."""
    ordered = sorted(set(found), key=lambda data: (len(data), data))
    text = "".join(base64.b64encode(data).decode("ascii") + "\n" for data in ordered)
    return (DIRECTORY / f"{target}.txt").write_text(text, encoding="ascii")
