"""What needs an operator's attention, and what to do about it; functions of summaries."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, Literal

import attrs

from msmq.alarm_limits import (
    COMMITS_OF_A_PERCENTILE,
    EXPIRES_SOON,
    FAILURE_COUNTS,
    FEWEST_COMMITS,
    FORWARDS_NOTHING,
    LITTLE_SPACE,
    NEARLY_FULL,
    OLD,
    RECENT_REFUSALS,
    SLOW_COMMIT,
    STALLED_COMMIT,
    TOKEN_EXPIRES_SOON,
    UNREACHED,
)
from msmq.control.authentication.token_file import TokenExpiry
from msmq.interfaces.archive import ArchiveSummary
from msmq.interfaces.bridges import BridgeRouteSummary
from msmq.interfaces.manager.summaries import ManagerStatus, OutgoingQueueSummary, QueueSummary
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.interfaces.storage import CommitTimes
from msmq.quantities import duration, size

AlarmKind = Literal[
    "quota",
    "paused",
    "unread",
    "unreached",
    "state",
    "store_full",
    "store_failed",
    "disk_space",
    "slow_commits",
    "machine_quota",
    "dead_letters",
    "refused",
    "offline",
    "clone",
    "directory",
    "directory_differences",
    "bridge",
    "archive",
    "certificate",
    "token",
]
"""What an alarm is about, for programs.

Each kind has an alert in C{packaging/prometheus/alerts.yml}, and its consequence for C{/health/ready}.
"""

_KILOBYTE: Final = 1024
_RUNNING: Final = "running"
_RANKS: Final = {"quota": 3, "unreached": 2, "unread": 1, "paused": 0}
"""Of alarms about queues with the same severity."""


class AlarmSeverity(IntEnum):
    """How bad it is."""

    WARNING = 1
    CRITICAL = 2
    """Messages are refused, or the server does not work."""


@attrs.frozen(kw_only=True)
class ManagerAlarm:
    """One alarm.

    @ivar kind: what it is about, for programs.
    @ivar subject: the path or format name of the queue, the name of the route, or the key of the endpoint;
        empty for the server.
    @ivar text: the alarm in words, with its figures.
    @ivar action: what to do about it.
    """

    severity: AlarmSeverity
    kind: AlarmKind
    subject: str = ""
    text: str
    action: str


@attrs.frozen(kw_only=True)
class AlarmReport:
    """The alarms of a server.

    @ivar alarms: those about the server, then those about queues, the worst first.
    @ivar further: alarms about queues that are not among them.
    """

    alarms: Sequence[ManagerAlarm]
    further: int


class QueueAlarms:
    """The worst alarms about queues, collected queue by queue.

    Of those with the same severity and kind the fullest queue is the worst, the one with the oldest message,
    or the destination with the most messages.

    @param now: seconds since 1970-01-01 UTC.
    @param limit: the most alarms that are kept; the others are counted.
    @ivar total: all alarms.
    """

    def __init__(self, now: float, limit: int) -> None:
        self._now = now
        self._limit = limit
        self._worst: list[tuple[int, int, float, int, ManagerAlarm]] = []
        self.total = 0

    def add_queue(self, queue: QueueSummary) -> None:
        """Look at a local queue."""
        path = queue.path
        if queue.quota is not None:
            used = queue.bytes + queue.uncommitted_bytes + sum(each.bytes for each in queue.subqueues)
            ratio = used / (queue.quota * _KILOBYTE) if queue.quota else 1.0
            if ratio >= NEARLY_FULL:
                self._add(
                    ratio,
                    ManagerAlarm(
                        severity=AlarmSeverity.CRITICAL if ratio >= 1 else AlarmSeverity.WARNING,
                        kind="quota",
                        subject=path,
                        text=f"{path}: {ratio:.0%} of the quota is used",
                        action="Read or purge the queue, or set a larger quota.",
                    ),
                )
        if queue.paused:
            self._warn(
                0.0, "paused", path, f"{path} is paused", "Readers receive nothing until it is resumed."
            )
        if queue.oldest_message_time is not None and queue.type != "system":
            age = self._now - queue.oldest_message_time
            if age >= OLD:
                text = f"{path} is not read: its oldest message is {duration(age)} old"
                self._warn(age, "unread", path, text, "Look at the application that reads it.")

    def add_outgoing(self, queue: OutgoingQueueSummary) -> None:
        """Look at an outgoing queue."""
        if not queue.messages or queue.state not in UNREACHED:
            return
        messages = "1 message waits" if queue.messages == 1 else f"{queue.messages} messages wait"
        name = queue.format_name
        action = "Its history has the reason; retry now, or redirect it."
        self._warn(float(queue.messages), "unreached", name, f"{name} is not reached: {messages}", action)

    def _warn(self, weight: float, kind: AlarmKind, subject: str, text: str, action: str) -> None:
        self._add(
            weight,
            ManagerAlarm(
                severity=AlarmSeverity.WARNING, kind=kind, subject=subject, text=text, action=action
            ),
        )

    def _add(self, weight: float, alarm: ManagerAlarm) -> None:
        self.total += 1
        entry = (int(alarm.severity), _RANKS[alarm.kind], weight, -self.total, alarm)
        if len(self._worst) < self._limit:
            heapq.heappush(self._worst, entry)
        elif self._limit:
            heapq.heappushpop(self._worst, entry)

    def report(self, before: Sequence[ManagerAlarm]) -> AlarmReport:
        """All alarms, those about the server first; these are not counted by the limit."""
        worst = [entry[-1] for entry in sorted(self._worst, reverse=True)]
        return AlarmReport(alarms=[*before, *worst], further=self.total - len(worst))


def server_alarms(
    status: ManagerStatus,
    routes: Sequence[BridgeRouteSummary],
    archive: ArchiveSummary | None,
    certificates: Sequence[EndpointCertificate],
    tokens: Sequence[TokenExpiry] = (),
) -> list[ManagerAlarm]:
    """The alarms about the server as a whole, the worst first.

    @param routes: its routes to other brokers.
    @param archive: the state of its archive; C{None} without one.
    @param certificates: the TLS certificates of its endpoints.
    @param tokens: the tokens of its callers that expire.
    """
    found = [*_of_state(status), *_of_store(status), *_of_quotas(status), *_of_routes(routes)]
    found += _of_certificates(certificates)
    found += _of_tokens(tokens)
    if archive is not None:
        found += _of_archive(archive)
    if status.dead_letters:
        letters = "dead letter" if status.dead_letters == 1 else "dead letters"
        found.append(
            ManagerAlarm(
                severity=AlarmSeverity.WARNING,
                kind="dead_letters",
                text=f"{status.dead_letters} {letters}",
                action="Each has a reason; send them again once it is gone, or remove them.",
            )
        )
    found += _of_refusals(status)
    return sorted(found, key=lambda alarm: -alarm.severity)


def _of_refusals(status: ManagerStatus) -> Iterator[ManagerAlarm]:
    if counts := status.refused_recently:
        total = sum(counts.values())
        messages = "1 message of a peer was" if total == 1 else f"{total} messages of peers were"
        reasons = ", ".join(sorted(counts, key=lambda reason: (-counts[reason], reason)))
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="refused",
            text=f"{messages} refused in the last {duration(RECENT_REFUSALS)}: {reasons}",
            action="msmq events has the queue and the peer of each; msmq explain ID, what would accept it.",
        )


def _of_state(status: ManagerStatus) -> Iterator[ManagerAlarm]:
    if status.state != _RUNNING:
        yield ManagerAlarm(
            severity=AlarmSeverity.CRITICAL,
            kind="state",
            text=f"the queue manager is {status.state}",
            action="",
        )
    if not status.connection_active:
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="offline",
            text="the queue manager is offline: it has no sessions with other queue managers",
            action="The application that took it offline has to bring it online, or it is hardened.",
        )
    if status.clone_suspicion is not None:
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="clone",
            text=f"it may be a clone, so nothing is sent to other queue managers: {status.clone_suspicion}",
            action="Decide: msmq identity keep, or msmq identity renew.",
        )
    directory = status.directory
    if directory is not None and not directory.reached:
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="directory",
            subject=directory.source,
            text=f"the directory is not reached: {directory.problem or 'no answer yet'}",
            action="Look at the directory server; what was read before is used until it answers.",
        )
    if status.directory_differences:
        number = len(status.directory_differences)
        changes = "1 change" if number == 1 else f"{number} changes"
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="directory_differences",
            text=f"{changes} in the directory weaken protection and are not applied",
            action="msmq status lists them; make them here too, or undo them in the directory.",
        )


def _of_store(status: ManagerStatus) -> Iterator[ManagerAlarm]:
    store = status.store
    if status.throttled:
        yield ManagerAlarm(
            severity=AlarmSeverity.CRITICAL,
            kind="store_full",
            text="the store is full: no message is accepted until there is space",
            action="Free disk space, or extend the disk; the server continues by itself.",
        )
    times = store.commit_times
    if times is not None and times.since_failure is not None and times.since_failure < FAILURE_COUNTS:
        yield ManagerAlarm(
            severity=AlarmSeverity.CRITICAL,
            kind="store_failed",
            text=f"the latest commit of the store failed, {duration(times.since_failure)} ago",
            action="The log has the error; the commit is retried.",
        )
    if store.free_bytes is not None and store.capacity_bytes:
        free = store.free_bytes / store.capacity_bytes
        if free < LITTLE_SPACE:
            yield ManagerAlarm(
                severity=AlarmSeverity.WARNING,
                kind="disk_space",
                text=f"the file system of the store has {size(store.free_bytes)} left, {free:.0%}",
                action="Free disk space, or extend the disk; no message is accepted when it is full.",
            )
    slow = None if times is None else _slow_commits(times)
    if slow is not None:
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="slow_commits",
            text=slow,
            action="The disk is slow, or other programs use it.",
        )


def _slow_commits(times: CommitTimes) -> str | None:
    """What is said of commits that take too long; C{None} if they do not."""
    if times.pending is not None and times.pending > STALLED_COMMIT:
        return f"a commit has not ended after {times.pending:.1f} s"
    are_many = times.measured >= COMMITS_OF_A_PERCENTILE
    if times.measured >= FEWEST_COMMITS:
        part, seconds = ("1 %", times.p99) if are_many else ("half", times.median)
        if seconds is not None and seconds > SLOW_COMMIT:
            return f"{part} of the latest {times.measured} commits took more than {seconds:.1f} s"
    if not are_many and times.longest is not None and times.longest > STALLED_COMMIT:
        return f"a commit of the last ten minutes took {times.longest:.1f} s"
    return None


def _of_quotas(status: ManagerStatus) -> Iterator[ManagerAlarm]:
    quotas = status.quotas
    for name, used, quota, action in (
        ("messages", quotas.used, quotas.quota, "Read queues, or set a larger quota: msmq quota set."),
        # With a quota of 0 no copies are kept, which refuses no message.
        (
            "journals",
            quotas.journal_used,
            quotas.journal_quota or None,
            "Empty journals and dead-letter queues.",
        ),
    ):
        ratio = 0.0 if quota is None else used / (quota * _KILOBYTE) if quota else 1.0
        if ratio >= NEARLY_FULL:
            full = ratio >= 1
            yield ManagerAlarm(
                severity=AlarmSeverity.CRITICAL if full else AlarmSeverity.WARNING,
                kind="machine_quota",
                text=f"{ratio:.0%} of the quota of all {name} is used",
                action=action,
            )


def _of_routes(routes: Sequence[BridgeRouteSummary]) -> Iterator[ManagerAlarm]:
    for route in routes:
        if route.condition not in FORWARDS_NOTHING:
            continue
        reason = f": {route.reason}" if route.reason else ""
        actions = {
            "waiting": "It is tried again; messages stay where they are.",
            "blocked": "The broker lacks memory or disk space; messages stay where they are.",
            "stopped": f"msmq bridge resume {route.name} tries the message again.",
        }
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="bridge",
            subject=route.name,
            text=f"route {route.name} is {route.condition}{reason}",
            action=actions[route.condition],
        )


def _of_certificates(certificates: Sequence[EndpointCertificate]) -> Iterator[ManagerAlarm]:
    for each in certificates:
        if each.remaining >= EXPIRES_SOON:
            continue
        has_expired = each.remaining < 0
        expires = "has expired" if has_expired else f"expires in {duration(each.remaining)}"
        yield ManagerAlarm(
            severity=AlarmSeverity.CRITICAL if has_expired else AlarmSeverity.WARNING,
            kind="certificate",
            subject=each.endpoint,
            text=f"the TLS certificate of {each.endpoint} {expires}",
            action="Write a new one to its file: msmq config reload.",
        )


def _of_tokens(tokens: Sequence[TokenExpiry]) -> Iterator[ManagerAlarm]:
    for each in tokens:
        if each.remaining < TOKEN_EXPIRES_SOON:
            has_expired = each.remaining <= 0
            expires = "has expired" if has_expired else f"expires in {duration(each.remaining)}"
            yield ManagerAlarm(
                severity=AlarmSeverity.WARNING,
                kind="token",
                subject=each.token,
                text=f"{each.token} {expires}",
                action="Give its caller another one (msmq token new), or remove its line of the token file.",
            )


def _of_archive(archive: ArchiveSummary) -> Iterator[ManagerAlarm]:
    if archive.condition in ("waiting", "failed"):
        is_failed = archive.condition == "failed"
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="archive",
            subject=archive.directory,
            text=f"the archive is not written: {archive.reason}",
            action="Decide as the reason says." if is_failed else "The server tries again by itself.",
        )
    elif archive.is_late:
        yield ManagerAlarm(
            severity=AlarmSeverity.WARNING,
            kind="archive",
            subject=archive.directory,
            text=f"the archive is late: what arrived {duration(archive.lag)} ago is not in it",
            action="Look at the load and the disk of the archive: msmq archive status.",
        )
