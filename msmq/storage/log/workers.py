"""Threads that do one thing after the other, and report each result to the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
Call: TypeAlias = Callable[..., object]
"""Has a function called in the reactor's thread, in its next iteration."""


class Worker:
    """One thread.

    @param name: of the thread.
    @param call: has what comes of it called in the reactor's thread.
    """

    def __init__(self, name: str, call: Call) -> None:
        self._call = call
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = SimpleQueue()
        # A daemon: whatever ends the process ends this too, and what is written is made for that.
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, task: Callable[[], Result], report: Callable[[Result | Exception], object]) -> None:
        """Do this after all that was asked for before.

        @param report: called in the reactor's thread with the result, or the exception.
        """
        self._tasks.put((task, report))

    def stop(self) -> None:
        """Wait until everything is done, and end."""
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
