"""Costs of hostile input, and the budgets that they must keep."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Cost:
    """What a server used for something, or what it may use.

    @ivar log_lines: lines of its log, and L{log_bytes} their bytes.
    @ivar resident: kilobytes of memory that it has more than before, when all is closed again; of a second
        time if the first one exceeds the budget.
    @ivar held: descriptors that it has more than before while the peers stay, and L{left} when they are gone.
    @ivar disk: kilobytes of its files that were added.
    @ivar processor: processor time, in honest messages that cost the same.
    @ivar turn: the longest iteration of the reactor, in longest iterations of an honest load.
    """

    log_lines: float
    log_bytes: float
    resident: float
    held: float
    left: float
    disk: float
    processor: float
    turn: float


def exceeded(name: str, cost: Cost, budget: Cost) -> list[str]:
    """The lines that say which parts of a budget were exceeded, by what."""
    return [
        f"{name}: {field.name} is {getattr(cost, field.name):.1f}, its budget {getattr(budget, field.name):g}"
        for field in attrs.fields(Cost)
        if getattr(cost, field.name) > getattr(budget, field.name)
    ]


def table(costs: dict[str, Cost]) -> str:
    """The costs for a person."""
    names = [field.name for field in attrs.fields(Cost)]
    rows = [["what", *names]]
    rows += [[name, *(f"{getattr(cost, field):.1f}" for field in names)] for name, cost in costs.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows
    )
