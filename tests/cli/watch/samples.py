"""Samples of a server for the tests of the monitor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from msmq.cli.watch.model import Sample

WALL: Final = 1_800_000_000.0
"""The wall clock when the monotonic clock is 0."""


def moment(wall: float) -> str:
    """A time as the control API prints it."""
    return datetime.fromtimestamp(wall, UTC).isoformat()


def queue(path: str, *, messages: int = 0, came: int = 0, left: int = 0, **others: Any) -> dict[str, Any]:
    """A local queue."""
    return {
        "path": path,
        "type": "private",
        "messages": messages,
        "bytes": 1000 * messages,
        "uncommitted_bytes": 0,
        "quota": None,
        "subqueues": [],
        "journal_messages": 0,
        "sent_total": came,
        "received_total": left,
        "oldest_message_time": None,
        **others,
    }


def outgoing(name: str, *, messages: int = 0, state: str = "CONNECTED", **others: Any) -> dict[str, Any]:
    """An outgoing queue."""
    return {
        "format_name": name,
        "transit": False,
        "state": state,
        "next_hops": ["192.0.2.7"],
        "messages": messages,
        "bytes": 1000 * messages,
        "unacknowledged": 0,
        "next_attempt": None,
        **others,
    }


def session(address: str, *, sent: int = 0, received: int = 0, **others: Any) -> dict[str, Any]:
    """A session."""
    return {
        "direction": "outgoing",
        "state": "OPEN",
        "remote_address": address,
        "opened": moment(WALL),
        "sent": sent,
        "received": received,
        "unacknowledged": 0,
        "window": 64,
        "last_heard": moment(WALL),
        **others,
    }


def sample(
    time: float = 0.0,
    queues: tuple[dict[str, Any], ...] = (),
    outgoing: tuple[dict[str, Any], ...] = (),
    sessions: tuple[dict[str, Any], ...] = (),
    alarms: tuple[dict[str, Any], ...] = (),
    further: int = 0,
    **status: Any,
) -> Sample:
    """A sample of a server, C{time} seconds after the first."""
    return Sample(
        time,
        WALL + time,
        {
            "name": "ALPHA",
            "state": "running",
            "messages": sum(each["messages"] for each in queues),
            "bytes": 0,
            "sessions": len(sessions),
            "dead_letters": 0,
            "transactions": 0,
            "throttled": False,
            "connection_active": True,
            "clone_suspicion": None,
            "quotas": {"quota": None, "used": 0, "journal_quota": None, "journal_used": 0},
            "store": {"free_bytes": None, "capacity_bytes": None, "commit_times": None},
            "directory": None,
            "copies_dropped": 0,
            "events_dropped": 0,
            "poisoned": {},
            "refused": {},
            **status,
        },
        queues,
        outgoing,
        sessions,
        {"alarms": alarms, "further": further},
    )
