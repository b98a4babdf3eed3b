"""What a history says about each message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.history_checker.operations import NoHistory, Operation

EARLY_DAMAGE = "damaged"
"""The fate of a message whose bytes were damaged on the disk."""


@dataclass
class Message:
    """One message that was sent.

    @ivar index: its position in the operation that sent it.
    @ivar shown: the operations that showed it, with the time.
    @ivar first_seen: by queue, when it was seen there at first, and its position among what was seen then.
    @ivar fates: the fates of the event logs, whether it had arrived by then, and at which queue manager.
    @ivar acknowledgements: their classes, with the time at which they were read.
    @ivar drained_to: queues to which the one where it was sent was drained, and theirs.
    @ivar picked: the operations that received it by name, and of which no result is known.
    @ivar is_moved: it was, or may have been, moved or held in a queue, so that others have overtaken it.
    @ivar restores: the restores of its sender, and of queue managers where it may have been, since it was
        sent.
    @ivar was_relay_restored: a queue manager that forwards messages was restored since it was sent.
    """

    label: str
    digest: str
    sending: Operation
    index: int
    shown: list[tuple[float, Operation]] = field(default_factory=list)
    first_seen: dict[str, tuple[float, int]] = field(default_factory=dict)
    fates: list[tuple[str, bool, str]] = field(default_factory=list)
    acknowledgements: list[tuple[str, float]] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    drained_to: set[str] = field(default_factory=set)
    picked: list[Operation] = field(default_factory=list)
    is_moved: bool = False
    restores: list[Operation] = field(default_factory=list)
    was_relay_restored: bool = False

    @property
    def queue(self) -> str:
        """Where it was sent."""
        return str(self.sending.facts["queue"])

    @property
    def limits(self) -> list[str]:
        """By which times it may expire."""
        return list(self.sending.facts.get("limits", ()))

    @property
    def queues(self) -> set[str]:
        """Where it may be: where it was sent, and where that queue was drained to."""
        return {self.queue, *self.drained_to}

    @property
    def destinations(self) -> set[str]:
        """The queue managers of these queues."""
        return {queue.partition(" ")[0] for queue in self.queues}

    @property
    def is_unsent(self) -> bool:
        """Whether a backup from which its sender was restored may not have it; that of the moment in which it
        was sent may have been made before.
        """
        return any(
            each.facts["node"] == self.sending.facts["sender"] and self.sending.end >= each.facts["moment"]
            for each in self.restores
        )

    @property
    def is_forgotten(self) -> bool:
        """Whether a queue manager where it may have been was restored from a backup since it was sent."""
        return any(each.facts["node"] in self.destinations for each in self.restores)

    @property
    def is_kept(self) -> bool:
        """Whether it survives a kill."""
        return bool(self.sending.facts.get("recoverable") or self.is_ordered)

    @property
    def is_ordered(self) -> bool:
        """Whether it is transactional."""
        return bool(self.sending.facts.get("transactional"))

    @property
    def received(self) -> list[Operation]:
        """The operations that removed it."""
        return [operation for _, operation in self.shown if operation.result == "done"]

    @property
    def maybe_received(self) -> list[Operation]:
        """Those of which it is not known whether they did."""
        found = [operation for _, operation in self.shown if operation.result == "unknown"]
        return [*found, *(each for each in self.picked if each not in found)]

    @property
    def has_arrived(self) -> bool:
        """Whether it is known to have been in its queue."""
        # One that is received by name was seen there before.
        return bool(self.shown or self.picked) or any(arrived for _, arrived, _ in self.fates)


@dataclass
class Outcomes:
    """All messages of a history.

    @ivar phantoms: violations: messages that had not been sent when they were seen.
    @ivar unnamed_damages: the queue manager of each message or event that cannot be read any more.
    """

    messages: dict[str, Message]
    phantoms: list[str]
    unnamed_damages: list[str] = field(default_factory=list)


def main_queue(queue: str) -> str:
    """The queue of which one is a subqueue, or which it is."""
    return queue.partition(";")[0]


def read_outcomes(operations: Iterable[Operation]) -> Outcomes:
    """Gather what is said about each message.

    @raise NoHistory: two messages have the same label.
    """
    operations = list(operations)
    messages: dict[str, Message] = {}
    for operation in operations:
        if operation.kind == "send":
            for index, (label, digest) in enumerate(operation.facts["messages"]):
                if label in messages:
                    raise NoHistory(f"operation {operation.number}: {label} was sent before")
                messages[label] = Message(label, digest, operation, index)
    outcomes = Outcomes(messages, [])
    for message in messages.values():
        message.drained_to = _drained_to(message.queue, operations)
        message.restores = [
            each
            for each in operations
            if each.kind == "restore"
            and each.number > message.sending.number
            and each.facts["node"] in {message.sending.facts["sender"], *message.destinations}
        ]
        message.was_relay_restored = any(
            each.kind == "restore" and each.facts.get("relays") and each.number > message.sending.number
            for each in operations
        )
    for operation in operations:
        _note(outcomes, operation)
    return outcomes


def _drained_to(queue: str, operations: Iterable[Operation]) -> set[str]:
    drains = [each for each in operations if each.kind == "drain"]
    found: set[str] = set()
    # Each round follows one more drain.
    for _ in drains:
        found |= {each.facts["to"] for each in drains if each.facts["queue"] in {queue, *found}}
    return found


def _note(outcomes: Outcomes, operation: Operation) -> None:
    facts = operation.facts
    if operation.kind == "receive":
        if operation.result == "unknown" and (picked := outcomes.messages.get(facts.get("picks", ""))):
            picked.picked.append(operation)
        for time, shown in operation.shown:
            for place, (label, digest) in enumerate(shown):
                _shown(outcomes, operation, (time, place), label, digest)
        return
    if operation.kind in ("move", "hold"):
        for label in facts["labels"]:
            if label in outcomes.messages:
                outcomes.messages[label].is_moved = True
        return
    if operation.kind not in ("acknowledgement", "dead_letter", "fate"):
        return
    if operation.kind == "fate" and facts["label"] is None:
        if facts["fate"] == EARLY_DAMAGE:
            outcomes.unnamed_damages.append(facts["node"])
        return
    message = outcomes.messages.get(facts["label"])
    if message is None or message.sending.start > operation.start:
        outcomes.phantoms.append(f"{facts['label']}: {operation.kind} of a message that was not sent")
    elif operation.kind == "acknowledgement":
        message.acknowledgements.append((facts["class"], operation.start))
    elif operation.kind == "dead_letter":
        message.dead_letters.append(facts["class"])
    else:
        message.fates.append((facts["fate"], bool(facts["arrived"]), facts["node"]))


def _shown(outcomes: Outcomes, operation: Operation, at: tuple[float, int], label: str, digest: str) -> None:
    message = outcomes.messages.get(label)
    where = operation.facts["queue"]
    if message is None:
        outcomes.phantoms.append(f"{label}: in {where}, but was not sent")
        return
    message.shown.append((at[0], operation))
    main = main_queue(where)
    if main != where:
        message.is_moved = True
    if operation.is_in_order:
        message.first_seen[main] = min(message.first_seen.get(main, at), at)
    if message.sending.start > at[0]:
        outcomes.phantoms.append(f"{label}: in {where} before it was sent")
    if message.digest != digest:
        outcomes.phantoms.append(f"{label}: in {where} with another body")
    if main not in message.queues:
        outcomes.phantoms.append(f"{label}: in {where}, but was sent to {message.queue}")
