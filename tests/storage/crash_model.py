"""The steps of the process that is killed, and the expected content of a store after each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

import attrs

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutMessages,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    RemoveUnread,
    SingleChange,
    TrimEvents,
    TrimLog,
    single_changes,
)
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import StoredMessage
from msmq.storage.identity import identity_of

Kept: TypeAlias = tuple[bytes, tuple[float, int | None, int, int]]
"""A packet, and of its message C{arrived}, C{due}, C{aborts} and C{moves}."""

STEP = "step"
QUEUES = tuple(
    QueueDefinition(identifier=UUID(int=number), path=f"private$\\q{number}", number=number)
    for number in range(1, 4)
)
LOOKUP_IDS = tuple(priority << 56 | number for priority in (0, 3, 7) for number in range(1, 60))
EXPRESS_IDS = tuple(3 << 56 | number for number in range(60, 80))


def batch(step: int, *, quiet: bool = False, takes_runs: bool = False) -> list[Change]:
    """The batch of a step, which is deterministic and can follow any other.

    @param quiet: without events, and without express messages, whose loss may cause an event too.
    @param takes_runs: with removals that the store itself reports.
    """
    chance = random.Random(step)
    changes: list[Change] = [PutState(STEP, b"%d" % step)]
    if chance.random() < 0.02:
        changes.append(RemoveQueue(chance.choice(QUEUES).identifier))
    changes += [PutQueue(definition) for definition in QUEUES]
    changes += [_change(chance, float(step), takes_runs) for _ in range(chance.randrange(1, 12))]
    return [change for change in changes if not (quiet and _is_loud(change))]


def _is_loud(change: Change) -> bool:
    match change:
        case AppendEvent() | TrimEvents() | PutMessage(is_express=True) | RemoveMessages(is_express=True):
            return True
    return False


def _change(chance: random.Random, now: float, takes_runs: bool) -> Change:
    queue, target = (chance.choice(QUEUES).identifier for _ in range(2))
    lookup_id, new_lookup_id = (chance.choice(LOOKUP_IDS) for _ in range(2))
    packet = chance.randbytes(chance.choice((0, 10, 1220, 1220, 5000, 60_000)))
    counts = chance.choice((None, 1 << 31)), chance.randrange(3), chance.randrange(3)
    [kind] = chance.choices(("put", *_WEIGHTS), (45, *_WEIGHTS.values()))
    match kind:
        case "remove":
            gone = tuple(chance.sample(LOOKUP_IDS, chance.randrange(1, 20)))
            if takes_runs and chance.random() < 0.5:
                return RemoveUnread(queue, gone, AppendEvent(now, b"", "purged", "", 7, "private$\\q"))
            return RemoveMessages(queue, gone)
        case "run":
            lookup_id = chance.choice((0, 3, 7)) << 56 | chance.randrange(1, 55)
            return PutMessages(queue, lookup_id, [packet, b"", packet[:100], packet, packet[:1220]], now)
        case "move":
            return MoveMessage(queue, lookup_id, target, new_lookup_id, *counts)
        case "aborts":
            return PutAborts(queue, lookup_id, counts[1])
        case "express":
            return PutMessage(queue, chance.choice(EXPRESS_IDS), packet, now, is_express=True)
        case "express gone":
            return RemoveMessages(queue, EXPRESS_IDS, is_express=True)
        case "state":
            return PutState(f"name {lookup_id % 5}", packet)
        case "state gone":
            return RemoveState(f"name {lookup_id % 5}")
        case "log":
            return AppendLog(queue, lookup_id, packet, now)
        case "log cut":
            return TrimLog(queue, now - 50, chance.choice((None, 100_000)))
        case "event":
            return AppendEvent(now, packet[:20], "tried", "for no reason", 7, "private$\\q")
        case "events cut":
            return TrimEvents(chance.randrange(40))
    return PutMessage(queue, lookup_id, packet, now, *counts, event_only=lookup_id % 2 == 0)


_WEIGHTS = {
    "remove": 20,
    "run": 10,
    "move": 10,
    "aborts": 3,
    "express": 3,
    "express gone": 1,
    "state": 3,
    "state gone": 1,
    "log": 6,
    "log cut": 2,
    "event": 8,
    "events cut": 1,
}
"""How often each kind of change comes, beside 45 messages."""


@attrs.define
class Model:
    """Content of a store over a restart, in plain dictionaries.

    @ivar logs: the message logs: LookupIdentifier, time and packet of each entry.
    """

    queues: dict[UUID, QueueDefinition] = attrs.field(factory=dict)
    messages: dict[UUID, dict[int, Kept]] = attrs.field(factory=dict)
    state: dict[str, bytes] = attrs.field(factory=dict)
    logs: dict[UUID, list[tuple[int, float, bytes]]] = attrs.field(factory=dict)
    events: list[AppendEvent] = attrs.field(factory=list)

    def perform(self, changes: Sequence[Change]) -> bool:
        """Do a batch, or nothing of it; whether it was done."""
        known = set(self.queues)
        for change in changes:
            match change:
                case PutQueue(definition):
                    known.add(definition.identifier)
                case RemoveQueue(identifier):
                    known.discard(identifier)
                case (
                    PutMessage(queue) | PutMessages(queue) | AppendLog(queue) | MoveMessage(target=queue)
                ) if queue not in known:
                    return False
        for change in changes:
            if isinstance(change, RemoveUnread):
                self._remove_unread(change)
            else:
                for single in single_changes([change]):
                    self._perform(single)
        return True

    def _remove_unread(self, change: RemoveUnread) -> None:
        for lookup_id in change.lookup_ids:
            gone = self.messages.get(change.queue, {}).pop(lookup_id, None)
            if gone is not None:
                self.events.append(attrs.evolve(change.event, identity=identity_of(gone[0])))

    def _perform(self, change: SingleChange) -> None:
        match change:
            case PutQueue(definition):
                self.queues[definition.identifier] = definition
                self.messages.setdefault(definition.identifier, {})
                self.logs.setdefault(definition.identifier, [])
            case RemoveQueue(identifier):
                self.queues.pop(identifier, None)
                self.messages.pop(identifier, None)
                self.logs.pop(identifier, None)
            case PutMessage(is_express=True) | RemoveMessages(is_express=True):
                pass
            case PutMessage(queue, lookup_id, packet, arrived, due, aborts, moves):
                self.messages[queue][lookup_id] = packet, (arrived, due, aborts, moves)
            case RemoveMessages(queue, lookup_ids):
                for lookup_id in lookup_ids:
                    self.messages.get(queue, {}).pop(lookup_id, None)
            case MoveMessage(queue, lookup_id, target, new_lookup_id, due, aborts, moves):
                moved = self.messages.get(queue, {}).pop(lookup_id, None)
                if moved is not None:
                    self.messages[target][new_lookup_id] = moved[0], (moved[1][0], due, aborts, moves)
            case PutAborts(queue, lookup_id, aborts):
                kept = self.messages.get(queue, {})
                if lookup_id in kept:
                    packet, (arrived, due, _, moves) = kept[lookup_id]
                    kept[lookup_id] = packet, (arrived, due, aborts, moves)
            case PutState(name, value):
                self.state[name] = value
            case RemoveState(name):
                self.state.pop(name, None)
            case AppendLog(queue, lookup_id, packet, arrived):
                self.logs[queue].append((lookup_id, arrived, packet))
            case TrimLog(queue, before, keep_bytes):
                self._trim(self.logs.get(queue, []), before or 0.0, keep_bytes)
            case AppendEvent():
                self.events.append(change)
            case TrimEvents(keep):
                del self.events[: max(0, len(self.events) - keep)]

    def _trim(self, log: list[tuple[int, float, bytes]], before: float, keep_bytes: int | None) -> None:
        while log and (
            log[0][1] < before
            or (keep_bytes is not None and sum(len(packet) for _, _, packet in log) > keep_bytes)
        ):
            del log[0]

    def index(self) -> dict[UUID, list[StoredMessage]]:
        """The expected index of messages at a start."""
        return {
            queue: [(lookup_id, len(packet), *rest) for lookup_id, (packet, rest) in sorted(kept.items())]
            for queue, kept in self.messages.items()
            if kept
        }
