"""Directories that the workers of one run of the suite share, each made once, by the first that needs it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

SHARED: Final = "MSMQ_TESTS_SHARED"
"""The variable with the directory that L{tests.runner} makes for a run; it is not set without the runner."""


def copy_of(name: str, target: Path, make: Callable[[Path], None]) -> None:
    """Fill an empty directory with a copy of one that is the same for all workers.

    Without the runner it is made anew. A worker that needs the directory while another makes it waits.

    @param name: of the directory, which no other use has.
    @param make: makes it in an empty directory, whose path must not matter. If it fails, the next worker
        tries again.
    """
    shared = os.environ.get(SHARED)
    if shared is None:
        make(target)
        return
    made = Path(shared, name)
    with open(f"{made}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = Path(f"{made}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            make(unfinished)
            unfinished.rename(made)
    shutil.copytree(made, target, symlinks=True, dirs_exist_ok=True)
