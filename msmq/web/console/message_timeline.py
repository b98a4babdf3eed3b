"""The timeline of a message: its events, acknowledgements and reports in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class TimelineEntry:
    """One entry.

    @ivar time: in ISO 8601; C{None} if it is not known.
    @ivar server: the server that has it; empty for this one alone.
    @ivar title: what happened.
    @ivar subject: to which queue, or where.
    @ivar detail: why.
    """

    time: str | None
    server: str
    title: str
    subject: str
    detail: str


def message_timeline(explanation: Mapping[str, Any]) -> Sequence[TimelineEntry]:
    """The entries of an explanation, also of a joined one, by time."""
    entries = [
        *(
            _entry(each, each["event"], each["queue"], each["reason"] or each["class_name"])
            for each in explanation["events"]
        ),
        *(
            _entry(
                each,
                f"{each['acknowledgement']} acknowledgement",
                each["queue"] or each["address"],
                each["class_name"],
            )
            for each in explanation["deliveries"]
        ),
        *(
            _entry(
                each,
                f"report: {each['event']}",
                each["next_hop"] or each["target_queue"],
                each["queue_manager"],
            )
            for each in explanation["reports"]
        ),
    ]
    return sorted(entries, key=lambda entry: entry.time or "")


def _entry(
    described: Mapping[str, Any], title: str, subject: str | None, detail: str | None
) -> TimelineEntry:
    return TimelineEntry(described["time"], described.get("server", ""), title, subject or "", detail or "")
