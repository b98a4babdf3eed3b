"""Directories that tests copy: each is made by the first process that needs it, and kept for later runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).resolve().parents[2] / "build" / "tests"
"""Where they are kept; C{make clean} removes it."""

AGE: Final = 7 * 24 * 3600.0
"""Seconds after which a directory is made anew, since what is in it may expire, such as passwords."""


def copy_of(
    name: str, version: str, target: Path, make: Callable[[Path], None], *, kept: Path = KEPT
) -> None:
    """Fill an empty directory with a copy of one that is the same for all processes of the tests.

    It is made where there is none of this version, or an old one. A process that needs it while another
    makes it waits.

    @param name: of the directory, which no other use has.
    @param version: all that the content depends on, such as the version of a program and its arguments.
    @param make: makes it in an empty directory, whose path must not matter. If it fails, nothing is kept.
    @param kept: where it is kept.
    """
    kept.mkdir(parents=True, exist_ok=True)
    made = kept / f"{name}-{sha256(version.encode()).hexdigest()[:16]}"
    with (kept / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists() and abs(time.time() - made.stat().st_mtime) < AGE:
            shutil.copytree(made, target, symlinks=True, dirs_exist_ok=True)
            return
        make(target)
        for old in kept.glob(f"{name}-*"):
            shutil.rmtree(old)
        unfinished = kept / f"{name}-unfinished"
        shutil.copytree(target, unfinished, symlinks=True)
        os.utime(unfinished)
        unfinished.rename(made)
