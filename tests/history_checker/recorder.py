"""Recorder of histories, for any number of threads."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any


def digest(content: bytes) -> str:
    """The digest of a body, as in a history."""
    return hashlib.sha256(content).hexdigest()[:16]


class Recorder:
    """Writes the lines of a history.

    @param write: takes one line with its end.
    @param clock: seconds.
    """

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self, kind: str, **facts: Any) -> int:
        """An operation begins; returns its number."""
        with self._lock:
            number = next(self._numbers)
            self._line({"operation": number, "at": self._clock(), "kind": kind, **facts})
        return number

    def shown(self, number: int, messages: Iterable[tuple[str, str]]) -> None:
        """An application saw messages: labels and digests."""
        with self._lock:
            self._line({"operation": number, "at": self._clock(), "shown": list(messages)})

    def end(self, number: int, result: str) -> None:
        """An operation ends."""
        with self._lock:
            self._line({"operation": number, "at": self._clock(), "result": result})

    def note(self, kind: str, **facts: Any) -> None:
        """Something that takes no time."""
        self.end(self.begin(kind, **facts), "done")

    def _line(self, event: dict[str, Any]) -> None:
        self._write(json.dumps(event) + "\n")
