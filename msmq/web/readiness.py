"""Readiness check of a queue manager, with reasons."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import attrs

from msmq.control.server.alarms.manager_alarms import AlarmKind, ManagerAlarm
from msmq.manager.administration.measurements import Measurements
from msmq.manager.states import ServiceState

SHARED_FOR: Final = 1.0
"""Seconds for which an answer of C{/health/ready} is shared."""


class Health(enum.Enum):
    """The C{status} of C{/health/ready}: only L{UNREADY} is answered with 503."""

    READY = "ready"
    DEGRADED = "degraded"
    UNREADY = "unready"


@attrs.frozen
class Readiness:
    """The response of C{/health/ready}.

    @ivar reasons: the reasons for another status than ready, the most severe first.
    """

    health: Health
    reasons: tuple[str, ...] = ()


HEALTH_OF_ALARMS: Final[Mapping[AlarmKind, Health]] = {
    "quota": Health.READY,
    "paused": Health.READY,
    "unread": Health.READY,
    "unreached": Health.READY,
    "state": Health.UNREADY,
    "store_full": Health.UNREADY,
    "store_failed": Health.UNREADY,
    "disk_space": Health.READY,
    "slow_commits": Health.READY,
    "machine_quota": Health.READY,
    "dead_letters": Health.READY,
    "refused": Health.READY,
    "offline": Health.DEGRADED,
    "clone": Health.DEGRADED,
    "directory": Health.DEGRADED,
    "directory_differences": Health.DEGRADED,
    "bridge": Health.READY,
    "archive": Health.DEGRADED,
    "certificate": Health.READY,
    "token": Health.READY,
}
"""What an alarm of each kind makes of a queue manager.

One that accepts no messages is unready. One that works with a restriction (its directory is unreachable, it
was taken offline) is degraded, since no other server could replace it. What concerns some queues or routes,
or may become a problem, leaves it ready.
"""


def readiness(
    state: ServiceState, measurements: Measurements, alarms: Callable[[], Sequence[ManagerAlarm]]
) -> Readiness:
    """Determine the readiness of a queue manager by its alarms.

    @param alarms: returns those about the server as a whole, the most severe first; called if it runs.
    """
    if state is not ServiceState.READY or not measurements.is_running:
        return Readiness(Health.UNREADY, (f"the queue manager is {_STATES[state]}",))
    unready: list[str] = []
    degraded: list[str] = []
    for alarm in alarms():
        health = HEALTH_OF_ALARMS[alarm.kind]
        if health is not Health.READY:
            found = unready if health is Health.UNREADY else degraded
            found.append(_reason(alarm, measurements))
    if unready:
        return Readiness(Health.UNREADY, (*unready, *degraded))
    return Readiness(Health.DEGRADED if degraded else Health.READY, tuple(degraded))


@attrs.define
class SharedReadiness:
    """Shares one answer for L{SHARED_FOR} seconds, since each looks at every file of the store.

    A change of the state, such as a stop, is answered at once.

    @param compute: returns the current readiness.
    @param state: returns what an answer is shared within, cheap to compare.
    @param seconds: returns the monotonic time.
    """

    _compute: Callable[[], Readiness]
    _state: Callable[[], Hashable]
    _seconds: Callable[[], float]
    _latest: tuple[float, Hashable, Readiness] | None = attrs.field(default=None, init=False)

    def current(self) -> Readiness:
        """The readiness, at most L{SHARED_FOR} seconds old."""
        now, state = self._seconds(), self._state()
        if self._latest is not None:
            time, former, found = self._latest
            if former == state and 0 <= now - time < SHARED_FOR:
                return found
        found = self._compute()
        self._latest = now, state, found
        return found


def _reason(alarm: ManagerAlarm, measurements: Measurements) -> str:
    directory = measurements.directory() if alarm.kind == "directory" else None
    if directory is not None:
        # Without its problem, which may name servers and files: a remote caller needs no token.
        since = directory.condition.since
        when = "" if since is None else f" since {_time(since)}"
        known = (
            "nothing is known of the enterprise"
            if directory.read is None
            else f"the data of {_time(directory.read)} is used"
        )
        return f"the directory is not reached{when}: {known}"
    further = _FURTHER.get(alarm.kind)
    return alarm.text if further is None else f"{alarm.text}{further}"


_FURTHER: Final[Mapping[AlarmKind, str]] = {
    "store_failed": ": the log has the error",
    "clone": "; msmq identity keep, or msmq identity renew",
    "directory_differences": ": msmq status lists them",
}


def _time(wall: float) -> str:
    return datetime.fromtimestamp(int(wall), UTC).isoformat()


_STATES: Final = {
    ServiceState.STOPPED: "stopped",
    ServiceState.INITIALIZING: "starting: the store is being opened",
    ServiceState.READY: "stopped",
    ServiceState.STOPPING: "stopping",
}
