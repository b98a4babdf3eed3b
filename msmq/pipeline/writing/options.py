"""Options of the data source for writing (sink)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.option_text import Spelled, parse_options, switch, whole_number


@attrs.frozen
class WriteOptions:
    """Write options.

    @ivar control: where the queue manager is: its control socket, C{tcp:...} or C{ssl:...}.
    @ivar token_file: the file with the token that such an endpoint asks for.
    @ivar destination: to which queue all rows go; empty if each row says so.
    @ivar key: what the keys of the rows begin with.
    @ivar per_second: the most messages in a second, of each task.
    @ivar dry_run: look at the rows, and send nothing.
    """

    control: str
    token_file: str = ""
    destination: str = ""
    key: str = ""
    per_second: int | None = None
    dry_run: bool = False


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options, whatever their case.

    @raise ReadingError: one is unknown, or has a value that it cannot have.
    """
    found = parse_options(given, _SPELLED, "writing")
    if not found.get("control"):
        raise ReadingError("the option control (the control socket of a queue manager) is missing")
    return WriteOptions(**found)


_SPELLED: Final[Spelled] = {
    "control": ("control", str),
    "tokenFile": ("token_file", str),
    "destination": ("destination", str),
    "key": ("key", str),
    "maxMessagesPerSecond": ("per_second", whole_number),
    "dryRun": ("dry_run", switch),
}
