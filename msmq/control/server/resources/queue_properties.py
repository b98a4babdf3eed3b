"""The properties of a queue as they come in, and which part of its message log is meant."""

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
"""The properties of a queue that its maker chooses, and how each is read."""

_WITHOUT: Final = {"quota": None, "journal_quota": None, "log_size": None, "log_age": 0}
"""The properties that may be null, which sets no limit, and what that is called inside."""


def read_new_queue(wanted: Mapping[str, object]) -> dict[str, Any]:
    """The properties of a queue that is to be made; what is null is as if it were not there.

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
    """The properties of a queue that are to change; null takes a limit away.

    @param others: the keys in addition to the properties, for the refusal.
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
