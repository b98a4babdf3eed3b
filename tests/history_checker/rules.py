"""The rules: what may not be so in the history of one message, or of one stream."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise

from tests.history_checker.operations import Operation
from tests.history_checker.outcomes import EARLY_DAMAGE, Message, Outcomes, main_queue
from tests.history_checker.restore_rules import REFUSED, came_back

REACHED, RECEIVED = "reached", "received"
REACH_LIMIT, RECEIVE_LIMIT = "reach timeout", "receive timeout"
PURGED, DELETED = "purged", "deleted"

_NEEDS_LIMIT = {REACH_LIMIT: "reach", RECEIVE_LIMIT: "receive"}


def phantoms(outcomes: Outcomes) -> Iterator[str]:
    """Messages are as they were sent, where they were sent, and not before."""
    yield from (f"phantom: {text}" for text in outcomes.phantoms)
    for message in outcomes.messages.values():
        if message.sending.result == "refused" and (message.shown or message.fates):
            yield f"phantom: {message.label}: its send was refused"


def doubled(outcomes: Outcomes) -> Iterator[str]:
    """A message is received once, and not seen again."""
    for message in outcomes.messages.values():
        if not message.is_kept:
            continue
        received = message.received
        if len(received) > 1 and not _are_apart(message, received):
            numbers = [operation.number for operation in received]
            yield f"doubled: {message.label}: received by operations {numbers}"
            continue
        for time, operation in message.shown:
            if (
                received
                and operation is not received[0]
                and operation.start > received[0].end
                and not came_back(message, received[0], operation)
            ):
                yield f"doubled: {message.label}: received, and seen again at {time:.6f}"
        for kind, count in Counter(kind for kind, _ in message.acknowledgements).items():
            # Each queue manager at which a copy expired says so, and one that was restored says it again.
            again = sum(each.facts["node"] in message.destinations for each in message.restores)
            # A relay refuses it each time that it arrives, and has lost the events if it was restored.
            is_excused = message.was_relay_restored and kind not in (REACHED, RECEIVED)
            if not is_excused and count > max(1, sum(fate == kind for fate, _, _ in message.fates)) + again:
                yield f"doubled: {message.label}: {count} acknowledgements {kind}"


def _are_apart(message: Message, received: Sequence[Operation]) -> bool:
    """Whether a restore was between each of these operations and the next."""
    ordered = sorted(received, key=lambda operation: operation.end)
    return all(came_back(message, one, other) for one, other in pairwise(ordered))


def lost(outcomes: Outcomes, incomplete: Iterable[str]) -> Iterator[str]:
    """A message that was taken is received, or has a fate; of a transaction all are, or none."""
    missing: list[Message] = []
    left = set(incomplete)
    halves: dict[object, list[Message]] = defaultdict(list)
    for message in outcomes.messages.values():
        if not message.is_kept or message.queues & left:
            continue
        has_outcome = bool(message.received or message.maybe_received or message.fates)
        is_excused = message.is_unsent or message.is_forgotten
        # Its sender has a transactional message until its receiver has it, or a relay has refused it since
        # its time is over; the event of that is gone with the restore.
        may_be_refused = not message.is_ordered or "reach" in message.limits
        is_excused = is_excused or (message.was_relay_restored and may_be_refused)
        if message.sending.result == "done" and not has_outcome and not is_excused:
            missing.append(message)
        if message.sending.result == "unknown" and message.is_ordered and not message.restores:
            halves[message.sending.facts.get("transaction", message.sending.number)].append(message)
    if len(missing) > len(outcomes.unnamed_damages):
        for message in missing:
            seen = f", last seen by operation {message.shown[-1][1].number}" if message.shown else ""
            yield f"lost: {message.label}: taken by operation {message.sending.number}{seen}"
    for messages in halves.values():
        known = [bool(each.shown or each.fates) for each in messages]
        if any(known) and not all(known) and not outcomes.unnamed_damages:
            yield f"lost: half of the messages of operation {messages[0].sending.number}"


def reordered(outcomes: Outcomes, receives: Iterable[Operation]) -> Iterator[str]:
    """Transactional messages of one sender to one queue are seen in the order in which they were sent."""
    blind = [
        operation
        for operation in receives
        if operation.kind == "receive"
        and operation.result in ("unknown", "failed")
        and not operation.shown
        and not operation.facts.get("peeks")
    ]
    streams: dict[tuple[str, str, str], list[tuple[tuple[float, int], Message]]] = defaultdict(list)
    for message in outcomes.messages.values():
        if message.is_ordered and not message.is_moved:
            for queue, at in message.first_seen.items():
                streams[message.sending.facts["sender"], message.queue, queue].append((at, message))
    for (sender, sent_to, queue), seen in streams.items():
        queues = seen[0][1].queues
        holders = [operation for operation in blind if main_queue(operation.facts["queue"]) in queues]
        seen.sort(key=lambda each: each[0])
        latest: Message | None = None
        for _, message in seen:
            if latest is not None and _is_before(message, latest):
                time, operation = _first_shown(latest, queue)
                _, first = _first_shown(message, queue)
                # Another reader may have had it, and died before it saw it.
                excused = any(
                    each.start <= time and (each.end >= time or queue != sent_to) for each in holders
                )
                # Or it had it while the queue was drained, and gave it back.
                excused = excused or any(
                    shown < time for shown, by in message.shown if by.facts["queue"] != queue
                )
                # Or one has received it by name, and gave it back.
                excused = excused or any(by.start <= time and "picks" in by.facts for _, by in message.shown)
                # Or it came again after the queue manager was restored.
                excused = excused or any(
                    each.start > time and queue.startswith(f"{each.facts['node']} ")
                    for each in message.restores
                )
                if (first is operation or first.start > time) and not excused:
                    yield (
                        f"reordered: {sender} to {queue}: {latest.label} was seen at {time:.6f}, before"
                        f" {message.label}"
                    )
            if latest is None or not _is_before(message, latest):
                latest = message


def _first_shown(message: Message, queue: str) -> tuple[float, Operation]:
    """When a message was seen in a queue for the first time, and by which operation."""
    found = (
        each for each in message.shown if main_queue(each[1].facts["queue"]) == queue and each[1].is_in_order
    )
    return min(found, key=lambda each: each[0])


def _is_before(one: Message, other: Message) -> bool:
    """Whether one was certainly sent before the other."""
    if one.sending is other.sending:
        return one.index < other.index
    return one.sending.end < other.sending.start


def early(outcomes: Outcomes) -> Iterator[str]:
    """No acknowledgement comes before what it acknowledges."""
    for message in outcomes.messages.values():
        for kind, time in message.acknowledgements:
            is_unknown = not message.destinations.isdisjoint(outcomes.unnamed_damages)
            # What another queue manager did with it after it was drained does not say where it was before.
            is_unknown = is_unknown or bool(message.drained_to and message.fates)
            is_unknown = is_unknown or message.is_forgotten
            if kind == REACHED and message.is_kept and not message.has_arrived and not is_unknown:
                yield f"early acknowledgement: {message.label}: it never was in {message.queue}"
            if kind == RECEIVED:
                received = [*message.received, *message.maybe_received]
                if not received:
                    yield f"early acknowledgement: {message.label}: it was not received"
                elif min(operation.start for operation in received) > time:
                    yield f"early acknowledgement: {message.label}: it was not yet received"


def wrong_fates(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """A message has one fate, for which there is a reason, and its sender gets no other acknowledgement."""
    operations = list(operations)
    removals = {each.facts["queue"] for each in operations if each.kind in ("purge", "delete")}
    refused = {label for each in operations if each.kind == REFUSED for label in each.facts["labels"]}
    for message in outcomes.messages.values():
        if message.is_kept and not message.is_forgotten:
            purged = {*removals, None} if message.label in refused else removals
            yield from (f"wrong fate: {message.label}: {text}" for text in _wrong(message, purged))


def _wrong(message: Message, removals: Set[str | None]) -> Iterator[str]:
    for (fate, node), count in Counter((fate, node) for fate, _, node in message.fates).items():
        # A gate remembers nothing of a message, and refuses it again when it is sent again.
        if count > 1 and node in {message.sending.facts["sender"], *message.destinations}:
            yield f"{fate} at {node}, {count} times"
    fates = [fate for fate, _, _ in message.fates]
    for fate in fates:
        if _NEEDS_LIMIT.get(fate, "reach") not in message.limits and fate in _NEEDS_LIMIT:
            yield f"{fate}, but it has no such limit"
        if fate in (PURGED, DELETED) and removals.isdisjoint({*message.queues, None}):
            yield f"{fate}, but {message.queue} was not purged"
    received = bool(message.received)
    arrived = [fate for fate, has_arrived, _ in message.fates if has_arrived and fate != EARLY_DAMAGE]
    if received and arrived:
        yield f"received, and {arrived[0]} in its queue"
    # One that expires or is purged on its way may have arrived, since the answer may have been lost.
    if "reach" not in message.limits and None not in removals:
        # Nor is a copy on its way the message itself: it may be damaged while the answer is on its way back.
        settled = [
            fate for fate, _, node in message.fates if fate != EARLY_DAMAGE or node in message.destinations
        ]
        if len(set(settled)) + received > 1:
            yield f"{', '.join(['received'] * received + fates)}: more than one"
        if received:
            refused = {kind for kind, _ in message.acknowledgements} - {REACHED, RECEIVED}
            if refused:
                yield f"received, but acknowledged as {', '.join(sorted(refused))}"
            if message.is_ordered and message.dead_letters:
                yield f"received, and a dead letter: {message.dead_letters[0]}"


def half_forwarded(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """Messages that one transaction receives are gone exactly if those that it sends exist.

    Each side of a transaction that was interrupted says whether it was committed, as far as that is known.
    """
    if outcomes.unnamed_damages:
        return
    receives = {each.number: each for each in operations if each.kind == "receive"}
    forwarded: dict[int, list[Message]] = defaultdict(list)
    for message in outcomes.messages.values():
        number = message.sending.facts.get("received_by")
        if number is not None and message.sending.result == "unknown" and not message.restores:
            forwarded[number].append(message)
    for number, sent in forwarded.items():
        operation = receives[number]
        taken = [outcomes.messages[label] for label in operation.labels if label in outcomes.messages]
        is_sent = any(message.shown or message.fates for message in sent)
        for message in taken:
            first = min(time for time, by in message.shown if by is operation)
            is_back = _ended_there(message) or any(
                time > first and by is not operation and not by.facts.get("peeks")
                for time, by in message.shown
            )
            if is_back == is_sent:
                yield (
                    f"half: {message.label}: {'back' if is_back else 'gone'} after operation {number}, whose"
                    f" messages were {'sent' if is_sent else 'not sent'}"
                )


def _ended_there(message: Message) -> bool:
    """Whether it left the queue where it was, or one to which that was drained, without being received.

    Its sender may purge or expire what has arrived, since the answer may have been lost.
    """
    sender = message.sending.facts["sender"]
    return any(
        node in message.destinations and (arrived or node != sender) for _, arrived, node in message.fates
    )


def wrong_logs(outcomes: Outcomes, operations: Iterable[Operation]) -> Iterator[str]:
    """A message log has each message that was in its queue once, and no others."""
    operations = list(operations)
    for operation in operations:
        if operation.kind != "log" or _is_of_restored(operation, operations):
            continue
        queue, labels = operation.facts["queue"], operation.facts["labels"]
        for label, count in Counter(labels).items():
            message = outcomes.messages.get(label)
            if message is None or queue not in message.queues:
                yield f"phantom: {label}: in the log of {queue}"
            elif count > 1 and message.is_kept:
                yield f"doubled: {label}: {count} times in the log of {queue}"
        if operation.facts["complete"]:
            for message in outcomes.messages.values():
                if message.label not in labels and queue in message.first_seen:
                    yield f"lost: {message.label}: not in the log of {queue}"


def _is_of_restored(log: Operation, operations: Iterable[Operation]) -> bool:
    node = log.facts["queue"].partition(" ")[0]
    return any(each.kind == "restore" and each.facts["node"] == node for each in operations)
