"""Tests in which the system under a server fails, and tests of what a server asks of it, and when."""

import os
import sys

IS_THOROUGH = bool(os.environ.get("MSMQ_CRASH"))
"""Whether everything is tried, as C{make crash} does; otherwise a sample, which takes seconds."""


def tell(figures: str) -> None:
    """Print what was done, for whoever asked for all of it."""
    if IS_THOROUGH:
        sys.stdout.write(f"\n{figures}\n")
        sys.stdout.flush()
