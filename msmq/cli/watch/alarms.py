"""What needs an operator's attention, from one sample after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from msmq.alarm_limits import EXPIRES_SOON, FAILURE_COUNTS, LITTLE_SPACE, NEARLY_FULL, OLD, UNREACHED
from msmq.cli.quota_use import quota_used
from msmq.cli.units import age_text, size_text

RECENT: Final = 900.0
"""Seconds for which an alarm shows what was refused or dropped."""

_HARMLESS: Final = frozenset({"DUPLICATE", "OUT_OF_ORDER"})
"""Reasons of refusals that are part of normal operation."""


@attrs.frozen
class Alarm:
    """One thing that needs attention.

    @ivar severity: 1 for a warning, 2 if messages are refused or the server does not work.
    @ivar subject: the path or the format name of the queue that it is about; empty for the server.
    """

    severity: int
    subject: str
    text: str


class Alarms:
    """The alarms of one server.

    @ivar current: those of the latest sample, the worst first.
    """

    def __init__(self) -> None:
        self.current: list[Alarm] = []
        self._severities: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._rises: dict[str, tuple[float, int]] = {}

    def severity(self, subject: str) -> int:
        """The severity of the worst alarm about a queue; 0 without one."""
        return self._severities.get(subject, 0)

    def take(
        self,
        time: float,
        wall: float,
        status: Mapping[str, Any],
        queues: Sequence[Mapping[str, Any]],
        outgoing: Sequence[Mapping[str, Any]],
    ) -> None:
        """Look at the next sample."""
        found = [
            *_of_server(status),
            *self._of_counters(time, status),
            *(alarm for queue in queues for alarm in _of_queue(queue, wall)),
            *(alarm for queue in outgoing for alarm in _of_outgoing(queue, wall)),
        ]
        found.sort(key=lambda alarm: -alarm.severity)
        self.current = found
        self._severities = {}
        for alarm in found:
            self._severities.setdefault(alarm.subject, alarm.severity)

    def _of_counters(self, time: float, status: Mapping[str, Any]) -> Iterator[Alarm]:
        """What rose since the first sample, for a while after it rose."""
        counts = {
            "journal copies or dead letters were dropped": int(status["copies_dropped"]),
            "events were dropped": int(status["events_dropped"]),
            "messages were moved to a subqueue poison": sum(status["poisoned"].values()),
            **{
                f"messages of peers were refused: {reason}": count
                for reason, count in status["refused"].items()
                if reason not in _HARMLESS
            },
        }
        is_first = not self._counts
        for text, count in counts.items():
            before = count if is_first else self._counts.get(text, 0)
            # A server that restarted counts from 0.
            rise = count - before if count >= before else count
            if rise:
                _, so_far = self._rises.get(text, (0.0, 0))
                self._rises[text] = time, so_far + rise
        self._counts = counts
        self._rises = {text: each for text, each in self._rises.items() if time - each[0] < RECENT}
        for text, (last, rise) in self._rises.items():
            yield Alarm(1, "", f"{rise} {text}, the last {age_text(time - last)} ago")


def _of_server(status: Mapping[str, Any]) -> Iterator[Alarm]:
    if status["state"] != "running":
        yield Alarm(2, "", f"the server is {status['state']}")
    if status["throttled"]:
        yield Alarm(2, "", "the store is full, no messages are accepted")
    if not status["connection_active"]:
        yield Alarm(1, "", "other queue managers cannot connect: it is offline or hardened")
    if status["clone_suspicion"] is not None:
        reason = status["clone_suspicion"]
        yield Alarm(1, "", f"may be a clone, and sends nothing: {reason}; see msmq identity")
    directory = status["directory"]
    if directory is not None and not directory["reached"]:
        yield Alarm(1, "", f"the directory is not reached: {directory['problem']}")
    if status["dead_letters"]:
        yield Alarm(1, "", f"{status['dead_letters']} dead letters: msmq deadletter list")
    yield from _of_quotas(status["quotas"])
    yield from _of_store(status["store"])
    archive = status.get("archive")
    if archive is not None and archive["condition"] in ("waiting", "failed"):
        yield Alarm(1, "", f"the archive is not written: {archive['reason']}")
    elif archive is not None and archive["is_late"]:
        yield Alarm(1, "", f"the archive is complete up to {age_text(archive['lag'])} ago")
    for each in status.get("certificates", ()):
        if each["remaining"] < 0:
            yield Alarm(2, "", f"the TLS certificate of {each['endpoint']} has expired")
        elif each["remaining"] < EXPIRES_SOON:
            yield Alarm(
                1, "", f"the TLS certificate of {each['endpoint']} expires in {age_text(each['remaining'])}"
            )


def _of_quotas(quotas: Mapping[str, Any]) -> Iterator[Alarm]:
    for name, used, quota in (
        ("messages", quotas["used"], quotas["quota"]),
        # With a quota of 0 no copies are kept, which refuses no message.
        ("journals and dead letters", quotas["journal_used"], quotas["journal_quota"] or None),
    ):
        ratio = _used_part(used, quota)
        if ratio >= NEARLY_FULL:
            yield Alarm(2 if ratio >= 1 else 1, "", f"{ratio:.0%} of the quota of all {name} used")


def _used_part(used: int, quota: int | None) -> float:
    if quota is None:
        return 0.0
    return used / (quota * 1024) if quota else 1.0


def _of_store(store: Mapping[str, Any]) -> Iterator[Alarm]:
    times = store["commit_times"]
    failed = None if times is None else times["since_failure"]
    if failed is not None and failed < FAILURE_COUNTS:
        yield Alarm(2, "", f"the latest commit of the store failed, {age_text(failed)} ago")
    free, capacity = store["free_bytes"], store["capacity_bytes"]
    if free is not None and capacity and free < LITTLE_SPACE * capacity:
        yield Alarm(1, "", f"{size_text(free)} left in the file system of the store, {free / capacity:.0%}")


def _of_queue(queue: Mapping[str, Any], wall: float) -> Iterator[Alarm]:
    path, used = queue["path"], quota_used(queue)
    if used is not None and used >= NEARLY_FULL:
        yield Alarm(2 if used >= 1 else 1, path, f"{path}: {used:.0%} of the quota used")
    if queue.get("paused"):
        yield Alarm(1, path, f"{path}: paused for its readers: msmq queue resume")
    oldest = queue.get("oldest_message_time")
    if oldest is not None and queue["type"] != "system":
        age = wall - datetime.fromisoformat(oldest).timestamp()
        if age >= OLD:
            yield Alarm(1, path, f"{path}: not read, the oldest message is {age_text(age)} old")


def _of_outgoing(queue: Mapping[str, Any], wall: float) -> Iterator[Alarm]:
    if not queue["messages"] or queue["state"] not in UNREACHED:
        return
    name, due = queue["format_name"], queue["next_attempt"]
    text = f"{name}: {queue['messages']} messages, {queue['state']}"
    if due is not None:
        text += f", next attempt in {age_text(datetime.fromisoformat(due).timestamp() - wall)}"
    yield Alarm(1, name, text)
