"""Log records: idempotent assignments and removals of keys, with their encoding."""

from __future__ import annotations

import enum
import sys
from array import array
from collections.abc import Iterator
from itertools import islice
from struct import Struct, error
from typing import Final, Protocol
from uuid import UUID

import attrs

from msmq.storage.log.core.format import Malformed


class Kind(enum.IntEnum):
    """Kind of a record."""

    QUEUE = 1
    QUEUE_GONE = 2
    MESSAGE = 3
    MESSAGES_GONE = 4
    STATE = 5
    STATE_GONE = 6
    LOG = 7
    LOG_TRIMMED = 8
    EVENT = 9
    EVENTS_TRIMMED = 10
    SEALED = 11
    MESSAGES = 12
    LOGS = 13
    EVENTS = 14


PREFIX: Final = Struct("<B3xI")
"""Header: kind, and size of the whole record in bytes."""
KEY: Final = Struct("<B3xIIQ")
"""Key: header, number of a queue, and a LookupIdentifier or a sequence."""
MESSAGE_ROW: Final = Struct("<QIIdqII20s")
"""Location, size, checksum, arrived, due (-1 for none), aborts, moves, identity."""
MESSAGE_RECORD: Final = Struct(KEY.format + MESSAGE_ROW.format[1:])
"""A whole record of a message: its key, and its row."""
LOG_ROW: Final = Struct("<QQQIId")
"""Sequence, LookupIdentifier, location, size, checksum, arrived."""
EVENT_ROW: Final = Struct("<QIIdB20s")
"""Location, size, checksum, time, length of the identity, identity."""
PLACE: Final = Struct("<QI")
"""Location and size, with which the rows of messages and events begin."""

HAS_IDENTITY: Final = 60
"""Minimum size of a packet with an identity, in bytes."""
EXPRESS: Final = 1 << 63
"""Flag in a location: the packet is in a file for express messages."""
OFFSET_MASK: Final = (1 << 32) - 1

EVENT_ONLY: Final = 1 << 31
"""Flag next to MoveCount: removing the message unread causes only an event."""
EVENT_ONLY_AT: Final = 39
"""Offset in a message row of the byte with this flag; its other bits are the high bits of MoveCount, 0."""

_MESSAGE_SIZE: Final = MESSAGE_RECORD.size
_LOG_SIZE: Final = KEY.size + LOG_ROW.size
_EVENT_SIZE: Final = KEY.size + EVENT_ROW.size
_PREFIX: Final = 12
"""Size of the key of a record without its last field."""
_LOG_RUN: Final = Struct(f"<{_PREFIX}s8x{LOG_ROW.size}s")


class RecordTarget(Protocol):
    """Target of replay."""

    def put_queue(self, number: int, identifier: UUID, definition: bytes) -> None:
        """Store the definition of a queue."""

    def remove_queue(self, number: int) -> None:
        """Remove a queue, its messages and its log."""

    def put_message(self, number: int, lookup_id: int, row: bytes) -> None:
        """Store the row of a message."""

    def remove_messages(self, number: int, lookup_ids: array[int]) -> None:
        """Remove messages."""

    def put_state(self, name: str, value: bytes | None) -> None:
        """Store or remove a state value."""

    def put_log(self, number: int, row: bytes) -> None:
        """Store the row of a log entry."""

    def trim_log(self, number: int, first: int) -> None:
        """Remove log entries with smaller sequences."""

    def put_event(self, sequence: int, row: bytes) -> None:
        """Store the row of an event."""

    def trim_events(self, first: int) -> None:
        """Remove events with smaller sequences."""

    def put_messages(self, number: int, lookup_ids: array[int], rows: bytes) -> None:
        """Store the rows of many messages."""

    def put_logs(self, number: int, rows: bytes) -> None:
        """Store the rows of many log entries."""

    def put_events(self, first: int, rows: bytes) -> None:
        """Store the rows of many events."""


def queue_record(number: int, identifier: UUID, definition: bytes) -> bytes:
    """Record of the definition of a queue."""
    size = KEY.size + 16 + len(definition)
    return KEY.pack(Kind.QUEUE, size, number, 0) + identifier.bytes + definition


def queue_gone_record(number: int) -> bytes:
    """Record of a removed queue."""
    return KEY.pack(Kind.QUEUE_GONE, KEY.size, number, 0)


def message_key(number: int, lookup_id: int) -> bytes:
    """The key before the row in the record of a message."""
    return KEY.pack(Kind.MESSAGE, _MESSAGE_SIZE, number, lookup_id)


def messages_gone_record(number: int, lookup_ids: array[int]) -> bytes:
    """Record of removed messages."""
    count = len(lookup_ids)
    return KEY.pack(Kind.MESSAGES_GONE, KEY.size + 8 * count, number, count) + _little_endian(lookup_ids)


def state_record(name: str, value: bytes | None) -> bytes:
    """Record of a state value that is put or removed."""
    text = name.encode("utf-8", "surrogatepass")
    size = KEY.size + len(text) + len(value or b"")
    kind = Kind.STATE_GONE if value is None else Kind.STATE
    return KEY.pack(kind, size, len(text), 0) + text + (value or b"")


def log_record(number: int, sequence: int, row: bytes) -> bytes:
    """Record of an entry of a message log."""
    return KEY.pack(Kind.LOG, _LOG_SIZE, number, sequence) + row


def log_trimmed_record(number: int, first: int) -> bytes:
    """Record of a trim: a message log begins with this sequence."""
    return KEY.pack(Kind.LOG_TRIMMED, KEY.size, number, first)


def event_record(sequence: int, row: bytes) -> bytes:
    """Record of an event."""
    return KEY.pack(Kind.EVENT, _EVENT_SIZE, 0, sequence) + row


def events_trimmed_record(first: int) -> bytes:
    """Record of a trim: the event log begins with this sequence."""
    return KEY.pack(Kind.EVENTS_TRIMMED, KEY.size, 0, first)


def sealed_record(generation: int) -> bytes:
    """Record that seals a segment: the log continues in the segment of this generation."""
    return KEY.pack(Kind.SEALED, KEY.size, 0, generation)


def messages_record(number: int, lookup_ids: array[int], rows: bytes) -> bytes:
    """Record of many messages of one queue, for checkpoints."""
    count = len(lookup_ids)
    head = KEY.pack(Kind.MESSAGES, KEY.size + 8 * count + len(rows), number, count)
    return b"".join((head, _little_endian(lookup_ids), rows))


def logs_record(number: int, rows: bytes) -> bytes:
    """Record of many entries of one message log."""
    return KEY.pack(Kind.LOGS, KEY.size + len(rows), number, 0) + rows


def events_record(first: int, rows: bytes) -> bytes:
    """Record of many events."""
    return KEY.pack(Kind.EVENTS, KEY.size + len(rows), 0, first) + rows


@attrs.frozen
class TableRecord:
    """Record of a table.

    @ivar number: of a queue, or the length of a name.
    @ivar key: LookupIdentifier, sequence, generation or count.
    @ivar body: the bytes after the key.
    """

    kind: Kind
    number: int
    key: int
    body: bytes = attrs.field(repr=False)


_MESSAGE: Final = int(Kind.MESSAGE)
_LOG: Final = int(Kind.LOG)
_APART: Final = frozenset(
    map(int, (Kind.STATE, Kind.STATE_GONE, Kind.EVENT, Kind.EVENTS, Kind.EVENTS_TRIMMED))
)
"""Kinds that change nothing in queues."""
_KINDS: Final = {int(kind): kind for kind in Kind}
"""A lookup takes a fifth of the time of a call of the enumeration; a replay has one for each record."""


def read_records(table: bytes) -> list[TableRecord]:
    """The records of a table whose checksum was verified, each run of rows of one queue as one record.

    Rows of messages and entries of logs are by far the most frequent, and alternate in a queue with a log.
    Neither changes what the other does, nor do values and events, so a run ends only at a record of a queue,
    a removal, or a trim.

    @raise Malformed: their format is not that of this version.
    """
    records: list[TableRecord] = []
    messages: dict[int, tuple[list[int], list[bytes]]] = {}
    logs: dict[int, list[bytes]] = {}
    offset, end, start, unpack = 0, len(table), KEY.size, KEY.unpack_from
    try:
        while offset < end:
            kind, size, number, key = unpack(table, offset)
            if kind == _MESSAGE and size == _MESSAGE_SIZE and offset + size <= end:
                if (run := messages.get(number)) is None:
                    run = messages[number] = ([], [])
                run[0].append(key)
                run[1].append(table[offset + start : offset + size])
            elif kind == _LOG and size == _LOG_SIZE and offset + size <= end:
                if (rows := logs.get(number)) is None:
                    rows = logs[number] = []
                rows.append(table[offset + start : offset + size])
                prefix = table[offset : offset + _PREFIX]
                if table.startswith(prefix, offset + size):
                    # Many entries of one log without messages between them, as copied from another store.
                    whole = (end - offset) // size * size
                    for found, row in islice(_LOG_RUN.iter_unpack(table[offset : offset + whole]), 1, None):
                        if found != prefix:
                            break
                        rows.append(row)
                        offset += size
            else:
                if size < start or offset + size > end:
                    raise Malformed(f"a record gives a size of {size} bytes")
                known = _KINDS.get(kind)
                if known is None:
                    raise Malformed(f"a record has the unknown kind {kind}")
                if (messages or logs) and kind not in _APART:
                    records += _runs(messages, logs)
                records.append(TableRecord(known, number, key, table[offset + start : offset + size]))
            offset += size
    except (error, ValueError) as problem:
        raise Malformed(f"a record cannot be read: {problem}") from None
    records += _runs(messages, logs)
    return records


def _runs(
    messages: dict[int, tuple[list[int], list[bytes]]], logs: dict[int, list[bytes]]
) -> Iterator[TableRecord]:
    """The collected runs as records, which are removed."""
    for number, (ids, rows) in messages.items():
        body = b"".join((_little_endian(array("Q", ids)), *rows))
        yield TableRecord(Kind.MESSAGES, number, len(ids), body)
    for number, rows in logs.items():
        yield TableRecord(Kind.LOGS, number, 0, b"".join(rows))
    messages.clear()
    logs.clear()


def replay(record: TableRecord, state: RecordTarget) -> None:
    """Apply a record to a target.

    @raise Malformed: its body is not that of its kind.
    """
    body, number, key = record.body, record.number, record.key
    match record.kind:
        case Kind.MESSAGE:
            state.put_message(number, key, _sized(body, MESSAGE_ROW.size))
        case Kind.MESSAGES_GONE:
            state.remove_messages(number, _longs(_sized(body, 8 * key)))
        case Kind.QUEUE:
            state.put_queue(number, UUID(bytes=body[:16]), body[16:])
        case Kind.QUEUE_GONE:
            state.remove_queue(number)
        case Kind.STATE:
            state.put_state(body[:number].decode("utf-8", "surrogatepass"), body[number:])
        case Kind.STATE_GONE:
            state.put_state(body[:number].decode("utf-8", "surrogatepass"), None)
        case Kind.LOG:
            state.put_log(number, _sized(body, LOG_ROW.size))
        case Kind.LOG_TRIMMED:
            state.trim_log(number, key)
        case Kind.EVENT:
            state.put_event(key, _sized(body, EVENT_ROW.size))
        case Kind.EVENTS_TRIMMED:
            state.trim_events(key)
        case Kind.SEALED:
            pass
        case Kind.MESSAGES:
            ids = _longs(_sized(body, (8 + MESSAGE_ROW.size) * key)[: 8 * key])
            state.put_messages(number, ids, body[8 * key :])
        case Kind.LOGS:
            state.put_logs(number, _sized(body, len(body) // LOG_ROW.size * LOG_ROW.size))
        case Kind.EVENTS:
            state.put_events(key, _sized(body, len(body) // EVENT_ROW.size * EVENT_ROW.size))


def _longs(data: bytes) -> array[int]:
    found = array("Q", data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _little_endian(longs: array[int]) -> bytes:
    if sys.byteorder == "big":
        longs = longs[:]
        longs.byteswap()
    return longs.tobytes()


def _sized(body: bytes, size: int) -> bytes:
    if len(body) != size:
        raise Malformed(f"the body of a record has {len(body)} bytes instead of {size}")
    return body
