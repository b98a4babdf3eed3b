"""C{log} in a configuration."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import attrs
from zope.interface import implementer

from msmq.interfaces.plugins import IStorageFactory, IStorageProbe
from msmq.interfaces.storage import IMessageStore
from msmq.storage.log.core.scrub_policy import SCRUBBING
from msmq.storage.log.store import LogMessageStore

DIRECTORY_NAME: Final = "msmq.log"
MARK_NAME: Final = "msmq.log-mark"
"""The file in the data directory that tells which log was used last, and how far it had come."""


@implementer(IStorageFactory, IStorageProbe)
@attrs.frozen
class LogStorageFactory:
    """C{log}: C{msmq.log} in the data directory; C{log:PATH}: another directory, from there."""

    name: str = "log"
    description: str = "in a record log; survives a kill and a power cut"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        if "\0" in argument:
            raise ValueError("a path holds no null character")
        directory = data / (argument or DIRECTORY_NAME)
        return LogMessageStore(
            directory, data / MARK_NAME, clock=time.perf_counter, now=time.time, scrubbing=SCRUBBING
        )

    def probe(self, argument: str, data: Path) -> None:
        """See L{IStorageProbe.probe}: the directory, or the one above it, can be written."""
        directory = data / (argument or DIRECTORY_NAME)
        above = directory if directory.exists() else directory.parent
        if above != data and not above.is_dir():
            problem = "does not exist" if not above.exists() else "is not a directory"
            raise ValueError(f"{above}: {problem}")
        if above.is_dir() and not os.access(above, os.R_OK | os.W_OK | os.X_OK):
            raise ValueError(f"the directory {above} cannot be written by this user")
