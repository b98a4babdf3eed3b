"""The page of the console for each alarm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from msmq.control.server.alarms.manager_alarms import ManagerAlarm

_OF_QUEUE: Final = frozenset({"quota", "paused", "unread"})
_PAGES: Final[Mapping[str, str]] = {
    "machine_quota": "/queues?sort=bytes&order=down",
    "dead_letters": "/deadletters",
    "directory": "/enterprise",
}


def alarm_page(alarm: ManagerAlarm) -> str:
    """The page to act on it; empty for none."""
    if alarm.kind in _OF_QUEUE:
        return f"/queue?{urlencode({'path': alarm.subject})}"
    if alarm.kind == "unreached":
        return f"/outgoing_queue?{urlencode({'name': alarm.subject})}"
    return _PAGES.get(alarm.kind, "")
