"""Alarms of the overview: what needs an operator, and what to do about it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

import attrs

from msmq.alarm_limits import LITTLE_SPACE, NEARLY_FULL, OLD, SLOW_COMMIT, UNREACHED
from msmq.interfaces.manager.summaries import ManagerStatus, OutgoingQueueSummary, QueueSummary
from msmq.web.console.presentation import count, duration, size
from msmq.web.readiness import Readiness

SHOWN: Final = 20
"""Alarms about queues that are listed; the others are counted."""

_REFUSED: Final = 2
_WARNING: Final = 1
_STEP: Final = 1024


@attrs.frozen
class ConsoleAlarm:
    """One alarm.

    @ivar severity: 2 if messages are refused or the server does not work, 1 for a warning.
    @ivar action: what to do about it.
    @ivar link: the page to do it on; empty for none.
    """

    severity: int
    text: str
    action: str = ""
    link: str = ""


class OverviewAlarms:
    """The worst alarms, collected queue by queue.

    @param now: seconds since 1970-01-01 UTC.
    @ivar total: all alarms about queues.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._worst: list[tuple[int, float, int, ConsoleAlarm]] = []
        self.total = 0

    def add_queue(self, queue: QueueSummary) -> None:
        """Look at a local queue."""
        page = f"/queue?{urlencode({'path': queue.path})}"
        if queue.quota is not None:
            used = queue.bytes + sum(each.bytes for each in queue.subqueues)
            ratio = used / (queue.quota * _STEP) if queue.quota else 1.0
            if ratio >= NEARLY_FULL:
                severity = _REFUSED if ratio >= 1 else _WARNING
                text = f"{queue.path}: {ratio:.0%} of the quota is used"
                action = "Read or purge the queue, or set a larger quota."
                self._add(ratio, ConsoleAlarm(severity, text, action, page))
        if queue.paused:
            action = "Readers receive nothing until it is resumed."
            self._add(0.0, ConsoleAlarm(_WARNING, f"{queue.path} is paused", action, page))
        if queue.oldest_message_time is not None and queue.type != "system":
            age = self._now - queue.oldest_message_time
            if age >= OLD:
                text = f"{queue.path} is not read: its oldest message is {duration(age)} old"
                self._add(age, ConsoleAlarm(_WARNING, text, "Look at the application that reads it.", page))

    def add_outgoing(self, queue: OutgoingQueueSummary) -> None:
        """Look at an outgoing queue."""
        if not queue.messages or queue.state not in UNREACHED:
            return
        messages = f"{count(queue.messages)} {'message waits' if queue.messages == 1 else 'messages wait'}"
        text = f"{queue.format_name} is not reached: {messages}"
        page = f"/outgoing_queue?{urlencode({'name': queue.format_name})}"
        action = "Its history has the reason; retry now, or redirect it."
        self._add(float(queue.messages), ConsoleAlarm(_WARNING, text, action, page))

    def _add(self, weight: float, alarm: ConsoleAlarm) -> None:
        self.total += 1
        entry = (alarm.severity, weight, -self.total, alarm)
        if len(self._worst) < SHOWN:
            heapq.heappush(self._worst, entry)
        else:
            heapq.heappushpop(self._worst, entry)

    @property
    def worst(self) -> Sequence[ConsoleAlarm]:
        """The alarms about queues that are listed, the worst first."""
        return [entry[-1] for entry in sorted(self._worst, reverse=True)]


def server_alarms(status: ManagerStatus, readiness: Readiness) -> Iterator[ConsoleAlarm]:
    """The alarms about the server as a whole."""
    for reason in readiness.reasons:
        yield ConsoleAlarm(_REFUSED, reason, _action_of(reason))
    store, quotas = status.store, status.quotas
    if store.free_bytes is not None and store.capacity_bytes:
        free = store.free_bytes / store.capacity_bytes
        if free < LITTLE_SPACE:
            yield ConsoleAlarm(
                _WARNING,
                f"the file system of the store has {size(store.free_bytes)} left, {free:.0%}",
                "Free disk space, or extend the disk; no message is accepted when it is full.",
            )
    times = store.commit_times
    if times is not None and times.p99 is not None and times.p99 > SLOW_COMMIT:
        yield ConsoleAlarm(
            _WARNING,
            f"1 % of the latest commits took more than {times.p99:.1f} s",
            "The disk is slow, or other programs use it.",
        )
    for name, used, quota, action in (
        ("messages", quotas.used, quotas.quota, "Read queues, or set a larger quota: msmq quota set."),
        ("journals", quotas.journal_used, quotas.journal_quota, "Empty journals and dead-letter queues."),
    ):
        if quota and used >= NEARLY_FULL * quota * _STEP:
            full = used >= quota * _STEP
            text = f"{used / (quota * _STEP):.0%} of the quota of all {name} is used"
            yield ConsoleAlarm(_REFUSED if full else _WARNING, text, action, "/queues?sort=bytes&order=down")
    if status.dead_letters:
        letters = "dead letter" if status.dead_letters == 1 else "dead letters"
        yield ConsoleAlarm(
            _WARNING,
            f"{count(status.dead_letters)} {letters}",
            "Each has a reason; send them again once it is gone, or remove them.",
            "/deadletters",
        )


def _action_of(reason: str) -> str:
    """What to do about a reason of L{readiness<msmq.web.readiness.readiness>}, where it does not say it."""
    for beginning, action in _ACTIONS:
        if reason.startswith(beginning):
            return action
    return ""


_ACTIONS: Final = (
    ("the store is full", "Free disk space, or extend the disk; the server continues by itself."),
    ("the directory is not reached", "Look at the directory server; msmq status has the cause."),
    ("the queue manager is offline", "The application that took it offline has to bring it online."),
)
