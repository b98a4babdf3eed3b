"""A worker of L{tests.runner}: trial's own, with less work between two tests.

trial's worker reads its orders byte by byte, and sets an attribute of every module that is loaded before each
test, of thousands; with tests of a millisecond both take longer than the tests.
It also sends each line of the log to the runner, which writes it and answers; here a worker writes a log,
C{test.log} in its directory.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TextIO

from twisted.logger import LogEvent
from twisted.python.log import textFromEventDict
from twisted.trial import _synctest
from twisted.trial._dist import workertrial

# This program is imported before trial is, so the settings of hypothesis are not loaded by the package.
from tests import samples as samples
from tests.servers.forking import make_segments_small

LOG: Final = "MSMQ_TESTS_LOG"
"""The variable with the path of the log, which L{tests.runner} sets."""

YOUNG: Final = 20_000
"""New objects after which the youngest generation is collected.

With Python's default an eighth of a worker's time goes to collections: each module that a test imports
stays, and is visited again.
"""


class WorkerLog(workertrial.WorkerLogObserver):
    """The log of a worker, with each line written at once, since a worker may be killed."""

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol)
        path = Path(os.environ.pop(LOG))
        # The runner makes the directory when it has started this process.
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("w", buffering=1, encoding="utf-8", errors="backslashreplace")

    def emit(self, eventDict: LogEvent) -> None:
        """Write one event as trial does, without its time; nothing if it has no text."""
        text = textFromEventDict(eventDict)
        if text is not None:
            self._file.write(f"{text}\n")


class _Orders:
    """A pipe whose reader takes what is there."""

    def __init__(self, number: int) -> None:
        self._number = number

    def read(self, _: int) -> bytes:
        """Wait for something, and give all of it."""
        return os.read(self._number, 1 << 16)


def _open(number: int, mode: str) -> Any:
    return _Orders(number) if mode == "rb" else os.fdopen(number, mode)


def forget_warnings(modules: Mapping[str, ModuleType | None]) -> None:
    """Have each module warn again of what it has warned of; most have never warned."""
    for module in list(modules.values()):
        if getattr(module, "__dict__", {}).get("__warningregistry__"):
            vars(module)["__warningregistry__"] = None


def main() -> None:
    """Work off the orders of the runner."""
    # trial has no setting for either; without the module's function each test resets thousands of modules.
    _synctest._setWarningRegistryToNone = forget_warnings
    workertrial.WorkerLogObserver = WorkerLog  # type: ignore[misc]
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    make_segments_small()
    workertrial.main(_open)


if __name__ == "__main__":
    main()
