"""Parses queue properties and message log ranges of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.requests import refuse_rest
from msmq.control.server.messages.properties import flag, guid, number, shown, text

PROPERTIES: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "transactional": flag,
    "journal": flag,
    "log": flag,
    "log_age": number,
    "log_size": number,
    "quota": number,
    "journal_quota": number,
    "label": text,
    "authenticate": flag,
    "privacy": text,
}
"""Queue properties that the creator chooses, with their parsers."""

_WITHOUT: Final = {"quota": None, "journal_quota": None, "log_size": None, "log_age": 0}
"""Properties that may be null, for no limit, with the value that stands for it internally."""


def read_new_queue(wanted: Mapping[str, object]) -> dict[str, Any]:
    """Parse the properties of a new queue; a null property counts as absent.

    @raise MQError: a property is unknown, or its value is of another kind.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    security = given.pop("security", None)
    kind = given.pop("application_type", None)
    found = read_properties(given, "path", "security", "application_type")
    if kind is not None:
        found["application_type"] = guid("application_type", kind)
    return found if security is None else {**found, "security": text("security", security)}


def read_properties(wanted: Mapping[str, object], *others: str) -> dict[str, Any]:
    """Parse changed properties of a queue; null removes a limit.

    @param others: further allowed keys, for error texts.
    @raise MQError: a property is unknown, or its value is of another kind.
    """
    refuse_rest(
        {name: value for name, value in wanted.items() if name not in PROPERTIES},
        ", ".join((*others, *PROPERTIES)),
    )
    return {
        name: _WITHOUT[name] if value is None and name in _WITHOUT else PROPERTIES[name](name, value)
        for name, value in wanted.items()
    }


@attrs.frozen
class LogRange:
    """A part of a message log: the arguments of L{IQueueManager.replay} that choose it."""

    first: int = 0
    last: int | None = None
    since: float | None = None
    until: float | None = None


def read_log_range(begin: object, end: object) -> LogRange:
    """The part of a message log between two bounds, each a sequence number, a time, or C{None}.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER, naming C{from} or C{to}.
    """
    first, since = _bound("from", begin)
    last, until = _bound("to", end)
    return LogRange(0 if first is None else first, last, since, until)


def _bound(name: str, value: object) -> tuple[int | None, float | None]:
    if value is None:
        return None, None
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        return number(name, value), None
    try:
        time = datetime.fromisoformat(text(name, value))
        return None, (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise invalid(
            f"{name} is a sequence number, or a time as 2026-01-31T12:00:00, not {shown(value)}"
        ) from None
