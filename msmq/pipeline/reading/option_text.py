"""Options as Spark gives them: texts, under names of any case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msmq.pipeline.reading.errors import ReadingError
from msmq.quoting import quoted

Spelled: TypeAlias = Mapping[str, tuple[str, Callable[[str], Any]]]
"""For each option as it is spelled the field that it sets, and what makes a value of its text."""

LARGEST: Final = (1 << 31) - 1

_NUMBER: Final = re.compile("[0-9]{1,30}")
_LONGEST_SHOWN: Final = 100

IGNORED: Final = frozenset({"checkpointlocation", "queryname"})
"""What belongs to Spark, which hands it on."""


def parse_options(given: Mapping[str, str], known: Spelled, purpose: str) -> dict[str, Any]:
    """The fields that these options set, with their values.

    @param purpose: what the options are for, as C{writing}.
    @raise ReadingError: one is unknown, or has a value that it cannot have.
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
    """A number from 1 on.

    @raise ValueError: it is none.
    """
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= LARGEST:
        raise ValueError(f"must be a whole number from 1 to {LARGEST}")
    return int(text)


def switch(text: str) -> bool:
    """C{true} or C{false}.

    @raise ValueError: it is neither.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"
