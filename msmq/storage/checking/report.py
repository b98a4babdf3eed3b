"""What a check of a store has found."""

from __future__ import annotations

import attrs


@attrs.define
class StoreReport:
    """What was verified, and what is damaged.

    @ivar place: the store, as people may read it.
    @ivar rows: messages, entries of message logs and events that were verified.
    @ivar size: bytes of their packets.
    @ivar problems: where something is damaged and what is wrong, one line each.
    """

    place: str
    rows: int = 0
    size: int = 0
    problems: list[str] = attrs.field(factory=list)

    def add(self, problem: str) -> None:
        """Add a problem, unless it is known."""
        if problem not in self.problems:
            self.problems.append(problem)
