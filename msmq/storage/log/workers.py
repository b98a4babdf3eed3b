"""Worker threads with a FIFO queue, which report results to the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
Call: TypeAlias = Callable[..., object]
"""Calls a function in the reactor's thread, in its next iteration."""


class Worker:
    """Worker thread.

    @param name: of the thread.
    @param call: calls a function in the reactor's thread.
    """

    def __init__(self, name: str, call: Call) -> None:
        self._call = call
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = SimpleQueue()
        # A daemon thread: it ends with the process, which the log's crash recovery allows for.
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, task: Callable[[], Result], report: Callable[[Result | Exception], object]) -> None:
        """Run a function after all earlier ones.

        @param report: called in the reactor's thread with the result, or the exception.
        """
        self._tasks.put((task, report))

    def stop(self) -> None:
        """Finish all pending work, and end the thread."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (asked := self._tasks.get()) is not None:
            task, report = asked
            try:
                result = task()
            except Exception as error:
                result = error
            self._call(report, result)
