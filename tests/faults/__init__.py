"""Tests in which the system under a server fails, and tests of what a server asks of it, and when."""

import atexit
import os
import sys
import time

IS_THOROUGH = bool(os.environ.get("MSMQ_CRASH"))
"""Whether everything is tried, as C{make crash} and C{make faults} do; otherwise a sample, of seconds."""


def seed_of(usual: int) -> int:
    """C{MSMQ_CRASH_SEED}, so that another run tries other moments; else the usual seed of a test."""
    return int(os.environ.get("MSMQ_CRASH_SEED", usual))


_REPORTED: list[str] = []
_BEGAN = time.monotonic()


def tell(figures: str) -> None:
    """Print what was tried, now and once more at the end, in a thorough run."""
    if IS_THOROUGH:
        if not _REPORTED:
            atexit.register(_tell_all)
        _REPORTED.append(figures)
        _print(figures)


def _tell_all() -> None:
    _print("\n".join([f"This was tried in {time.monotonic() - _BEGAN:.0f} seconds:", *_REPORTED]))


def _print(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()
