"""Planning of a group: applies each change to the rows in memory, and encodes its records."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final, assert_never
from uuid import UUID
from zlib import crc32

from msmq.interfaces.storage import StorageError, UnknownQueue
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
from msmq.quoting import is_unicode
from msmq.storage.identity import identity_of
from msmq.storage.log.core import records
from msmq.storage.log.core.events import IDENTITY, event_packet
from msmq.storage.log.core.group import GroupContent
from msmq.storage.log.core.message_rows import MessageRows
from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW, MESSAGE_ROW, PLACE
from msmq.storage.log.core.state import KeptQueue
from msmq.storage.records import LAST_LOOKUP_ID, definition_record, outside

_MESSAGE_BYTES: Final = records.MESSAGE_RECORD.size
_PLACES: Final = struct.Struct(f"{PLACE.format}{MESSAGE_ROW.size - PLACE.size}x")
_EVENT_PLACES: Final = struct.Struct(f"{PLACE.format}{EVENT_ROW.size - PLACE.size}x")
_EVENT_PREFIX: Final = struct.Struct("<QIId")
"""A row of an event before its identity, with the length of that."""
_SIZE_AND_IDENTITY: Final = struct.Struct("<8xI28x20s")
"""Of a row of a message: the size of its packet, and its identity."""


class GroupPlan(GroupContent):
    """Plan of a group of batches.

    A change that cannot be done raises an error; the caller rolls back to the beginning of its batch.
    """

    def add(self, changes: Sequence[Change]) -> None:
        """Apply these changes in memory, and add their records to the group.

        @raise StorageError: one of them cannot be done; earlier ones are applied.
        """
        try:
            self._add(changes)
        except (struct.error, OverflowError, TypeError) as error:
            raise StorageError(f"a value cannot be stored: {error}") from error

    def _add(self, changes: Sequence[Change]) -> None:
        known: UUID | None = None
        kept: KeptQueue | None = None
        queues, table, undo = self.state.queues, self.table, self.undo
        for change in changes:
            # Most changes are of these two kinds, and a match statement is slower.
            if isinstance(change, PutMessage):
                if change.queue is not known:
                    known, kept = change.queue, queues.get(change.queue)
                if kept is None:
                    raise UnknownQueue(change.queue)
                lookup_id, packet = change.lookup_id, change.packet
                if not 0 <= lookup_id <= LAST_LOOKUP_ID:
                    raise outside(lookup_id)
                location, checksum = (self.express_packet if change.is_express else self.packet)(packet)
                row = MESSAGE_ROW.pack(
                    location,
                    len(packet),
                    checksum,
                    change.arrived,
                    -1 if change.due is None else change.due,
                    change.aborts,
                    change.moves | records.EVENT_ONLY if change.event_only else change.moves,
                    identity_of(packet),
                )
                rows = kept.messages
                if change.is_express:
                    rows = kept.express
                else:
                    table.append(records.message_key(kept.number, lookup_id))
                    table.append(row)
                    self.table_size += _MESSAGE_BYTES
                if (old := rows.get(lookup_id)) is not None:
                    self.dead.append(PLACE.unpack_from(old))
                undo.append((rows, lookup_id, old))
                rows[lookup_id] = row
            elif isinstance(change, RemoveMessages):
                self._remove(change)
            elif isinstance(change, PutMessages):
                self._put_messages(change)
            elif isinstance(change, RemoveUnread):
                self._remove_unread(change)
            else:
                known = None
                self._add_other(change)

    def _put_messages(self, change: PutMessages) -> None:
        kept = self._queue(change.queue)
        first, last = change.first, change.first + len(change.packets) - 1
        if first < 0 or last > LAST_LOOKUP_ID:
            raise outside(first if first < 0 else last)
        location, added = self._base + self.size, 0
        number, arrived, kind = kept.number, change.arrived, int(records.Kind.MESSAGE)
        due = -1 if change.due is None else change.due
        moves = records.EVENT_ONLY if change.event_only else 0
        pack = records.MESSAGE_RECORD.pack
        run: list[bytes] = []
        for lookup_id, packet in enumerate(change.packets, first):
            size = len(packet)
            run.append(
                pack(
                    kind,
                    _MESSAGE_BYTES,
                    number,
                    lookup_id,
                    location + added,
                    size,
                    crc32(packet),
                    arrived,
                    due,
                    0,
                    moves,
                    identity_of(packet),
                )
            )
            added += size
        rows = kept.messages
        if not rows.put_new(first, [record[records.KEY.size :] for record in run]):
            self._add(tuple(single_changes([change])))
            return
        self.undo.append((rows.forget, range(first, last + 1), None))
        self.table += run
        self.table_size += _MESSAGE_BYTES * len(run)
        self.add_packets(change.packets, added)

    def _remove(self, change: RemoveMessages) -> None:
        kept = self.state.queues.get(change.queue)
        if kept is None:
            rows = MessageRows()
        else:
            rows = kept.express if change.is_express else kept.messages
        if kept is not None and not change.is_express and len(change.lookup_ids) > 1:
            self._remove_many(kept, change.lookup_ids)
            return
        undo, dead = self.undo, self.dead
        gone = array("Q")
        for lookup_id in change.lookup_ids:
            if (old := rows.pop(lookup_id, None)) is not None:
                undo.append((rows, lookup_id, old))
                dead.append(PLACE.unpack_from(old))
                gone.append(lookup_id)
            elif not 0 <= lookup_id <= LAST_LOOKUP_ID:
                raise outside(lookup_id)
        if kept is not None and gone and not change.is_express:
            self.write(records.messages_gone_record(kept.number, gone))

    def _remove_many(self, kept: KeptQueue, lookup_ids: Sequence[int]) -> None:
        """Remove messages of the log together, of which most are consecutive."""
        for lookup_id in (min(lookup_ids), max(lookup_ids)):
            if not 0 <= lookup_id <= LAST_LOOKUP_ID:
                raise outside(lookup_id)
        messages = kept.messages
        gone, rows = messages.take(array("Q", lookup_ids))
        if gone:
            self.undo.append((lambda _: messages.restore(gone, rows), None, None))
            self.dead += _PLACES.iter_unpack(rows)
            self.write(records.messages_gone_record(kept.number, gone))

    def _remove_unread(self, change: RemoveUnread) -> None:
        kept = self.state.queues.get(change.queue)
        for lookup_id in change.lookup_ids:
            if not 0 <= lookup_id <= LAST_LOOKUP_ID:
                raise outside(lookup_id)
        if kept is None:
            return
        messages, events = kept.messages, self.state.events
        gone, rows = messages.take(array("Q", change.lookup_ids))
        count = len(gone)
        if not count:
            return
        self.undo.append((lambda _: messages.restore(gone, rows), None, None))
        self.dead += _PLACES.iter_unpack(rows)
        self.write(records.messages_gone_record(kept.number, gone))
        packet = event_packet(change.event)
        location, checksum = self.packet(packet)
        self.added += count - 1
        self.added_size += (count - 1) * len(packet)
        prefix = _EVENT_PREFIX.pack(location, len(packet), checksum, change.event.time)
        named, nameless = prefix + bytes([IDENTITY]), prefix + b"\0"
        event_rows = b"".join(
            [
                (named if size >= records.HAS_IDENTITY else nameless) + identity
                for size, identity in _SIZE_AND_IDENTITY.iter_unpack(rows)
            ]
        )
        first = self.state.last_event + 1
        self.state.last_event += count
        events.extend(event_rows)
        self.undo.append((lambda _: events.pop_last_of(count), None, None))
        self.write(records.events_record(first, event_rows))

    def _add_other(
        self,
        change: PutQueue
        | RemoveQueue
        | MoveMessage
        | PutAborts
        | PutState
        | RemoveState
        | AppendLog
        | TrimLog
        | AppendEvent
        | TrimEvents
        | RestoreLog
        | RestoreNumbers,
    ) -> None:
        match change:
            case MoveMessage():
                self._move(change)
            case PutAborts():
                self._put_aborts(change)
            case PutQueue():
                self._put_queue(change)
            case RemoveQueue(identifier):
                self._remove_queue(identifier)
            case PutState(name, value):
                self._put_state(name, bytes(value))
            case RemoveState(name):
                self._put_state(name, None)
            case AppendLog():
                self._append_log(change)
            case TrimLog():
                self._trim_log(change)
            case AppendEvent():
                self._append_event(change)
            case TrimEvents(keep):
                self._trim_events(keep)
            case RestoreLog():
                self._restore_log(change)
            case RestoreNumbers(last_entry, last_event):
                self._restore_numbers(last_entry, last_event)
            case _:
                assert_never(change)

    def _move(self, change: MoveMessage) -> None:
        _check(change.lookup_id, change.new_lookup_id)
        target = self._queue(change.target)
        kept = self.state.queues.get(change.queue)
        if kept is None:
            return
        rows = kept.express if change.is_express else kept.messages
        row = rows.pop(change.lookup_id, None)
        if row is None:
            return
        self.undo.append((rows, change.lookup_id, row))
        if not change.is_express:
            self.write(records.messages_gone_record(kept.number, array("Q", [change.lookup_id])))
        location, size, checksum, arrived, _, _, moves, identity = MESSAGE_ROW.unpack(row)
        due = -1 if change.due is None else change.due
        moves = change.moves | moves & records.EVENT_ONLY
        row = MESSAGE_ROW.pack(location, size, checksum, arrived, due, change.aborts, moves, identity)
        self.put_row(target, change.new_lookup_id, row, change.is_express)

    def _put_aborts(self, change: PutAborts) -> None:
        _check(change.lookup_id)
        kept = self.state.queues.get(change.queue)
        if kept is None:
            return
        rows = kept.express if change.is_express else kept.messages
        if (row := rows.get(change.lookup_id)) is not None:
            *head, _, moves, identity = MESSAGE_ROW.unpack(row)
            row = MESSAGE_ROW.pack(*head, change.aborts, moves, identity)
            self.put_row(kept, change.lookup_id, row, change.is_express)

    def _put_queue(self, change: PutQueue) -> None:
        state, identifier = self.state, change.definition.identifier
        record = definition_record(change.definition)
        kept = state.queues.get(identifier)
        if kept is None:
            number = state.next_queue
            self.undo.append((state.queues, identifier, None))
            self.undo.append((state.by_number, number, None))
        else:
            number = kept.number
            self.undo.append((lambda old: setattr(kept, "record", old), kept.record, None))
        state.put_queue(number, identifier, record)
        self.write(records.queue_record(number, identifier, record))

    def _remove_queue(self, identifier: UUID) -> None:
        state = self.state
        kept = state.queues.pop(identifier, None)
        if kept is None:
            return
        del state.by_number[kept.number]
        self.undo.append((state.queues, identifier, kept))
        self.undo.append((state.by_number, kept.number, kept))
        self.removed.append(kept)
        self.write(records.queue_gone_record(kept.number))

    def _put_state(self, name: str, value: bytes | None) -> None:
        if not is_unicode(name):
            raise StorageError(f"the name of a state is not Unicode text: {name!a}")
        values = self.state.values
        old = values.get(name)
        if value is None and old is None:
            return
        self.undo.append((values, name, old))
        self.state.put_state(name, value)
        self.write(records.state_record(name, value))

    def _append_log(self, change: AppendLog) -> None:
        kept = self._queue(change.queue)
        _check(change.lookup_id)
        location, checksum = self.packet(change.packet)
        sequence = self.state.last_entry = self.state.last_entry + 1
        row = LOG_ROW.pack(sequence, change.lookup_id, location, len(change.packet), checksum, change.arrived)
        log = kept.log
        log.append(row)
        self.undo.append((lambda _: log.pop_last(), None, None))
        self.write(records.log_record(kept.number, sequence, row))

    def _trim_log(self, change: TrimLog) -> None:
        kept = self.state.queues.get(change.queue)
        if kept is None or not len(kept.log):
            return
        log, count, size = kept.log, 0, 0
        # By age first; the remaining entries count against the size.
        before = float("-inf") if change.before is None else change.before
        is_old = True
        while count < len(log):
            _, _, location, packet_size, _, arrived = LOG_ROW.unpack(log.row(count))
            is_old = is_old and arrived < before
            if not is_old and (change.keep_bytes is None or log.size - size <= max(0, change.keep_bytes)):
                break
            self.dead.append((location, packet_size))
            count, size = count + 1, size + packet_size
        if count:
            first = log.sequence(count - 1) + 1
            self.undo.append((lambda old: setattr(log, "first", old), log.first, None))
            log.forget(count, size)
            log.first = first
            self.undo.append((lambda _: log.forget(-count, -size), None, None))
            self.settled.append(log.settle)
            self.write(records.log_trimmed_record(kept.number, first))

    def _restore_log(self, change: RestoreLog) -> None:
        kept = self._queue(change.queue)
        log = kept.log
        if change.first > log.first:
            if len(log):
                raise StorageError(f"the message log of queue {change.queue} is not empty")
            self.undo.append((lambda old: setattr(log, "first", old), log.first, None))
            log.first = change.first
            self.write(records.log_trimmed_record(kept.number, change.first))
        for entry in change.entries:
            _check(entry.lookup_id)
            last = log.sequence(len(log) - 1) if len(log) else log.first - 1
            if entry.sequence <= last:
                raise StorageError(f"entry {entry.sequence} is to come after entry {last}")
            location, checksum = self.packet(entry.packet)
            size = len(entry.packet)
            row = LOG_ROW.pack(entry.sequence, entry.lookup_id, location, size, checksum, entry.arrived)
            log.append(row)
            self.undo.append((lambda _: log.pop_last(), None, None))
            self.state.last_entry = max(self.state.last_entry, entry.sequence)
            self.write(records.log_record(kept.number, entry.sequence, row))

    def _restore_numbers(self, last_entry: int, last_event: int) -> None:
        state, events = self.state, self.state.events
        if last_entry > state.last_entry:
            state.last_entry = last_entry
            # An entry without a queue: only its number remains.
            self.write(records.log_record(0, last_entry, LOG_ROW.pack(last_entry, 0, 0, 0, 0, 0.0)))
        if last_event > state.last_event:
            if len(events):
                raise StorageError("the event log is not empty")
            self.undo.append((lambda old: setattr(events, "first", old), events.first, None))
            events.first = last_event + 1
            state.last_event = last_event
            self.write(records.events_trimmed_record(events.first))

    def _append_event(self, change: AppendEvent) -> None:
        events = self.state.events
        packet = event_packet(change)
        location, checksum = self.packet(packet)
        identity = change.identity
        row = EVENT_ROW.pack(location, len(packet), checksum, change.time, len(identity), identity)
        sequence = self.state.last_event = self.state.last_event + 1
        events.append(row)
        self.undo.append((lambda _: events.pop_last(), None, None))
        self.write(records.event_record(sequence, row))

    def _trim_events(self, keep: int) -> None:
        events = self.state.events
        count = len(events) - max(0, keep)
        if count <= 0:
            return
        self.dead += _EVENT_PLACES.iter_unpack(events.chunk(events.first, count))
        events.forget(count)
        self.undo.append((lambda _: events.forget(-count), None, None))
        self.settled.append(events.settle)
        self.write(records.events_trimmed_record(events.first))

    def remove_message(self, kept: KeptQueue, lookup_id: int, is_express: bool) -> None:
        """Remove one existing message."""
        self._remove(RemoveMessages(kept.identifier, (lookup_id,), is_express))

    def move_log(self, kept: KeptQueue, index: int, location: int, packet: bytes) -> None:
        """Copy the packet of a log entry, if its location has not changed since it was read."""
        old = kept.log.row(index)
        sequence, lookup_id, found, size, checksum, arrived = LOG_ROW.unpack(old)
        if found != location:
            return
        row = LOG_ROW.pack(sequence, lookup_id, self.packet(packet)[0], size, checksum, arrived)
        self.dead.append((location, size))
        self.undo.append((kept.log.put, old, None))
        kept.log.put(row)
        self.write(records.log_record(kept.number, sequence, row))

    def move_event(self, sequence: int, location: int, packet: bytes) -> None:
        """Copy the packet of an event, if its location has not changed since it was read."""
        events = self.state.events
        old = events.row(sequence)
        if old is None or EVENT_ROW.unpack(old)[0] != location:
            return
        _, size, *rest = EVENT_ROW.unpack(old)
        row = EVENT_ROW.pack(self.packet(packet)[0], size, *rest)
        self.dead.append((location, size))
        self.undo.append((lambda row: events.put(sequence, row), old, None))
        events.put(sequence, row)
        self.write(records.event_record(sequence, row))

    def _queue(self, identifier: UUID) -> KeptQueue:
        kept = self.state.queues.get(identifier)
        if kept is None:
            raise UnknownQueue(identifier)
        return kept


def _check(*lookup_ids: int) -> None:
    for lookup_id in lookup_ids:
        if not 0 <= lookup_id <= LAST_LOOKUP_ID:
            raise outside(lookup_id)
