"""Storage factory of the record log, C{log} in a configuration."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import attrs
from zope.interface import implementer

from msmq.interfaces.plugins import ILossAcceptance, IStorageFactory, IStorageProbe
from msmq.interfaces.storage import IMessageStore
from msmq.storage.damage import DamagePolicy
from msmq.storage.log.store import LogMessageStore
from msmq.storage.scrub_policy import SCRUBBING

DIRECTORY_NAME: Final = "msmq.log"


@implementer(IStorageFactory, IStorageProbe, ILossAcceptance)
@attrs.frozen
class LogStorageFactory:
    """Factory of C{log} (C{msmq.log} in the data directory) and C{log:PATH} (relative to it)."""

    name: str = "log"
    description: str = "in a record log; survives a kill and a power cut"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        return self._store(argument, data, accepts_loss=False)

    def open_with_loss(self, argument: str, data: Path) -> IMessageStore:
        """See L{ILossAcceptance.open_with_loss}."""
        return self._store(argument, data, accepts_loss=True)

    def _store(self, argument: str, data: Path, *, accepts_loss: bool) -> LogMessageStore:
        if "\0" in argument:
            raise ValueError("a path must not contain a null character")
        directory = data / (argument or DIRECTORY_NAME)
        policy = DamagePolicy(data / mark_name(directory), accepts_loss, time.time, SCRUBBING)
        return LogMessageStore(directory, policy, clock=time.perf_counter)

    def probe(self, argument: str, data: Path) -> None:
        """See L{IStorageProbe.probe}: the directory, or the one above it, can be written."""
        directory = data / (argument or DIRECTORY_NAME)
        above = directory if directory.exists() else directory.parent
        if above != data and not above.is_dir():
            problem = "does not exist" if not above.exists() else "is not a directory"
            raise ValueError(f"{above}: {problem}")
        if above.is_dir() and not os.access(above, os.R_OK | os.W_OK | os.X_OK):
            raise ValueError(f"the directory {above} cannot be written by this user")


def mark_name(directory: Path) -> str:
    """Name of the generation mark of this log in the data directory."""
    return f"{directory.name}-mark"
