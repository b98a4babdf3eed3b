"""The checker: all rules over one history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.history_checker import handling_rules, restore_rules, rules
from tests.history_checker.operations import Operation, read_history
from tests.history_checker.outcomes import Outcomes, read_outcomes


@dataclass
class Verdict:
    """The violations, and how much was checked."""

    violations: list[str]
    summary: dict[str, int]

    def __str__(self) -> str:
        figures = ", ".join(f"{count} {what}" for what, count in self.summary.items())
        return "\n".join([*self.violations, f"{figures}; {len(self.violations)} violations"])


def check_history(lines: Iterable[str]) -> Verdict:
    """Check a history.

    @param lines: JSON lines.
    @raise NoHistory: it is not one.
    """
    operations = read_history(lines)
    outcomes = read_outcomes(operations)
    violations = [
        *rules.phantoms(outcomes),
        *rules.doubled(outcomes),
        *rules.reordered(outcomes, operations),
        *rules.early(outcomes),
        *rules.wrong_fates(outcomes, operations),
        *rules.wrong_logs(outcomes, operations),
        *handling_rules.wrong_rejections(outcomes),
        *handling_rules.wrong_moves(outcomes, operations),
    ]
    ends = [operation for operation in operations if operation.kind == "end"]
    if ends:
        violations += rules.lost(outcomes, ends[-1].facts.get("incomplete", ()))
        violations += restore_rules.not_restored(outcomes, operations)
        violations += restore_rules.wrongly_removed(outcomes, operations)
        violations += rules.half_forwarded(outcomes, operations)
        violations += handling_rules.wrong_requeues(outcomes, operations)
        violations += handling_rules.wrong_journals(outcomes, operations)
    return Verdict(violations, _summary(operations, outcomes))


def _summary(operations: list[Operation], outcomes: Outcomes) -> dict[str, int]:
    kinds = Counter(operation.kind for operation in operations)
    messages = outcomes.messages.values()
    return {
        "operations": len(operations),
        "messages": len(messages),
        "received": sum(bool(message.received) for message in messages),
        "removed otherwise": sum(bool(message.fates) for message in messages),
        "kills": kinds["kill"],
        "of unknown result": sum(operation.result == "unknown" for operation in operations),
    }
