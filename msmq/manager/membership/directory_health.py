"""Directory health for status and events: reachable or not, and age of its data. [MS-MQOD] 2.7.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs
from twisted.logger import Logger

from msmq.decoding.values import unix_time
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import DirectoryCondition, IDirectory, IObservedDirectory
from msmq.interfaces.manager.summaries import DirectoryStatus

Note = Callable[[str, str], None]
"""Appends to the event log: an event name, and a text."""

LOST = "directory_lost"
REACHED = "directory_reached"


@attrs.frozen
class DirectoryMeasurement:
    """The directory, as L{DirectoryHealth} knows it.

    @ivar kind: C{file}, C{ldap}, or the name of a plugin.
    @ivar read: when the data in use was read from it, in seconds since 1970-01-01 UTC; C{None} without data.
    """

    kind: str
    condition: DirectoryCondition
    read: float | None


class DirectoryHealth:
    """Tracks whether one directory is reachable.

    A directory that monitors itself (L{IObservedDirectory}) reports its state; for others the last request
    decides.
    Each change is one line in the log and one event.

    @param note: appends to the event log.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, directory: IDirectory, clock: IClock, note: Note) -> None:
        self._name = directory.name
        self._clock = clock
        self._note = note
        self._observed: IObservedDirectory | None = IObservedDirectory(directory, None)
        self._condition = DirectoryCondition(source=directory.name)
        self._is_lost = False
        if self._observed is not None:
            self._observed.observe(self._changed)

    @property
    def condition(self) -> DirectoryCondition:
        """The current state."""
        return self._condition if self._observed is None else self._observed.condition

    def asked(self, is_reached: bool) -> None:
        """Record whether a request has reached the directory."""
        before = self._condition
        if self._observed is not None or (before.since is not None and before.is_reached == is_reached):
            return
        self._condition = attrs.evolve(
            before,
            is_reached=is_reached,
            since=self._clock.now().wall,
            problem="" if is_reached else "the directory could not be reached",
        )
        self._changed(self._condition)

    def read(self, when: float) -> None:
        """Record the time at which the data in use was read."""
        self._condition = attrs.evolve(self._condition, read=when)

    def measure(self) -> DirectoryMeasurement:
        """The current state, and the time at which the data in use was read."""
        condition = self.condition
        read = condition.read if condition.read is not None else self._condition.read
        return DirectoryMeasurement(self._name, condition, read)

    @property
    def status(self) -> DirectoryStatus:
        """The state of the directory, for C{msmq status}."""
        found = self.measure()
        condition, read = found.condition, found.read
        age = None if read is None else max(0, int(self._clock.now().wall - read))
        return DirectoryStatus(
            kind=self._name,
            source=condition.source,
            reached=condition.is_reached,
            since=_whole(condition.since),
            read=_whole(read),
            age=age,
            problem=condition.problem,
        )

    def _changed(self, condition: DirectoryCondition) -> None:
        if condition.is_reached:
            if self._is_lost:
                self._is_lost = False
                self.log.info("directory {source} is reachable again", source=condition.source)
                self._note(REACHED, f"directory {condition.source} is reachable again")
            return
        self._is_lost = True
        read = condition.read if condition.read is not None else self._condition.read
        known = "there is no data of it" if read is None else f"its data of {unix_time(_whole(read))} is used"
        reason = f"directory {condition.source} is unreachable: {condition.problem}; {known}"
        self.log.error("{reason}", reason=reason)
        self._note(LOST, reason)


def _whole(wall: float | None) -> int | None:
    return None if wall is None else int(wall)
