"""Report of a store check, and tests that all kinds of stores share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import attrs

from msmq.storage.generation_mark import GenerationMark
from msmq.storage.scrub_step import ScrubStep


@attrs.define
class StoreReport:
    """Result of a store check.

    @ivar location: location of the store, without secrets.
    @ivar rows: messages, entries of message logs and events that were verified.
    @ivar size: total size of their packets in bytes.
    @ivar problems: location and kind of each damage, one line each.
    """

    location: str
    rows: int = 0
    size: int = 0
    problems: list[str] = attrs.field(factory=list)

    def add(self, problem: str) -> None:
        """Add a problem, without duplicates."""
        if problem not in self.problems:
            self.problems.append(problem)

    def add_step(self, step: ScrubStep) -> None:
        """Add the result of one verification step."""
        self.rows += step.rows
        self.size += step.size
        for one in step.damaged:
            self.add(f"{one.problem}: {one.what}" + (f" of {one.path}" if one.path else ""))

    def compare(self, mark: Path, store: bytes, number: int, *, older: str) -> None:
        """Compare the last commit of a store with the mark in the data directory.

        @param store: its identity.
        @param number: of its last commit.
        @param older: the text for a store whose number is below that of the mark.
        """
        found = GenerationMark.read(mark)
        if found is None:
            return
        if found.store != store:
            self.add(f"{self.location}: not the store that was used last ({mark})")
        elif number < found.number:
            self.add(f"{self.location}: {older} {number}, but had {found.number}")


def check_at_rest(lock: Path, report: StoreReport, check: Callable[[StoreReport], object]) -> None:
    """Check what holds only while no server has a store open; what is found is dropped if one has opened it.

    @param lock: the lock file.
    @param check: adds problems to a report.
    """
    if is_locked(lock):
        return
    found = StoreReport(report.location)
    check(found)
    if not is_locked(lock):
        for problem in found.problems:
            report.add(problem)


def is_locked(path: Path) -> bool:
    """Whether a server has a store open.

    The lock is shared for an instant, so that two checks do not take each other for a server. A server that
    starts in this instant waits for it (L{lock_exclusively<msmq.storage.exclusive_lock.lock_exclusively>}).

    @param path: the lock file.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
