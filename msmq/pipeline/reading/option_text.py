"""Parsing of Spark options: texts under case-insensitive names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msmq.pipeline.reading.errors import ReadingError
from msmq.quoting import quoted

Spelled: TypeAlias = Mapping[str, tuple[str, Callable[[str], Any]]]
"""For each option name, the field that it sets and the function that parses its text."""

LARGEST: Final = (1 << 31) - 1

_DURATION: Final = re.compile("([0-9]{1,9}) ?(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER: Final = re.compile("[0-9]{1,30}")
_LONGEST_SHOWN: Final = 100

IGNORED: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of Spark itself, which it passes on."""


def parse_options(given: Mapping[str, str], known: Spelled, purpose: str) -> dict[str, Any]:
    """Parse options into fields and values.

    @param purpose: the use of the options, such as C{writing}, for error texts.
    @raise ReadingError: an option is unknown, or its value is invalid.
    """
    spelled = {name.lower(): name for name in known}
    found: dict[str, Any] = {}
    for name, text in given.items():
        key = name.lower()
        if key in IGNORED:
            continue
        if key not in spelled:
            raise ReadingError(
                f"there is no option {quoted(name)} for {purpose}, only {', '.join(sorted(known))}"
            )
        field, parse = known[spelled[key]]
        try:
            found[field] = parse(text)
        except ValueError as error:
            shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
            raise ReadingError(f"the option {spelled[key]} is {quoted(shown)}: {error}") from None
    return found


def whole_number(text: str) -> int:
    """Parse a whole number of at least 1.

    @raise ValueError: the text is not such a number.
    """
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= LARGEST:
        raise ValueError(f"must be a whole number from 1 to {LARGEST}")
    return int(text)


def duration(text: str) -> float:
    """Parse a duration in the form of Kafka's source, such as C{15m}, in seconds.

    @raise ValueError: the text is not one.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("must be a duration such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _UNITS[found[2]]


def switch(text: str) -> bool:
    """Parse C{true} or C{false}.

    @raise ValueError: the text is neither.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"
