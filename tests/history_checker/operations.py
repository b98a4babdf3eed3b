"""Operations of a history, read from JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class NoHistory(Exception):
    """A line that is not part of a history; names it."""


@dataclass
class Operation:
    """One operation.

    @ivar end: infinite if it was interrupted.
    @ivar shown: labels and digests of messages that the application saw, with the time of each line.
    """

    number: int
    kind: str
    start: float
    facts: dict[str, Any]
    end: float = math.inf
    result: str = "unknown"
    shown: list[tuple[float, list[tuple[str, str]]]] = field(default_factory=list)

    @property
    def is_in_order(self) -> bool:
        """Whether it takes messages as they come: it neither only peeks, nor receives one by name."""
        return not self.facts.get("peeks") and "picks" not in self.facts

    @property
    def labels(self) -> list[str]:
        """The labels of the messages that it showed, in order."""
        return [label for _, messages in self.shown for label, _ in messages]


def read_history(lines: Iterable[str]) -> list[Operation]:
    """The operations of a history, in the order of their starts.

    @raise NoHistory: a line is malformed; the error has its number.
    """
    operations: dict[int, Operation] = {}
    for place, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            number, time = int(found.pop("operation")), float(found.pop("at"))
            if "kind" in found:
                if number in operations:
                    raise NoHistory(f"line {place}: operation {number} begins twice")
                operations[number] = Operation(number, str(found.pop("kind")), time, found)
            elif "shown" in found:
                messages = [(str(label), str(digest)) for label, digest in found["shown"]]
                operations[number].shown.append((time, messages))
            else:
                operations[number].end, operations[number].result = time, str(found["result"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NoHistory(f"line {place}: not an event of a history: {error!r}") from error
    return sorted(operations.values(), key=lambda each: each.start)
