"""What the process that is killed does, step by step, and what a store must hold after any step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

import attrs

from msmq.queues.changes import Change, PutMessage, PutQueue, PutState, RemoveMessages, RemoveQueue
from msmq.queues.definition import QueueDefinition
from msmq.queues.snapshot import StoredMessage

STEP = "step"
QUEUES = tuple(
    QueueDefinition(identifier=UUID(int=number), path=f"private$\\q{number}", number=number)
    for number in range(1, 4)
)
LOOKUP_IDS = tuple(priority << 56 | number for priority in (0, 3, 7) for number in range(1, 60))


def batch(step: int) -> list[Change]:
    """The batch of a step, always the same; it can be done whatever was done before."""
    chance = random.Random(step)
    changes: list[Change] = [PutState(STEP, b"%d" % step)]
    if chance.random() < 0.02:
        changes.append(RemoveQueue(chance.choice(QUEUES).identifier))
    changes += [PutQueue(definition) for definition in QUEUES]
    for _ in range(chance.randrange(1, 12)):
        queue = chance.choice(QUEUES).identifier
        if chance.random() < 0.35:
            gone = tuple(chance.sample(LOOKUP_IDS, chance.randrange(1, 20)))
            changes.append(RemoveMessages(queue, gone))
        else:
            packet = chance.randbytes(chance.choice((0, 10, 1220, 1220, 5000, 60_000)))
            changes.append(PutMessage(queue, chance.choice(LOOKUP_IDS), packet, float(step)))
    return changes


@attrs.define
class Model:
    """A store in plain dictionaries."""

    queues: dict[UUID, QueueDefinition] = attrs.field(factory=dict)
    messages: dict[UUID, dict[int, tuple[bytes, float]]] = attrs.field(factory=dict)
    state: dict[str, bytes] = attrs.field(factory=dict)

    def perform(self, changes: Sequence[Change]) -> bool:
        """Do a batch, or nothing of it; whether it was done."""
        known = set(self.queues)
        for change in changes:
            match change:
                case PutQueue(definition):
                    known.add(definition.identifier)
                case RemoveQueue(identifier):
                    known.discard(identifier)
                case PutMessage(queue) if queue not in known:
                    return False
        for change in changes:
            match change:
                case PutQueue(definition):
                    self.queues[definition.identifier] = definition
                    self.messages.setdefault(definition.identifier, {})
                case RemoveQueue(identifier):
                    self.queues.pop(identifier, None)
                    self.messages.pop(identifier, None)
                case PutMessage(queue, lookup_id, packet, arrived):
                    self.messages[queue][lookup_id] = packet, arrived
                case RemoveMessages(queue, lookup_ids):
                    for lookup_id in lookup_ids:
                        self.messages.get(queue, {}).pop(lookup_id, None)
                case PutState(name, value):
                    self.state[name] = value
        return True

    def index(self) -> dict[UUID, list[StoredMessage]]:
        """What a start should find of the messages."""
        return {
            queue: [
                (lookup_id, len(packet), arrived, None, 0, 0)
                for lookup_id, (packet, arrived) in sorted(kept.items())
            ]
            for queue, kept in self.messages.items()
            if kept
        }
