"""The options of the data source for writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import IGNORED, switch, whole_number


@attrs.frozen
class WriteOptions:
    """How rows are sent.

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
    found: dict[str, Any] = {}
    for name, text in given.items():
        key = name.lower()
        if key in IGNORED:
            continue
        if key not in _OPTIONS:
            known = ", ".join(sorted(_SPELLED))
            raise ReadingError(f"there is no option {name!r} for writing, only {known}")
        field, parse = _OPTIONS[key]
        try:
            found[field] = parse(text)
        except ValueError as error:
            raise ReadingError(f"the option {name} is {text!r}: {error}") from None
    if not found.get("control"):
        raise ReadingError("the option control (the control socket of a queue manager) is missing")
    return WriteOptions(**found)


_SPELLED: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "control": ("control", str),
    "tokenFile": ("token_file", str),
    "destination": ("destination", str),
    "key": ("key", str),
    "maxMessagesPerSecond": ("per_second", whole_number),
    "dryRun": ("dry_run", switch),
}
_OPTIONS: Final = {name.lower(): how for name, how in _SPELLED.items()}
