"""Processes that write to a store without end, and are killed in the middle of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.patience import DEADLINE

PROJECT = Path(__file__).resolve().parent.parent.parent


class Victims:
    """Where L{tests.storage.crash_child} gets one process after the other from.

    @param tracer: the command to put in front of its own.
    """

    def __init__(self, tracer: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*tracer, sys.executable, "-m", "tests.storage.crash_child"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run_and_kill(self, description: str, step: int, lines: int) -> tuple[int, int]:
        """Run a process for this number of lines; returns the last submitted step, and the last completed
        one.

        @param description: of the store.
        @param step: the last one that the store has.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        print(description, file=self._process.stdin, flush=True)
        handed, confirmed = step, step
        pid: int | None = None
        said = 0
        for line in self._process.stdout:
            what, _, number = line.partition(" ")
            match what:
                case "p":
                    pid = int(number)
                case "e":
                    assert int(number) == -signal.SIGKILL, f"it ended by itself: {number}"
                    return handed, confirmed
                case "h":
                    handed = int(number)
                case "c":
                    assert int(number) == confirmed + 1, "they are done in order"
                    confirmed = int(number)
            said += 1
            if said > lines and pid is not None:
                os.kill(pid, signal.SIGKILL)
                pid = None
                lines = sys.maxsize
        raise AssertionError("there are no more processes")

    def close(self) -> None:
        """End the process that the others come from."""
        self._process.communicate(timeout=DEADLINE)
