"""Directory timers. [MS-MQDMPR] 3.1.2."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from msmq.moment import Moment

DIRECTORY_ONLINE_TIME: Final = 60.0
"""One minute, in seconds. [MS-MQDMPR] 3.1.2.5."""


class DirectoryTimer(enum.Enum):
    """Directory timers, by their names in the documents."""

    SITES_UPDATE = "Directory Sites Update Timer"
    SITE_GATES_UPDATE = "Directory Site Gates Update Timer"
    DIRECTORY_ONLINE = "Directory Online Timer"
    DIRECTORY_SERVER_LIST_UPDATE = "Directory Server List Update Timer"


@attrs.frozen
class DirectoryTimes:
    """Intervals of the directory timers, in seconds.

    @ivar sites_update: [MS-MQDMPR] 3.1.2.1.
    @ivar site_gates_update: [MS-MQDMPR] 3.1.2.2.
    @ivar directory_server_list_update: [MS-MQSO] 6.4.1.2.
    """

    sites_update: float = 12 * 3600.0
    site_gates_update: float = 3600.0
    directory_server_list_update: float = 24 * 3600.0

    def of(self, timer: DirectoryTimer) -> float:
        """The interval of a timer."""
        match timer:
            case DirectoryTimer.SITES_UPDATE:
                return self.sites_update
            case DirectoryTimer.SITE_GATES_UPDATE:
                return self.site_gates_update
            case DirectoryTimer.DIRECTORY_SERVER_LIST_UPDATE:
                return self.directory_server_list_update
            case DirectoryTimer.DIRECTORY_ONLINE:
                return DIRECTORY_ONLINE_TIME


class DirectoryTimers:
    """Running timers and their deadlines."""

    def __init__(self, times: DirectoryTimes) -> None:
        self._times = times
        self._deadlines: dict[DirectoryTimer, float] = {}

    def start(self, timer: DirectoryTimer, now: Moment) -> None:
        """Start or restart a timer."""
        self._deadlines[timer] = now.monotonic + self._times.of(timer)

    def start_if_idle(self, timer: DirectoryTimer, now: Moment) -> None:
        """Start a timer, unless it runs."""
        if timer not in self._deadlines:
            self.start(timer, now)

    def stop(self, timer: DirectoryTimer) -> None:
        """Stop a timer."""
        self._deadlines.pop(timer, None)

    def stop_all(self) -> None:
        """Stop all timers."""
        self._deadlines.clear()

    def is_running(self, timer: DirectoryTimer) -> bool:
        """Whether a timer runs."""
        return timer in self._deadlines

    def deadline(self) -> float | None:
        """When the next timer expires, in seconds of the monotonic clock."""
        return min(self._deadlines.values(), default=None)

    def expired(self, now: Moment) -> list[DirectoryTimer]:
        """The timers that have expired, the earliest first; they are stopped."""
        due = sorted(
            (deadline, timer.name) for timer, deadline in self._deadlines.items() if deadline <= now.monotonic
        )
        timers = [DirectoryTimer[name] for _, name in due]
        for timer in timers:
            self.stop(timer)
        return timers
