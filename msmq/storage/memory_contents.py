"""Contents of the memory store, and the effect of each change."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs

from msmq.interfaces.storage import LogEntry, UnknownQueue
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
    RestoreLog,
    RestoreNumbers,
    TrimEvents,
    TrimLog,
    single_changes,
)
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import Snapshot
from msmq.storage.identity import identity_of
from msmq.storage.memory_logs import MemoryEventLog, MessageLog
from msmq.storage.memory_messages import QueueMessages

Messages = dict[UUID, QueueMessages]

_NOTHING = QueueMessages()


@attrs.define
class Contents:
    """Contents of the memory store; express messages are kept separately."""

    queues: dict[UUID, QueueDefinition] = attrs.field(factory=dict)
    messages: Messages = attrs.field(factory=dict)
    express: Messages = attrs.field(factory=dict)
    state: dict[str, bytes] = attrs.field(factory=dict)
    logs: dict[UUID, MessageLog] = attrs.field(factory=dict)
    last_entry: int = 0
    events: MemoryEventLog = attrs.field(factory=MemoryEventLog)

    def check(self, changes: Sequence[Change]) -> None:
        """Check that all changes can be done, before any is done.

        @raise UnknownQueue: a change needs an unknown queue.
        """
        made: set[UUID] = set()
        gone: set[UUID] = set()
        for change in changes:
            match change:
                case (
                    PutMessage(queue)
                    | PutMessages(queue)
                    | AppendLog(queue)
                    | RestoreLog(queue)
                    | MoveMessage(target=queue)
                ):
                    if queue not in made and (queue in gone or queue not in self.queues):
                        raise UnknownQueue(queue)
                case PutQueue(definition):
                    made.add(definition.identifier)
                case RemoveQueue(identifier):
                    made.discard(identifier)
                    gone.add(identifier)

    def perform(self, change: Change) -> None:
        """Apply one checked change."""
        match change:
            case PutMessages():
                for single in single_changes([change]):
                    self.perform(single)
            case PutMessage(queue, lookup_id, is_express=is_express):
                self._messages_of(queue, is_express).put(lookup_id, change)
            case RemoveUnread(queue, lookup_ids, event):
                kept = self.messages.get(queue, _NOTHING)
                for lookup_id in lookup_ids:
                    if (message := kept.pop(lookup_id)) is not None:
                        self.events.append(attrs.evolve(event, identity=identity_of(message.packet)))
            case RemoveMessages(queue, lookup_ids, is_express):
                self._part(is_express).get(queue, _NOTHING).remove(lookup_ids)
            case MoveMessage():
                self._move(change)
            case PutAborts(queue, lookup_id, aborts, is_express):
                self._part(is_express).get(queue, _NOTHING).put_aborts(lookup_id, aborts)
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
                self.logs.setdefault(queue, MessageLog()).append(entry)
            case TrimLog(queue):
                if (log := self.logs.get(queue)) is not None:
                    log.trim(change)
            case RestoreLog(queue, first, entries):
                log = self.logs.setdefault(queue, MessageLog())
                log.trimmed = max(log.trimmed, first - 1)
                for one in entries:
                    log.append(LogEntry(one.sequence, one.lookup_id, one.arrived, one.packet))
                    self.last_entry = max(self.last_entry, one.sequence)
            case RestoreNumbers(last_entry, last_event):
                self.last_entry = max(self.last_entry, last_entry)
                self.events.continue_after(last_event)
            case AppendEvent():
                self.events.append(change)
            case TrimEvents(keep):
                self.events.trim(keep)

    def packet(self, queue: UUID, lookup_id: int) -> bytes | None:
        """The packet of a message; C{None} if there is none."""
        for part in (self.messages, self.express):
            if (message := part.get(queue, _NOTHING).get(lookup_id)) is not None:
                return message.packet
        return None

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """The locations of all messages with this identity."""
        return [
            (queue, lookup_id)
            for part in (self.messages, self.express)
            for queue, kept in part.items()
            for lookup_id in kept.find(identity)
        ]

    def log(self, queue: UUID) -> MessageLog:
        """The message log of a queue, for reading."""
        return self.logs.get(queue) or MessageLog()

    def snapshot(self) -> Snapshot:
        """Snapshot of the contents for a start."""
        return Snapshot(
            queues=tuple(self.queues.values()),
            messages={queue: kept.index() for queue, kept in self.messages.items() if kept},
            state=dict(self.state),
        )

    def _part(self, is_express: bool) -> Messages:
        return self.express if is_express else self.messages

    def _messages_of(self, queue: UUID, is_express: bool) -> QueueMessages:
        part = self._part(is_express)
        kept = part.get(queue)
        if kept is None:
            kept = part[queue] = QueueMessages()
        return kept

    def _move(self, change: MoveMessage) -> None:
        message = self._part(change.is_express).get(change.queue, _NOTHING).pop(change.lookup_id)
        if message is not None:
            moved = attrs.evolve(message, due=change.due, aborts=change.aborts, moves=change.moves)
            self._messages_of(change.target, change.is_express).put(change.new_lookup_id, moved)
