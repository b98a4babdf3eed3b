"""Rules about queue managers that were restored from a backup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.history_checker.operations import Operation
from tests.history_checker.outcomes import Message, Outcomes

REFUSED = "remove refused"


def came_back(message: Message, one: Operation, other: Operation) -> bool:
    """Whether a backup had a message that one operation received, and another saw it after the restore."""
    return any(
        each.facts["node"] in message.destinations
        and one.end >= each.facts["moment"]
        # All may be at the same time.
        and one.number < each.number < other.number
        for each in message.restores
    )


def not_restored(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """What a backup had in a queue is there after a restore from it, until it is received or removed."""
    operations = list(operations)
    damaged = set(outcomes.unnamed_damages)
    for restore in operations:
        if restore.kind != "restore" or restore.facts["node"] in damaged:
            continue
        node = restore.facts["node"]
        for label in restore.facts["held"]:
            message = outcomes.messages.get(label)
            if message is None or message.sending.start > restore.facts["moment"]:
                yield f"phantom: {label}: in a backup of {node}, but was not sent"
            elif message.is_kept and not _is_there(message, restore):
                yield f"lost: {label}: not there after {node} was restored from a backup that had it"


def _is_there(message: Message, restore: Operation) -> bool:
    # A later restore may be from a backup in which it had been received.
    is_over = any(
        each.number > restore.number and each.facts["node"] in message.destinations
        for each in message.restores
    )
    return (
        is_over
        or bool(message.fates)
        or any(by.number > restore.number for _, by in message.shown)
        or any(by.number > restore.number for by in message.maybe_received)
    )


def wrongly_removed(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """What an operator removes, since its sender reports that its receiver refuses it, had arrived there, or
    was removed after the backup.
    """
    operations = list(operations)
    for removal in operations:
        if removal.kind != REFUSED:
            continue
        for label in removal.facts["labels"]:
            message = outcomes.messages.get(label)
            if message is None or message.sending.start > removal.start:
                yield f"phantom: {label}: removed at {removal.facts['node']}, but was not sent"
                continue
            may_be_gone = (
                bool(message.limits)
                or message.is_forgotten
                or any(
                    each.kind == "purge" and each.facts["queue"] is None and each.start < removal.start
                    for each in operations
                )
            )
            if not message.has_arrived and not may_be_gone:
                yield f"lost: {label}: removed as refused by its receiver, which never had it"
