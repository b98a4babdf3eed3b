"""Options of the data source for writing (sink)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.option_text import Spelled, duration, parse_options, switch, whole_number

LONGEST_TIMEOUT: Final = 24 * 3600.0
"""The longest time limit, in seconds: the system has no timers of any length."""


@attrs.frozen
class WriteOptions:
    """Write options.

    @ivar control: the location of the queue manager: its control socket, C{tcp:...} or C{ssl:...}.
    @ivar token_file: the file with the token for such an endpoint.
    @ivar destination: the destination of all rows; empty if each row has its own.
    @ivar key: the prefix of the keys of the rows.
    @ivar per_second: the maximum number of messages in a second, for each task.
    @ivar dry_run: whether to check the rows without sending them.
    @ivar timeout: seconds for which the queue manager may be silent, while it has to answer.
    """

    control: str
    token_file: str = ""
    destination: str = ""
    key: str = ""
    per_second: int | None = None
    dry_run: bool = False
    timeout: float = 600.0


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the write options, whose names are case-insensitive.

    @raise ReadingError: an option is unknown, or its value is invalid.
    """
    found = parse_options(given, _SPELLED, "writing")
    if not found.get("control"):
        raise ReadingError("the option control (the control socket of a queue manager) is missing")
    return WriteOptions(**found)


def _timeout(text: str) -> float:
    seconds = duration(text)
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise ValueError("must be more than 0 and at most 24h")
    return seconds


_SPELLED: Final[Spelled] = {
    "control": ("control", str),
    "tokenFile": ("token_file", str),
    "destination": ("destination", str),
    "key": ("key", str),
    "maxMessagesPerSecond": ("per_second", whole_number),
    "dryRun": ("dry_run", switch),
    "serverTimeout": ("timeout", _timeout),
}
