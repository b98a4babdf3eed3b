"""Messages that contain their start time, and processes that report their measurements.

The monotonic clock is the machine's, the same in all processes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred

_TIME: Final = Struct("<d")
_PADDING: Final = bytes(0x100000)


def body_of(size: int) -> bytes:
    """A body of this size that begins with the time."""
    return _TIME.pack(time.monotonic()) + _PADDING[: size - _TIME.size]


def age(body: bytes) -> float:
    """The seconds since a body was made."""
    began: float = _TIME.unpack_from(body)[0]
    return time.monotonic() - began


@attrs.define
class Tally:
    """How long messages took."""

    _ages: list[float] = attrs.field(factory=list)

    def arrived(self, body: bytes) -> None:
        """One more."""
        self._ages.append(age(body))

    def figures(self) -> dict[str, float]:
        """Median, and what 99 of 100 and 999 of 1,000 stayed below, in seconds; nothing without messages."""
        if len(self._ages) < 2:
            return dict.fromkeys(("p50", "p99", "p999"), self._ages[0]) if self._ages else {}
        parts = statistics.quantiles(self._ages, n=1000, method="inclusive")
        return {"p50": statistics.median(self._ages), "p99": parts[989], "p999": parts[998]}


BENCH: Final = Path(__file__).resolve().parents[1]
_KEPT: list[Deferred[None]] = []


def forever() -> Deferred[None]:
    """Never fires; kept, so that the coroutine that awaits it is not taken for garbage."""
    _KEPT.append(Deferred())
    return _KEPT[-1]


def say(**figures: object) -> None:
    """Report to the parent process, in one line."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def environment() -> dict[str, str]:
    """The environment of a process that runs a program of L{programs}, which imports from here."""
    return {**os.environ, "PYTHONPATH": os.fspath(BENCH)}


class Part:
    """A process that was started to take part in a round, and says what it measured in lines of JSON.

    @param module: its path below C{bench}, without C{.py}.
    """

    def __init__(self, processes: ExitStack, module: str, *arguments: object) -> None:
        """Start it; it is ended with C{processes}."""
        command = [sys.executable, str(BENCH / f"{module}.py"), *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        processes.enter_context(self._process)
        processes.callback(self._process.terminate)
        self.pid = self._process.pid

    def hear(self) -> dict[str, Any]:
        """The next line that it says.

        @raise RuntimeError: it ended instead.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self._process.args))} ended early")  # type: ignore[arg-type]
        reported: dict[str, Any] = json.loads(line)
        return reported

    def tell(self, text: str) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
