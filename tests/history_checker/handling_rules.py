"""Rules about messages that were handled one by one: moves, rejections, dead letters sent again, journals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.history_checker.operations import Operation
from tests.history_checker.outcomes import Message, Outcomes, main_queue

REJECTED = "rejected"
"""The result of an operation that rejected what it received."""

REJECTION = "nack_receive_rejected"
"""The fate of a message that a reader has rejected."""


def wrong_rejections(outcomes: Outcomes) -> Iterator[str]:
    """A message is rejected only by a reader that had it."""
    for message in outcomes.messages.values():
        is_rejected = any(fate == REJECTION for fate, _, _ in message.fates)
        if is_rejected and not any(by.result == REJECTED for _, by in message.shown):
            yield f"wrong fate: {message.label}: rejected, but no reader rejected it"


def wrong_moves(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """A message that was moved is not seen where it was, and one that was not is seen nowhere else."""
    moves: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.kind == "move":
            for label in operation.facts["labels"]:
                moves[label].append(operation)
    for message in outcomes.messages.values():
        if not message.is_kept:
            continue
        of_it = moves[message.label]
        for time, by in message.shown:
            queue = by.facts["queue"]
            for move in of_it:
                is_over = move.result == "done" and move.end < by.start and message.label in move.labels
                if is_over and _is_left(move, queue) and not _came_back(of_it, move, queue):
                    yield f"moved: {message.label}: in {queue} at {time:.6f}, after operation {move.number}"
            if ";" in queue and not _is_of_poison(queue) and not _may_have_come(of_it, queue):
                yield f"moved: {message.label}: in {queue}, where no operation has moved it"


def _is_left(move: Operation, queue: str) -> bool:
    return bool(move.facts["queue"] == queue) and not _is_of_poison(queue)


def _is_of_poison(queue: str) -> bool:
    """Whether messages are moved there without an operation, also again."""
    return queue.endswith(";poison")


def _came_back(moves: Iterable[Operation], move: Operation, queue: str) -> bool:
    return any(each.facts["to"] == queue and each.end >= move.start for each in moves)


def _may_have_come(moves: Iterable[Operation], queue: str) -> bool:
    return any(each.facts["to"] == queue and each.result in ("done", "unknown") for each in moves)


def wrong_requeues(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """A dead letter that is sent again is gone exactly if there is a message in its stead, which is one."""
    left: set[str] = set()
    has_damage = bool(outcomes.unnamed_damages)
    for operation in operations:
        if operation.kind == "dead_letter" and "letter" in operation.facts:
            left.add(operation.facts["letter"])
        has_damage = has_damage or operation.kind == "damaged_copy"
    again: dict[str, list[Message]] = defaultdict(list)
    for message in outcomes.messages.values():
        letter = message.sending.facts.get("requeues")
        if letter is not None and message.is_kept:
            again[letter].append(message)
    for letter, messages in again.items():
        sent = [each.sending.number for each in messages if _is_sent(each)]
        if len(sent) + (letter in left) > 1:
            where = " and is left" if letter in left else ""
            yield f"doubled: dead letter {letter}: sent again by operations {sent}{where}"
        elif not sent and letter not in left and not has_damage:
            numbers = [each.sending.number for each in messages]
            yield f"lost: dead letter {letter}: gone, and sent again by none of operations {numbers}"


def _is_sent(message: Message) -> bool:
    if message.sending.result == "unknown":
        return bool(message.shown or message.fates)
    return message.sending.result == "done"


def wrong_journals(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """The journal of a queue has each message that was received from it once, and no others.

    That of a sender has, once, those of its messages that ask for it and were received, if they are
    transactional; if a copy needs a proof, only those that have arrived, or were received.
    """
    operations = list(operations)
    drained = {each.facts["queue"] for each in operations if each.kind == "drain"}
    has_damage = bool(outcomes.unnamed_damages) or any(each.kind == "damaged_copy" for each in operations)
    for operation in operations:
        if operation.kind == "journal" and operation.facts["queue"] not in drained:
            yield from _wrong_journal(outcomes, operation, has_damage)
        if operation.kind == "sent_journal":
            yield from _wrong_sent_journal(outcomes, operation, has_damage)


def _wrong_journal(outcomes: Outcomes, operation: Operation, has_damage: bool) -> Iterator[str]:
    queue, copies = operation.facts["queue"], Counter(operation.facts["labels"])
    for message in outcomes.messages.values():
        if not message.is_kept:
            continue
        count = copies[message.label]
        readers = [by for by in message.received if main_queue(by.facts["queue"]) == queue]
        may_be = readers or any(main_queue(by.facts["queue"]) == queue for by in message.maybe_received)
        if count > 1:
            yield f"doubled: {message.label}: {count} times in the journal of {queue}"
        elif count and not may_be:
            yield f"journal: {message.label}: in that of {queue}, but not received"
        elif readers and not count and operation.facts["complete"] and not has_damage:
            yield f"lost: {message.label}: not in the journal of {queue}"


def _wrong_sent_journal(outcomes: Outcomes, operation: Operation, has_damage: bool) -> Iterator[str]:
    node, copies = operation.facts["node"], Counter(operation.facts["labels"])
    needs_proof = operation.facts["proven"]
    for message in outcomes.messages.values():
        facts = message.sending.facts
        # What becomes of a message that is drained does not say what its sender learned.
        if not message.is_kept or message.drained_to:
            continue
        count = copies[message.label]
        if facts["sender"] != node:
            if count:
                yield f"journal: {message.label}: in that of {node}, which has not sent it"
            continue
        if count > 1:
            yield f"doubled: {message.label}: {count} times in the journal of {node}"
        if count and not has_damage and (missing := _missing_proof(message, needs_proof)):
            yield f"journal: {message.label}: in that of {node}, but {missing}"
        if needs_proof and not message.is_ordered:
            proof = facts.get("proof", {}).get(message.label)
            has_reason = operation.facts["decided"] and any(
                kind == proof for kind, _ in message.acknowledgements
            )
        else:
            has_reason = bool(message.received)
        is_due = has_reason and message.label in facts.get("journal", ()) and not message.fates
        if is_due and not count and operation.facts["complete"] and not has_damage:
            yield f"lost: {message.label}: not in the journal of {node}"


def _missing_proof(message: Message, needs_proof: bool) -> str:
    """What has not happened to a message that its sender has in its journal."""
    proof = message.sending.facts.get("proof", {}).get(message.label)
    must_be_received = message.is_ordered or (needs_proof and proof == "received")
    if must_be_received:
        return "" if message.received or message.maybe_received else "it was not received"
    return "it has not arrived" if needs_proof and proof and not message.has_arrived else ""
