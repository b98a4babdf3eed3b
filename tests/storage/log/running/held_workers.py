"""Threads of a record log that a test holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from msmq.storage.log.system import LocalSystem, LogWorker
from msmq.storage.log.workers import Call

_Result = TypeVar("_Result")
PACKETS: Final = "msmq log packets"
WRITER: Final = "msmq log writer"
UPKEEP: Final = "msmq log upkeep"
SEARCHES: Final = "msmq log searches"


class HeldWorker:
    """A thread that begins nothing while it is held."""

    def __init__(self, worker: LogWorker) -> None:
        self._worker = worker
        self._held: list[Callable[[], object]] | None = None

    def hold(self) -> None:
        """Begin nothing from now on."""
        self._held = []

    def release(self) -> None:
        """Begin what was to be done meanwhile, in order."""
        held, self._held = self._held or [], None
        for each in held:
            each()

    def do(self, task: Callable[[], _Result], report: Callable[[_Result | Exception], object]) -> None:
        """See L{LogWorker.do}."""
        if self._held is None:
            self._worker.do(task, report)
        else:
            self._held.append(lambda: self._worker.do(task, report))

    def stop(self) -> None:
        """See L{LogWorker.stop}."""
        self._worker.stop()


class HoldingSystem(LocalSystem):
    """A system whose threads a test holds.

    @ivar workers: by their name.
    """

    def __init__(self) -> None:
        self.workers: dict[str, HeldWorker] = {}

    def worker(self, name: str, call: Call) -> LogWorker:
        """See L{LocalSystem.worker}."""
        held = self.workers[name] = HeldWorker(super().worker(name, call))
        return held
