"""Output of the server's log: level, and format as text, JSON or for the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from twisted.logger import ILogObserver, LogEvent, LogLevel, eventAsText, formatEventAsClassicLogText
from zope.interface import implementer

from msmq.service.process.event_ids import event_id
from msmq.service.settings import LogSettings

LEVELS: Final = ("debug", "info", "warn", "error", "critical")
"""The levels by their names, the least important first."""

_RANKS: Final[Mapping[Any, int]] = {
    LogLevel.debug: 0,
    LogLevel.info: 1,
    LogLevel.warn: 2,
    LogLevel.error: 3,
    LogLevel.critical: 4,
}

_PRIORITIES: Final = (7, 6, 4, 3, 2)
"""The priorities of sd-daemon(3): debug, informational, warning, error, critical."""

_PACKAGE: Final = "msmq."


@implementer(ILogObserver)
class LogOutput:
    """Writes events to a stream, a line each unless there is a traceback.

    C{text} has the form of Twisted, with the identifier of the event behind its level. C{json} has an object
    a line: C{time} (ISO 8601, UTC), C{level}, C{room} (the part of msmq, or the whole name of another
    program), C{text}, C{event_id} of an event of this package, C{traceback} if there is one, and the fields
    of the event as text. C{journal} has the priority of sd-daemon(3), and no time.
    """

    def __init__(self, settings: LogSettings, stream: TextIO) -> None:
        self._stream = stream
        self.configure(settings)

    def configure(self, settings: LogSettings) -> None:
        """Apply new settings from the next event on."""
        self._least = LEVELS.index(settings.level)
        self._rooms = {room: LEVELS.index(level) for room, level in settings.levels.items()}
        self._format = {"text": _as_text, "json": _as_json, "journal": _as_journal}[settings.format]

    def __call__(self, event: LogEvent) -> None:
        """Write an event, if it is important enough."""
        rank = _RANKS.get(event.get("log_level"), 1)
        if rank < self._rooms.get(_room(event), self._least):
            return
        text = self._format(event, rank)
        if text:
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                # A lone surrogate in a name, or a character that the locale of the process does not have.
                code = self._stream.encoding
                self._stream.write(text.encode(code, "backslashreplace").decode(code))
            self._stream.flush()


def _room(event: LogEvent) -> str:
    namespace = str(event.get("log_namespace", ""))
    return namespace.split(".")[1] if namespace.startswith(_PACKAGE) else namespace


def _number(event: LogEvent) -> int | None:
    """The identifier of an event, if it is one of this package."""
    text = event.get("log_format")
    return event_id(_room(event), text) if isinstance(text, str) else None


def _numbered(event: LogEvent, rank: int) -> LogEvent:
    """The event with its identifier behind its level, where the text has its system."""
    number = _number(event)
    if number is None or "log_system" in event:
        return event
    return {**event, "log_system": f"{event.get('log_namespace')}#{LEVELS[rank]} {number}"}


def _as_text(event: LogEvent, rank: int) -> str:
    return formatEventAsClassicLogText(_numbered(event, rank)) or ""


def _as_journal(event: LogEvent, rank: int) -> str:
    prefix = f"<{_PRIORITIES[rank]}>"
    text = eventAsText(_numbered(event, rank), includeTimestamp=False)
    return "".join(f"{prefix}{line}\n" for line in text.splitlines() if line)


def _as_json(event: LogEvent, rank: int) -> str:
    lines = eventAsText(event, includeTimestamp=False, includeSystem=False)
    text, _, traceback = lines.partition("\n")
    found: dict[str, str | int] = {
        "time": datetime.fromtimestamp(float(event.get("log_time", 0.0)), UTC).isoformat(),
        "level": LEVELS[rank],
        "room": _room(event),
        "text": text,
    }
    if (number := _number(event)) is not None:
        found["event_id"] = number
    if traceback:
        found["traceback"] = traceback
    for key, value in event.items():
        if not key.startswith("log_") and key not in found and key not in ("isError", "message", "system"):
            found[key] = str(value)
    return json.dumps(found) + "\n"
