"""What the store in memory holds, and what each change does to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import UUID

import attrs

from msmq.interfaces.storage import LogEntry, LogExtent, StoredEvent, UnknownQueue
from msmq.queues.changes import (
    AppendEvent,
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    TrimEvents,
    TrimLog,
)
from msmq.queues.definition import QueueDefinition
from msmq.queues.snapshot import Snapshot, StoredMessage
from msmq.storage.identity import identity_of
from msmq.storage.log_answer import one_answer

Messages = dict[UUID, dict[int, PutMessage]]


@attrs.define
class Contents:
    """All that a store keeps, in dictionaries; express messages apart from all others."""

    queues: dict[UUID, QueueDefinition] = attrs.field(factory=dict)
    messages: Messages = attrs.field(factory=dict)
    express: Messages = attrs.field(factory=dict)
    state: dict[str, bytes] = attrs.field(factory=dict)
    logs: dict[UUID, deque[LogEntry]] = attrs.field(factory=dict)
    last_entry: int = 0
    events: deque[StoredEvent] = attrs.field(factory=deque)
    last_event: int = 0

    def check(self, changes: Sequence[Change]) -> None:
        """Find what cannot be done before anything is done.

        @raise UnknownQueue: a change needs a queue that is not kept.
        """
        made: set[UUID] = set()
        gone: set[UUID] = set()
        for change in changes:
            match change:
                case PutMessage(queue) | AppendLog(queue) | MoveMessage(target=queue):
                    if queue not in made and (queue in gone or queue not in self.queues):
                        raise UnknownQueue(queue)
                case PutQueue(definition):
                    made.add(definition.identifier)
                case RemoveQueue(identifier):
                    made.discard(identifier)
                    gone.add(identifier)

    def perform(self, change: Change) -> None:
        """Do one change, which was checked."""
        match change:
            case PutMessage(queue, lookup_id, is_express=is_express):
                self._part(is_express).setdefault(queue, {})[lookup_id] = change
            case RemoveMessages(queue, lookup_ids, is_express):
                kept = self._part(is_express).get(queue, {})
                for lookup_id in lookup_ids:
                    kept.pop(lookup_id, None)
            case MoveMessage():
                self._move(change)
            case PutAborts(queue, lookup_id, aborts, is_express):
                kept = self._part(is_express).get(queue, {})
                if lookup_id in kept:
                    kept[lookup_id] = attrs.evolve(kept[lookup_id], aborts=aborts)
            case PutQueue(definition):
                self.queues[definition.identifier] = definition
            case RemoveQueue(identifier):
                for part in (self.queues, self.messages, self.express, self.logs):
                    part.pop(identifier, None)
            case PutState(name, value):
                self.state[name] = value
            case RemoveState(name):
                self.state.pop(name, None)
            case AppendLog(queue, lookup_id, packet, arrived):
                self.last_entry += 1
                entry = LogEntry(self.last_entry, lookup_id, arrived, packet)
                self.logs.setdefault(queue, deque()).append(entry)
            case TrimLog(queue, before, keep_bytes):
                _trim(self.logs.get(queue, deque()), before, keep_bytes)
            case AppendEvent():
                self.last_event += 1
                self.events.append(StoredEvent(self.last_event, change))
            case TrimEvents(keep):
                while len(self.events) > keep:
                    self.events.popleft()

    def packet(self, queue: UUID, lookup_id: int) -> bytes | None:
        """The packet of a message; C{None} if it is not kept."""
        for part in (self.messages, self.express):
            if (message := part.get(queue, {}).get(lookup_id)) is not None:
                return message.packet
        return None

    def find(self, identity: bytes) -> Iterator[tuple[UUID, int]]:
        """The places of all messages that have this identity."""
        for part in (self.messages, self.express):
            for queue, kept in part.items():
                for lookup_id, message in kept.items():
                    if identity and identity_of(message.packet) == identity:
                        yield queue, lookup_id

    def log_entries(self, queue: UUID, after: int, limit: int) -> Iterator[LogEntry]:
        """Entries of a message log with larger numbers, as many as one answer holds."""
        later = (entry for entry in self.logs.get(queue, ()) if entry.sequence > after)
        return one_answer(islice(later, max(0, limit)))

    def log_extent(self, queue: UUID) -> LogExtent:
        """What a message log holds."""
        log = self.logs.get(queue)
        if not log:
            return LogExtent()
        size = sum(len(entry.packet) for entry in log)
        return LogExtent(log[0].sequence, log[-1].sequence, len(log), size)

    def snapshot(self) -> Snapshot:
        """What a start finds."""
        return Snapshot(
            queues=tuple(self.queues.values()),
            messages={queue: _index(kept) for queue, kept in self.messages.items() if kept},
            state=dict(self.state),
        )

    def _part(self, is_express: bool) -> Messages:
        return self.express if is_express else self.messages

    def _move(self, change: MoveMessage) -> None:
        part = self._part(change.is_express)
        message = part.get(change.queue, {}).pop(change.lookup_id, None)
        if message is not None:
            part.setdefault(change.target, {})[change.new_lookup_id] = attrs.evolve(
                message, due=change.due, aborts=change.aborts, moves=change.moves
            )


def _trim(log: deque[LogEntry], before: float | None, keep_bytes: int | None) -> None:
    # By age first: what is left then counts against the size.
    while log and before is not None and log[0].arrived < before:
        log.popleft()
    if keep_bytes is not None:
        size = sum(len(entry.packet) for entry in log)
        while log and size > keep_bytes:
            size -= len(log.popleft().packet)


def _index(kept: dict[int, PutMessage]) -> list[StoredMessage]:
    return [
        (lookup_id, len(message.packet), message.arrived, message.due, message.aborts, message.moves)
        for lookup_id, message in sorted(kept.items())
    ]
