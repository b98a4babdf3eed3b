"""What needs an operator's attention: the alarms of the server, and what was dropped recently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from msmq.cli.units import age_text

RECENT: Final = 900.0
"""Seconds for which an alarm shows what was dropped."""


@attrs.frozen
class Alarm:
    """One thing that needs attention.

    @ivar severity: 1 for a warning, 2 if messages are refused or the server does not work.
    @ivar subject: the path or the format name of the queue that it is about, or the name of a route, an
        archive or a directory; empty for the server.
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

    def take(self, time: float, status: Mapping[str, Any], report: Mapping[str, Any]) -> None:
        """Look at the next sample.

        @param report: the answer of C{GET /v1/alarms}.
        """
        found = [Alarm(each["severity"], each["subject"], each["text"]) for each in report["alarms"]]
        found += self._of_counters(time, status)
        if report["further"]:
            found.append(Alarm(1, "", f"{report['further']} more alarms about queues"))
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
