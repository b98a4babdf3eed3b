"""Readiness check of a queue manager, with reasons."""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from typing import Final

import attrs

from msmq.alarm_limits import FAILURE_COUNTS
from msmq.interfaces.archive import ArchiveSummary
from msmq.manager.administration.measurements import Measurements
from msmq.manager.states import ServiceState


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


def readiness(
    state: ServiceState,
    measurements: Measurements,
    seconds_since_failure: float | None,
    archive: ArchiveSummary | None = None,
    *,
    names_files: bool = True,
) -> Readiness:
    """Determine the readiness of a queue manager.

    A queue manager that accepts no messages is unready. One that works with a restriction (its directory is
    unreachable, it was taken offline) is degraded, since no other server could replace it.

    @param seconds_since_failure: seconds since the latest commit of the store failed; C{None} if it
        succeeded.
    @param archive: the state of the archive, if the server keeps one.
    @param names_files: whether the reasons may name files of the server.
    """
    if state is not ServiceState.READY or not measurements.is_running:
        return Readiness(Health.UNREADY, (f"the queue manager is {_STATES[state]}",))
    unready: list[str] = []
    if measurements.storage().throttled:
        unready.append("the store is full: no message is accepted until there is space")
    if seconds_since_failure is not None and seconds_since_failure < FAILURE_COUNTS:
        unready.append(f"the store failed {seconds_since_failure:.0f} seconds ago: the log has the error")
    degraded = [*_restrictions(measurements), *_archive_restrictions(archive, names_files)]
    if unready:
        return Readiness(Health.UNREADY, (*unready, *degraded))
    return Readiness(Health.DEGRADED if degraded else Health.READY, tuple(degraded))


def _restrictions(measurements: Measurements) -> list[str]:
    found: list[str] = []
    if measurements.is_offline:
        found.append("the queue manager is offline: it has no sessions with other queue managers")
    if suspicion := measurements.clone_suspicion:
        found.append(
            f"it may be a clone, so nothing is sent to other queue managers: {suspicion}; msmq identity "
            "keep, or msmq identity renew"
        )
    directory = measurements.directory()
    if directory is not None and not directory.condition.is_reached:
        since = directory.condition.since
        when = "" if since is None else f" since {_time(since)}"
        known = (
            "nothing is known of the enterprise"
            if directory.read is None
            else f"the data of {_time(directory.read)} is used"
        )
        found.append(f"the directory is not reached{when}: {known}")
    differences = measurements.directory_differences()
    if differences:
        found.append(
            f"{len(differences)} change(s) in the directory are not applied, because they weaken protection: "
            "msmq status lists them"
        )
    return found


def _archive_restrictions(archive: ArchiveSummary | None, names_files: bool) -> list[str]:
    if archive is None:
        return []
    if archive.condition in ("waiting", "failed"):
        reason = archive.reason if names_files else "the log has the reason"
        return [f"the archive is not written: {reason}"]
    if archive.is_late:
        return [f"the archive is late: it is complete up to {archive.lag:.0f} seconds ago"]
    return []


def _time(wall: float) -> str:
    return datetime.fromtimestamp(int(wall), UTC).isoformat()


_STATES: Final = {
    ServiceState.STOPPED: "stopped",
    ServiceState.INITIALIZING: "starting: the store is being opened",
    ServiceState.READY: "stopped",
    ServiceState.STOPPING: "stopping",
}
