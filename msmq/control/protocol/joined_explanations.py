"""Joins what several servers know about one message into one timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from msmq.quoting import quoted
from msmq.structures.status import MQError, Status

_LISTS: Final = ("events", "places", "unreadable", "deliveries", "reports")
_OF_A_TIME: Final = ("events", "deliveries", "reports")
_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "events": ("time", "event", "class_name", "queue", "reason"),
    "places": ("arrived_time", "queue", "lookup_id", "state"),
    "unreadable": ("arrived_time", "queue", "lookup_id", "reason"),
    "deliveries": ("time", "acknowledgement", "queue", "address", "class_name"),
    "reports": ("time", "event", "queue_manager", "next_hop", "target_queue"),
}
"""What the entries of the lists have at least, with their time first."""


@attrs.frozen
class ServerExplanation:
    """The answer of one server.

    @ivar server: how it is called.
    @ivar known: the object of C{GET /v1/messages/ID}; C{None} without an answer.
    @ivar error: why there is none; C{None} with an answer.
    """

    server: str
    known: Mapping[str, Any] | None
    error: str | None


def check_explanation(known: Mapping[str, Any]) -> None:
    """Check that the answer of another server has what L{join_explanations} and its readers take from it.

    @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE: it has not, as of a server of another kind or version.
    """
    if problem := _problem(known):
        raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, f"its answer is not an explanation: {problem}")


def _problem(known: Mapping[str, Any]) -> str:
    for name, kind in (
        ("known", bool),
        ("summary", str),
        ("message", dict),
        *((each, list) for each in _KEYS),
    ):
        if not isinstance(known.get(name), kind):
            return f"{name} is {'of another type' if name in known else 'missing'}"
    for name, keys in _KEYS.items():
        for entry in known[name]:
            if not isinstance(entry, dict):
                return f"{name} has an entry that is not an object"
            for key in keys:
                if key not in entry:
                    return f"{key} is missing in {name}"
            if (time := entry[keys[0]]) is not None and not _is_time(time):
                return f"{quoted(time)} is not a time"
    return ""


def _is_time(text: object) -> bool:
    """Whether it is a time that a reader can show in its own zone."""
    try:
        return isinstance(text, str) and bool(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError, OSError):
        return False


def join_explanations(message: str, answers: Sequence[ServerExplanation]) -> dict[str, Any]:
    """Join the answers of several servers.

    Each entry of the lists has its C{server}; those with a time are in the order of their times, by the clock
    of each server.

    @return: C{id}, C{known}, C{servers} (C{server}, C{known}, C{summary}, C{error}), C{events}, C{places},
        C{unreadable}, C{deliveries}, C{reports}, and C{message}, the properties from the
        server that has most of them.
    """
    joined: dict[str, Any] = {"id": message, "known": False, "servers": []}
    joined |= {name: [] for name in _LISTS}
    properties: Mapping[str, Any] = {"id": message}
    for answer in answers:
        known, origin = answer.known, {"server": answer.server}
        joined["servers"].append(
            {
                "server": answer.server,
                "known": None if known is None else known["known"],
                "summary": None if known is None else known["summary"],
                "error": answer.error,
            }
        )
        if known is None:
            continue
        joined["known"] = joined["known"] or known["known"]
        if len(known["message"]) > len(properties):
            properties = known["message"]
        for name in _LISTS:
            joined[name] += [{"server": "", **each, **origin} for each in known[name]]
    for name in _OF_A_TIME:
        joined[name].sort(key=lambda each: each["time"] or "")
    return {**joined, "message": properties}
