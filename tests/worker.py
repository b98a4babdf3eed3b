"""A worker of L{tests.runner}: trial's own, with less work between two tests.

trial's worker reads its orders byte by byte, and sets an attribute of every module that is loaded before each
test, of thousands; with tests of a millisecond both take longer than the tests.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from twisted.trial import _synctest
from twisted.trial._dist import workertrial

# This program is imported before trial is, so the settings of hypothesis are not loaded by the package.
from tests import samples as samples
from tests.servers.forking import make_segments_small

YOUNG: Final = 20_000
"""New objects after which the youngest generation is collected.

With Python's default an eighth of a worker's time goes to collections: each module that a test imports
stays, and is visited again.
"""


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
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    make_segments_small()
    workertrial.main(_open)


if __name__ == "__main__":
    main()
