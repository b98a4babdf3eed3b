"""The mark of a schema, in the data directory of its server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar, Final

from twisted.logger import Logger

from msmq.storage.generation_mark import GenerationMark

MARK_SECONDS: Final = 5.0
"""Seconds between two marks, while the store is written to."""


class DatabaseMark:
    """Writes the number of the last durable group, after it was confirmed.

    @param store: the identifier of the store.
    @param path: the file.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, store: bytes, path: Path) -> None:
        self._store = store
        self._path = path
        self._number = -1
        self._written_at = 0.0

    def confirmed(self, number: int) -> None:
        """Record a confirmed group, and write the mark if the previous one is old."""
        if time.monotonic() - self._written_at >= MARK_SECONDS:
            self.write(number)

    def write(self, number: int) -> None:
        """Write the mark if it has changed; a failure is logged."""
        if number == self._number:
            return
        self._number = number
        self._written_at = time.monotonic()
        try:
            GenerationMark(self._store, number).write(self._path)
        except OSError as error:
            self.log.error("{path}: cannot write: {error}", path=self._path, error=error.strerror or error)
