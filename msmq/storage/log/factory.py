"""C{log} in a configuration."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import attrs
from zope.interface import implementer

from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.storage import IMessageStore
from msmq.storage.log.core.scrub_policy import SCRUBBING
from msmq.storage.log.store import LogMessageStore

DIRECTORY_NAME: Final = "msmq.log"
MARK_NAME: Final = "msmq.log-mark"
"""The file in the data directory that tells which log was used last, and how far it had come."""


@implementer(IStorageFactory)
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
